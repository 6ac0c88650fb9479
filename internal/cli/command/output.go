package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// Client connects to the server.
func (a *App) Client(opts ...client.Option) (*client.Client, error) {
	opts = append(opts, client.WithUserAgent("vmhost/"+a.Version))
	switch {
	case a.TokenFile != "":
		opts = append(opts, client.WithTokenFile(a.TokenFile))
	case a.Token != "":
		opts = append(opts, client.WithToken(a.Token))
	default:
		opts = append(opts, client.WithTokenFile(a.TokenPath()))
	}
	address, err := a.address()
	if err != nil {
		return nil, err
	}
	c, err := client.New(address, opts...)
	if err != nil {
		p := api.Errorf(api.CodeUnauthorized, "%v", err)
		p.Hint = "a server makes that file at its first start; or set DESKFORK_TOKEN or --token-file"
		if strings.Contains(err.Error(), "parse address") {
			p = api.Errorf(api.CodeInvalid, "%v", err)
		}
		return nil, p
	}
	return c, nil
}

// DefaultAddress is where a server listens unless it is told otherwise.
const DefaultAddress = "http://127.0.0.1:7717"

// AddressName is the file in a data directory that says where its server is
// reached, while that runs: a URL.
const AddressName = "address"

// address is where the server is reached.
func (a *App) address() (string, error) {
	if a.Globals.Address != "" {
		return a.Globals.Address, nil
	}
	name := filepath.Join(a.Globals.DataDir, AddressName)
	raw, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return DefaultAddress, nil
	case err != nil:
		return "", api.Errorf(api.CodePermission, "find the server of the data directory: %v; name it with --address", err)
	}
	return cmp.Or(strings.TrimSpace(string(raw)), DefaultAddress), nil
}

// TokenPath is where a server of this machine keeps its first token.
func (a *App) TokenPath() string { return strings.TrimSuffix(a.Globals.DataDir, "/") + "/token" }

// Desktop connects to a desktop.
func (a *App) Desktop(ref string, opts ...client.Option) (*client.Desktop, error) {
	c, err := a.Client(opts...)
	if err != nil {
		return nil, err
	}
	return c.Desktop(ref), nil
}

// Print writes JSON, or what human writes.
func (a *App) Print(v any, human func(w io.Writer)) error {
	if !a.JSON {
		human(a.Out)
		return nil
	}
	e := json.NewEncoder(a.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// Line writes one line of JSON.
func (a *App) Line(v any) error {
	e := json.NewEncoder(a.Out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// Say writes a line to standard error. It may be called from many goroutines. Errors
// quote what a guest has said, and names of its files: they must not reach the
// terminal as control characters.
func (a *App) Say(format string, args ...any) {
	a.saying.Lock()
	defer a.saying.Unlock()
	fmt.Fprintln(a.Err, show.Text(fmt.Sprintf(format, args...)))
}

// NotParked tells, with what can be done, that a program which should stand ready
// in the boot snapshot of an image does not; an empty reason: it does.
func (a *App) NotParked(reason, image string) {
	if reason != "" {
		a.Say("not parked: what the image keeps ready is not in its boot snapshot (%s); when the host is less busy, make another: vmhost image seal %s --again", reason, image)
	}
}
