package route

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/pkg/api"
)

// Reply is the answer of a JSON call.
type Reply[T any] struct {
	Body T
}

// None is the answer of a call that has nothing to say.
type None struct{}

// Call registers a JSON call.
func Call[I, O any](t *Table, op huma.Operation, g Rule, fn func(context.Context, *I) (*O, error)) {
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // the gate bounds bodies
	Describe(&op)
	t.current = g
	huma.Register(t.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := fn(ctx, in)
		if err != nil {
			return nil, noted(ctx, err)
		}
		return out, nil
	})
	t.current = Open
}

// noted keeps an error for the access log and gives it its code.
func noted(ctx context.Context, err error) error {
	e := gate.Dress(ctx, fault.From(gate.Why(ctx, err)))
	gate.NoteContext(ctx, e)
	return e
}

// Describe adds what every operation has.
func Describe(op *huma.Operation) {
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{
		Description: "A problem; branch on its code",
		Content:     map[string]*huma.MediaType{api.ErrorMIME: {Schema: &huma.Schema{Ref: "#/components/schemas/Error"}}},
	}
}

// Project is the one that a call is made for.
func Project(ctx context.Context) string { return gate.Of(ctx).Principal.Project }

// InDesktop names a desktop. Like the other In types it is exported for huma,
// which reads no embedded struct that is not.
type InDesktop struct {
	Desktop string `path:"desktop" maxLength:"63" doc:"Id or name"`
}
