package transaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/deskfork/deskfork/pkg/session"
)

// cleanup is the way down. Its order is fixed:
//
//	stop listening to the caller, stop the loops, abort what still runs
//	revoke the credential grant
//	stop renewing the lease
//	end the machine, or note it as an orphan; then its intent is done
//	release the outputs if they are published, abort them otherwise
//	release the grant, the workspace and at last the fence
//
// Every step runs whatever became of the others. The error is what nobody will put
// in order by itself.
func (r *run) cleanup(reason session.Reason, cause error) error {
	t, ports, limit := r.fence.Tenure, r.h.Ports, r.h.Cleanup
	var faults error
	r.detach()
	r.cancel(errEnded)
	r.syncer.end()
	if r.egress != nil && !r.egressRevoked {
		faults = r.tidy("revoke credential egress", limit, func(ctx context.Context) error { return ports.Egress.Revoke(ctx, t, *r.egress, reason) })
	}
	r.renewer.end()
	r.monitor.end()
	if r.lease != nil && !r.retained {
		r.step("terminate sandbox")
		faults = errors.Join(faults, r.terminate(*r.lease, reason, cause))
	}
	if r.outputs != nil {
		r.mu.Lock()
		published := r.hasOut
		r.mu.Unlock()
		if published {
			r.warn("release outputs", r.tidy("release outputs", limit, func(ctx context.Context) error { return ports.Outputs.Release(ctx, t, *r.outputs) }))
		} else {
			r.warn("abort outputs", r.tidy("abort outputs", limit, func(ctx context.Context) error { return ports.Outputs.Abort(ctx, t, *r.outputs, reason) }))
		}
	}
	if r.egress != nil {
		faults = errors.Join(faults, r.tidy("release credential egress", limit, func(ctx context.Context) error { return ports.Egress.Release(ctx, t, *r.egress) }))
	}
	if r.workspace != nil {
		r.warn("release workspace", r.tidy("release workspace", limit, func(ctx context.Context) error { return ports.Workspaces.Release(ctx, t, *r.workspace) }))
	}
	r.warn("release fence", r.tidy("release fence", limit, func(ctx context.Context) error { return ports.Stores.Fences.Release(ctx, r.fence) }))
	return faults
}

// terminate ends a machine or makes it an orphan. Only a machine that is neither is
// an error; its intent stays, and recovery finds it by that.
func (r *run) terminate(l session.Lease, reason session.Reason, cause error) error {
	t, ports := r.fence.Tenure, r.h.Ports
	err := r.h.bounded(r.ctx, r.h.Terminate, func(ctx context.Context) error { return ports.Sandbox.Terminate(ctx, t, l, reason) })
	if err != nil {
		r.warn("terminate sandbox", err)
		orphan := session.NewOrphan(t, l, reason, errors.Join(err, cause))
		orphan.LastError = r.fence.Token.Redact(orphan.LastError)
		if e := r.h.bounded(r.ctx, r.h.Cleanup, func(ctx context.Context) error { return ports.Stores.Orphans.Enqueue(ctx, orphan) }); e != nil {
			return fmt.Errorf("machine %s of %s was neither ended nor noted as an orphan: %w", l.RuntimeID, l.Provider, errors.Join(err, e))
		}
	}
	r.warn("resolve allocation intent", r.h.bounded(r.ctx, r.h.Cleanup, func(ctx context.Context) error {
		return ports.Stores.Intents.Resolve(ctx, session.NewIntent(t).ID)
	}))
	return nil
}
