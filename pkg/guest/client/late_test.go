package client_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// TestRunEndsWithoutTheGuest: a guest that never answers holds nobody for long
// beyond the limit that the program was given.
func TestRunEndsWithoutTheGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := client.New(client.Config{
			Token: "t", Scale: 3,
			Dial: func(ctx context.Context) (net.Conn, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			},
		})
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		began := time.Now()
		_, err := c.Exec.Run(ctx, guest.ExecSpec{Argv: []string{"true"}, Timeout: 5 * time.Second}, nil)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 35*time.Second {
			t.Errorf("it ended with %v after %s", err, took)
		}
		cancel()
		if err := <-ended; err == nil {
			t.Error("the client ended without a reason")
		}
	})
}
