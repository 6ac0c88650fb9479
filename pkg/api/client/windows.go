package client

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Windows lists and changes top-level windows.
type Windows struct{ d *Desktop }

// List lists windows, bottom of the stack first.
func (w *Windows) List(ctx context.Context) ([]api.Window, error) {
	list, err := wire.Fetch[api.WindowList](ctx, w.d.c.server, wire.Call{Path: w.d.path("/windows")})
	return list.Windows, err
}

// Do changes one window.
func (w *Windows) Do(ctx context.Context, id uint64, op api.WindowOp) error {
	return w.d.c.server.Run(ctx, wire.Call{
		Method: http.MethodPost, Path: w.d.path("/windows/" + strconv.FormatUint(id, 10)), JSON: op,
	})
}

// Focus raises a window and gives it the keyboard.
func (w *Windows) Focus(ctx context.Context, id uint64) error {
	return w.Do(ctx, id, api.WindowOp{Op: "focus"})
}

// Close asks a window to close, as its button does.
func (w *Windows) Close(ctx context.Context, id uint64) error {
	return w.Do(ctx, id, api.WindowOp{Op: "close"})
}

// Clipboard reads and sets the guest's clipboard.
type Clipboard struct{ d *Desktop }

// Text reads plain text.
func (c *Clipboard) Text(ctx context.Context) (string, error) {
	data, err := c.Get(ctx, "text/plain")
	return string(data), err
}

// SetText sets plain text.
func (c *Clipboard) SetText(ctx context.Context, text string) error {
	return c.Set(ctx, "text/plain", []byte(text))
}

// Get reads the content as a type: text/plain, text/html or image/png.
func (c *Clipboard) Get(ctx context.Context, mime string) ([]byte, error) {
	resp, err := c.d.c.server.Open(ctx, wire.Call{Path: c.d.path("/clipboard"), Query: url.Values{"type": {mime}}})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.d.c.server.Fault(ctx, err)
	}
	return data, nil
}

// Set sets the content as a type.
func (c *Clipboard) Set(ctx context.Context, mime string, data []byte) error {
	return c.d.c.server.Run(ctx, wire.Call{
		Method: http.MethodPut, Path: c.d.path("/clipboard"),
		Header: http.Header{"Content-Type": {mime}}, Body: bytes.NewReader(data), Size: int64(len(data)),
	})
}
