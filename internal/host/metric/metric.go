// Package metric counts what the host does, for Prometheus. It has a registry
// of its own; nothing is registered globally. No label ever holds a token, a
// name chosen by a user, or an id.
package metric

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Set is every metric of one host. Safe for concurrent use.
type Set struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	inFlight   prometheus.Gauge
	refused    prometheus.Counter
	stages     *prometheus.HistogramVec
	failures   *prometheus.CounterVec
	execs      *prometheus.CounterVec
	screenshot *prometheus.HistogramVec
}

// New makes a set. states answers how many desktops are in each state when the
// metrics are read; more is what others count.
func New(states func() map[string]int, more ...prometheus.Collector) *Set {
	s := &Set{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deskfork_http_requests_total", Help: "Requests by route pattern and status.",
		}, []string{"route", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "deskfork_http_request_seconds", Help: "Time to the end of the response.",
			Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "deskfork_http_requests_in_flight", Help: "Requests being served.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "deskfork_http_requests_refused_total", Help: "Requests refused because too many were waiting.",
		}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "deskfork_boot_stage_seconds", Help: "Time from the stage before to this one.",
			Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30, 60, 120, 300},
		}, []string{"stage"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deskfork_desktop_failures_total", Help: "Desktops that failed, by stage.",
		}, []string{"stage"}),
		execs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deskfork_execs_total", Help: "Programs started, by kind of call.",
		}, []string{"kind"}),
		screenshot: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "deskfork_screenshot_seconds", Help: "Time to answer a screenshot.",
			Buckets: []float64{.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}, []string{"outcome"}),
	}
	s.registry.MustRegister(s.requests, s.latency, s.inFlight, s.refused, s.stages, s.failures, s.execs, s.screenshot,
		&stateCollector{states: states}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.registry.MustRegister(more...)
	return s
}

// Register adds what others count.
func (s *Set) Register(more prometheus.Collector) error { return s.registry.Register(more) }

// Handler serves the metrics.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Request counts one served request. Route is the pattern, never the path.
func (s *Set) Request(route string, status int, took time.Duration) {
	s.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	s.latency.WithLabelValues(route).Observe(took.Seconds())
}

// InFlight changes the number of requests being served.
func (s *Set) InFlight(delta int) { s.inFlight.Add(float64(delta)) }

// Refused counts a request that found the queue full.
func (s *Set) Refused() { s.refused.Inc() }

// Stage records how long a stage of a start took.
func (s *Set) Stage(stage string, took time.Duration) {
	s.stages.WithLabelValues(stage).Observe(took.Seconds())
}

// Failure counts a desktop that failed.
func (s *Set) Failure(stage string) { s.failures.WithLabelValues(stage).Inc() }

// Exec counts a started program: kind is run or start.
func (s *Set) Exec(kind string) { s.execs.WithLabelValues(kind).Inc() }

// Screenshot records a screenshot: outcome is changed, unchanged or failed.
func (s *Set) Screenshot(outcome string, took time.Duration) {
	s.screenshot.WithLabelValues(outcome).Observe(took.Seconds())
}

// stateCollector counts desktops when asked, so that no counter can drift.
type stateCollector struct{ states func() map[string]int }

func (*stateCollector) desc() *prometheus.Desc {
	return prometheus.NewDesc("deskfork_desktops", "Desktops by state.", []string{"state"}, nil)
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc() }

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	for state, n := range c.states() {
		ch <- prometheus.MustNewConstMetric(c.desc(), prometheus.GaugeValue, float64(n), state)
	}
}

var _ prometheus.Collector = (*stateCollector)(nil)
