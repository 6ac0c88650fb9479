package exec

import (
	"context"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/internal/guestd/runner"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// spawnSealed is spawn of a runner, which waits for the secrets.
func (e *Exec) spawnSealed(u account.User, env []string) error {
	argv, err := runner.Command(e.command())
	if err != nil {
		return err
	}
	s, err := runner.Open()
	if err != nil {
		return err
	}
	if err := e.spawnWith(u, env, argv, s.Sealed, s.Key); err != nil {
		s.Discard()
		return err
	}
	if e.seal, err = s.Await(); err == nil {
		return nil
	}
	killTree(e.process, e.tag)
	_, _ = e.process.Wait() // it was killed
	for _, p := range e.pumps {
		p.from.Close()
	}
	e.stdin.close()
	e.handle.Close() // nil is harmless
	return err
}

func (t *Table) opStartSealed(_ context.Context, _ *mux.Call, spec guest.ExecSpec) (guest.ExecStatus, error) {
	e, err := t.start(spec, true)
	if err != nil {
		return guest.ExecStatus{}, err
	}
	return e.Status(), nil
}

func (t *Table) opUnseal(_ context.Context, c *mux.Call, p guest.ExecRef) (any, error) {
	e, err := t.Get(p.ID)
	if err != nil {
		return nil, err
	}
	if e.seal == nil {
		return nil, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("exec %s was not started sealed", p.ID)}
	}
	b, err := io.ReadAll(io.LimitReader(c.Streams[0], guest.MaxSealed+1))
	if err != nil {
		return nil, err
	}
	if len(b) > guest.MaxSealed {
		return nil, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("more than %d sealed bytes", guest.MaxSealed)}
	}
	return nil, e.seal.Unseal(b)
}

// leaves says whether processes that an ended exec has started live on.
func (e *Exec) leaves() bool {
	e.mu.Lock()
	alive, group := e.reaped && !e.gone, e.group
	e.mu.Unlock()
	if !alive || group != nil {
		return alive && group.populated()
	}
	return len(family(nil, e.tag)) > 0
}
