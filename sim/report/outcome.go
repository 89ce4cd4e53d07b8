package report

import (
	"fmt"
	"strings"
)

// Outcome is what became of a pod, or of a group, by the end of a simulation. Each has exactly one.
type Outcome uint8

const (
	// NotArrived: it had not come when the simulation ended, or never had its turn.
	NotArrived Outcome = iota
	// Pending: it came and never had a node; a group, never its minimum on nodes.
	Pending
	// PendingAgain: it was preempted, evicted or lost, came again, and has no node yet.
	PendingAgain
	// Running: it is on a node; a group, its minimum is.
	Running
	// Completed: it ran to its planned end; of a group, as many as its minimum did, and none runs.
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

// IsSetback reports whether the outcome of a pod takes work away that somebody may want to have done again.
func (o Outcome) IsSetback() bool { return o == Preempted || o == Lost || o == Evicted }

var outcomeNames = [outcomes]string{
	NotArrived: "not arrived", Pending: "pending", PendingAgain: "pending again", Running: "running",
	Completed: "completed", Preempted: "preempted", Lost: "lost", Evicted: "evicted", Failed: "failed",
	Withdrawn: "withdrawn",
}

// String is the outcome as the report has it.
func (o Outcome) String() string {
	if int(o) >= outcomes {
		return fmt.Sprintf("outcome %d", o)
	}
	return outcomeNames[o]
}

// Outcomes counts pods, or gangs, by their outcome: Total is the sum of all other fields but Placed.
type Outcomes struct {
	// Total is how many the workload has.
	Total int `json:"total"`
	// Placed is how many were ever on a node, those included that arrived bound; of gangs, with their minimum.
	Placed int `json:"placed"`
	// The others are the Outcome of that name each.
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

// String is the counts for people: how many there are, and what became of them.
func (c Outcomes) String() string {
	if c.Total == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: %s", c.Total, c.parts(true))
}

// parts names the counts that are not zero, in the order of what people ask for first; with always, also how many
// completed and how many are pending.
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

// Setbacks is what befell a pod, or the pods of a group.
type Setbacks struct {
	// Preempted, Lost and Evicted are how often one of the pods went so, whatever became of it then; CameAgain is the
	// number of times that one came again.
	Preempted, Lost, Evicted, CameAgain int
	// By names what preempted them, as NAMESPACE/NAME of a gang or else a pod, each once, in the order of time.
	By []string
	// GPUSeconds is for how many seconds GPUs were held for what was not completed because of it.
	GPUSeconds float64
}

// Note notes that a pod went so, by whom ("" if it is not known or nobody), and what its run had cost.
func (s *Setbacks) Note(how Outcome, by string, gpuSeconds float64) {
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

// Requeued says what became of pods that were preempted, lost or evicted, and of the gangs that they broke.
type Requeued struct {
	// Policy is what the virtual cluster does with such pods: owned, all or none.
	Policy string         `json:"policy"`
	Gangs  RequeuedCounts `json:"gangs"`
	Pods   RequeuedCounts `json:"pods"`
}

// RequeuedCounts counts by what befell a pod; a gang counts by what took its minimum away. One that was preempted and
// lost is in both.
type RequeuedCounts struct {
	Preempted Again `json:"preempted"`
	Lost      Again `json:"lost"`
	Evicted   Again `json:"evicted"`
}

// Again is how many went, how many of them came again, and how many of these completed.
type Again struct {
	Total     int `json:"total"`
	CameAgain int `json:"cameAgain"`
	Completed int `json:"completed"`
}

// Add counts one that went.
func (a *Again) Add(cameAgain, completed bool) {
	a.Total++
	if cameAgain {
		a.CameAgain++
		if completed {
			a.Completed++
		}
	}
}

// phrases says it for people, in one phrase for each way to go that occurred.
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
