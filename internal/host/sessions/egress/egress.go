// Package egress says that the host cannot let machines use credentials that they
// never see: it implements session.CredentialEgress by refusing.
package egress

import (
	"context"
	"fmt"

	"github.com/deskfork/deskfork/pkg/session"
)

// None is no credential egress.
type None struct{}

var _ session.CredentialEgress = None{}

// Capabilities implements session.CredentialEgress.
func (None) Capabilities(context.Context, session.Scope) (session.EgressCapabilities, error) {
	return session.EgressCapabilities{Enforcement: session.EgressUnsupported}, nil
}

// Prepare implements session.CredentialEgress: what is optional is not given.
func (None) Prepare(_ context.Context, p session.EgressPreparation) (*session.EgressBinding, error) {
	if p.Need == session.Required {
		return nil, fmt.Errorf("credential egress: %w on this host", session.ErrUnsupported)
	}
	return nil, nil //nolint:nilnil // a best effort that gives nothing
}

// Attach implements session.CredentialEgress: there is no grant to attach.
func (None) Attach(context.Context, session.Tenure, session.EgressBinding, session.Lease) error {
	return fmt.Errorf("attach credential egress: %w on this host", session.ErrUnsupported)
}

// Revoke implements session.CredentialEgress.
func (None) Revoke(context.Context, session.Tenure, session.EgressBinding, session.Reason) error {
	return nil
}

// Release implements session.CredentialEgress.
func (None) Release(context.Context, session.Tenure, session.EgressBinding) error { return nil }
