package report

import (
	"fmt"
	"strings"
)

// Outcome is the outcome of a pod, or of a group, at the end of a simulation. Each has exactly one.
type Outcome uint8

const (
	// NotArrived: it had not arrived when the simulation ended, or never had its turn.
	NotArrived Outcome = iota
	// Pending: it arrived and never had a node; a group never had its minimum on nodes.
	Pending
	// PendingAgain: it was preempted, evicted or lost, came again, and has no node yet.
	PendingAgain
	// Running: it is on a node; a group, its minimum is.
	Running
	// Completed: it ran to its planned end; of a group, as many members as its minimum did, and none runs.
	Completed
	// Preempted: it was evicted for pods of a higher priority, and did not come again.
	Preempted
	// Lost: its node was lost, and it did not come again.
	Lost
	// Evicted: its gang fell below its minimum, and the rest was evicted as the gang asks; it did not come again.
	Evicted
	// Failed: it was still running at the end of its own activeDeadlineSeconds.
	Failed
	// Withdrawn: it was deleted at its deadline, bound or not.
	Withdrawn

	outcomes = int(Withdrawn) + 1
)

// IsDisruption reports whether a pod with the outcome loses work that may have to be done again.
func (o Outcome) IsDisruption() bool { return o == Preempted || o == Lost || o == Evicted }

var outcomeNames = [outcomes]string{
	NotArrived: "not arrived", Pending: "pending", PendingAgain: "pending again", Running: "running",
	Completed: "completed", Preempted: "preempted", Lost: "lost", Evicted: "evicted", Failed: "failed",
	Withdrawn: "withdrawn",
}

// String is the name of the outcome in the report.
func (o Outcome) String() string {
	if int(o) >= outcomes {
		return fmt.Sprintf("outcome %d", o)
	}
	return outcomeNames[o]
}

// Outcomes counts pods, or gangs, by their outcome: Total is the sum of all other fields but Placed.
type Outcomes struct {
	// Total is the number in the workload.
	Total int `json:"total"`
	// Placed is the number that were ever on a node, including the ones that arrived bound; of gangs, with their
	// minimum.
	Placed int `json:"placed"`
	// The others count the Outcome of their name.
	Completed    int `json:"completed"`
	Running      int `json:"running"`
	Preempted    int `json:"preempted"`
	Lost         int `json:"lost"`
	Evicted      int `json:"evicted"`
	Failed       int `json:"failed"`
	Withdrawn    int `json:"withdrawn"`
	Pending      int `json:"pending"`
	PendingAgain int `json:"pendingAgain"`
	NotArrived   int `json:"notArrived"`
}

// Add counts one of that outcome.
func (c *Outcomes) Add(o Outcome) {
	c.Total++
	*c.of(o)++
}

// of returns the count of an outcome.
func (c *Outcomes) of(o Outcome) *int {
	return [outcomes]*int{
		NotArrived: &c.NotArrived, Pending: &c.Pending, PendingAgain: &c.PendingAgain, Running: &c.Running,
		Completed: &c.Completed, Preempted: &c.Preempted, Lost: &c.Lost, Evicted: &c.Evicted, Failed: &c.Failed,
		Withdrawn: &c.Withdrawn,
	}[o]
}

// String is the counts for people: the total, and the outcomes.
func (c Outcomes) String() string {
	if c.Total == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: %s", c.Total, c.parts(true))
}

// parts names the counts that are not zero, the most wanted first; with always, also the numbers of completed and
// pending ones.
func (c Outcomes) parts(always bool) string {
	var parts []string
	for _, p := range []struct {
		n    int
		name string
	}{
		{c.Completed, "completed"}, {c.Running, "running"}, {c.Preempted, "preempted"}, {c.Lost, "lost with a node"},
		{c.Evicted, "evicted with their gang"}, {c.Failed, "failed"}, {c.Withdrawn, "withdrawn"},
		{c.Pending, "pending"}, {c.PendingAgain, "pending again"}, {c.NotArrived, "not arrived"},
	} {
		if p.n > 0 || always && (p.name == "completed" || p.name == "pending") {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.name))
		}
	}
	return strings.Join(parts, ", ")
}

// Disruptions are the disruptions of a pod, or of the pods of a group.
type Disruptions struct {
	// Preempted, Lost and Evicted count the pods with this outcome, each time; CameAgain counts the pods that came
	// again.
	Preempted, Lost, Evicted, CameAgain int
	// By names the entities that preempted them, as NAMESPACE/NAME of a gang or else a pod, each once, in the order of
	// time.
	By []string
	// GPUSeconds is the number of seconds for which GPUs were held for work that was not completed because of it.
	GPUSeconds float64
}

// Note records one disruption: its kind, the cause ("" if it is unknown), and the GPU-seconds of the run.
func (s *Disruptions) Note(how Outcome, by string, gpuSeconds float64) {
	switch how {
	case Preempted:
		s.Preempted++
	case Lost:
		s.Lost++
	case Evicted:
		s.Evicted++
	}
	s.GPUSeconds += gpuSeconds
	if by == "" {
		return
	}
	for _, known := range s.By {
		if known == by {
			return
		}
	}
	s.By = append(s.By, by)
}

// HeldDrain is a drain of a node that could not evict all its pods.
type HeldDrain struct {
	Node string `json:"node"`
	// Pods is the number of pods that were still on the node at the end. First is the first of them, and Why names the
	// budget that kept it.
	Pods  int    `json:"pods"`
	First string `json:"first"`
	Why   string `json:"why"`
}

// QuotaRefusals counts the pods of a namespace that a ResourceQuota refused when they were to come.
type QuotaRefusals struct {
	Namespace string `json:"namespace"`
	// Pods were refused at least once, StillRefused of them to the end.
	Pods         int `json:"pods"`
	StillRefused int `json:"stillRefused"`
	// First is the reason for the first refusal.
	First string `json:"first"`
}

// Requeued has the outcomes of pods that were preempted, lost or evicted, and of the gangs that they broke.
type Requeued struct {
	// Policy is the virtual cluster's treatment of such pods: owned, all or none.
	Policy string         `json:"policy"`
	Gangs  RequeuedCounts `json:"gangs"`
	Pods   RequeuedCounts `json:"pods"`
}

// RequeuedCounts counts pods by their disruptions, and gangs by the reason why they lost their minimum. A pod that was
// preempted and lost is in both.
type RequeuedCounts struct {
	Preempted Again `json:"preempted"`
	Lost      Again `json:"lost"`
	Evicted   Again `json:"evicted"`
}

// Again counts the disrupted ones, the ones that came again, and the ones of these that completed.
type Again struct {
	Total     int `json:"total"`
	CameAgain int `json:"cameAgain"`
	Completed int `json:"completed"`
}

// Add counts one that was disrupted.
func (a *Again) Add(cameAgain, completed bool) {
	a.Total++
	if cameAgain {
		a.CameAgain++
		if completed {
			a.Completed++
		}
	}
}

// phrases describes it for people, in one phrase for each kind of disruption that occurred.
func (r RequeuedCounts) phrases(one, several string) (phrases []string) {
	for _, p := range []struct {
		Again
		how string
	}{{r.Preempted, "preempted"}, {r.Lost, "lost with a node"}, {r.Evicted, "evicted with the gang"}} {
		if p.Total == 0 {
			continue
		}
		text := fmt.Sprintf("%s %s, %d came again", counted(p.Total, one, several), p.how, p.CameAgain)
		if p.CameAgain > 0 {
			text += fmt.Sprintf(", %d of them completed", p.Completed)
		}
		phrases = append(phrases, text)
	}
	return phrases
}

// counted is a number with its noun.
func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
