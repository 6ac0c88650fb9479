package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Screen looks at the screen and sets it up.
type Screen struct{ d *Desktop }

// ScreenshotOptions says what picture is wanted. Zero: a PNG of the whole
// screen in its own size, without the pointer.
type ScreenshotOptions struct {
	Format   string      // png or jpeg
	Quality  int         // of jpeg, 1 to 100
	Region   *api.Region // a part of the screen
	MaxWidth int         // pixels; a wider picture is scaled down
	Cursor   bool        // draw the pointer into it
	Source   string      // host or guest; default: the better one
	ETag     string      // of a picture at hand; an unchanged screen then comes as Unchanged
}

// Screenshot is a picture of the screen.
type Screenshot struct {
	MIME      string
	Data      []byte
	Width     int     // of the picture, pixels
	Height    int     // of the picture, pixels
	Scale     float64 // pixels of the picture for one of the screen
	Seq       uint64  // of the frame
	ETag      string
	Unchanged bool // the screen is as it was at ScreenshotOptions.ETag; Data is empty
}

// Screenshot takes a picture.
func (s *Screen) Screenshot(ctx context.Context, opts ScreenshotOptions) (*Screenshot, error) {
	k := wire.Call{Path: s.d.path("/screenshot"), Query: opts.query()}
	if opts.ETag != "" {
		k.Header = http.Header{"If-None-Match": {opts.ETag}}
	}
	resp, err := s.d.c.server.Open(ctx, k)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, s.d.c.server.Fault(ctx, err)
	}
	shot := &Screenshot{
		MIME: resp.Header.Get("Content-Type"), Data: data, ETag: resp.Header.Get("ETag"),
		Unchanged: resp.StatusCode == http.StatusNotModified,
	}
	// Absent headers leave zeros: the picture itself knows its size.
	shot.Width, _ = strconv.Atoi(resp.Header.Get(api.HeaderWidth))
	shot.Height, _ = strconv.Atoi(resp.Header.Get(api.HeaderHeight))
	shot.Scale, _ = strconv.ParseFloat(resp.Header.Get(api.HeaderScale), 64)
	shot.Seq, _ = strconv.ParseUint(resp.Header.Get(api.HeaderSeq), 10, 64)
	return shot, nil
}

func (o ScreenshotOptions) query() url.Values {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" && value != "0" {
			q.Set(name, value)
		}
	}
	set("format", o.Format)
	set("quality", strconv.Itoa(o.Quality))
	set("max_width", strconv.Itoa(o.MaxWidth))
	set("source", o.Source)
	if o.Cursor {
		q.Set("cursor", "true")
	}
	if r := o.Region; r != nil {
		q.Set("x", strconv.Itoa(r.X))
		q.Set("y", strconv.Itoa(r.Y))
		q.Set("width", strconv.Itoa(r.Width))
		q.Set("height", strconv.Itoa(r.Height))
	}
	return q
}

// ScreenWait says what to wait for.
type ScreenWait struct {
	For     string        // change, still or notblank
	After   uint64        // for change: newer than this frame
	Still   time.Duration // for still: without a change for this long
	Timeout time.Duration // 0: the server's default
}

// Wait waits for the screen, and ends with the code deadline when that does not
// come.
func (s *Screen) Wait(ctx context.Context, w ScreenWait) (api.WaitReply, error) {
	q := url.Values{"for": {w.For}}
	if w.After > 0 {
		q.Set("after", strconv.FormatUint(w.After, 10))
	}
	if w.Still > 0 {
		q.Set("still_ms", strconv.FormatInt(w.Still.Milliseconds(), 10))
	}
	if w.Timeout > 0 {
		q.Set("timeout", w.Timeout.String())
	}
	return wire.Fetch[api.WaitReply](ctx, s.d.c.server, wire.Call{Path: s.d.path("/screen/wait"), Query: q})
}

// Pointer says where the pointer is.
func (s *Screen) Pointer(ctx context.Context) (api.Point, error) {
	return wire.Fetch[api.Point](ctx, s.d.c.server, wire.Call{Path: s.d.path("/pointer")})
}

// Resize sets the size of the screen.
func (s *Screen) Resize(ctx context.Context, display api.Display) error {
	return s.d.c.server.Run(ctx, wire.Call{Method: http.MethodPut, Path: s.d.path("/display"), JSON: display})
}

// SetKeyboard sets the layout: XKB's name, or name:variant.
func (s *Screen) SetKeyboard(ctx context.Context, layout string) error {
	return s.d.c.server.Run(ctx, wire.Call{Method: http.MethodPut, Path: s.d.path("/keyboard"), JSON: api.Keyboard{Layout: layout}})
}
