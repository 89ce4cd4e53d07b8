package quickaffinity

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
)

// Where PreFilter and PreScore leave their readings.
const (
	filterKey fwk.StateKey = "PreFilter" + interpodaffinity.Name + "/quick"
	scoreKey  fwk.StateKey = "PreScore" + interpodaffinity.Name + "/quick"
)

// reading is what the memo said when the pod was asked about, and what became of it since by pods thought of as added
// or gone. The memo goes on meanwhile, in a rehearsal for one, and lends its counts: whoever changes them makes a copy
// first.
type reading struct {
	question // the pod and its namespace's labels are this cycle's, not those that the memo was made for
	ledger   *ledger
	version  uint64 // of the ledger
	// renewals are the ledger's: with others the topologies are not its any more.
	renewals int
	columns  []column
	near     int32 // where the node that is asked about next is likely to stand
}

// read returns what the memo says to the pod in the columns with these roles. Pods that share the memo are the same to
// all terms that the ledger knows; a pod thought of as added, as a nominated one is, may have others, and is judged by
// what this pod is.
func (m *memo) read(l *ledger, pod *v1.Pod, belongs func(role) bool) *reading {
	r := &reading{question: m.question, ledger: l, version: l.version, renewals: l.renewals}
	r.pod = pod
	for i := range m.columns {
		if c := &m.columns[i]; belongs(c.role) {
			c.lent = true
			r.columns = append(r.columns, *c)
		}
	}
	return r
}

func (r role) filters() bool { return r != preferred }
func (r role) scores() bool  { return r == preferred }

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
	for i := range r.columns {
		r.columns[i].lent = true
	}
	out := *r
	out.columns = slices.Clone(r.columns)
	return &out
}

// has reports whether there is anything in the columns of the role.
func (r *reading) has(role role) bool {
	return slices.ContainsFunc(r.columns, func(c column) bool { return c.role == role && c.nonzero > 0 })
}

// change thinks of a pod as added to the node (+1) or gone from it (-1).
func (r *reading) change(info fwk.PodInfo, node *v1.Node, by int64) {
	if node == nil {
		return
	}
	for _, p := range r.parts(r.ledger.lend, (*columns)(&r.columns), info, false) {
		c := &r.columns[p.column]
		if domain := c.topology.of(node); domain != nowhere {
			c.add(domain, p.weight*by)
		}
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
func (r *reading) judge(node spot) verdict {
	enough := true
	for _, t := range r.affinity {
		in := node.in(t)
		if in == nowhere {
			return notAttracted
		}
		enough = enough && r.attracts(t, in)
	}
	if !enough && !r.startsAlone() {
		return notAttracted
	}
	out := fits
	for i := range r.columns {
		c := &r.columns[i]
		if c.nonzero == 0 || c.role != repelling && c.role != existing || c.of(node.in(c.topology)) <= 0 {
			continue
		}
		if c.role == repelling {
			return repelled
		}
		out = unwelcome
	}
	return out
}

// attracts reports whether there are pods in the domain that match all terms.
func (r *reading) attracts(t *topology, domain int32) bool {
	for i := range r.columns {
		if c := &r.columns[i]; c.role == attracting && c.topology == t {
			return c.of(domain) > 0
		}
	}
	return false
}

// startsAlone reports whether the pod may go where no other pod attracts it: it is the first of those that are to be
// together.
func (r *reading) startsAlone() bool { return r.matchesItself && !r.has(attracting) }

// spot is a node that is asked about.
type spot struct {
	info fwk.NodeInfo
	at   int // its place among the ledger's rows, nowhere if it is not as it was there
}

// spotOf finds the node in the ledger.
func (r *reading) spotOf(info fwk.NodeInfo) spot {
	if r.renewals == r.ledger.renewals {
		if at, ok := r.ledger.placeOf(info, &r.near); ok {
			return spot{info, at}
		}
	}
	return spot{info, nowhere}
}

// in returns the number of the node's domain, nowhere if it does not have the label.
func (s spot) in(t *topology) int32 {
	if s.at != nowhere && t.users > 0 {
		return t.at[s.at]
	}
	return t.look(s.info.Node())
}

// score adds up what the pod prefers about a node, and others there about the pod.
func (r *reading) score(node spot) (sum int64) {
	for i := range r.columns {
		sum += r.columns[i].of(node.in(r.columns[i].topology))
	}
	return sum
}
