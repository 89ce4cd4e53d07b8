package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Summary is the outcome of a simulation.
type Summary struct {
	// Start is the first virtual instant, End the last one at which anything happened (or Options.Until, if that
	// cut the simulation short), and SpanSeconds what lies between.
	Start       time.Time `json:"start"`
	End         time.Time `json:"end"`
	SpanSeconds float64   `json:"spanSeconds"`
	// Nodes is how many nodes ever joined.
	Nodes int `json:"nodes"`
	// Pods and Gangs count those of the workload by what became of them. Gangs are groups that ask for a minimum.
	Pods  Outcomes `json:"pods"`
	Gangs Outcomes `json:"gangs"`
	// Requeued says what became of those that were preempted, lost or evicted.
	Requeued Requeued `json:"requeued"`
	// GPUSecondsLost is the time that GPUs were held by pods that were preempted, lost or evicted; Lost is the same
	// for each resource of which something was lost, by name, except for memory and storage.
	GPUSecondsLost LostTime   `json:"gpuSecondsLost"`
	Lost           []LostTime `json:"lost,omitempty"`
	// PodWait is the time that placed pods waited from arrival to bind, GangWait how long placed gangs waited from the
	// instant at which enough members existed to the bind that made them enough on nodes: for the first time each.
	// PodWaitAgain and GangWaitAgain are those of pods that came again, from then on, and of gangs that had lost their
	// minimum, from then on.
	PodWait       Waits `json:"podWait"`
	GangWait      Waits `json:"gangWait"`
	PodWaitAgain  Waits `json:"podWaitAgain"`
	GangWaitAgain Waits `json:"gangWaitAgain"`
	// Jobs are the groups, and the pods of no group that did not arrive bound; GangJobs those that are gangs, PodJobs
	// those that are such pods.
	Jobs     JobMeans `json:"jobs"`
	GangJobs JobMeans `json:"gangJobs"`
	PodJobs  JobMeans `json:"podJobs"`
	// StillWaiting are those that had no node at the end, for the first time or again. No wait above counts them, so
	// that a scheduler which never places what is hard to place has the shorter ones.
	StillWaiting StillWaiting `json:"stillWaiting"`
	// Utilisation has every resource that a node offered, by name.
	Utilisation []Utilisation `json:"utilisation"`
	// Decisions, RealSeconds and DecisionsPerSecond are the scheduler's own; see Measured.
	Decisions          uint64  `json:"decisions"`
	RealSeconds        float64 `json:"realSeconds"`
	DecisionsPerSecond float64 `json:"decisionsPerSecond"`
}

// LostTime is what was used without success of a resource, by how the pods went, in seconds of one unit (a core, a
// GPU).
type LostTime struct {
	Resource  string  `json:"resource"`
	Preempted float64 `json:"preempted"`
	Node      float64 `json:"lostWithNodes"`
	Evicted   float64 `json:"evicted"`
}

// add adds what pods had used of a resource, each unit of which counts so much.
func (l *LostTime) add(r *resourceUsage, unit float64) {
	l.Preempted += r.lost[Preempted] * unit
	l.Node += r.lost[Lost] * unit
	l.Evicted += r.lost[Evicted] * unit
}

// Total is the sum.
func (l LostTime) Total() float64 { return l.Preempted + l.Node + l.Evicted }

// String is the loss for people.
func (l LostTime) String() string {
	var parts []string
	for _, p := range []struct {
		seconds float64
		how     string
	}{{l.Preempted, "to preemption"}, {l.Node, "with nodes"}, {l.Evicted, "with gangs below their minimum"}} {
		if p.seconds > 0 {
			parts = append(parts, seconds(p.seconds)+" "+p.how)
		}
	}
	return fmt.Sprintf("%s of one %s: %s", seconds(l.Total()), l.Resource, strings.Join(parts, ", "))
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
	// MeanWaitSeconds is the time that those waited in the mean, from the instant at which enough of their pods
	// existed.
	MeanWaitSeconds float64 `json:"meanWaitSeconds"`
	// Finished is how many of them completed.
	Finished int `json:"finished"`
	// MeanBoundedSlowdown is the mean over those of (wait + run time) / max(run time, 10 s), at least 1, where the run
	// time is that from placed, the last time, to finished, and the wait is all the time before it.
	MeanBoundedSlowdown float64 `json:"meanBoundedSlowdown"`
}

// StillWaiting are the gangs that had enough members and not their minimum on nodes, and the pods of no group without a
// node.
type StillWaiting struct {
	Gangs WaitsSoFar `json:"gangs"`
	Pods  WaitsSoFar `json:"pods"`
}

// WaitsSoFar are how long Count of them had waited at the end, in virtual seconds: since the instant from which a wait
// counts.
type WaitsSoFar struct {
	Count       int     `json:"count"`
	MeanSeconds float64 `json:"meanSeconds"`
	MaxSeconds  float64 `json:"maxSeconds"`
}

// Add counts one that has waited for so long.
func (w *WaitsSoFar) Add(wait time.Duration) {
	w.MeanSeconds = (w.MeanSeconds*float64(w.Count) + wait.Seconds()) / float64(w.Count+1)
	w.Count++
	w.MaxSeconds = max(w.MaxSeconds, wait.Seconds())
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
	fmt.Fprintf(t, "pods\t%s\n", s.Pods)
	fmt.Fprintf(t, "gangs\t%s\n", s.Gangs)
	s.writeSetbacks(t)
	fmt.Fprintf(t, "pod wait\t%s\n", s.PodWait)
	fmt.Fprintf(t, "gang wait\t%s\n", s.GangWait)
	for _, again := range []struct {
		label string
		Waits
	}{{"pods again", s.PodWaitAgain}, {"gangs again", s.GangWaitAgain}} {
		if again.Count > 0 {
			fmt.Fprintf(t, "%s\t%s\n", again.label, again.Waits)
		}
	}
	s.writeJobs(t)
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

// writeSetbacks says what was preempted, lost or evicted, what came again, and what it cost.
func (s Summary) writeSetbacks(w io.Writer) {
	phrases := append(s.Requeued.Gangs.phrases("gang", "gangs"), s.Requeued.Pods.phrases("pod", "pods")...)
	if len(phrases) > 0 {
		fmt.Fprintf(w, "requeue\t%s: %s\n", s.Requeued.Policy, strings.Join(phrases, "; "))
	}
	lost := s.Lost
	if s.GPUSecondsLost.Total() > 0 {
		lost = []LostTime{s.GPUSecondsLost}
	}
	for i, l := range lost {
		label := ""
		if i == 0 {
			label = "time lost"
		}
		fmt.Fprintf(w, "%s\t%s\n", label, l)
	}
}

// writeJobs writes the means of gangs and of pods of no group, apart: a mean of both says nothing of either.
func (s Summary) writeJobs(w io.Writer) {
	var waits, slowdowns []string
	for _, j := range []struct {
		one, several string
		JobMeans
	}{{"gang", "gangs", s.GangJobs}, {"pod of no group", "pods of no group", s.PodJobs}} {
		if j.Placed > 0 {
			waits = append(waits,
				fmt.Sprintf("%s of %s", seconds(j.MeanWaitSeconds), counted(j.Placed, j.one, j.several)))
		}
		if j.Finished > 0 {
			slowdowns = append(slowdowns,
				fmt.Sprintf("%.2f of %s", j.MeanBoundedSlowdown, counted(j.Finished, j.one, j.several)))
		}
	}
	if len(waits) > 0 {
		fmt.Fprintf(w, "mean wait\t%s\n", strings.Join(waits, ", "))
	}
	s.writeStillWaiting(w)
	if len(slowdowns) > 0 {
		fmt.Fprintf(w, "slowdown\tmean %s, bounded at %s\n", strings.Join(slowdowns, ", "), slowdownBound)
	}
}

// writeStillWaiting says what the waits do not count.
func (s Summary) writeStillWaiting(w io.Writer) {
	var parts []string
	for _, rest := range []struct {
		one, several string
		WaitsSoFar
	}{{"gang", "gangs", s.StillWaiting.Gangs}, {"pod of no group", "pods of no group", s.StillWaiting.Pods}} {
		text := fmt.Sprintf("%s for %s", counted(rest.Count, rest.one, rest.several), seconds(rest.MeanSeconds))
		if rest.Count > 1 {
			text += fmt.Sprintf(" in the mean, %s at the most", seconds(rest.MaxSeconds))
		}
		if rest.Count > 0 {
			parts = append(parts, text)
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "wait so far\t%s; the waits above are without them\n", strings.Join(parts, ", "))
	}
}

// String is the waits for people.
func (w Waits) String() string {
	if w.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %s, p99 %s, max %s", seconds(w.P50Seconds), seconds(w.P99Seconds), seconds(w.MaxSeconds))
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
