package usage

import (
	"strings"

	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/meter"
)

// sessionPrefix tells sessions from machines in the ledger.
const sessionPrefix = "session/"

// Sessions counts the time that sessions are alive.
type Sessions struct{ b *Book }

// Sessions counts the time that sessions are alive.
func (b *Book) Sessions() Sessions { return Sessions{b} }

// Opened begins to count a session, or goes on with it after a restart. name is
// never used for another session.
func (s Sessions) Opened(name string, owner billing.Owner) {
	inc := sessionPrefix + name
	s.b.meter.Record(
		meter.Fact{Incarnation: inc, Type: meter.Start, Subject: meter.Subject{Owner: owner, Session: true}},
		meter.Fact{Incarnation: inc, Type: meter.Adopt},
	)
}

// Alive is a proof of life of a session.
func (s Sessions) Alive(name string) {
	s.b.meter.Record(meter.Fact{Incarnation: sessionPrefix + name, Type: meter.Alive})
}

// Closed ends a session; lost says that nobody knows when it ended.
func (s Sessions) Closed(name string, lost bool) {
	typ := meter.Stop
	if lost {
		typ = meter.Lost
	}
	s.b.meter.Record(meter.Fact{Incarnation: sessionPrefix + name, Type: typ})
}

// Names are those that are being counted: after a start those of an earlier run of
// the host.
func (s Sessions) Names() []string {
	var names []string
	for _, inc := range s.b.meter.Open() {
		if name, ok := strings.CutPrefix(inc, sessionPrefix); ok {
			names = append(names, name)
		}
	}
	return names
}
