package sessiontest_test

import (
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	sessiontest.Run(t, func(*testing.T) sessiontest.Fixture {
		m := sessiontest.NewMemory()
		return sessiontest.Fixture{
			Open:    func(*testing.T) session.Stores { return m.Stores() },
			Advance: func(_ *testing.T, d time.Duration) { m.Advance(d) },
			Dump:    func(*testing.T) string { return m.Dump() },
		}
	})
}
