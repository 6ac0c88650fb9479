package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/view"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	mimePNG  = "image/png"
	mimeJPEG = "image/jpeg"
)

// maxClipboard bounds what the clipboard takes, in bytes.
const maxClipboard = 32 << 20

type screenWaitIn struct {
	route.InDesktop

	For     string `query:"for" default:"change" enum:"change,still,notblank"`
	After   uint64 `query:"after" doc:"For change: newer than this frame; default the present one"`
	StillMS int64  `query:"still_ms" default:"300" minimum:"1" maximum:"60000" doc:"For still: without a change for this long"`
	Timeout string `query:"timeout" doc:"E.g. 10s, which is the default"`
}

func (s *Server) registerScreen() {
	s.routes.Stream(huma.Operation{
		OperationID: "screenshot", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/screenshot", Tags: []string{"screen"},
		Summary: "Take a picture of the screen",
		Description: "Headers " + api.HeaderWidth + ", " + api.HeaderHeight + ", " + api.HeaderScale + " and " + api.HeaderSeq +
			" describe it. With If-None-Match an unchanged screen answers 304.",
		Parameters: append(spec.Path("desktop"),
			spec.Query("format", "string", "png (default) or jpeg"), spec.Query("quality", "integer", "Of jpeg, 1 to 100"),
			spec.Query("x", "integer", "Of a region, with y, width and height"), spec.Query("y", "integer", ""),
			spec.Query("width", "integer", ""), spec.Query("height", "integer", ""),
			spec.Query("max_width", "integer", "Pixels; a wider picture is scaled down"),
			spec.Query("cursor", "boolean", "Draw the pointer into it"),
			spec.Query("peek", "boolean", "It is no use of the desktop: keeps it from no rest, and does not wake it"),
			spec.Query("source", "string", "host (default) or guest"), spec.Header("If-None-Match", "An ETag")),
		Responses: spec.Answers(http.StatusOK, "The picture", mimePNG),
	}, route.Read.For(ticket.View), s.screenshot)
	route.Call(s.routes, huma.Operation{
		OperationID: "wait-screen", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/screen/wait", Tags: []string{"screen"},
		Summary: "Wait until the screen changes, is still, or is not blank",
	}, route.Read.Long(), s.waitScreen)
	const clipboard = "/v1/desktops/{desktop}/clipboard"
	s.routes.Stream(huma.Operation{
		OperationID: "read-clipboard", Method: http.MethodGet, Path: clipboard, Tags: []string{"windows"}, Summary: "Read the clipboard",
		Parameters: append(spec.Path("desktop"), spec.Query("type", "string", "text/plain (default), text/html or image/png")),
		Responses:  spec.Answers(http.StatusOK, "The content", "*/*"),
	}, route.Read, s.readClipboard)
	s.routes.Stream(huma.Operation{
		OperationID: "write-clipboard", Method: http.MethodPut, Path: clipboard, Tags: []string{"windows"},
		Summary:     "Set the clipboard to the body, of its Content-Type",
		Parameters:  append(spec.Path("desktop"), spec.Header(api.HeaderHolder, "Who sends"), spec.Header(api.HeaderEpoch, "Of the control lease"), spec.Header(api.HeaderControlWait, "How long to wait for it")),
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary("*/*")},
		Responses:   map[string]*huma.Response{strconv.Itoa(http.StatusNoContent): {Description: "Done"}},
	}, route.Write.Size(maxClipboard), s.writeClipboard)
}

// shotOf reads what kind of picture is wanted.
func shotOf(r *http.Request) (live.Shot, string, error) {
	q := param.Of(r)
	shot := live.Shot{
		JPEG: q.One("format", "png", "jpeg") == "jpeg", Quality: q.Between("quality", 0, 100),
		MaxWidth: q.Between("max_width", 0, 7680), Cursor: q.Bool("cursor"), Unless: r.Header.Get("If-None-Match"),
		Peek: q.Bool("peek"),
	}
	source := q.One("source", "host", "guest")
	if q.Text("width") != "" || q.Text("height") != "" || q.Text("x") != "" || q.Text("y") != "" {
		shot.Region = &api.Region{
			X: q.Between("x", 0, 7680), Y: q.Between("y", 0, 7680),
			Width: q.Between("width", 1, 7680), Height: q.Between("height", 1, 7680),
		}
	}
	if source == "guest" && shot.Peek {
		q.Bad("peek", "the guest is asked, which is use")
	}
	if source == "guest" && (shot.Region != nil || shot.MaxWidth > 0 || shot.JPEG) {
		q.Bad("source", "a picture from inside the guest is a whole PNG")
	}
	return shot, source, q.Err()
}

func (s *Server) screenshot(w http.ResponseWriter, r *http.Request) error {
	shot, source, err := shotOf(r)
	if err != nil {
		return err
	}
	start := time.Now()
	pic, err := s.takeShot(r, shot, source)
	outcome := "changed"
	switch {
	case err != nil:
		outcome = "failed"
	case pic.Unchanged:
		outcome = "unchanged"
	}
	s.host.Metrics().Screenshot(outcome, time.Since(start))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set(api.HeaderWidth, strconv.Itoa(pic.Width))
	h.Set(api.HeaderHeight, strconv.Itoa(pic.Height))
	h.Set(api.HeaderScale, strconv.FormatFloat(pic.Scale, 'g', -1, 64))
	h.Set(api.HeaderSeq, strconv.FormatUint(pic.Seq, 10))
	if pic.ETag != "" {
		h.Set("ETag", pic.ETag)
	}
	if pic.Unchanged {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", pic.MIME)
	h.Set("Content-Length", strconv.Itoa(len(pic.Data)))
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	_, err = w.Write(pic.Data)
	return err
}

func (s *Server) takeShot(r *http.Request, shot live.Shot, source string) (live.Picture, error) {
	ctx, ref := r.Context(), r.PathValue("desktop")
	if source == "host" {
		find := func() (live.Screen, error) { return s.host.Screen(ctx, route.Project(ctx), ref) }
		if shot.Peek {
			find = func() (live.Screen, error) { return s.host.Peek(route.Project(ctx), ref) }
		}
		screen, err := find()
		if err != nil {
			return live.Picture{}, err
		}
		return screen.Shot(ctx, shot)
	}
	l, err := s.host.Guest(ctx, route.Project(ctx), ref)
	if err != nil {
		return live.Picture{}, err
	}
	pic, err := l.Session.Screenshot(ctx, shot.Cursor)
	return live.Picture{Picture: api.Picture{
		MIME: mimePNG, Data: pic.Data, Width: pic.Width, Height: pic.Height, Scale: 1,
	}}, err
}

func (s *Server) waitScreen(ctx context.Context, in *screenWaitIn) (*route.Reply[api.WaitReply], error) {
	limit, err := param.Wait(in.Timeout, 10*time.Second)
	if err != nil {
		return nil, err
	}
	screen, err := s.host.Screen(ctx, route.Project(ctx), in.Desktop)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	seq, err := screen.Wait(ctx, live.Waiting{For: in.For, After: in.After, Still: time.Duration(in.StillMS) * time.Millisecond})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		return nil, api.Errorf(api.CodeDeadline, "the screen was not seen to be %q within %s", in.For, limit)
	}
	return &route.Reply[api.WaitReply]{Body: api.WaitReply{Seq: seq, WaitMS: time.Since(start).Milliseconds()}}, err
}

// clipboardTypes are what guests can hold.
func clipboardType(q *param.Query, name, value string) string {
	switch value {
	case "", "text/plain", "text/plain;charset=utf-8", "text/plain; charset=utf-8":
		return "text/plain"
	case "text/html", "text/html; charset=utf-8":
		return "text/html"
	case mimePNG:
		return mimePNG
	}
	q.Bad(name, "want text/plain, text/html or image/png")
	return ""
}

func (s *Server) readClipboard(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	typ := clipboardType(q, "type", q.Text("type"))
	if err := q.Err(); err != nil {
		return err
	}
	l, err := s.host.Guest(r.Context(), route.Project(r.Context()), r.PathValue("desktop"))
	if err != nil {
		return err
	}
	c, err := l.Windows.Clipboard(r.Context(), typ)
	if err != nil {
		return err
	}
	if typ != mimePNG {
		typ += "; charset=utf-8"
	}
	w.Header().Set("Content-Type", typ)
	w.Header().Set("Cache-Control", "no-store")
	// A page of the guest must not run as one of ours.
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	_, err = w.Write(c.Data)
	return err
}

func (s *Server) writeClipboard(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	typ := clipboardType(q, "Content-Type", r.Header.Get("Content-Type"))
	by, err := leaseOf(r)
	if err := errors.Join(q.Err(), err); err != nil {
		return err
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	err = s.under(r.Context(), r.PathValue("desktop"), by, func(ctx context.Context, l *live.Desktop) error {
		return l.Windows.SetClipboard(ctx, guest.Clipboard{Type: typ, Data: data})
	})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// leaseOf reads the lease headers of a stream.
func leaseOf(r *http.Request) (control.Call, error) {
	by := control.Call{Holder: view.Holder(r.Context(), r.Header.Get(api.HeaderHolder), api.ControlAgent)}
	var err error
	if v := r.Header.Get(api.HeaderEpoch); v != "" {
		if by.Epoch, err = strconv.ParseUint(v, 10, 64); err != nil {
			return by, api.Errorf(api.CodeInvalid, "%s: want a number", api.HeaderEpoch)
		}
	}
	by.Wait, err = param.Wait(cmp.Or(r.URL.Query().Get("wait"), r.Header.Get(api.HeaderControlWait)), 0)
	return by, err
}
