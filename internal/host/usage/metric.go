package usage

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/meter"
)

// counters is what Prometheus may know: sums alone, no label of anybody's.
type counters struct {
	stats func() meter.Stats

	mu  sync.Mutex
	sum map[billing.Kind]float64 // guarded by mu
}

var _ prometheus.Collector = (*counters)(nil)

func newCounters() *counters { return &counters{sum: map[billing.Kind]float64{}} }

// taken counts a row.
func (c *counters) taken(r billing.Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum[r.Kind] += float64(r.Value)
}

// Collector is the metrics of the book.
func (b *Book) Collector() prometheus.Collector { return b.counts }

func descs() (used, open, waiting, dropped, failed *prometheus.Desc) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("deskfork_usage_"+name, help, labels, nil)
	}
	return desc("units_total", "Use in rows made since the start, in the unit that the kind's name says.", "kind"),
		desc("open", "Incarnations and sessions that are being counted."),
		desc("rows_waiting", "Rows that the ledger has not taken yet."),
		desc("rows_dropped_total", "Rows given up because the ledger has failed for too long: use that nobody pays."),
		desc("write_failures_total", "Writes that the ledger has failed; they are tried again.")
}

// Describe implements prometheus.Collector.
func (c *counters) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *counters) Collect(ch chan<- prometheus.Metric) {
	used, open, waiting, dropped, failed := descs()
	c.mu.Lock()
	sum := maps.Clone(c.sum)
	c.mu.Unlock()
	for _, k := range billing.Kinds() {
		ch <- prometheus.MustNewConstMetric(used, prometheus.CounterValue, sum[k], string(k))
	}
	st := c.stats()
	ch <- prometheus.MustNewConstMetric(open, prometheus.GaugeValue, float64(st.Open))
	ch <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(st.Waiting))
	ch <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(st.Dropped))
	ch <- prometheus.MustNewConstMetric(failed, prometheus.CounterValue, float64(st.Failed))
}
