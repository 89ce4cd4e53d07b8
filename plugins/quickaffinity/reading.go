package quickaffinity

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"

	"github.com/rollcall-sched/rollcall/plugins/internal/topologycount"
)

// Where PreFilter and PreScore leave their readings.
const (
	filterKey fwk.StateKey = "PreFilter" + interpodaffinity.Name + "/quick"
	scoreKey  fwk.StateKey = "PreScore" + interpodaffinity.Name + "/quick"
)

// reading has the counts for one pod's cycle.
type reading struct {
	topologycount.Reading
	question // with the pod of this cycle, which shares the counts with others
	// affinity columns in front belong to the required affinity terms.
	affinity int
}

// newReading reads the columns of such roles for the pod. Pods that share counts are the same to all terms that the
// ledger knows. A pod that is added for a trial may have other terms: so the question's pod is this one.
func newReading(c *topologycount.Counts, pod *v1.Pod, such func(topologycount.Role) bool) *reading {
	r := &reading{Reading: c.Read(such), question: *c.Question.(*question)}
	r.pod = pod
	for r.affinity < len(r.Columns) && r.Columns[r.affinity].Role == attracting {
		r.affinity++
	}
	return r
}

// readingOf returns the state's reading, nil if it has none: then upstream's plugin answers.
func readingOf(state fwk.CycleState, key fwk.StateKey) *reading {
	if data, err := state.Read(key); err == nil {
		if r, ok := data.(*reading); ok {
			return r
		}
	}
	return nil
}

// Clone implements fwk.StateData.
func (r *reading) Clone() fwk.StateData {
	return &reading{Reading: r.Reading.Clone(), question: r.question, affinity: r.affinity}
}

// change adds a pod to the node for a trial (+1), or removes it (-1).
func (r *reading) change(info fwk.PodInfo, node *v1.Node, by int64) {
	if node != nil {
		r.Change(node, by, func(to *topologycount.Parts) { r.addRequired(info, to) })
	}
}

type verdict uint8

const (
	fits verdict = iota
	notAttracted
	repelled
	unwelcome
)

// judge says whether the pod may go to a node.
func (r *reading) judge(node topologycount.Position) verdict {
	enough := true
	for i := range r.Columns[:r.affinity] {
		c := &r.Columns[i]
		domain := node.In(c.Topology)
		if domain == topologycount.Nowhere {
			return notAttracted
		}
		enough = enough && c.At(domain) > 0
	}
	if !enough && !r.startsAlone() {
		return notAttracted
	}
	out := fits
	for i := range r.Columns {
		c := &r.Columns[i]
		if !forbids(c) || c.At(node.In(c.Topology)) <= 0 {
			continue
		}
		if c.Role == repelling {
			return repelled
		}
		out = unwelcome
	}
	return out
}

// forbids reports whether the column may make domains infeasible.
func forbids(c *topologycount.Column) bool {
	return !c.Empty() && (c.Role == repelling || c.Role == existing)
}

// startsAlone reports whether the pod may go where no other pod attracts it, because it is the first of the pods that
// are to be together.
func (r *reading) startsAlone() bool {
	for i := range r.Columns[:r.affinity] {
		if !r.Columns[i].Empty() {
			return false
		}
	}
	return r.matchesItself
}

// score adds up what the pod prefers about a node, and others there about the pod.
func (r *reading) score(node topologycount.Position) (sum int64) {
	for i := range r.Columns {
		sum += r.Columns[i].At(node.In(r.Columns[i].Topology))
	}
	return sum
}

// judgeAll sets pass[i] for the i-th node of the ledger if the pod may go there.
func (r *reading) judgeAll(pass []bool) {
	for at := range pass {
		pass[at] = true
	}
	alone := r.startsAlone()
	for i := range r.Columns[:r.affinity] {
		sums := r.Columns[i].Sums()
		for at, domain := range r.Columns[i].Topology.Domains() {
			if domain == topologycount.Nowhere || !alone && (int(domain) >= len(sums) || sums[domain] <= 0) {
				pass[at] = false
			}
		}
	}
	for i := range r.Columns {
		if !forbids(&r.Columns[i]) {
			continue
		}
		sums := r.Columns[i].Sums()
		for at, domain := range r.Columns[i].Topology.Domains() {
			if domain != topologycount.Nowhere && int(domain) < len(sums) && sums[domain] > 0 {
				pass[at] = false
			}
		}
	}
}

// scoreAll sets scores[i] to the score of the i-th node of the ledger.
func (r *reading) scoreAll(scores []int64) {
	clear(scores)
	for i := range r.Columns {
		sums := r.Columns[i].Sums()
		for at, domain := range r.Columns[i].Topology.Domains() {
			if domain != topologycount.Nowhere && int(domain) < len(sums) {
				scores[at] += sums[domain]
			}
		}
	}
}
