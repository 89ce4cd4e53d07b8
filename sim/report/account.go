package report

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Account has the running counts of a simulation: pods, gangs, jobs, and the resources that nodes offer and pods
// request over time. The zero value is not ready; see NewAccount.
type Account struct {
	nodes                  int
	arrived, placed, ended int // of the workload's pods, each once
	pending, running       int
	disruptions            [outcomes]int // pods with this outcome, each time
	podWaits, gangWaits    []time.Duration
	podAgain, gangAgain    []time.Duration // waits of pods and gangs that came again
	gangsWaiting           int             // have members that wait for their minimum to be placed
	gangJobs, podJobs      jobSums         // of gangs, and of pods of no group
	groupJobs              jobSums         // of groups without a minimum
	usage                  usage
	// atLastEnd and atLastMove are the integrals at the end of the last pod and at the last event.
	atLastEnd, atLastMove []resourceUsage
}

// jobSums are the sums behind JobMeans.
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

// with returns the sums of both.
func (j jobSums) with(other jobSums) jobSums {
	return jobSums{
		j.placed + other.placed, j.finished + other.finished, j.wait + other.wait, j.slowdown + other.slowdown,
	}
}

func (j jobSums) means() JobMeans {
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

// Moved notes that an event happened now.
func (s *Account) Moved() { s.atLastMove = s.usage.totals(s.atLastMove) }

// Arrived counts a pod that arrives, unbound, for the first time or again.
func (s *Account) Arrived(again bool) {
	s.pending++
	if !again {
		s.arrived++
	}
}

// Start describes how a pod was bound.
type Start struct {
	// Template is the pod, except for its identity.
	Template *corev1.Pod
	// Wait is the time since its arrival; Bound says that it arrived with its node and waited for none.
	Wait  time.Duration
	Bound bool
	// Placed says that it had been bound before, Again that it came again.
	Placed, Again bool
}

// Started counts a pod that is bound.
func (s *Account) Started(how Start) {
	s.pending--
	s.running++
	if !how.Placed {
		s.placed++
	}
	switch {
	case how.Again:
		s.podAgain = append(s.podAgain, how.Wait)
	case !how.Bound:
		s.podWaits = append(s.podWaits, how.Wait)
	}
	s.usage.use(how.Template, +1)
}

// Stopped subtracts a bound pod's requests.
func (s *Account) Stopped(template *corev1.Pod) { s.running--; s.usage.use(template, -1) }

// Resized counts other requests of a bound pod.
func (s *Account) Resized(before, now *corev1.Pod) { s.usage.use(before, -1); s.usage.use(now, +1) }

// Left subtracts an unbound pod.
func (s *Account) Left() { s.pending-- }

// Gone notes the end of a pod, after Stopped or Left, and whether it will come again.
func (s *Account) Gone(comesAgain bool) {
	if !comesAgain {
		s.ended++
	}
	s.atLastEnd = s.usage.totals(s.atLastEnd)
}

// Disrupted counts a pod that is preempted, lost or evicted after a run of that length, and returns its GPU-seconds.
func (s *Account) Disrupted(how Outcome, template *corev1.Pod, ran time.Duration) (gpuSeconds float64) {
	s.disruptions[how]++
	return s.usage.lose(how, template, ran)
}

// GangPlaced counts a gang that got its minimum for the first time, or again.
func (s *Account) GangPlaced(wait time.Duration, again bool) {
	if again {
		s.gangAgain = append(s.gangAgain, wait)
	} else {
		s.gangWaits = append(s.gangWaits, wait)
	}
}

// Progress returns the numbers of the workload's pods that have arrived, were ever bound, and have ended permanently.
func (s *Account) Progress() (arrived, bound, ended int) { return s.arrived, s.placed, s.ended }

// NodeJoined counts a node that joins.
func (s *Account) NodeJoined(node *corev1.Node) {
	s.nodes++
	s.Offer(node, +1)
}

// Offer adds (+1) or subtracts (-1) a node's resources.
func (s *Account) Offer(node *corev1.Node, sign int64) { s.usage.offer(node, sign) }

// GangWaits counts a gang that has begun (+1), or ceased (-1), to have members that wait for its minimum to be placed.
func (s *Account) GangWaits(sign int) { s.gangsWaiting += sign }

// Job is a kind of job.
type Job uint8

const (
	// SinglePod: a pod of no group.
	SinglePod Job = iota
	// Gang: a group that asks for a minimum.
	Gang
	// Group: a group without a minimum.
	Group
)

func (s *Account) jobs(kind Job) *jobSums {
	return [...]*jobSums{SinglePod: &s.podJobs, Gang: &s.gangJobs, Group: &s.groupJobs}[kind]
}

// JobPlaced counts a job that was placed for the first time.
func (s *Account) JobPlaced(kind Job, wait time.Duration) { s.jobs(kind).place(wait) }

// JobCompleted counts a job that has completed: the length of its last run, and the rest of the time since it was
// complete.
func (s *Account) JobCompleted(kind Job, wait, run time.Duration) { s.jobs(kind).finish(wait, run) }

// Results are the outcomes of the workload. Account.Summary fills in Placed.
type Results struct {
	Pods, Gangs Outcomes
	Requeued    Requeued
	Waiting     StillWaiting
	Quotas      []QuotaRefusals
	HeldDrains  []HeldDrain
}

// Summary sums up a simulation from start, with the last event after span. It has everything but the scheduler's own
// speed; see Summary.Measured.
func (s *Account) Summary(start time.Time, span time.Duration, results Results) Summary {
	sum := Summary{
		Start: start, End: start.Add(span), SpanSeconds: span.Seconds(), Nodes: s.nodes,
		Pods: results.Pods, Gangs: results.Gangs, Requeued: results.Requeued,
		PodWait: waitsOf(s.podWaits), GangWait: waitsOf(s.gangWaits),
		PodWaitAgain: waitsOf(s.podAgain), GangWaitAgain: waitsOf(s.gangAgain),
		Jobs:     s.gangJobs.with(s.podJobs).with(s.groupJobs).means(),
		GangJobs: s.gangJobs.means(), PodJobs: s.podJobs.means(), StillWaiting: results.Waiting,
		Quotas: results.Quotas, HeldDrains: results.HeldDrains,
	}
	sum.Pods.Placed, sum.Gangs.Placed = s.placed, len(s.gangWaits)
	sum.GPUSecondsLost, sum.Lost = s.usage.losses()
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
