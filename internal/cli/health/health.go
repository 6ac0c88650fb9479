// Package health says what a doctor found out.
package health

import (
	"fmt"
	"io"
	"slices"

	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

// Report is what a doctor found out, here and on a server.
type Report struct {
	OK     bool        `json:"ok"`
	Local  []api.Check `json:"local"`                  // found by this command
	Server *api.Doctor `json:"server,omitempty"`       // found by a server that runs
	Away   string      `json:"server_error,omitempty"` // why no server was asked
}

// New makes a report of what was found on this machine.
func New(local []api.Check) *Report {
	if local == nil {
		local = []api.Check{}
	}
	return &Report{OK: sound(local), Local: local}
}

// Add adds what a server found. Its address is taken on this machine by itself, if
// it is on this one.
func (r *Report) Add(server api.Doctor) {
	r.Local = slices.DeleteFunc(r.Local, func(c api.Check) bool { return c.Name == "address" })
	r.OK = sound(r.Local)
	r.Server = &server
	r.OK = r.OK && server.OK
}

// sound says that no check is an error.
func sound(checks []api.Check) bool {
	for _, c := range checks {
		if c.Level == "error" {
			return false
		}
	}
	return true
}

// Write tells the report to people.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintln(w, "This machine:")
	writeChecks(w, r.Local)
	if r.Server == nil {
		fmt.Fprintf(w, "Server: none answers (%s); these are checks of this machine alone.\n", r.Away)
		return
	}
	more := r.besides()
	if len(more) == 0 {
		fmt.Fprintln(w, "The server sees the same.")
		return
	}
	fmt.Fprintln(w, "The server sees besides:")
	writeChecks(w, more)
}

// besides are the checks with which the server says something else than this
// command; details such as free memory differ from one moment to the next.
func (r *Report) besides() []api.Check {
	var more []api.Check
	for _, c := range r.Server.Checks {
		if !slices.ContainsFunc(r.Local, func(l api.Check) bool {
			return l.Name == c.Name && l.Level == c.Level && (c.OK || l.Detail == c.Detail)
		}) || c.Name == "address" {
			more = append(more, c)
		}
	}
	return more
}

func writeChecks(w io.Writer, checks []api.Check) {
	var rows [][]string
	for _, c := range checks {
		level := c.Level
		if level == "" {
			level = "ok"
		}
		rows = append(rows, []string{"  " + level, c.Name, c.Detail})
		if c.Cost != "" {
			rows = append(rows, []string{"", "", "cost: " + c.Cost})
		}
		if c.Fix != "" {
			rows = append(rows, []string{"", "", "mend: " + c.Fix})
		}
	}
	show.Table(w, rows...)
}
