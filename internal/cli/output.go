package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

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

// table writes aligned columns.
func table(w io.Writer, rows ...[]string) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, r := range rows {
		for i, cell := range r {
			// A cell of a guest's making must not reach the terminal as control
			// characters, nor move columns.
			r[i] = plain(cell)
		}
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	_ = t.Flush() // errors of a terminal have nowhere to go
}

// plain replaces control characters.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) {
			return '·'
		}
		return r
	}, s)
}

// ago says how long ago t was.
func (a *app) ago(t time.Time) string {
	d := a.Now().Sub(t)
	switch {
	case t.IsZero():
		return "-"
	case d < time.Minute:
		return strconv.Itoa(max(int(d.Seconds()), 0)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	default:
		return strconv.Itoa(int(d.Hours()/24)) + " d"
	}
}

// bytes says a size in powers of 1,024.
func bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
