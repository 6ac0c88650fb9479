package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"image/color"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// The shop: a page with a form behind a sign-in, served inside the guest. Who is
// signed in is known to the memory of its process and to the browser's; what it
// writes down is only there to be read back.
const (
	shopDir      = "/workspace/harbour"
	shopProgram  = shopDir + "/site.py"
	shopSessions = shopDir + "/sessions.txt" // who is signed in, and the session
	shopOrders   = shopDir + "/orders.txt"
	shopDrawn    = shopDir + "/drawn.txt" // title of the page that was last drawn
	shopURL      = "http://127.0.0.1:8077/"

	clerk    = "ada"
	password = "analytical engine"

	shopTitle = "Harbour: " // of every page
	signedIn  = shopTitle + "signed in as " + clerk
)

// shopGreen is the colour of the shop's head as long as somebody is signed in.
var shopGreen = color.RGBA{R: 0x17, G: 0x65, B: 0x3a, A: 0xff}

//go:embed harbour/site.py
var shopSource string

// signIn brings the desktop to where the browser shows the page of somebody who
// is signed in, and returns what the shop knows of it. done is false when an
// earlier demonstration left it so.
func (h hand) signIn(ctx context.Context) (session string, done bool, err error) {
	list, err := h.d.Windows().List(ctx)
	if err != nil {
		return "", false, fmt.Errorf("list windows: %w", err)
	}
	open, err := h.shopOpen(ctx)
	if err != nil {
		return "", false, err
	}
	w, there := top(list, titled(shopTitle))
	if there && open {
		if err := h.d.Windows().Focus(ctx, w.ID); err != nil {
			return "", false, fmt.Errorf("raise the browser: %w", err)
		}
	} else if err := h.openShop(ctx, open); err != nil {
		return "", false, err
	}
	if there && open && titled(signedIn)(w) {
		h.say("%s is signed in already", clerk)
	} else {
		if err := h.fillSignIn(ctx); err != nil {
			return "", false, err
		}
		done = true
	}
	session, _, err = h.content(ctx, shopSessions)
	if err == nil && !strings.HasPrefix(session, clerk+" ") {
		err = api.Errorf(api.CodeInternal, "the browser shows that %s is signed in, the shop knows of %q", clerk, session)
	}
	return session, done, err
}

// shopOpen says whether the shop's process runs.
func (h hand) shopOpen(ctx context.Context) (bool, error) {
	execs, err := h.d.Execs().List(ctx)
	if err != nil {
		return false, fmt.Errorf("list programs: %w", err)
	}
	return slices.ContainsFunc(execs, func(x api.ExecStatus) bool { return x.Running && slices.Contains(x.Argv, shopProgram) }), nil
}

// openShop starts the shop unless it is open, and its page in the browser.
func (h hand) openShop(ctx context.Context, open bool) error {
	if !open {
		h.say("starting a shop at %s, inside the desktop", shopURL)
		opts := client.WriteOptions{Parents: true, Size: int64(len(shopSource))}
		if _, err := h.d.Files().Write(ctx, shopProgram, strings.NewReader(shopSource), opts); err != nil {
			return fmt.Errorf("write the shop's program: %w", err)
		}
		if _, err := h.d.Exec(ctx, "rm", "-f", shopSessions); err != nil {
			return fmt.Errorf("forget old sessions: %w", err)
		}
		x, err := h.d.Execs().Start(ctx, api.Exec{Argv: []string{"python3", shopProgram}})
		if err != nil {
			return fmt.Errorf("start the shop: %w", err)
		}
		err = poll(ctx, doneWithin, func() (bool, error) {
			_, there, err := h.content(ctx, shopSessions) // written when its port is open
			return there, err
		})
		if err != nil {
			return fmt.Errorf("wait for the shop, exec %s: %w", x.ID, err)
		}
	}
	h.say("opening it in the browser")
	if _, err := h.d.Launch(ctx, api.Launch{URL: shopURL}); err != nil {
		return fmt.Errorf("open the browser: %w", err)
	}
	return nil
}

const (
	// browserWithin is how long the browser may take where none stands ready.
	browserWithin = 8 * time.Minute
	// A page that was not ready loses what is typed: it is then typed again.
	attempts      = 2
	attemptWithin = 2 * time.Minute
)

func (h hand) fillSignIn(ctx context.Context) error {
	w, err := h.window(ctx, browserWithin, "the shop's page", titled(shopTitle))
	if err != nil {
		return err
	}
	for range attempts {
		h.settle(ctx)
		h.say("signing in as %s", clerk)
		if err := h.clickInto(ctx, w); err != nil { // the first field is in the middle of the page
			return err
		}
		if err := h.fill(ctx, clerk, password); err != nil {
			return err
		}
		err = h.page(ctx, attemptWithin, signedIn)
		if !errors.Is(err, &api.Error{Code: api.CodeDeadline}) {
			return err
		}
	}
	return err
}

// page waits until a page of this title is drawn.
func (h hand) page(ctx context.Context, within time.Duration, title string) error {
	if _, err := h.window(ctx, within, "the page", titled(title)); err != nil {
		return err
	}
	var got string
	err := poll(ctx, within, func() (there bool, err error) {
		got, there, err = h.content(ctx, shopDrawn)
		return there && strings.HasPrefix(got, title), err
	})
	if err != nil {
		return fmt.Errorf("wait for %q to be drawn, which came after %q: %w", title, got, err)
	}
	return nil
}

// fill fills the fields of a form, from the one that has the keyboard on, and
// sends it.
func (h hand) fill(ctx context.Context, fields ...string) error {
	for i, text := range fields {
		if i > 0 {
			if err := h.keys(ctx, "Tab"); err != nil {
				return err
			}
		}
		if err := h.keys(ctx, "ctrl+a"); err != nil { // over what is there
			return err
		}
		if err := h.text(ctx, text); err != nil {
			return err
		}
	}
	return h.keys(ctx, "Return")
}
