package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

type execIn struct {
	InDesktop

	Key  string `header:"Idempotency-Key" doc:"Makes the call repeatable: the program starts once"`
	Body api.Exec
}

// InExec names a program of a desktop.
type InExec struct {
	InDesktop

	Exec string `path:"exec" maxLength:"64"`
}

type signalIn struct {
	InExec

	Body api.Signal
}

func (s *Server) registerExecs() {
	call(s, huma.Operation{
		OperationID: "exec", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/exec", Tags: []string{"execs"},
		Summary:     "Run a program and wait for its end",
		Description: "An exit code other than 0 is no error. A caller that goes away ends the program, unless it named an id or a key.",
	}, write.long().size(maxExec), func(ctx context.Context, in *execIn) (*reply[api.ExecResult], error) {
		res, err := s.host.Programs.Run(ctx, project(ctx), in.Desktop, in.Body, in.Key)
		return &reply[api.ExecResult]{Body: res}, err
	})
	call(s, huma.Operation{
		OperationID: "start-exec", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/execs", Tags: []string{"execs"},
		Summary: "Start a program", DefaultStatus: http.StatusCreated,
		Description: "It belongs to the guest: attach to it, now or later, as often as needed.",
	}, write, func(ctx context.Context, in *execIn) (*reply[api.ExecStatus], error) {
		st, err := s.host.Programs.Start(ctx, project(ctx), in.Desktop, in.Body, in.Key)
		return &reply[api.ExecStatus]{Body: st}, err
	})
	call(s, huma.Operation{
		OperationID: "list-execs", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/execs", Tags: []string{"execs"},
		Summary: "List programs, running ones and those that ended lately",
	}, read, func(ctx context.Context, in *InDesktop) (*reply[api.ExecList], error) {
		l, err := s.host.Guest(ctx, project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		list, err := l.Execs.List(ctx)
		out := api.ExecList{Execs: make([]api.ExecStatus, 0, len(list))}
		for _, st := range list {
			out.Execs = append(out.Execs, host.ExecStatus(st))
		}
		return &reply[api.ExecList]{Body: out}, err
	})
	s.registerExec()
}

func (s *Server) registerExec() {
	const path = "/v1/desktops/{desktop}/execs/{exec}"
	call(s, huma.Operation{
		OperationID: "get-exec", Method: http.MethodGet, Path: path, Tags: []string{"execs"}, Summary: "Describe a program",
	}, read, func(ctx context.Context, in *InExec) (*reply[api.ExecStatus], error) {
		l, err := s.host.Guest(ctx, project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		st, err := l.Execs.Status(ctx, guest.ExecID(in.Exec))
		return &reply[api.ExecStatus]{Body: host.ExecStatus(st)}, err
	})
	call(s, huma.Operation{
		OperationID: "forget-exec", Method: http.MethodDelete, Path: path, Tags: []string{"execs"},
		Summary: "Forget a program with its output; one that runs is killed", DefaultStatus: http.StatusNoContent,
	}, write, func(ctx context.Context, in *InExec) (*none, error) {
		l, err := s.host.Guest(ctx, project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		return nil, l.Execs.Remove(ctx, guest.ExecID(in.Exec))
	})
	call(s, huma.Operation{
		OperationID: "signal-exec", Method: http.MethodPost, Path: path + "/signal", Tags: []string{"execs"},
		Summary: "Send a signal to a program's process group", DefaultStatus: http.StatusNoContent,
	}, write, func(ctx context.Context, in *signalIn) (*none, error) {
		l, err := s.host.Guest(ctx, project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		if in.Body.Signal == "" {
			return nil, api.Errorf(api.CodeInvalid, "no signal named; e.g. TERM")
		}
		return nil, l.Execs.Signal(ctx, guest.ExecID(in.Exec), in.Body.Signal)
	})
	s.stream(huma.Operation{
		OperationID: "attach-exec", Method: http.MethodGet, Path: path + "/attach", Tags: []string{"execs"},
		Summary: "Attach to a program (WebSocket " + api.SubprotocolExec + ")",
		Description: "Binary messages are a channel byte (0 stdin, 1 stdout, 2 stderr) and bytes; text messages are ExecMessage. " +
			"Losing the connection detaches, the program goes on.",
		Parameters: append(spec.Path("desktop", "exec"),
			spec.Query("out_from", "integer", "Offset of the first byte of stdout wanted; negative: the first one kept"),
			spec.Query("err_from", "integer", "The same for stderr"),
			spec.Query("stdin", "boolean", "Hold the program's standard input")),
		Responses: spec.Switching(),
	}, write.long(), s.attachExec)
}
