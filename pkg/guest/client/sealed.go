package client

import (
	"bytes"
	"context"
	"errors"

	"github.com/deskfork/deskfork/pkg/guest"
)

// StartSealed is Start for a program whose secrets nothing in the guest keeps: see
// guest.Secrets. spec's own environment and input are no secrets. A guestd that does
// not know how refuses.
func (x *Exec) StartSealed(ctx context.Context, spec guest.ExecSpec, s guest.Secrets) (st guest.ExecStatus, err error) {
	if err := x.c.call(ctx, guest.OpExecStartSealed, spec, &st); err != nil {
		return st, err
	}
	sealed, err := guest.Seal(st.SealKey, s)
	if err != nil {
		return st, err
	}
	files := Files{c: x.c}
	for {
		err = files.send(ctx, guest.OpExecUnseal, guest.ExecRef{ID: st.ID}, bytes.NewReader(sealed), nil)
		if !errors.Is(err, ErrLinkLost) || ctx.Err() != nil {
			return st, err
		}
	}
}
