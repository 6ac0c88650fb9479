package server_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/server"
)

// TestOpenMetricsBehindProxy: who opens the metrics to this machine is told that
// a proxy on it may open them to all.
func TestOpenMetricsBehindProxy(t *testing.T) {
	for _, tc := range []struct {
		name       string
		open       bool
		proxies    []netip.Prefix
		wantWarned bool
	}{
		{"neither", false, nil, false},
		{"open", true, nil, false},
		{"proxy", false, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, false},
		{"both", true, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := &logged{seen: make(chan map[string]string, 64)}
			newDoor(t, withLog(log), func(c *server.Config) { c.OpenMetrics, c.TrustedProxies = tc.open, tc.proxies })
			warned := false
			for len(log.seen) > 0 {
				e := <-log.seen
				warned = warned || (e["level"] == "WARN" && strings.Contains(e["fix"], "--open-metrics"))
			}
			if warned != tc.wantWarned {
				t.Errorf("warned: %v", warned)
			}
		})
	}
}
