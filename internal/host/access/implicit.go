package access

import (
	"context"

	"github.com/deskfork/deskfork/pkg/api"
)

// implicitEpoch is the only epoch there is while nobody can take control.
const implicitEpoch = 1

// Implicit is a control lease that lets everybody in under one epoch.
type Implicit struct{}

// Check answers control_held for any epoch but that one; 0 means the present one.
func (Implicit) Check(_ context.Context, _, _ string, epoch uint64) error {
	if epoch == 0 || epoch == implicitEpoch {
		return nil
	}
	return api.Errorf(api.CodeControlHeld, "the control lease is in epoch %d, not %d", implicitEpoch, epoch)
}
