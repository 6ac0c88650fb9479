package session

import (
	"context"
	"io"
)

// Enforcement is how strictly egress is held.
type Enforcement string

// Enforcements.
const (
	EgressEnforced    Enforcement = "enforced"
	EgressAdvisory    Enforcement = "advisory"
	EgressUnsupported Enforcement = "unsupported"
)

// EgressCapabilities is what a credential egress does.
type EgressCapabilities struct {
	Enforcement Enforcement
	// CredentialMode is live or snapshot.
	CredentialMode string
	// Protocols are http, https and tcp.
	Protocols []string
}

// EgressBinding is a grant to one generation. Its id is opaque and is never
// stored or logged.
type EgressBinding struct {
	ID             Secret
	Enforcement    Enforcement
	CredentialMode string
}

// EgressPreparation is a request for a grant.
type EgressPreparation struct {
	Tenure Tenure
	Need   Need
	Key    string
}

// CredentialEgress lets a machine use credentials that it never sees.
type CredentialEgress interface {
	Capabilities(ctx context.Context, scope Scope) (EgressCapabilities, error)
	// Prepare gives nil when a best effort is not possible.
	Prepare(ctx context.Context, p EgressPreparation) (*EgressBinding, error)
	Attach(ctx context.Context, t Tenure, b EgressBinding, l Lease) error
	// Revoke ends the grant at once. One that was never attached is success.
	Revoke(ctx context.Context, t Tenure, b EgressBinding, reason Reason) error
	// Release forgets the binding. Idempotent.
	Release(ctx context.Context, t Tenure, b EgressBinding) error
}

// Kinds of resources of a session.
const (
	ResourceFile       = "file"
	ResourceRepository = "github_repository"
	ResourceMemory     = "memory_store"
)

// Resource is something a session brings along.
type Resource struct {
	Type string
	ID   string
	// MountPath is absolute and does not traverse.
	MountPath string
	// ContentHash ("sha256:" and 64 hex digits) and Size in bytes are what a file
	// must be; empty and nil where that is not known.
	ContentHash string
	Size        *int64
	// URL, Branch and Commit are a repository's.
	URL, Branch, Commit string
}

// Description is what the platform says of a session.
type Description struct {
	ID            string
	EnvironmentID string
	Metadata      map[string]string
	Resources     []Resource
}

// InputAccess fetches what a session brings along.
type InputAccess interface {
	// OpenFile reads a file from its beginning. The caller closes it, and compares
	// it with what the resource says.
	OpenFile(ctx context.Context, r Resource) (io.ReadCloser, error)
}

// Limits of the files of one session.
const (
	MaxInputFiles       = 1000
	MaxInputBytes int64 = 10 << 30
)

// InputContext is what both calls of Inputs work on.
type InputContext struct {
	Tenure  Tenure
	Session Description
	Lease   Lease
	// WorkerOwnsMemory: memory stores are the worker's in the machine.
	WorkerOwnsMemory bool
	// Access is nil when the session brings nothing that must be fetched.
	Access InputAccess
	// Authorize is to be asked right before each change outside the machine; it
	// fails with ErrLost for a stale holder.
	Authorize func(ctx context.Context) error
	Key       string
}

// Inputs puts files, repositories and memories into a machine and takes
// memories back.
type Inputs interface {
	// Materialize skips repositories when restored is set: they are in the
	// workspace.
	Materialize(ctx context.Context, in InputContext, restored *Candidate) error
	Synchronize(ctx context.Context, in InputContext) error
}
