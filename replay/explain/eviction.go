package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// maxPossible is the number of possible victims that an answer has at most.
const maxPossible = 200

// NotEvictedError means that a pod is in the log, and that no decision up to the point in question evicts it.
type NotEvictedError struct {
	Pod string
	At  answer.Point
}

// Error implements error.
func (e *NotEvictedError) Error() string {
	return fmt.Sprintf("no decision evicts pod %s up to %s: \"explain LOG pod %s\" tells what became of it", e.Pod,
		e.At, e.Pod)
}

// Eviction explains the last eviction of a pod up to a point of the log. It makes the decision again on the state
// before it, to tell which other pods might have been evicted. The error is a *NotFoundError if the log has no such
// pod, and a *NotEvictedError if no decision evicts it. Other errors are about reading the log.
func Eviction(ctx context.Context, log *history.Log, namespace, name string,
	opts Options) (*answer.PodEviction, error) {
	at, err := log.Locate(ctx, opts.bound())
	if err != nil {
		return nil, err
	}
	base, err := log.Base()
	if err != nil {
		return nil, err
	}
	s := &evictionScan{ctx: ctx, log: log, base: base, at: answer.Point{Seq: at.Seq, Time: answer.Instant(at.Time)},
		name: types.NamespacedName{Namespace: namespace, Name: name}, uids: map[types.UID]bool{}}
	if err := s.read(); err != nil {
		return nil, err
	}
	switch {
	case len(s.uids) == 0:
		// The answer about the pod searches for a later first entry, and for similar names.
		if _, err := Pod(ctx, log, namespace, name, opts); err != nil {
			return nil, err
		}
		return nil, &NotEvictedError{s.name.String(), s.at}
	case s.others.last.Seq > 0 && !s.by.exists():
		return s.evictedByOthers()
	case !s.by.exists():
		return nil, &NotEvictedError{s.name.String(), s.at}
	}
	m, err := log.At(ctx, s.by.at.Seq-1)
	if err != nil {
		return nil, err
	}
	return s.explain(m, &opts)
}

// evictionScan collects the last eviction of the pods of one name.
type evictionScan struct {
	ctx     context.Context
	log     *history.Log
	base    uint64
	at      answer.Point
	name    types.NamespacedName
	uids    map[types.UID]bool
	uid     types.UID // of the evicted pod
	by      recorded
	results []*answer.EvictResult
	others  removalWatch
}

// read reads the entries about pods of the name, and then the decisions about these.
func (s *evictionScan) read() error {
	if s.base > 0 {
		m, err := s.log.Nearest(s.base)
		if err != nil {
			return err
		}
		if p := m.Cluster().Pods().Named(s.name.Namespace, s.name.Name); p != nil {
			s.uids[p.Object.UID] = true
			s.others.was = p.Object
		}
	}
	query := history.Query{From: s.base + 1, To: history.Bound{Seq: s.at.Seq}, Keys: []index.Key{index.Pod(s.name)},
		Kinds: []eventlog.Kind{eventlog.KindUpserted}}
	for e, err := range s.log.Entries(s.ctx, query) {
		if err != nil {
			return err
		}
		pod, ok := e.Payload.(*eventlog.Upserted).Object.(*v1.Pod)
		if ok && pod.Namespace == s.name.Namespace && pod.Name == s.name.Name {
			s.uids[pod.UID] = true
			s.others.see(e, pod)
		}
	}
	if len(s.uids) == 0 {
		return nil
	}
	query.Keys, query.Kinds = nil, []eventlog.Kind{eventlog.KindDecision, eventlog.KindEvictResult}
	// any order: a set of names
	for uid := range s.uids {
		query.Keys = append(query.Keys, index.UID(uid))
	}
	for e, err := range s.log.Entries(s.ctx, query) {
		if err != nil {
			return err
		}
		s.take(e)
	}
	return nil
}

// take takes in an entry about one of the pods.
func (s *evictionScan) take(e eventlog.Entry) {
	switch p := e.Payload.(type) {
	case *eventlog.Decision:
		for _, uid := range slices.Concat(p.Victims, p.Rejected) {
			evicts := slices.Contains(p.Victims, uid) || preempts(p) && uid != p.UID && p.Group != s.name.Name
			if s.uids[uid] && evicts {
				s.uid, s.by = uid, recorded{pointOf(e), p}
			}
		}
	case *eventlog.EvictResult:
		if s.uids[p.UID] {
			s.results = noteResult(s.results, evictResultOf(e, p))
		}
	}
}

// explain tells the eviction on the state that it was decided on.
func (s *evictionScan) explain(m *scheduler.Machine, opts *Options) (*answer.PodEviction, error) {
	d := s.by.decision
	x := &answer.PodEviction{Pod: s.name.String(), UID: s.uid, At: s.at, Decision: s.by.at, Kind: "Preempted"}
	if s.base > 0 {
		x.KnownFrom = s.base + 1
	}
	for _, r := range s.results {
		if r.UID == s.uid && r.Decision == s.by.at.Seq {
			result := *r
			result.Pod = x.Pod
			x.Result = &result
		}
	}
	victim := m.Cluster().Pods().Get(s.uid)
	if victim != nil && victim.Group != nil {
		x.Group = victim.Group.String()
	}
	if d.Outcome == eventlog.Evicted {
		x.Kind = "EvictedWithGang"
		x.Message = fmt.Sprintf("was evicted at %s (entry %d) with the rest of its gang %s: %s", s.by.at.Time,
			s.by.at.Seq, x.Group, whyEvicted(d))
		x.Rule = "the gang evicts all members when it has fallen below its minimum: no other pod was possible"
		return x, nil
	}
	x.Preemption = preemptionOf(m, s.by.at, d, func(p *cluster.Pod) bool { return p.Object.UID == s.uid })
	if x.Preemption == nil || x.Preemption.OwnPods == 0 {
		return nil, &NotEvictedError{x.Pod, s.at}
	}
	x.Message = fmt.Sprintf("was %s, at %s (entry %d), and lost node %s", phrase.LostTo(x.Preemption), s.by.at.Time,
		s.by.at.Seq, x.Preemption.Own[0].Node)
	trace := &framework.Trace{}
	decided, ok := m.Decide(trace)
	switch {
	case divergence(s.by, &decided, ok) != nil:
		x.Unknown = "this program would decide otherwise at that entry"
	case trace.Preemption == nil:
		x.Unknown = "the preemption plugin of that decision tells nothing of its search"
	default:
		e := evictionSearch{m: m, x: x, d: d, trace: trace.Preemption}
		e.add()
	}
	x.Rule = ruleOf(x)
	return x, nil
}

// evictionSearch tells what the search for victims found.
type evictionSearch struct {
	m     *scheduler.Machine
	x     *answer.PodEviction
	d     *eventlog.Decision
	trace *framework.PreemptionTrace
}

func (e *evictionSearch) add() {
	chosen := map[types.UID]bool{}
	for _, uid := range e.x.Preemption.UIDs {
		chosen[uid] = true
	}
	last := -1 // the most important one that was chosen
	for i, uid := range e.trace.Possible {
		if chosen[uid] {
			last = i
		}
	}
	for i, uid := range e.trace.Possible {
		if i == maxPossible {
			e.x.OtherPossible = len(e.trace.Possible) - i
			break
		}
		p := e.m.Cluster().Pods().Get(uid)
		if p == nil {
			continue
		}
		v := answer.PossibleVictim{Victim: victimOf(e.m, p), Chosen: chosen[uid]}
		if t := p.Object.Status.StartTime; t != nil {
			v.Started = answer.Instant(t.UnixNano())
		}
		v.Why = e.why(p, v.Chosen, i > last)
		e.x.Possible = append(e.x.Possible, v)
	}
	for i := range e.trace.Options {
		e.x.Options = append(e.x.Options, e.option(&e.trace.Options[i], chosen))
	}
}

// why says why a possible victim was chosen or not. behind says that all chosen ones are less important.
func (e *evictionSearch) why(p *cluster.Pod, chosen, behind bool) string {
	single := e.d.Nominated != "" && e.x.Preemption.By.Group == ""
	switch {
	case chosen:
		return "evicted"
	case single && p.Node != e.d.Nominated:
		return "on another node than the one where evicting costs least"
	case behind:
		return "more important than the ones that were enough"
	}
	return "could stay: there is enough room beside it"
}

// option tells a set of victims.
func (e *evictionSearch) option(o *framework.PreemptionOption, chosen map[types.UID]bool) answer.VictimOption {
	x := answer.VictimOption{Node: o.Node, Domain: len(o.Domain), Pods: len(o.Victims), Violations: o.Violations}
	all := len(o.Victims) == len(chosen)
	for i, uid := range o.Victims {
		all = all && chosen[uid]
		p := e.m.Cluster().Pods().Get(uid)
		if p == nil {
			continue
		}
		priority := corev1helpers.PodPriority(p.Object)
		if x.Sum += int64(priority); i == 0 || priority > x.Highest {
			x.Highest = priority
		}
		if len(x.Victims) < maxVictims {
			x.Victims = append(x.Victims, nameOf(p.Object))
		}
	}
	x.Chosen = all
	return x
}

// ruleOf says which rule allowed the eviction, and why this pod was taken.
func ruleOf(x *answer.PodEviction) string {
	by := &x.Preemption.By
	text := fmt.Sprintf("a pod may be preempted for one of a higher priority: %d is below %d",
		x.Preemption.Own[0].Priority, by.Priority)
	if len(x.Possible) == 0 {
		return text
	}
	others := x.OtherPossible
	for i := range x.Possible {
		if !x.Possible[i].Chosen {
			others++
		}
	}
	if others == 0 {
		return text + "; no other pod was possible"
	}
	text += "; " + phrase.Count(int64(others), "other pod was", "other pods were") + " possible"
	if by.Group != "" || by.Composite != "" {
		return text + ": the least important are taken until the gang fits, and the ones that can stay are put back"
	}
	var nodes []string
	for i := range x.Options {
		if o := &x.Options[i]; !o.Chosen && o.Node != "" {
			nodes = append(nodes, o.Node)
		}
	}
	text += ": of a node's pods the least important that are enough"
	if len(nodes) > 0 {
		shown := nodes[:min(3, len(nodes))]
		text += fmt.Sprintf("; %s would have had room as well (%s), where the victims violate more budgets, or are "+
			"more important, more, or older", phrase.Count(int64(len(nodes)), "node", "nodes"),
			strings.Join(shown, ", "))
	}
	return text
}
