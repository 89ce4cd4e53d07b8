package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// maxExamples is how many nodes are named for a reason.
const maxExamples = 3

// rerun is the second reading of the log: it applies the entries up to the point in question and runs the
// cycles of some decisions again on the way.
type rerun struct {
	opts    ExplainOptions
	at      Point
	machine *scheduler.Machine
	wanted  map[uint64]recorded
	done    map[uint64]*DecisionExplanation
	// alsoWanted says of an entry that is to be applied next whether it is a decision that is to be explained as well.
	alsoWanted func(eventlog.Entry) bool
	last       uint64 // the state to begin with may be this entry's, or an earlier one's
}

func newRerun(opts ExplainOptions, at Point) *rerun {
	return &rerun{opts: opts, at: at, last: at.Seq,
		wanted: map[uint64]recorded{}, done: map[uint64]*DecisionExplanation{}}
}

// beginBefore says that the state before an entry is needed; 0 stands for the earliest there is.
func (r *rerun) beginBefore(seq uint64) { r.last = min(r.last, max(seq, 1)-1) }

// start makes the state to begin with.
func (r *rerun) start() (err error) {
	r.machine, err = r.opts.state(r.last)
	return err
}

// explain asks for the explanation of decisions; those that do not exist are passed over.
func (r *rerun) explain(decisions ...recorded) {
	for _, d := range decisions {
		if d.exists() {
			r.wanted[d.at.Seq] = d
			r.beginBefore(d.at.Seq)
		}
	}
}

// explained returns what was asked for, nil for a decision that does not exist.
func (r *rerun) explained(d recorded) *DecisionExplanation { return r.done[d.at.Seq] }

// watcher looks at each entry of the second reading before and after it is applied.
type watcher interface {
	before(m *scheduler.Machine, e eventlog.Entry)
	after(m *scheduler.Machine, e eventlog.Entry)
}

// run applies the entries up to the point in question, before the eyes of w.
func (r *rerun) run(ctx context.Context, read Reader, w watcher) error {
	if r.machine.Seq() == r.at.Seq {
		return nil
	}
	for e, err := range read(r.machine.Seq() + 1) {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.Seq > r.at.Seq {
			return nil
		}
		w.before(r.machine, e)
		if d, ok := r.wanted[e.Seq]; ok {
			r.done[e.Seq] = r.again(d)
		} else if r.alsoWanted != nil && r.alsoWanted(e) {
			r.done[e.Seq] = r.again(recorded{pointOf(e), e.Payload.(*eventlog.Decision)})
		}
		if err := r.machine.Apply(e); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		w.after(r.machine, e)
		r.opts.progress(e.Seq)
	}
	return nil
}

// again runs the cycle of a recorded decision once more, with a trace, on the state just before it.
func (r *rerun) again(rec recorded) *DecisionExplanation {
	d := rec.decision
	nodes, _ := r.machine.Cluster().List()
	x := &DecisionExplanation{
		Point: rec.at, Cycle: d.Cycle, Pod: podOf(d), Outcome: d.Outcome.String(), Node: d.Node, Score: d.Score,
		Nodes: len(nodes), Evaluated: d.Evaluated, Feasible: d.Feasible, WaitUntil: Instant(d.WaitUntil),
		Refusals: refusalsOf(d.Rejections), Allowed: len(d.Allowed), Released: len(d.Rejected),
	}
	trace := &framework.Trace{}
	decided, ok := r.machine.Decide(trace)
	if x.Diverged = divergence(rec, &decided, ok); x.Diverged != nil && (!ok || decided.UID != d.UID) {
		trace = nil // it tells of another cycle
	}
	if trace != nil {
		r.addTrace(x, trace)
	}
	if rec.failed() {
		r.addResources(x, r.machine.Cluster().Pod(d.UID), unusable(trace))
	}
	return x
}

// divergence compares a recorded decision with the one that is made now; nil if they are equal.
func divergence(rec recorded, decided *eventlog.Decision, ok bool) *Divergence {
	out := &Divergence{Kind: Differs, Seq: rec.at.Seq, Pod: podOf(rec.decision), Recorded: inShort(rec.decision)}
	if !ok {
		out.Kind = Extra
		return out
	}
	field, was, is, differ := firstDifference(rec.decision, decided)
	if !differ {
		return nil
	}
	out.Field, out.Decided = field, inShort(decided)
	if out.Recorded == out.Decided {
		out.Recorded, out.Decided = was, is
	}
	return out
}

func refusalsOf(rejections []eventlog.Rejection) []Refusal {
	var out []Refusal
	for _, r := range rejections {
		out = append(out, Refusal{Plugin: r.Plugin, Code: r.Code, Reason: r.Reason, Nodes: r.Nodes})
	}
	return out
}

// addTrace adds what the cycle showed when it was run again: nodes for the refusals, and scores.
func (r *rerun) addTrace(x *DecisionExplanation, trace *framework.Trace) {
	for i := range x.Refusals {
		refusal := &x.Refusals[i]
		switch {
		case refusal.Nodes > 0:
			refusal.Examples = r.examples(refusal, trace)
		case refusal.Reason == "" && refusal.Code == "Error":
			refusal.Reason = errorWords(refusal.Plugin, trace)
		}
	}
	chosen := slices.IndexFunc(trace.Scored, func(n framework.ScoredNode) bool { return n.Node == x.Node })
	if chosen < 0 {
		return
	}
	winner := scoreOf(trace.Scored[chosen])
	x.Winner = &winner
	for i, n := range trace.Scored {
		if i != chosen && len(x.RunnersUp) < r.opts.runnersUp() {
			x.RunnersUp = append(x.RunnersUp, scoreOf(n))
		}
	}
}

// examples returns the first nodes that were refused as the refusal says.
func (r *rerun) examples(refusal *Refusal, trace *framework.Trace) (nodes []string) {
	for _, n := range trace.Refused {
		if n.Plugin != refusal.Plugin || n.Code != refusal.Code || refusal.Reason != "" && !slices.Contains(n.Reasons, refusal.Reason) {
			continue
		}
		if nodes = append(nodes, n.Node); len(nodes) == maxExamples {
			return nodes
		}
	}
	if len(nodes) > 0 {
		return nodes
	}
	// A PreFilter plugin names the nodes that it leaves; those that it refused are the others.
	all, _ := r.machine.Cluster().List()
	for _, step := range trace.PreFilter {
		if step.Plugin != refusal.Plugin || step.AllNodes {
			continue
		}
		for _, n := range all {
			name := n.Node().Name
			if _, left := slices.BinarySearch(step.Nodes, name); left {
				continue
			}
			if nodes = append(nodes, name); len(nodes) == maxExamples {
				return nodes
			}
		}
	}
	return nodes
}

// errorWords returns what the plugin said when it failed: the log does not record it.
func errorWords(plugin string, trace *framework.Trace) string {
	var steps []framework.Step
	for _, s := range trace.PreFilter {
		steps = append(steps, s.Step)
	}
	for _, n := range trace.Refused {
		steps = append(steps, n.Step)
	}
	for _, s := range slices.Concat(steps, trace.Reserve, trace.Permit, trace.PostFilter) {
		if s.Plugin == plugin && s.Code == "Error" && len(s.Reasons) > 0 {
			return s.Reasons[0]
		}
	}
	return ""
}

func scoreOf(n framework.ScoredNode) NodeScore {
	out := NodeScore{Node: n.Node, Total: n.Total}
	for _, p := range n.Plugins {
		out.Plugins = append(out.Plugins, PluginScore(p))
	}
	return out
}

// unusable returns a test for nodes that were refused for another reason than the lack of resources.
func unusable(trace *framework.Trace) func(node string) bool {
	if trace == nil {
		return func(string) bool { return false }
	}
	refused := map[string]bool{}
	for _, n := range trace.Refused {
		if n.Plugin != names.NodeResourcesFit {
			refused[n.Node] = true
		}
	}
	return func(node string) bool {
		for _, step := range trace.PreFilter {
			if _, left := slices.BinarySearch(step.Nodes, node); !step.AllNodes && !left {
				return true
			}
		}
		return refused[node]
	}
}

// addResources adds who holds what the pod, and its gang, lacked.
func (r *rerun) addResources(x *DecisionExplanation, p *cluster.Pod, unusable func(string) bool) {
	if p == nil {
		return
	}
	x.Resources = resourceUse(r.machine.Cluster(), podNeeds(p), nil, unusable)
	if e := r.machine.Queue().Find(p.Object.UID); isGang(e) {
		x.Gang = gangNeeds(r.machine.Cluster(), p.Group, unusable)
	}
}

// gangNeeds returns what g lacks to have its minimum and who has it, nil if it lacks no member.
func gangNeeds(c *cluster.State, g *cluster.Group, unusable func(string) bool) *GangNeeds {
	if g == nil {
		return nil
	}
	members, needs := c.GangNeeds(g)
	if members == 0 {
		return nil
	}
	return &GangNeeds{Members: members, Resources: resourceUse(c, needs, g, unusable)}
}

// holderKey tells holders apart.
type holderKey struct{ kind, name string }

// resourceUse counts, for each resource that is needed, what there is and who has it. The room of waiting
// members of the gang except counts as free.
func resourceUse(c *cluster.State, needs []cluster.Need, except *cluster.Group, unusable func(string) bool) []ResourceUse {
	var out []ResourceUse
	nodes, _ := c.List()
	for _, need := range needs {
		if need.Amount <= 0 {
			continue
		}
		use := ResourceUse{Resource: need.Resource, Needed: need.Amount}
		holders := map[holderKey]*Holder{}
		for _, n := range nodes {
			back := holdersOn(c, n, need.Resource, except, holders)
			allocatable, requested := cluster.AmountOn(n, need.Resource)
			use.add(n.Node().Name, allocatable, max(0, allocatable-requested+back), !unusable(n.Node().Name))
		}
		if need.Resource == resourcePods && use.Usable >= need.Amount {
			continue
		}
		use.rank(holders)
		out = append(out, use)
	}
	return out
}

// add counts one node.
func (u *ResourceUse) add(node string, allocatable, free int64, usable bool) {
	u.Allocatable += allocatable
	u.Free += free
	if !usable {
		return
	}
	u.Usable += free
	if free > u.LargestFree {
		u.LargestFree, u.LargestFreeNode = free, node
	}
}

// holdersOn adds up who has the resource on a node, and returns what waiting members of except have of it.
func holdersOn(c *cluster.State, n fwk.NodeInfo, name v1.ResourceName, except *cluster.Group, holders map[holderKey]*Holder) (back int64) {
	for _, info := range n.GetPods() {
		amount := cluster.AmountOf(info.CalculateResource().Resource, name)
		p := c.Pod(info.GetPod().UID)
		switch {
		case amount == 0 || p == nil:
		case except != nil && p.Group == except && p.Stage == cluster.Waiting:
			back += amount
		default:
			hold(holders, p, amount)
		}
	}
	return back
}

func hold(holders map[holderKey]*Holder, p *cluster.Pod, amount int64) {
	key := holderOf(p)
	h := holders[key]
	if h == nil {
		h = &Holder{Kind: key.kind, Name: key.name}
		holders[key] = h
	}
	h.Pods++
	h.Amount += amount
}

// maxHolders is how many holders of a resource are named.
const maxHolders = 5

// rank puts the largest holders first and sums up the rest.
func (u *ResourceUse) rank(holders map[holderKey]*Holder) {
	all := make([]Holder, 0, len(holders))
	for _, h := range holders {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	u.Holders = all[:min(maxHolders, len(all))]
	for _, h := range all[len(u.Holders):] {
		u.Others++
		u.OthersAmount += h.Amount
	}
}
