// Package binding is what the adapters of sessions tell each other in the metadata
// of a session.Binding.
package binding

import "github.com/deskfork/deskfork/pkg/session"

// checkpoint names what a machine's workspace shall begin with.
const checkpoint = "checkpoint"

// Begins is the metadata of a workspace that begins with a checkpoint, as
// workspace@checkpoint; with an empty disk when it is empty.
func Begins(with string) session.Metadata {
	if with == "" {
		return nil
	}
	return session.Metadata{checkpoint: with}
}

// Checkpoint is what the workspace of a binding begins with; empty: nothing.
func Checkpoint(b session.Binding) string {
	text, _ := b.Metadata[checkpoint].(string)
	return text
}
