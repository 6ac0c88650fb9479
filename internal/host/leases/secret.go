package leases

import (
	"context"
	"errors"
	"fmt"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// hold notes that a program with secrets is about to be started in a machine.
func (b *Book) hold(ctx context.Context, runtime string, exec guest.ExecID) error {
	return b.exec(ctx, "note a program with secrets", `INSERT INTO secrets (runtime, exec) VALUES (?, ?) ON CONFLICT DO NOTHING`, runtime, exec)
}

// free notes that nothing of it is left.
func (b *Book) free(ctx context.Context, runtime string, exec guest.ExecID) error {
	return b.exec(ctx, "note the end of a program with secrets", `DELETE FROM secrets WHERE runtime = ? AND exec = ?`, runtime, exec)
}

// holders are the programs of which something may be left.
func (b *Book) holders(ctx context.Context, runtime string) ([]guest.ExecID, error) {
	rows, err := b.db.QueryContext(ctx, `SELECT exec FROM secrets WHERE runtime = ? ORDER BY exec`, runtime)
	if err != nil {
		return nil, fmt.Errorf("list programs with secrets: %w", err)
	}
	defer rows.Close()
	var all []guest.ExecID
	for rows.Next() {
		var id guest.ExecID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, rows.Err()
}

// secretive are the programs of a machine. Those that are started sealed are written
// down before, so that nothing is kept of the machine while one of them, or a process
// that it has started, may live.
type secretive struct {
	live.Execs

	book    *Book
	runtime string
}

var (
	_ live.Sealer = secretive{}
	_ live.Waiter = secretive{}
)

// StartSealed implements live.Sealer.
func (s secretive) StartSealed(ctx context.Context, spec guest.ExecSpec, secrets guest.Secrets) (guest.ExecStatus, error) {
	sealer, ok := s.Execs.(live.Sealer)
	if !ok {
		return guest.ExecStatus{}, fmt.Errorf("start %v with secrets: %w", spec.Argv, errors.ErrUnsupported)
	}
	if err := s.book.hold(ctx, s.runtime, spec.ID); err != nil {
		return guest.ExecStatus{}, err
	}
	return sealer.StartSealed(ctx, spec, secrets)
}

// Wait implements live.Waiter.
func (s secretive) Wait(ctx context.Context, id guest.ExecID) (guest.ExecStatus, error) {
	if w, ok := s.Execs.(live.Waiter); ok {
		return w.Wait(ctx, id)
	}
	return guest.ExecStatus{}, errors.ErrUnsupported
}

// Remove implements live.Execs: what is removed is looked at first. One of which
// something lives on stays for a later look, until the guest forgets it.
func (s secretive) Remove(ctx context.Context, id guest.ExecID) error {
	st, err := s.Status(ctx, id)
	if err == nil && st.Left {
		return nil
	}
	if err == nil && !st.Running {
		err = s.book.free(ctx, s.runtime, id)
	}
	return errors.Join(s.Execs.Remove(ctx, id), ignoring(err))
}

// ignoring leaves out that a program is not known.
func ignoring(err error) error {
	if unknown(err) {
		return nil
	}
	return err
}

func unknown(err error) bool { return err != nil && fault.From(err).Code == api.CodeNotFound }

// clean says that nothing with secrets lives in a machine.
func (d *Desk) clean(ctx context.Context, r row) error {
	ids, err := d.cfg.Book.holders(ctx, r.lease.RuntimeID)
	if err != nil || len(ids) == 0 {
		return err
	}
	in, err := d.cfg.Guest(ctx, r.project, *r.lease)
	if err != nil {
		return err
	}
	for _, id := range ids {
		st, err := in.Execs.Status(ctx, id)
		switch {
		case unknown(err):
			return dirty("what became of process %s is not known", id)
		case err != nil:
			return err
		case st.Running:
			return dirty("process %s runs", id)
		case st.Left:
			return dirty("processes that %s has started live on", id)
		}
		if err := d.cfg.Book.free(ctx, r.lease.RuntimeID, id); err != nil {
			return err
		}
	}
	return nil
}

func dirty(format string, id guest.ExecID) error {
	e := api.Errorf(api.CodePrecondition, format+", and what it knows of its secrets would be kept", id)
	e.Hint = "end it with all that it has started, or do without a runtime checkpoint"
	return e
}
