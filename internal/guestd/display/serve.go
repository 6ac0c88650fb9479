package display

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// maxClipboard bounds what the host may put into the clipboard, in bytes.
const maxClipboard = 64 << 20

// Routes pass the desktop's operations on. One that is asked with a stream
// gets its answer's bytes there; OpClipboardSet brings its bytes that way.
func (s *Supervisor) Routes() mux.Router {
	routes := mux.Router{}
	for _, op := range []string{
		guest.OpReady, guest.OpScreenshot, guest.OpScreen, guest.OpSetScreen, guest.OpSetKeyboard,
		guest.OpPointer, guest.OpInput, guest.OpClipboardGet, guest.OpClipboardSet, guest.OpClipboardTypes,
		guest.OpWindows, guest.OpWindow, guest.OpLaunch, guest.OpPark,
	} {
		routes[op] = s.pass
	}
	routes[guest.OpBrowsing] = mux.Streaming(1, s.follow)
	return routes
}

func (s *Supervisor) pass(ctx context.Context, c *mux.Call) (any, error) {
	var body []byte
	if c.Op == guest.OpClipboardSet && len(c.Streams) == 1 {
		var err error
		if body, err = io.ReadAll(io.LimitReader(c.Streams[0], maxClipboard+1)); err != nil {
			return nil, fmt.Errorf("receive clipboard: %w", err)
		}
		if len(body) > maxClipboard {
			return nil, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("the clipboard takes at most %d bytes", maxClipboard)}
		}
	}
	params := c.Params()
	if c.Op == guest.OpLaunch && s.cfg.Env != nil {
		var err error
		if params, err = withEnv(params, s.cfg.Env()); err != nil {
			return nil, err
		}
	}
	if until, ok := c.Deadline(); ok { // the helper has one of its own for who states none
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	res, err := s.Do(ctx, c.Op, params, body)
	if err != nil {
		return nil, err
	}
	if res.Binary == nil || len(c.Streams) != 1 {
		return res.Result, nil
	}
	if err := c.Reply(res.Result); err != nil {
		return nil, err
	}
	_, err = c.Streams[0].Write(res.Binary)
	return nil, err
}

// withEnv adds the default environment to a launch; what the launch sets itself
// wins.
func withEnv(params json.RawMessage, env map[string]string) (json.RawMessage, error) {
	var l guest.Launch
	if err := json.Unmarshal(params, &l); err != nil {
		return nil, &guest.Error{Code: guest.CodeInvalid, Message: "launch: " + err.Error()}
	}
	all := maps.Clone(env)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, l.Env)
	l.Env = all
	return json.Marshal(l)
}
