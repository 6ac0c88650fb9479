package ticket_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/ticket"
)

func TestRoles(t *testing.T) {
	all := []ticket.Role{ticket.View, ticket.Control, ticket.Admin}
	for i, has := range all {
		for j, wants := range all {
			if has.Can(wants) != (i >= j) {
				t.Errorf("%s can %s: %t", has, wants, has.Can(wants))
			}
		}
		if ticket.Role("").Can(has) || has.Can("") || ticket.Role("root").Can(has) {
			t.Errorf("an unknown role beside %s", has)
		}
	}
}

// TestExchange: a browser's secret is another one, ends with its ticket, and is not
// exchanged again; a ticket serves some browsers and no more.
func TestExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		b := ticket.New(time.Now, func(id string) { ended = append(ended, id) })
		secret, err := b.Issue(ticket.Grant{Desktop: "d1", Token: "t1", Role: ticket.Control}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		first, g, err := b.Exchange(secret)
		if err != nil || first == secret || g.Session == "" || g.Role != ticket.Control {
			t.Fatalf("%+v, %v", g, err)
		}
		second, h, err := b.Exchange(secret)
		if err != nil || second == first || h.Session == g.Session || h.ID != g.ID {
			t.Fatalf("%+v, %v", h, err)
		}
		if _, _, err := b.Exchange(first); !errors.Is(err, ticket.ErrUnknown) {
			t.Errorf("a browser's secret is exchanged: %v", err)
		}
		if list := b.Of("", "d1"); len(list) != 1 || list[0].ID != g.ID {
			t.Errorf("tickets %+v", list)
		}
		for err == nil {
			_, _, err = b.Exchange(secret)
		}
		if !errors.Is(err, ticket.ErrInUse) {
			t.Errorf("after many browsers: %v", err)
		}
		got, err := b.Check(first)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := got.Bind(t.Context())
		defer cancel()
		if b.RevokeID("", "d2", g.ID) || b.RevokeID("p", "d1", g.ID) || !b.RevokeID("", "d1", g.ID) {
			t.Error("a ticket is not ended under its desktop alone")
		}
		synctest.Wait()
		if ctx.Err() == nil || !slices.Contains(ended, g.ID) {
			t.Errorf("context %v, told of %v", ctx.Err(), ended)
		}
		if _, err := b.Check(second); !errors.Is(err, ticket.ErrUnknown) {
			t.Errorf("a browser after the end of its ticket: %v", err)
		}
	})
}
