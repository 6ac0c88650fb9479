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
		b := ticket.New(time.Now, nil)
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
	})
}

// TestLimit: a project that has all its tickets leaves others theirs, and gets
// room again as they expire.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ticket.New(time.Now, nil)
		n := 0
		for {
			if _, err := b.Issue(ticket.Grant{Project: "greedy"}, time.Hour); err != nil {
				if !errors.Is(err, ticket.ErrTooMany) || n != 1000 {
					t.Errorf("after %d tickets: %v", n, err)
				}
				break
			}
			n++
		}
		if _, err := b.Issue(ticket.Grant{Project: "modest"}, time.Hour); err != nil {
			t.Errorf("another project: %v", err)
		}
		<-time.After(time.Hour)
		if _, err := b.Issue(ticket.Grant{Project: "greedy"}, time.Hour); err != nil {
			t.Errorf("expired ones still count: %v", err)
		}
	})
}

// TestBind: what was begun under a ticket ends with it, however it ends, and
// nothing else does.
func TestBind(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*ticket.Book)
		over bool
	}{
		{"expiry", func(*ticket.Book) { <-time.After(time.Hour) }, true},
		{"its desktop goes", func(b *ticket.Book) { b.Revoke("d1") }, true},
		{"its token is revoked", func(b *ticket.Book) { b.RevokeToken("t1") }, true},
		{"another desktop goes", func(b *ticket.Book) { b.Revoke("d2") }, false},
		{"another token is revoked", func(b *ticket.Book) { b.RevokeToken("t2") }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := ticket.New(time.Now, nil)
				secret, err := b.Issue(ticket.Grant{Desktop: "d1", Token: "t1"}, time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				g, err := b.Check(secret)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := g.Bind(t.Context())
				defer cancel()
				tc.end(b)
				synctest.Wait()
				_, err = b.Check(secret)
				if (ctx.Err() != nil) != tc.over || errors.Is(err, ticket.ErrUnknown) != tc.over {
					t.Errorf("context %v, ticket %v", ctx.Err(), err)
				}
			})
		})
	}
}
