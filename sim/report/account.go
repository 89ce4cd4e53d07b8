package report

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Ending is how a pod went away.
type Ending uint8

const (
	// Completed: it ran to its planned end.
	Completed Ending = iota
	// Failed: it lost its node or was evicted.
	Failed
	// Withdrawn: it was deleted at its deadline.
	Withdrawn
)

// Account is what a simulation counts on its way: pods, gangs, jobs, and what nodes offer and pods request over time.
// The zero value is not ready; see NewAccount.
type Account struct {
	nodes, gangs           int
	arrived, placed, ended int
	pending, running       int
	endings                [3]int
	podWaits, gangWaits    []time.Duration
	gangsWaiting           int // have members that wait for their minimum to be placed
	jobs                   jobSums
	usage                  usage
	// atLastEnd and atLastMove are the integrals when the last pod went and when anything last happened.
	atLastEnd, atLastMove []resourceUsage
}

// jobSums add up what JobMeans are of.
type jobSums struct {
	placed, finished int
	wait, slowdown   float64
}

func (j *jobSums) place(wait time.Duration) {
	j.placed++
	j.wait += wait.Seconds()
}

// finish counts a job that was placed and has ended.
func (j *jobSums) finish(wait, run time.Duration) {
	j.finished++
	j.slowdown += max(1, (wait+run).Seconds()/max(run, slowdownBound).Seconds())
}

func (j *jobSums) means() JobMeans {
	m := JobMeans{Placed: j.placed, Finished: j.finished}
	if j.placed > 0 {
		m.MeanWaitSeconds = j.wait / float64(j.placed)
	}
	if j.finished > 0 {
		m.MeanBoundedSlowdown = j.slowdown / float64(j.finished)
	}
	return m
}

// NewAccount returns an empty account.
func NewAccount() Account { return Account{usage: newUsage()} }

// Pass lets time pass; before the first pod's arrival it does not count.
func (s *Account) Pass(d time.Duration) {
	if s.arrived > 0 {
		s.usage.pass(d)
	}
}

// Moved notes that something happened now.
func (s *Account) Moved() { s.atLastMove = s.usage.totals(s.atLastMove) }

// Arrived counts a pod that arrives, unbound.
func (s *Account) Arrived() { s.arrived++; s.pending++ }

// Started counts a pod that is bound.
func (s *Account) Started(template *corev1.Pod, wait time.Duration) {
	s.pending--
	s.running++
	s.placed++
	if template.Spec.NodeName == "" {
		s.podWaits = append(s.podWaits, wait)
	}
	s.usage.use(template, +1)
}

// Stopped takes a bound pod's requests away.
func (s *Account) Stopped(template *corev1.Pod) { s.running--; s.usage.use(template, -1) }

// Left counts off an unbound pod.
func (s *Account) Left() { s.pending-- }

// Ended counts a pod's end, after Stopped or Left.
func (s *Account) Ended(how Ending) {
	s.ended++
	s.endings[how]++
	s.atLastEnd = s.usage.totals(s.atLastEnd)
}

// GangPlaced counts a gang that got its minimum.
func (s *Account) GangPlaced(wait time.Duration) { s.gangWaits = append(s.gangWaits, wait) }

// Progress returns how many pods have arrived, were ever bound, and are gone.
func (s *Account) Progress() (arrived, bound, ended int) { return s.arrived, s.placed, s.ended }

// NodeJoined counts a node that joins.
func (s *Account) NodeJoined(node *corev1.Node) {
	s.nodes++
	s.Offer(node, +1)
}

// Offer adds (+1) or takes away (-1) what a node offers.
func (s *Account) Offer(node *corev1.Node, sign int64) { s.usage.offer(node, sign) }

// GangCame counts a group that turns out to be a gang.
func (s *Account) GangCame() { s.gangs++ }

// GangWaits counts a gang that has begun (+1), or ceased (-1), to have members that wait for its minimum to be placed.
func (s *Account) GangWaits(sign int) { s.gangsWaiting += sign }

// JobPlaced counts a job that was placed.
func (s *Account) JobPlaced(wait time.Duration) { s.jobs.place(wait) }

// JobFinished counts a job that was placed and has ended.
func (s *Account) JobFinished(wait, run time.Duration) { s.jobs.finish(wait, run) }

// Summary sums up a simulation from start, in which the last thing happened after span. It has everything but the
// scheduler's own speed; see Summary.Measured.
func (s *Account) Summary(start time.Time, span time.Duration) Summary {
	sum := Summary{
		Start: start, End: start.Add(span), SpanSeconds: span.Seconds(), Nodes: s.nodes,
		Pods: PodCounts{
			Total: s.arrived, Placed: s.placed, Pending: s.pending, Running: s.running,
			Completed: s.endings[Completed], Failed: s.endings[Failed], Withdrawn: s.endings[Withdrawn],
		},
		Gangs:    GangCounts{Total: s.gangs, Placed: len(s.gangWaits), Pending: s.gangs - len(s.gangWaits)},
		PodWait:  waitsOf(s.podWaits),
		GangWait: waitsOf(s.gangWaits),
		Jobs:     s.jobs.means(),
	}
	totals := s.atLastEnd
	if s.running > 0 {
		totals = s.atLastMove
	}
	for _, r := range totals {
		if r.offeredTotal > 0 {
			sum.Utilisation = append(sum.Utilisation, Utilisation{string(r.name), r.usedTotal / r.offeredTotal})
		}
	}
	slices.SortFunc(sum.Utilisation, func(a, b Utilisation) int { return strings.Compare(a.Resource, b.Resource) })
	return sum
}

// waitsOf returns the quantiles of waits, which it sorts.
func waitsOf(waits []time.Duration) Waits {
	if len(waits) == 0 {
		return Waits{}
	}
	slices.Sort(waits)
	rank := func(percent int) float64 { return waits[(len(waits)*percent+99)/100-1].Seconds() }
	return Waits{Count: len(waits), P50Seconds: rank(50), P99Seconds: rank(99), MaxSeconds: rank(100)}
}
