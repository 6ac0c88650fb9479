package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/pkg/api"
)

// Waits of a call that names none, and the longest one.
const (
	defaultWait = 5 * time.Minute
	maxWait     = time.Hour
)

// InDesktop names a desktop. Like the other In types it is exported for huma,
// which reads no embedded struct that is not.
type InDesktop struct {
	Desktop string `path:"desktop" maxLength:"63" doc:"Id or name"`
}

type createIn struct {
	Key     string `header:"Idempotency-Key" doc:"Makes the call repeatable within 24 hours"`
	Wait    string `query:"wait" enum:"machine,link,handshake,session,drawn,ready" doc:"Answer only when this stage is reached"`
	Timeout string `query:"timeout" doc:"Of the wait, e.g. 120s; default 5m"`
	Body    api.CreateDesktop
}

type createOut struct {
	Location string `header:"Location"`
	Body     api.Desktop
}

type waitIn struct {
	InDesktop

	Stage   string `query:"stage" default:"drawn" enum:"admission,machine,link,handshake,session,drawn,ready"`
	Timeout string `query:"timeout" doc:"E.g. 120s; default 5m"`
}

type listIn struct {
	Label []string `query:"label,explode" doc:"key or key=value; all must match"`
	State string   `query:"state" enum:"starting,ready,failed,stopped,deleting"`
	Name  string   `query:"name"`
}

func (s *Server) registerDesktops() {
	call(s, huma.Operation{
		OperationID: "create-desktop", Method: http.MethodPost, Path: "/v1/desktops", Tags: []string{"desktops"},
		Summary: "Create a desktop", DefaultStatus: http.StatusCreated,
		Description: "Answers when the desktop is admitted and its machine begins to start, or when the stage named by wait is reached.",
	}, write.long(), s.createDesktop)
	call(s, huma.Operation{
		OperationID: "list-desktops", Method: http.MethodGet, Path: "/v1/desktops", Tags: []string{"desktops"},
		Summary: "List the desktops of the token's project",
	}, read, func(ctx context.Context, in *listIn) (*reply[api.DesktopList], error) {
		list, err := s.host.Desktops(ctx, project(ctx), host.ListFilter{
			Labels: in.Label, State: api.DesktopState(in.State), Name: in.Name,
		})
		return &reply[api.DesktopList]{Body: api.DesktopList{Desktops: list}}, err
	})
	call(s, huma.Operation{
		OperationID: "get-desktop", Method: http.MethodGet, Path: "/v1/desktops/{desktop}", Tags: []string{"desktops"},
		Summary: "Describe a desktop",
	}, read, func(ctx context.Context, in *InDesktop) (*reply[api.Desktop], error) {
		v, err := s.host.Desktop(ctx, project(ctx), in.Desktop)
		return &reply[api.Desktop]{Body: v}, err
	})
	call(s, huma.Operation{
		OperationID: "wait-desktop", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/wait", Tags: []string{"desktops"},
		Summary: "Wait for a stage", Description: "The problem of a desktop that failed is the failure of its stage.",
	}, read.long(), func(ctx context.Context, in *waitIn) (*reply[api.Desktop], error) {
		v, err := s.waitStage(ctx, in.Desktop, in.Stage, in.Timeout)
		return &reply[api.Desktop]{Body: v}, err
	})
	call(s, huma.Operation{
		OperationID: "delete-desktop", Method: http.MethodDelete, Path: "/v1/desktops/{desktop}", Tags: []string{"desktops"},
		Summary: "Delete a desktop", Description: "Repeatable: what is gone already is no error.",
		DefaultStatus: http.StatusNoContent,
	}, write.long(), func(ctx context.Context, in *InDesktop) (*none, error) {
		return nil, s.host.Delete(ctx, project(ctx), in.Desktop)
	})
	s.registerSettings()
}

func (s *Server) createDesktop(ctx context.Context, in *createIn) (*createOut, error) {
	if _, err := parseWait(in.Timeout, defaultWait); err != nil {
		return nil, err
	}
	v, err := s.host.Create(ctx, project(ctx), in.Body, in.Key)
	if err != nil {
		return nil, err
	}
	if in.Wait != "" {
		if v, err = s.waitStage(ctx, v.ID, in.Wait, in.Timeout); err != nil {
			// The desktop is there: say which one failed to come up.
			e := *fault.From(err)
			e.Hint = cmp.Or(e.Hint, "the desktop is "+v.ID)
			return nil, &e
		}
	}
	return &createOut{Location: "/v1/desktops/" + v.ID, Body: v}, nil
}

func (s *Server) waitStage(ctx context.Context, ref, stage, timeout string) (api.Desktop, error) {
	d, err := parseWait(timeout, defaultWait)
	if err != nil {
		return api.Desktop{}, err
	}
	if stage == "ready" {
		stage = string(api.StageDrawn)
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return s.host.Wait(ctx, project(ctx), ref, api.Stage(stage))
}

// parseWait reads a duration such as 90s.
func parseWait(text string, def time.Duration) (time.Duration, error) {
	if text == "" {
		return def, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxWait {
		e := api.Errorf(api.CodeInvalid, "validation failed")
		e.Errors = []api.FieldError{{Location: "query.timeout", Message: "want a duration such as 90s, above 0 and at most " + maxWait.String()}}
		return 0, e
	}
	return d, nil
}

type displayIn struct {
	InDesktop

	Body api.Display
}

type keyboardIn struct {
	InDesktop

	Body api.Keyboard
}

func (s *Server) registerSettings() {
	call(s, huma.Operation{
		OperationID: "set-display", Method: http.MethodPut, Path: "/v1/desktops/{desktop}/display", Tags: []string{"screen"},
		Summary: "Change the size of the screen", Description: "Answers the size that it became.",
	}, write, func(ctx context.Context, in *displayIn) (*reply[api.Display], error) {
		became, err := s.host.Settings.SetDisplay(ctx, project(ctx), in.Desktop, in.Body)
		return &reply[api.Display]{Body: became}, err
	})
	call(s, huma.Operation{
		OperationID: "set-keyboard", Method: http.MethodPut, Path: "/v1/desktops/{desktop}/keyboard", Tags: []string{"screen"},
		Summary: "Change the keyboard layout", DefaultStatus: http.StatusNoContent,
	}, write, func(ctx context.Context, in *keyboardIn) (*none, error) {
		return nil, s.host.Settings.SetKeyboard(ctx, project(ctx), in.Desktop, in.Body.Layout)
	})
}
