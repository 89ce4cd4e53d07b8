package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Shadow counts the binds of another scheduler beside which this one decides.
type Shadow struct {
	binds   *prometheus.CounterVec
	refused *prometheus.CounterVec
	rank    prometheus.Histogram
	waits   prometheus.Counter
	rating  prometheus.Histogram
}

// NewShadow returns a collector with all verdicts at 0.
func NewShadow() *Shadow {
	s := &Shadow{
		binds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rollcall_shadow_binds_total",
			Help: "Binds of the other scheduler, by how its node compares with the one that Rollcall would have " +
				"chosen on the state just before: Same, Other (feasible, too), Infeasible (a plugin refuses it), " +
				"Unrated.",
		}, []string{"verdict"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rollcall_shadow_infeasible_total",
			Help: "Binds of the other scheduler to nodes that a plugin refuses, by that plugin; NoNode: there was no " +
				"such node.",
		}, []string{"plugin"}),
		rank: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rollcall_shadow_rank", Help: "Rank of the other scheduler's node among the feasible ones.",
			Buckets: []float64{1, 5, 20, 100, 1000},
		}),
		waits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rollcall_shadow_gang_waits_total",
			Help: "Binds of members of gangs with which Rollcall would have waited for the gang.",
		}),
		rating: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "rollcall_shadow_rating_duration_seconds",
			Help:    "Time in which one bind was compared.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
		}),
	}
	for _, v := range []answer.Verdict{answer.Same, answer.Other, answer.Infeasible, answer.Unrated} {
		s.binds.WithLabelValues(string(v))
	}
	return s
}

// Observe counts a bind, which was compared in this time.
func (s *Shadow) Observe(x *answer.Choice, took time.Duration) {
	s.binds.WithLabelValues(string(x.Verdict)).Inc()
	s.rating.Observe(took.Seconds())
	if x.Rank > 0 {
		s.rank.Observe(float64(x.Rank))
	}
	if x.Verdict == answer.Infeasible && len(x.Refusals) > 0 {
		s.refused.WithLabelValues(x.Refusals[0].Plugin).Inc()
	}
	if x.Gang != nil && x.Gang.Waits != "" {
		s.waits.Inc()
	}
}

func (s *Shadow) collectors() []prometheus.Collector {
	return []prometheus.Collector{s.binds, s.refused, s.rank, s.waits, s.rating}
}

// Describe implements prometheus.Collector.
func (s *Shadow) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s.collectors() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (s *Shadow) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s.collectors() {
		c.Collect(ch)
	}
}
