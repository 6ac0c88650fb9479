package ticket_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/ticket"
)

// TestKeep: tickets of people and their browsers live through a restart, end together
// then too, and what was revoked does not come back.
func TestKeep(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	book := func() *ticket.Book {
		t.Helper()
		b := ticket.New(func() time.Time { return now }, nil)
		if err := b.Keep(dir); err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := book()
	issue := func(g ticket.Grant, ttl time.Duration) string {
		t.Helper()
		s, err := b.Issue(g, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	people := ticket.Grant{Desktop: "d1", Project: "p", Token: "t1", Role: ticket.Control}
	link, short := issue(people, time.Hour), issue(people, time.Minute)
	port := issue(ticket.Grant{Desktop: "d1", Project: "p", Token: "t1", Port: 80}, time.Hour)
	gone := issue(ticket.Grant{Desktop: "d2", Project: "p", Token: "t2", Role: ticket.View}, time.Hour)
	browser, was, err := b.Exchange(link)
	if err != nil {
		t.Fatal(err)
	}
	b.RevokeToken("t2")

	raw, err := os.ReadFile(filepath.Join(dir, "tickets.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{link, browser} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Error("a secret is in the file")
		}
	}
	now = now.Add(2 * time.Minute)
	b = book()
	got, err := b.Check(browser)
	if err != nil || got.ID != was.ID || got.Session != was.Session || got.Role != ticket.Control || !got.Expires.Equal(was.Expires) {
		t.Fatalf("the browser has %+v, %v; had %+v", got, err, was)
	}
	if _, err := b.Check(link); err != nil {
		t.Error(err)
	}
	for name, secret := range map[string]string{"one that has ended": short, "a port's": port, "a revoked one": gone} {
		if _, err := b.Check(secret); !errors.Is(err, ticket.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, stop := got.Bind(t.Context())
	defer stop()
	b.RevokeToken("t1")
	<-ctx.Done()
	if _, err := book().Check(browser); !errors.Is(err, ticket.ErrUnknown) {
		t.Errorf("after its end: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tickets.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ticket.New(time.Now, nil).Keep(dir); err == nil {
		t.Error("a damaged file is read")
	}
}
