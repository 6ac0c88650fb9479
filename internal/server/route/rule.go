package route

import (
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
)

// class says how a route is limited.
type class int

const (
	short class = iota // an answer within a moment
	long               // a stream, a wait or a program
	free               // never limited: health, so that it tells the truth
)

// Body limits in bytes.
const (
	maxJSON = 1 << 20
	// Unlimited bodies may take as long as they take, too.
	Unlimited = 0
)

// Rule is how a route is guarded.
type Rule struct {
	scope  string // empty: open to everybody
	class  class
	body   int64 // limit; Unlimited: none
	nested bool  // see Nested

	role ticket.Role // that admits too; empty: no ticket does
	wide bool        // a project's tickets alone do
}

// Rules of short calls whose body is JSON.
var (
	Read  = Rule{scope: token.ScopeRead, body: maxJSON}
	Write = Rule{scope: token.ScopeWrite, body: maxJSON}
	Admin = Rule{scope: token.ScopeAdmin, body: maxJSON}
	// Billing is for who bills use, Cost for who may see what some of it costs.
	Billing = Rule{scope: token.ScopeBilling, body: maxJSON}
	Cost    = Rule{scope: token.ScopeCost, body: maxJSON}
	// Open asks for no token, and is never limited.
	Open = Rule{class: free, body: maxJSON}
	// Ticketed asks for no token either: the handler checks a ticket.
	Ticketed = Rule{class: long, body: Unlimited}
)

// Long is the rule of a stream, a wait or a program.
func (g Rule) Long() Rule { g.class = long; return g }

// For lets a ticket of the desktop or of its project in that has a role, besides a
// token.
func (g Rule) For(role ticket.Role) Rule { g.role = role; return g }

// ForProject is For without the tickets of one desktop.
func (g Rule) ForProject(role ticket.Role) Rule { g.role, g.wide = role, true; return g }

// Size is the rule with a limit of the body in bytes.
func (g Rule) Size(limit int64) Rule { g.body = limit; return g }

// Nested is the rule of routes for drivers of managed runtimes, which find an
// error's code and message under its member "error" too.
func (g Rule) Nested() Rule { g.nested = true; return g }
