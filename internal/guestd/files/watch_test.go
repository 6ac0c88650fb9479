package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/files"
	"github.com/deskfork/deskfork/pkg/guest"
)

// TestWatchCountsWhatIsThere: directories that come and go do not use a watch up,
// too many at one time do.
func TestWatchCountsWhatIsThere(t *testing.T) {
	const most = 4
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "first"), 0o755); err != nil {
		t.Fatal(err)
	}
	from, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := files.Watch(ctx, dir, most, to)
		to.CloseWithError(err)
		ended <- err
	}()
	dec := json.NewDecoder(from)
	seen := func(op, path string) error {
		for {
			var c guest.FileChange
			if err := dec.Decode(&c); err != nil {
				return err
			}
			if c.Op == op && c.Path == path {
				return nil
			}
		}
	}
	// The watch begins at some time: what is written again and again is seen then.
	begun := filepath.Join(dir, "first", "f")
	stop := make(chan struct{})
	var wrote error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wrote == nil {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				wrote = os.WriteFile(begun, nil, 0o644)
			}
		}
	}()
	err := seen("create", begun)
	close(stop)
	<-done
	if err := errors.Join(err, wrote); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * most {
		path := filepath.Join(dir, fmt.Sprint("passing", i))
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := seen("create", path); err != nil {
			t.Fatalf("directory %d: %v", i, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := seen("remove", path); err != nil {
			t.Fatalf("end of directory %d: %v", i, err)
		}
	}
	for i := range most {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint("staying", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := seen("none", ""); !errors.Is(err, &guest.Error{Code: guest.CodeBusy}) {
		t.Errorf("too many directories answer %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the watch ended without an error")
	}
}
