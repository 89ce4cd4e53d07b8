package quickspread

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/rollcall-sched/rollcall/plugins/internal/topologycount"
)

// readingKey is the key under which PreFilter leaves the reading.
const readingKey fwk.StateKey = "PreFilter" + podtopologyspread.Name + "/quick"

// reading has the counts for one pod's hard constraints.
type reading struct {
	topologycount.Reading
	rules  *rules
	limits []limit // one for each rule
}

// limit bounds the pods of a domain that the pod may go to.
type limit struct {
	maxSkew, minDomains, self int64 // self: 1 if the pod itself matches

	domains int64 // how many domains there are
	least   int64 // pods in the domain that has fewest; math.MaxInt32 without any domain
	most    int64 // the limit
}

func newReading(c *topologycount.Counts, q question) *reading {
	all := func(topologycount.Role) bool { return true }
	r := &reading{Reading: c.Read(all), rules: c.Question.(*rules)}
	r.limits = make([]limit, len(r.rules.list))
	for i := range r.limits {
		c, l := &q.constraints[i], &r.limits[i]
		*l = limit{maxSkew: int64(c.MaxSkew), minDomains: 1}
		if c.MinDomains != nil {
			l.minDomains = int64(*c.MinDomains)
		}
		if r.rules.list[i].selector.Matches(labels.Set(q.pod.Labels)) {
			l.self = 1
		}
		r.findLeast(i)
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
	return &reading{Reading: r.Reading.Clone(), rules: r.rules, limits: slices.Clone(r.limits)}
}

func (r *reading) pods(i int) *topologycount.Column  { return &r.Columns[r.rules.pods(i)] }
func (r *reading) nodes(i int) *topologycount.Column { return &r.Columns[r.rules.nodes(i)] }

type verdict uint8

const (
	fits verdict = iota
	tooMany
	noLabel
)

// judge says whether the pod may go to the node.
func (r *reading) judge(info fwk.NodeInfo) verdict {
	position := r.Position(info)
	for i := range r.limits {
		pods := r.pods(i)
		domain := position.In(pods.Topology)
		if domain == topologycount.Nowhere {
			return noLabel
		}
		if pods.At(domain) > r.limits[i].most {
			return tooMany
		}
	}
	return fits
}

// judgeAll sets pass[i] for the i-th node of the ledger if the pod may go there.
func (r *reading) judgeAll(pass []bool) {
	for at := range pass {
		pass[at] = true
	}
	for i := range r.limits {
		sums, most := r.pods(i).Sums(), r.limits[i].most
		for at, domain := range r.pods(i).Topology.Domains() {
			switch {
			case domain == topologycount.Nowhere:
				pass[at] = false
			case int(domain) < len(sums):
				pass[at] = pass[at] && sums[domain] <= most
			default:
				pass[at] = pass[at] && 0 <= most
			}
		}
	}
}

// change adds a pod to the node for a trial (+1), or removes it (-1).
func (r *reading) change(pod *v1.Pod, node *v1.Node, by int64) {
	if node == nil || pod.Namespace != r.rules.namespace {
		return
	}
	for i := range r.limits {
		if !r.rules.list[i].selector.Matches(labels.Set(pod.Labels)) || !r.rules.admits(node, i) {
			continue
		}
		l, pods, nodes := &r.limits[i], r.pods(i), r.nodes(i)
		domain := pods.Topology.Number(node)
		before, exists := pods.At(domain), nodes.At(domain) > 0
		pods.Add(domain, by)
		if !exists {
			nodes.Add(domain, 1)
			l.domains++
		}
		switch after := before + by; {
		case after <= l.least:
			l.least = after
			l.set()
		case exists && before == l.least: // it may have been the only one with so few
			r.findLeast(i)
		default:
			l.set()
		}
	}
}

// findLeast looks for the domain that has fewest pods, of those where a node counts. Upstream remembers only two
// domains, and ties go to the first in the order of a map. So it goes wrong when pods of several domains are added.
func (r *reading) findLeast(i int) {
	l, pods := &r.limits[i], r.pods(i)
	l.domains, l.least = 0, math.MaxInt32
	for domain, nodes := range r.nodes(i).Sums() {
		if nodes > 0 {
			l.domains++
			l.least = min(l.least, pods.At(int32(domain)))
		}
	}
	l.set()
}

// set works out the limit: a domain may have maxSkew pods more than the domain that has fewest, and the pod itself is
// one of them if it matches. While there are fewer domains than there should be, the fewest is 0.
func (l *limit) set() {
	least := l.least
	if l.domains < l.minDomains {
		least = 0
	}
	l.most = l.maxSkew + least - l.self
}
