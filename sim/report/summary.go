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
	// Start is the first virtual instant, End the last one with an event (or Options.Until, if that cut the simulation
	// short), and SpanSeconds the time in between.
	Start       time.Time `json:"start"`
	End         time.Time `json:"end"`
	SpanSeconds float64   `json:"spanSeconds"`
	// Nodes is the number of nodes that ever joined.
	Nodes int `json:"nodes"`
	// Pods and Gangs count the workload's pods and gangs by their outcomes. Gangs are groups that ask for a minimum.
	Pods  Outcomes `json:"pods"`
	Gangs Outcomes `json:"gangs"`
	// Requeued has the outcomes of the pods that were preempted, lost or evicted.
	Requeued Requeued `json:"requeued"`
	// GPUSecondsLost is the time for which GPUs were held by pods that were preempted, lost or evicted. Lost is the
	// same for each resource with losses, by name, except for memory and storage.
	GPUSecondsLost LostTime   `json:"gpuSecondsLost"`
	Lost           []LostTime `json:"lost,omitempty"`
	// PodWait is the time from the arrival of pods to their bind, for placed pods. GangWait is the time from the
	// instant at which enough members existed to the bind with which enough were on nodes, for placed gangs. Each
	// counts the first time only. PodWaitAgain counts pods that came again, from then on, and GangWaitAgain gangs that
	// had lost their minimum, from then on.
	PodWait       Waits `json:"podWait"`
	GangWait      Waits `json:"gangWait"`
	PodWaitAgain  Waits `json:"podWaitAgain"`
	GangWaitAgain Waits `json:"gangWaitAgain"`
	// Jobs are the groups, and the pods without a group that did not arrive bound. GangJobs are the gangs among them,
	// PodJobs the pods.
	Jobs     JobMeans `json:"jobs"`
	GangJobs JobMeans `json:"gangJobs"`
	PodJobs  JobMeans `json:"podJobs"`
	// StillWaiting are the gangs and pods without a node at the end, for the first time or again. No wait above counts
	// them: a scheduler that never places the difficult ones has shorter waits.
	StillWaiting StillWaiting `json:"stillWaiting"`
	// Quotas are the namespaces in which a ResourceQuota refused pods, by name.
	Quotas []QuotaRefusals `json:"quotas,omitempty"`
	// HeldDrains are the drains of nodes that did not end, in the order in which they began.
	HeldDrains []HeldDrain `json:"heldDrains,omitempty"`
	// Utilisation has every resource that a node offered, by name.
	Utilisation []Utilisation `json:"utilisation"`
	// Decisions, RealSeconds and DecisionsPerSecond are the scheduler's own; see Measured.
	Decisions          uint64  `json:"decisions"`
	RealSeconds        float64 `json:"realSeconds"`
	DecisionsPerSecond float64 `json:"decisionsPerSecond"`
}

// LostTime is the time for which a resource was used without success, by kind of disruption, in seconds of one unit (a
// core, a GPU).
type LostTime struct {
	Resource  string  `json:"resource"`
	Preempted float64 `json:"preempted"`
	Node      float64 `json:"lostWithNodes"`
	Evicted   float64 `json:"evicted"`
}

// add adds the lost use of a resource. unit is the number of units that one of it counts as.
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

// JobMeans are the figures with which schedulers of jobs are compared.
type JobMeans struct {
	// Placed is the number of placed jobs: with their minimum, if they are groups.
	Placed int `json:"placed"`
	// MeanWaitSeconds is the mean of their waits, from the instant at which enough of their pods existed.
	MeanWaitSeconds float64 `json:"meanWaitSeconds"`
	// Finished is the number of them that completed.
	Finished int `json:"finished"`
	// MeanBoundedSlowdown is the mean over the completed ones of (wait + run time) / max(run time, 10 s), at least 1.
	// The run time is the time from the last placement to the end, and the wait is all the time before it.
	MeanBoundedSlowdown float64 `json:"meanBoundedSlowdown"`
}

// StillWaiting are the gangs that had enough members but not their minimum on nodes, and the pods without a group and
// without a node.
type StillWaiting struct {
	Gangs WaitsSoFar `json:"gangs"`
	Pods  WaitsSoFar `json:"pods"`
}

// WaitsSoFar are the waits of Count of them up to the end, in virtual seconds, from the instant at which a wait begins
// to count.
type WaitsSoFar struct {
	Count       int     `json:"count"`
	MeanSeconds float64 `json:"meanSeconds"`
	MaxSeconds  float64 `json:"maxSeconds"`
}

// Add counts one that has waited for this time.
func (w *WaitsSoFar) Add(wait time.Duration) {
	w.MeanSeconds = (w.MeanSeconds*float64(w.Count) + wait.Seconds()) / float64(w.Count+1)
	w.Count++
	w.MaxSeconds = max(w.MaxSeconds, wait.Seconds())
}

// slowdownBound is the run time that shorter jobs count as in the slowdown.
const slowdownBound = 10 * time.Second

// Utilisation is the share of a resource that pods requested. It is the integral over time of the requests of pods on
// nodes, divided by the integral of the nodes' offers. It reaches from the first pod's arrival to the last pod's end
// (or to the summary's End if pods still run).
type Utilisation struct {
	Resource string `json:"resource"`
	// Mean lies between 0 and 1 unless nodes were overcommitted.
	Mean float64 `json:"mean"`
}

// Measured fills in the scheduler's own speed, from the number of decisions and the real time they took.
func (s *Summary) Measured(decisions uint64, elapsed time.Duration) {
	s.Decisions, s.RealSeconds, s.DecisionsPerSecond = decisions, elapsed.Seconds(), 0
	if elapsed > 0 {
		s.DecisionsPerSecond = float64(decisions) / elapsed.Seconds()
	}
}

// WriteText writes the summary for people, aligned. It has the last line only if Measured was called.
func (s Summary) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "virtual time\t%s, until %s\n", seconds(s.SpanSeconds), s.End.Format(time.RFC3339))
	fmt.Fprintf(t, "nodes\t%d\n", s.Nodes)
	fmt.Fprintf(t, "pods\t%s\n", s.Pods)
	fmt.Fprintf(t, "gangs\t%s\n", s.Gangs)
	s.writeDisruptions(t)
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

// writeDisruptions writes the numbers of preempted, lost and evicted pods, of pods that came again, and the cost.
func (s Summary) writeDisruptions(w io.Writer) {
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

// writeJobs writes the means of gangs and of pods without a group separately: a mean of both is misleading.
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
	s.writeQuotas(w)
	s.writeHeldDrains(w)
	if len(slowdowns) > 0 {
		fmt.Fprintf(w, "slowdown\tmean %s, bounded at %s\n", strings.Join(slowdowns, ", "), slowdownBound)
	}
}

// writeQuotas writes a line for each namespace in which a quota refused pods.
func (s Summary) writeQuotas(w io.Writer) {
	for _, q := range s.Quotas {
		fmt.Fprintf(w, "quota\t%s: %s refused at first, %d of them to the end; the first: %s\n", q.Namespace,
			counted(q.Pods, "pod was", "pods were"), q.StillRefused, q.First)
	}
}

// writeHeldDrains writes two lines for each drain that did not end.
func (s Summary) writeHeldDrains(w io.Writer) {
	for _, d := range s.HeldDrains {
		first := d.First
		if d.Pods > 1 {
			first = "the first " + first
		}
		fmt.Fprintf(w, "drain\t%s kept %s, %s\n\t%s\n", d.Node, counted(d.Pods, "pod", "pods"), first, d.Why)
	}
}

// writeStillWaiting writes the waits that are not counted above.
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
