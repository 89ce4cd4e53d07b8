package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Summary is what came of a simulation.
type Summary struct {
	// Start is the first virtual instant, End the last one at which anything happened (or Options.Until, if that
	// cut the simulation short), and SpanSeconds what lies between.
	Start       time.Time `json:"start"`
	End         time.Time `json:"end"`
	SpanSeconds float64   `json:"spanSeconds"`
	// Nodes is how many nodes ever joined.
	Nodes int        `json:"nodes"`
	Pods  PodCounts  `json:"pods"`
	Gangs GangCounts `json:"gangs"`
	// PodWait is how long placed pods waited from arrival to bind, GangWait how long placed gangs waited from the
	// instant at which enough members existed to the bind that made them enough on nodes.
	PodWait  Waits `json:"podWait"`
	GangWait Waits `json:"gangWait"`
	// Jobs are the groups, and the pods of no group that did not arrive bound.
	Jobs JobMeans `json:"jobs"`
	// Utilisation has every resource that a node offered, by name.
	Utilisation []Utilisation `json:"utilisation"`
	// Decisions, RealSeconds and DecisionsPerSecond are the scheduler's own; see Measured.
	Decisions          uint64  `json:"decisions"`
	RealSeconds        float64 `json:"realSeconds"`
	DecisionsPerSecond float64 `json:"decisionsPerSecond"`
}

// PodCounts counts pods. Total = Placed + Pending + those of Failed and Withdrawn that were never placed.
type PodCounts struct {
	// Total is how many arrived.
	Total int `json:"total"`
	// Placed is how many were ever bound, those included that arrived bound.
	Placed int `json:"placed"`
	// Pending is how many stand unbound at the end.
	Pending int `json:"pending"`
	// Running is how many stand bound at the end, Completed how many ran to their planned end.
	Running   int `json:"running"`
	Completed int `json:"completed"`
	// Failed is how many lost their node or were evicted.
	Failed int `json:"failed"`
	// Withdrawn is how many were deleted at their deadline.
	Withdrawn int `json:"withdrawn"`
}

// GangCounts counts gangs: groups that ask for a minimum. Total = Placed + Pending.
type GangCounts struct {
	Total int `json:"total"`
	// Placed is how many had their minimum bound.
	Placed int `json:"placed"`
	// Pending is how many never had.
	Pending int `json:"pending"`
}

// Waits are the quantiles (nearest rank) of Count waits, in virtual seconds.
type Waits struct {
	Count      int     `json:"count"`
	P50Seconds float64 `json:"p50Seconds"`
	P99Seconds float64 `json:"p99Seconds"`
	MaxSeconds float64 `json:"maxSeconds"`
}

// JobMeans are the figures by which schedulers of jobs are compared.
type JobMeans struct {
	// Placed is how many were placed: with their minimum, if they are groups.
	Placed int `json:"placed"`
	// MeanWaitSeconds is how long those waited in the mean, from the instant at which enough of their pods existed.
	MeanWaitSeconds float64 `json:"meanWaitSeconds"`
	// Finished is how many of them ended, with all their pods.
	Finished int `json:"finished"`
	// MeanBoundedSlowdown is the mean over those of (wait + run time) / max(run time, 10 s), at least 1, where the run
	// time is that from placed to finished.
	MeanBoundedSlowdown float64 `json:"meanBoundedSlowdown"`
}

// slowdownBound is the run time below which the slowdown is that of a job of this run time.
const slowdownBound = 10 * time.Second

// Utilisation is the part of a resource that pods requested: the integral over time of what the pods on nodes
// requested, divided by that of what the nodes offered, from the first pod's arrival to the last pod's end (to the
// summary's End if pods still run).
type Utilisation struct {
	Resource string `json:"resource"`
	// Mean lies between 0 and 1 unless nodes were overcommitted.
	Mean float64 `json:"mean"`
}

// Measured fills in the scheduler's own speed: how many decisions it made in how much real time.
func (s *Summary) Measured(decisions uint64, elapsed time.Duration) {
	s.Decisions, s.RealSeconds, s.DecisionsPerSecond = decisions, elapsed.Seconds(), 0
	if elapsed > 0 {
		s.DecisionsPerSecond = float64(decisions) / elapsed.Seconds()
	}
}

// WriteText writes the summary for people, aligned. The last line stands only if Measured was called.
func (s Summary) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "virtual time\t%s, until %s\n", seconds(s.SpanSeconds), s.End.Format(time.RFC3339))
	fmt.Fprintf(t, "nodes\t%d\n", s.Nodes)
	fmt.Fprintf(t, "pods\t%d: %s\n", s.Pods.Total, joinCounts(
		count{s.Pods.Placed, "placed", true}, count{s.Pods.Pending, "pending", true},
		count{s.Pods.Failed, "failed", true},
		count{s.Pods.Withdrawn, "withdrawn", false}, count{s.Pods.Running, "still running", false}))
	fmt.Fprintf(t, "gangs\t%d: %s\n", s.Gangs.Total, joinCounts(
		count{s.Gangs.Placed, "placed", true}, count{s.Gangs.Pending, "pending", true}))
	fmt.Fprintf(t, "pod wait\t%s\n", s.PodWait)
	fmt.Fprintf(t, "gang wait\t%s\n", s.GangWait)
	if s.Jobs.Placed > 0 {
		fmt.Fprintf(t, "job wait\tmean %s of %s\n", seconds(s.Jobs.MeanWaitSeconds), jobs(s.Jobs.Placed))
	}
	if s.Jobs.Finished > 0 {
		fmt.Fprintf(t, "slowdown\tmean %.2f of %s, bounded at %s\n", s.Jobs.MeanBoundedSlowdown, jobs(s.Jobs.Finished),
			slowdownBound)
	}
	for i, u := range s.Utilisation {
		label := ""
		if i == 0 {
			label = "utilisation"
		}
		fmt.Fprintf(t, "%s\t%5.1f%% of %s\n", label, u.Mean*100, u.Resource)
	}
	if s.RealSeconds > 0 {
		fmt.Fprintf(t, "decisions\t%d in %.2fs of real time: %.0f a second\n", s.Decisions, s.RealSeconds,
			s.DecisionsPerSecond)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// String is the waits for people.
func (w Waits) String() string {
	if w.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %s, p99 %s, max %s", seconds(w.P50Seconds), seconds(w.P99Seconds), seconds(w.MaxSeconds))
}

// count is a number with its name; one that is not always shown is left out where it is zero.
type count struct {
	n      int
	name   string
	always bool
}

func joinCounts(counts ...count) string {
	var parts []string
	for _, c := range counts {
		if c.always || c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.name))
		}
	}
	return strings.Join(parts, ", ")
}

// seconds prints a number of seconds as days, hours, minutes and seconds, without the parts that are zero.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second)).Round(time.Millisecond)
	days := d / (24 * time.Hour)
	d -= days * 24 * time.Hour
	rest := d.String()
	if d >= time.Minute && strings.HasSuffix(rest, "m0s") {
		rest = strings.TrimSuffix(rest, "0s")
	}
	if d >= time.Hour && strings.HasSuffix(rest, "h0m") {
		rest = strings.TrimSuffix(rest, "0m")
	}
	switch {
	case days == 0:
		return rest
	case d == 0:
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd%s", days, rest)
}
