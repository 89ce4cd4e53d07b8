package quickspread

import (
	"maps"
	"math"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
)

// readingKey is where PreFilter leaves the reading.
const readingKey fwk.StateKey = "PreFilter" + podtopologyspread.Name + "/quick"

// reading is what the memo said when the pod's PreFilter was run, and what became of it since by pods thought of as
// added or gone. The memo goes on meanwhile, in a rehearsal for one: of it may still be read what never changes, which
// is its rules, the numbers of its domains, and what a node of a certain generation brings, but not what is in the
// domains.
type reading struct {
	memo    *memo
	version uint64  // of the memo
	tallies []tally // one for each rule
	// next is where the next node that is filtered is likely to stand: nodes are filtered in their order, as a rule.
	next atomic.Int32
}

// tally is the state of one constraint.
type tally struct {
	maxSkew, minDomains, self int // self: 1 if the pod itself matches

	pods    []int          // by number of the domain; noDomain for one without a node that counts
	more    map[string]int // of domains that had no number when the reading was made
	domains int            // how many there are
	least   int            // pods in the domain that has fewest; math.MaxInt32 without any
	most    int            // so many pods there may be in a domain that the pod is to go to
}

// noDomain stands where there is no domain. Counts may be negative: a pod that is being deleted does not count but may
// be thought of as gone.
const noDomain = math.MinInt

func newReading(m *memo, q question) *reading {
	r := &reading{memo: m, version: m.version, tallies: make([]tally, len(m.rules))}
	for i := range r.tallies {
		c, d, t := &q.constraints[i], &m.domains[i], &r.tallies[i]
		*t = tally{maxSkew: int(c.MaxSkew), minDomains: 1, pods: slices.Clone(d.pods)}
		if c.MinDomains != nil {
			t.minDomains = int(*c.MinDomains)
		}
		if m.rules[i].selector.Matches(labels.Set(q.pod.Labels)) {
			t.self = 1
		}
		for id, nodes := range d.nodes {
			if nodes == 0 {
				t.pods[id] = noDomain
			} else {
				t.domains++
			}
		}
		t.findLeast()
		t.setLimit()
	}
	return r
}

// readingOf returns the state's reading, nil if it has none: then upstream's plugin answers.
func readingOf(state fwk.CycleState) *reading {
	if data, err := state.Read(readingKey); err == nil {
		if r, ok := data.(*reading); ok {
			return r
		}
	}
	return nil
}

// Clone implements fwk.StateData.
func (r *reading) Clone() fwk.StateData {
	out := &reading{memo: r.memo, version: r.version, tallies: slices.Clone(r.tallies)}
	for i := range out.tallies {
		t := &out.tallies[i]
		t.pods, t.more = slices.Clone(t.pods), maps.Clone(t.more)
	}
	return out
}

type verdict uint8

const (
	fits verdict = iota
	tooMany
	noLabel
)

// judge says whether the pod may go to the node.
func (r *reading) judge(info fwk.NodeInfo) verdict {
	row := r.rowOf(info)
	for i := range r.tallies {
		t := &r.tallies[i]
		var pods int
		if row != nil && row[i].domain != nowhere && int(row[i].domain) < len(t.pods) {
			pods = t.pods[row[i].domain]
		} else {
			domain, ok := info.Node().Labels[r.memo.rules[i].topologyKey]
			if !ok {
				return noLabel
			}
			pods = r.at(i, domain)
		}
		if pods == noDomain {
			pods = 0
		}
		if pods > t.most {
			return tooMany
		}
	}
	return fits
}

// rowOf returns what the memo knows of the node as it is, nil for nothing.
func (r *reading) rowOf(info fwk.NodeInfo) []count {
	at, ok := r.memo.placeOf(info, int(r.next.Load()))
	if !ok {
		return nil
	}
	r.next.Store(int32(at) + 1)
	return r.memo.row(at)
}

// at returns how many pods match the i-th constraint in a domain, noDomain if there is none.
func (r *reading) at(i int, domain string) int {
	t := &r.tallies[i]
	if id, ok := r.memo.domains[i].ids[domain]; ok && int(id) < len(t.pods) {
		return t.pods[id]
	}
	if n, ok := t.more[domain]; ok {
		return n
	}
	return noDomain
}

func (r *reading) put(i int, domain string, pods int) {
	t := &r.tallies[i]
	if id, ok := r.memo.domains[i].ids[domain]; ok && int(id) < len(t.pods) {
		t.pods[id] = pods
		return
	}
	if t.more == nil {
		t.more = map[string]int{}
	}
	t.more[domain] = pods
}

// change thinks of a pod as added to the node (+1) or gone from it (-1).
func (r *reading) change(logger klog.Logger, pod *v1.Pod, node *v1.Node, by int) {
	if node == nil || pod.Namespace != r.memo.namespace || !r.memo.hasAllLabels(node) {
		return
	}
	allowed := r.memo.allowed(logger, node)
	for i := range r.memo.rules {
		rule := &r.memo.rules[i]
		if !rule.selector.Matches(labels.Set(pod.Labels)) || !allowed(rule) {
			continue
		}
		t, domain := &r.tallies[i], node.Labels[rule.topologyKey]
		before := r.at(i, domain)
		after := by
		if before == noDomain {
			t.domains++
		} else {
			after += before
		}
		r.put(i, domain, after)
		if after <= t.least {
			t.least = after
		} else if before == t.least {
			t.findLeast() // it may have been the only one with so few
		}
		t.setLimit()
	}
}

// findLeast looks for the domain that has fewest pods. Upstream keeps the two that had fewest, of equals those that a
// map gave first, and is at a loss when pods in several domains are added.
func (t *tally) findLeast() {
	t.least = math.MaxInt32
	for _, n := range t.pods {
		if n != noDomain {
			t.least = min(t.least, n)
		}
	}
	// any order: the least is the same
	for _, n := range t.more {
		t.least = min(t.least, n)
	}
}

// setLimit works out the limit for a domain: its pods, and the pod if it matches, may be maxSkew more than the fewest
// that any domain has, which are none while there are fewer domains than there should be.
func (t *tally) setLimit() {
	least := t.least
	if t.domains < t.minDomains {
		least = 0
	}
	t.most = t.maxSkew + least - t.self
}
