package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// client connects to the server.
func (a *app) client(opts ...client.Option) (*client.Client, error) {
	opts = append(opts, client.WithUserAgent("vmhost/"+a.Version))
	switch {
	case a.TokenFile != "":
		opts = append(opts, client.WithTokenFile(a.TokenFile))
	case a.Token != "":
		opts = append(opts, client.WithToken(a.Token))
	default:
		opts = append(opts, client.WithTokenFile(a.tokenFile()))
	}
	c, err := client.New(a.Globals.Address, opts...)
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

// tokenFile is where a server of this machine keeps its first token.
func (a *app) tokenFile() string { return strings.TrimSuffix(a.Globals.DataDir, "/") + "/token" }

// desktop connects to a desktop.
func (a *app) desktop(ref string, opts ...client.Option) (*client.Desktop, error) {
	c, err := a.client(opts...)
	if err != nil {
		return nil, err
	}
	return c.Desktop(ref), nil
}

// print writes JSON, or what human writes.
func (a *app) print(v any, human func(w io.Writer)) error {
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

// line writes one line of JSON.
func (a *app) line(v any) error {
	e := json.NewEncoder(a.Out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// say writes a line to standard error.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.Err, format+"\n", args...) }
