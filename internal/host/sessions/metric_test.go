package sessions_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/api"
)

// gauge reads one of the host's metrics.
func (w *world) gauge(name string) (float64, error) {
	w.t.Helper()
	resp := httptest.NewRecorder()
	w.Host.Metrics().Handler().ServeHTTP(resp, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(resp.Body.String()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("there is no " + name)
}

// TestOrphansAreMeasured: a machine that cannot be ended is counted, with the attempts
// and its age, until it is.
func TestOrphansAreMeasured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start("wait_for on")
	m := w.disk(r)
	m.OnDestroy(func() error { return errors.New("it does not die") })
	w.sign("on")
	if last, _, _, _ := w.ended(r); last.State != api.RunCompleted {
		t.Errorf("ended %+v, %v", last, last.Error)
	}
	for name, least := range map[string]float64{"deskfork_session_orphans": 1, "deskfork_session_orphan_attempts": 1, "deskfork_session_orphan_age_seconds": 0.001} {
		w.until(name+" is told", func() error {
			got, err := w.gauge(name)
			if err == nil && got < least {
				err = fmt.Errorf("it is %v", got)
			}
			return err
		})
	}
	m.OnDestroy(nil)
	w.until("nothing is left to tell", func() error {
		got, err := w.gauge("deskfork_session_orphans")
		if err == nil && got != 0 {
			err = fmt.Errorf("there are %v", got)
		}
		return err
	})
	w.machines(0)
}
