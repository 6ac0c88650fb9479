package ticket_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/ticket"
)

func TestBook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ticket.New(time.Now)
		short, err := b.Issue(ticket.Grant{Desktop: "d1", Port: 80}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		standard, err := b.Issue(ticket.Grant{Desktop: "d2", Port: 81}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if g, err := b.Check(short); err != nil || g.Port != 80 || g.Desktop != "d1" {
			t.Errorf("%+v, %v", g, err)
		}
		<-time.After(time.Minute)
		if _, err := b.Check(short); !errors.Is(err, ticket.ErrUnknown) {
			t.Errorf("an expired ticket answers %v", err)
		}
		if _, err := b.Check(standard); err != nil {
			t.Error(err)
		}
		b.Revoke("d2")
		if _, err := b.Check(standard); !errors.Is(err, ticket.ErrUnknown) {
			t.Errorf("a revoked ticket answers %v", err)
		}
		var last error
		for range 10_001 {
			_, last = b.Issue(ticket.Grant{}, time.Hour)
		}
		if !errors.Is(last, ticket.ErrTooMany) {
			t.Errorf("too many tickets answer %v", last)
		}
		<-time.After(time.Hour)
		if _, err := b.Issue(ticket.Grant{}, time.Hour); err != nil {
			t.Errorf("expired ones still count: %v", err)
		}
	})
}
