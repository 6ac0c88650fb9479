package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/program"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/view"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// maxExec bounds a program with its input, in bytes.
const maxExec = 8 << 20

type execIn struct {
	route.InDesktop

	Key  string `header:"Idempotency-Key" doc:"Makes the call repeatable: the program starts once"`
	Body api.Exec
}

// InExec names a program of a desktop.
type InExec struct {
	route.InDesktop

	Exec string `path:"exec" maxLength:"64"`
}

type signalIn struct {
	InExec

	Body api.Signal
}

// mayExec refuses programs where a policy does while a person has control.
func (s *Server) mayExec(ctx context.Context, ref string) error {
	v, err := s.host.Desktop(ctx, route.Project(ctx), ref)
	if err != nil || v.ControlPolicy.Exec == "" {
		return err
	}
	return s.host.Controls.MayExec(ctx, v.ID, view.Holder(ctx, "", api.ControlAgent))
}

func (s *Server) registerExecs() {
	route.Call(s.routes, huma.Operation{
		OperationID: "exec", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/exec", Tags: []string{"execs"},
		Summary:     "Run a program and wait for its end",
		Description: "An exit code other than 0 is no error. A caller that goes away ends the program, unless it named an id or a key.",
	}, route.Write.Long().Size(maxExec), func(ctx context.Context, in *execIn) (*route.Reply[api.ExecResult], error) {
		if err := s.mayExec(ctx, in.Desktop); err != nil {
			return nil, err
		}
		res, err := s.host.Programs.Run(ctx, route.Project(ctx), in.Desktop, in.Body, in.Key)
		return &route.Reply[api.ExecResult]{Body: res}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "start-exec", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/execs", Tags: []string{"execs"},
		Summary: "Start a program", DefaultStatus: http.StatusCreated,
		Description: "It belongs to the guest: attach to it, now or later, as often as needed.",
	}, route.Write.For(ticket.Admin), func(ctx context.Context, in *execIn) (*route.Reply[api.ExecStatus], error) {
		if err := s.mayExec(ctx, in.Desktop); err != nil {
			return nil, err
		}
		st, err := s.host.Programs.Start(ctx, route.Project(ctx), in.Desktop, in.Body, in.Key)
		return &route.Reply[api.ExecStatus]{Body: st}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "list-execs", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/execs", Tags: []string{"execs"},
		Summary: "List programs, running ones and those that ended lately",
	}, route.Read, func(ctx context.Context, in *route.InDesktop) (*route.Reply[api.ExecList], error) {
		l, err := s.host.Guest(ctx, route.Project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		list, err := l.Execs.List(ctx)
		out := api.ExecList{Execs: make([]api.ExecStatus, 0, len(list))}
		for _, st := range list {
			out.Execs = append(out.Execs, program.Status(st))
		}
		return &route.Reply[api.ExecList]{Body: out}, err
	})
	s.registerExec()
}

func (s *Server) registerExec() {
	const path = "/v1/desktops/{desktop}/execs/{exec}"
	route.Call(s.routes, huma.Operation{
		OperationID: "get-exec", Method: http.MethodGet, Path: path, Tags: []string{"execs"}, Summary: "Describe a program",
	}, route.Read, func(ctx context.Context, in *InExec) (*route.Reply[api.ExecStatus], error) {
		l, err := s.host.Guest(ctx, route.Project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		st, err := l.Execs.Status(ctx, guest.ExecID(in.Exec))
		return &route.Reply[api.ExecStatus]{Body: program.Status(st)}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "forget-exec", Method: http.MethodDelete, Path: path, Tags: []string{"execs"},
		Summary: "Forget a program with its output; one that runs is killed", DefaultStatus: http.StatusNoContent,
	}, route.Write, func(ctx context.Context, in *InExec) (*route.None, error) {
		l, err := s.host.Guest(ctx, route.Project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		return nil, l.Execs.Remove(ctx, guest.ExecID(in.Exec))
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "signal-exec", Method: http.MethodPost, Path: path + "/signal", Tags: []string{"execs"},
		Summary: "Send a signal to a program's process group", DefaultStatus: http.StatusNoContent,
	}, route.Write, func(ctx context.Context, in *signalIn) (*route.None, error) {
		l, err := s.host.Guest(ctx, route.Project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		if in.Body.Signal == "" {
			return nil, api.Errorf(api.CodeInvalid, "no signal named; e.g. TERM")
		}
		return nil, l.Execs.Signal(ctx, guest.ExecID(in.Exec), in.Body.Signal)
	})
	s.routes.Stream(huma.Operation{
		OperationID: "attach-exec", Method: http.MethodGet, Path: path + "/attach", Tags: []string{"execs"},
		Summary: "Attach to a program (WebSocket " + api.SubprotocolExec + ")",
		Description: "Binary messages are a channel byte (0 stdin, 1 stdout, 2 stderr) and bytes; text messages are ExecMessage. " +
			"Losing the connection detaches, the program goes on.",
		Parameters: append(spec.Path("desktop", "exec"),
			spec.Query("out_from", "integer", "Offset of the first byte of stdout wanted; negative: the first one kept"),
			spec.Query("err_from", "integer", "The same for stderr"),
			spec.Query("stdin", "boolean", "Hold the program's standard input")),
		Responses: spec.Switching(),
	}, route.Write.Long().For(ticket.Admin), s.attachExec)
}
