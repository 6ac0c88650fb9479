package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// task is what one child does. Its proof is read from the guest by exec.
type task struct {
	name    string // of its picture's file
	caption string
	do      func(h hand, ctx context.Context, session string) (proof string, err error) // a method of hand
}

// tasks of the five children.
func tasks() []task {
	return []task{
		{"form", "orders a book", hand.order},
		{"files", "makes a folder", hand.makeFolder},
		{"editor", "writes a note", hand.writeNote},
		{"terminal", "runs a program", hand.runProgram},
		{"sign-out", "signs out", hand.signOut},
	}
}

// shop gives the browser the keyboard, in the page's first field.
func (h hand) shop(ctx context.Context) error {
	w, err := h.window(ctx, doneWithin, "the page of "+clerk, titled(signedIn))
	if err != nil {
		return err
	}
	if err := h.d.Windows().Focus(ctx, w.ID); err != nil {
		return fmt.Errorf("raise the browser: %w", err)
	}
	return h.clickInto(ctx, w)
}

func (h hand) order(ctx context.Context, _ string) (string, error) {
	if err := h.shop(ctx); err != nil {
		return "", err
	}
	if err := h.fill(ctx, "A Room of One's Own", "2"); err != nil {
		return "", err
	}
	if err := h.page(ctx, openWithin, shopTitle+"order 1 sent"); err != nil {
		return "", err
	}
	return h.reads(ctx, shopOrders, "2 x A Room of One's Own")
}

func (h hand) signOut(ctx context.Context, session string) (string, error) {
	if err := h.shop(ctx); err != nil {
		return "", err
	}
	if err := h.keys(ctx, "alt+o"); err != nil { // the button's access key
		return "", err
	}
	if err := h.page(ctx, openWithin, shopTitle+clerk+" has signed out"); err != nil {
		return "", err
	}
	if _, err := h.reads(ctx, shopSessions, ""); err != nil {
		return "", err
	}
	// The page says that it is drawn before a busy browser has shown it.
	if err := h.lose(ctx, shopGreen); err != nil {
		return "", err
	}
	_, token, _ := strings.Cut(session, " ")
	return fmt.Sprintf("session %s ended, here only", token), nil
}

const (
	folder    = "letters" // what the file manager makes
	newFolder = "Create New Folder"
)

func (h hand) makeFolder(ctx context.Context, _ string) (string, error) {
	if err := h.launch(ctx, "file manager", launchFiles); err != nil {
		return "", err
	}
	if err := h.opened(ctx, "the file manager", " - Thunar"); err != nil {
		return "", err
	}
	if err := h.keys(ctx, "ctrl+l"); err != nil {
		return "", err
	}
	if err := h.enter(ctx, "/workspace"); err != nil {
		return "", err
	}
	if err := h.opened(ctx, "the file manager at /workspace", "workspace - Thunar"); err != nil {
		return "", err
	}
	if err := h.keys(ctx, "ctrl+shift+n"); err != nil {
		return "", err
	}
	if err := h.opened(ctx, "the dialog for a new folder", newFolder); err != nil {
		return "", err
	}
	if err := h.enter(ctx, folder); err != nil {
		return "", err
	}
	var info api.FileInfo
	err := h.confirmed(ctx, newFolder, func() (bool, error) {
		list, err := h.d.Files().List(ctx, "/workspace")
		if err != nil {
			return false, fmt.Errorf("list /workspace: %w", err)
		}
		for _, f := range list {
			if f.Name == folder {
				info = f
			}
		}
		return info.Name != "", nil
	})
	if err != nil {
		return "", fmt.Errorf("wait for folder %s: %w", folder, err)
	}
	return fmt.Sprintf("%s, a %s", info.Path, info.Type), nil
}

const (
	note     = "Parent and children are one machine up to the fork."
	noteFile = "note.txt" // in the user's home, where the dialog stands
	noteDir  = "/home/agent/"
	saveAs   = "Save As"
)

func (h hand) writeNote(ctx context.Context, _ string) (string, error) {
	if err := h.launch(ctx, "editor", launchEditor); err != nil {
		return "", err
	}
	if err := h.opened(ctx, "the editor", " - Mousepad"); err != nil {
		return "", err
	}
	if err := h.text(ctx, note); err != nil {
		return "", err
	}
	if err := h.keys(ctx, "ctrl+s"); err != nil {
		return "", err
	}
	if err := h.opened(ctx, "the dialog for saving", saveAs); err != nil {
		return "", err
	}
	if err := h.enter(ctx, noteFile); err != nil {
		return "", err
	}
	var got string
	err := h.confirmed(ctx, saveAs, func() (there bool, err error) {
		got, there, err = h.content(ctx, noteDir+noteFile)
		return there && got == note, err
	})
	if err != nil {
		return "", fmt.Errorf("wait for %s, which holds %q: %w", noteFile, got, err)
	}
	return got, nil
}

// confirmed waits until something is done that Return in a dialog does, and the
// dialog is gone. One that is there after a while has used the key up to complete a
// name.
func (h hand) confirmed(ctx context.Context, dialog string, done func() (bool, error)) error {
	const within = 15 * time.Second
	for range 3 {
		err := poll(ctx, within, done)
		if err == nil {
			return h.closed(ctx, dialog)
		}
		if !errors.Is(err, &api.Error{Code: api.CodeDeadline}) {
			return err
		}
		list, err := h.d.Windows().List(ctx)
		if err != nil {
			return fmt.Errorf("list windows: %w", err)
		}
		if _, there := top(list, titled(dialog)); !there {
			break
		}
		if err := h.keys(ctx, "Return"); err != nil {
			return err
		}
	}
	return poll(ctx, doneWithin, done)
}

// closed waits until no window has a title any more. What it did is done: one that
// stays is no fault.
func (h hand) closed(ctx context.Context, title string) error {
	err := poll(ctx, pictureWithin, func() (bool, error) {
		list, err := h.d.Windows().List(ctx)
		if err != nil {
			return false, fmt.Errorf("list windows: %w", err)
		}
		_, there := top(list, titled(title))
		return !there, nil
	})
	if errors.Is(err, &api.Error{Code: api.CodeDeadline}) {
		return nil
	}
	return err
}

// opened waits until a window has opened and come to rest: what is typed before
// is lost.
func (h hand) opened(ctx context.Context, what, title string) error {
	_, err := h.window(ctx, openWithin, what, titled(title))
	h.settle(ctx)
	return err
}

const (
	answerFile = "/workspace/answer.txt"
	program    = `python3 -c "import math; print(math.factorial(40))" | tee ` + answerFile
	answer     = "815915283247897734345611269596115894272000000000"
)

func (h hand) runProgram(ctx context.Context, _ string) (string, error) {
	if _, err := h.terminal(ctx); err != nil {
		return "", err
	}
	if err := h.enter(ctx, program); err != nil {
		return "", err
	}
	return h.reads(ctx, answerFile, answer)
}
