package sessions

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/deskfork/deskfork/pkg/session"
)

// backlog is the state of the queue of orphans when it was last looked at.
type backlog struct {
	mu   sync.Mutex
	last session.Backlog
}

var _ prometheus.Collector = (*backlog)(nil)

func (b *backlog) set(now session.Backlog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = now
}

func (*backlog) descs() (orphans, attempts, oldest *prometheus.Desc) {
	return prometheus.NewDesc("deskfork_session_orphans", "Machines of sessions that could not be ended yet.", nil, nil),
		prometheus.NewDesc("deskfork_session_orphan_attempts", "The highest count of failed attempts to end one of them.", nil, nil),
		prometheus.NewDesc("deskfork_session_orphan_age_seconds", "Age of the oldest of them; alert above 900.", nil, nil)
}

// Describe implements prometheus.Collector.
func (b *backlog) Describe(ch chan<- *prometheus.Desc) {
	orphans, attempts, oldest := b.descs()
	ch <- orphans
	ch <- attempts
	ch <- oldest
}

// Collect implements prometheus.Collector.
func (b *backlog) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	now := b.last
	b.mu.Unlock()
	orphans, attempts, oldest := b.descs()
	ch <- prometheus.MustNewConstMetric(orphans, prometheus.GaugeValue, float64(now.Total))
	ch <- prometheus.MustNewConstMetric(attempts, prometheus.GaugeValue, float64(now.MaxAttempts))
	ch <- prometheus.MustNewConstMetric(oldest, prometheus.GaugeValue, now.Oldest.Seconds())
}
