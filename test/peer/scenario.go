package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rollcall-sched/rollcall/bench/throughput"
	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/bench/yardstick"
)

// scenario is a workload that all contestants are given.
type scenario struct {
	// Key names it on the command line, Name for people.
	Key, Name string
	workload.Spec
}

// preemptLimit is the time that preemption may take even if --limit is shorter: all gangs evict before the first is
// placed.
const preemptLimit = 130 * time.Second

// limit is the time at which a run of the scenario is stopped.
func (s scenario) limit(asked time.Duration) time.Duration {
	if s.Preempt && asked != 0 { // 0: never
		return max(asked, preemptLimit)
	}
	return asked
}

// scenarios are all there are.
var scenarios = []scenario{
	{"shape", "one shape", workload.Spec{Nodes: 5000, Pods: 10000, Shapes: 1}},
	{"shapes20", "20 shapes", workload.Spec{Nodes: 5000, Pods: 10000, Shapes: 20}},
	{"gangs", "gangs of 512", workload.Spec{Nodes: 5000, Pods: 10000, Shapes: 1, Gang: 512}},
	{"nodes15000", "15,000 nodes", workload.Spec{Nodes: 15000, Pods: 10000, Shapes: 1}},
	{"shapes200", "200 shapes, 15,000 nodes", workload.Spec{Nodes: 15000, Pods: 10000, Shapes: 200}},
	{"different", "all different", workload.Spec{Nodes: 5000, Pods: 10000, Shapes: 10000}},
	{"nodes50000", "50,000 nodes, 100 shapes, gangs of 8 to 1,024",
		workload.Spec{Nodes: 50000, Pods: 200000, Shapes: 100, Gang: 8, GangMost: 1024}},
	{"dra16", "100 nodes, a device each, gangs of 16",
		workload.Spec{Nodes: 100, Pods: 10000, Shapes: 1, Gang: 16, DRA: true}},
	{"dra64", "100 nodes, a device each, gangs of 64",
		workload.Spec{Nodes: 100, Pods: 10000, Shapes: 1, Gang: 64, DRA: true}},
	{"spread", "zone spread", workload.Spec{Nodes: 5000, Pods: 10000, Shapes: 1, Spread: true}},
	{"affinity", "anti-affinity and preferred affinity",
		workload.Spec{Nodes: 5000, Pods: 5000, Shapes: 1, Affinity: true}},
	{"soft-spread", "soft spread", workload.Spec{Nodes: 5000, Pods: 5000, Shapes: 1, SoftSpread: true}},
	{"zone-affinity", "affinity to another app by zone",
		workload.Spec{Nodes: 5000, Pods: 5000, Shapes: 1, ZoneAffinity: true}},
	{"namespace-affinity", "affinity, namespaces by selector",
		workload.Spec{Nodes: 5000, Pods: 5000, Shapes: 1, NamespaceAffinity: true}},
	{"preempt", "1,000 gangs of 8 preempt", workload.Spec{Nodes: 5000, Pods: 8000, Shapes: 1, Gang: 8, Preempt: true}},
}

// contestant is a scheduler with a setting.
type contestant struct {
	Name       string
	kube       bool
	percentage int32
}

// The contestants, in the order in which they take turns. The last one is measured with --against only.
var contestants = []contestant{
	{"kube-scheduler, its sample", true, 0},
	{"kube-scheduler, all nodes", true, 100},
	{"Rollcall, all nodes", false, 0},
	{"Rollcall, the other program", false, 0},
}

// The contestants, by their treatment in the table.
const (
	sampled = iota
	allNodes
	rollcall
	against
)

// outcome is the outcome of one scenario: the results of the rounds, by contestant.
type outcome struct {
	Scenario string                  `json:"scenario"`
	Results  [4][]*throughput.Result `json:"results"`
	name     string
}

// of returns the median over the rounds of one contestant's value.
func (o outcome) of(who int, value func(*throughput.Result) float64) float64 {
	return throughput.Median(values(o.Results[who], value))
}

// ratio is Rollcall's value divided by the other's, in the same round: the median, and the bounds.
func (o outcome) ratio(other int, value func(*throughput.Result) float64) (middle, lowest, highest float64) {
	return throughput.Ratio(values(o.Results[rollcall], value), values(o.Results[other], value))
}

func values(results []*throughput.Result, value func(*throughput.Result) float64) (out []float64) {
	for _, r := range results {
		out = append(out, value(r))
	}
	return out
}

// reached is the number of pods that all contestants placed in all rounds, in steps of yardstick.Step, and the scores
// of the placements of that many. A contestant that placed fewer than one step is left out: its score is 0.
func (o outcome) reached() (pods int, scores [4]float64) {
	least := math.MaxInt
	for _, results := range o.Results {
		for _, r := range results {
			if n := len(r.RunningScores); n > 0 {
				least = min(least, n)
			}
		}
	}
	if least == math.MaxInt {
		return 0, scores
	}
	for who := range o.Results {
		scores[who] = o.of(who, func(r *throughput.Result) float64 {
			if len(r.RunningScores) < least {
				return 0
			}
			return r.RunningScores[least-1]
		})
	}
	return least * yardstick.Step, scores
}

// cut says whether the contestant was stopped before all pods were placed, in any round.
func (o outcome) cut(who int) bool {
	return slices.ContainsFunc(o.Results[who], func(r *throughput.Result) bool { return !r.Complete })
}

// measured says whether the contestant ran at all.
func (o outcome) measured(who int) bool { return len(o.Results[who]) > 0 }

// show formats the median over the rounds of one contestant's value, or says that it was not measured.
func (o outcome) show(who int, format string, value func(*throughput.Result) float64) string {
	if !o.measured(who) {
		return "–"
	}
	return fmt.Sprintf(format, o.of(who, value))
}

// medians says about how many rounds something is.
func medians(rounds int) string {
	if rounds == 1 {
		return "one round"
	}
	return fmt.Sprintf("medians of %d rounds", rounds)
}

func podsPerSecond(r *throughput.Result) float64 { return r.PodsPerSecond }
func peakMiB(r *throughput.Result) float64       { return float64(r.PeakRSS) / (1 << 20) }
func evictedPerCPU(r *throughput.Result) float64 { return float64(r.Evicted) / cmp.Or(r.CPUSeconds, 1) }
func podsPerCPU(r *throughput.Result) float64    { return float64(r.Placed) / cmp.Or(r.CPUSeconds, 1) }
func twiceGiven(r *throughput.Result) float64    { return float64(r.DevicesTwice) }
