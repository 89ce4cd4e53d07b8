package order

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/entities"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// maxViolations is the number of violations that a report keeps; it counts all.
const maxViolations = 100_000

// Options say what is audited.
type Options struct {
	// From and Last are the first and the last entry that are audited. Entries before From are applied.
	From, Last uint64
	// Keep is the number of allowed overtakings that the report keeps, the least regular ones; it counts all.
	Keep uint64
	// Filter selects the overtakings of an entity, or by one.
	Filter entities.Filter
}

// Audit reads a range of a log, and the entries before it that make the state to begin with, and reports every
// overtaking in the range.
func Audit(ctx context.Context, log *history.Log, o Options) (*Report, error) {
	m, err := log.Nearest(o.From - min(1, o.From))
	if err != nil {
		return nil, err
	}
	a := &auditor{
		Options: o, m: m, report: &Report{
			First: o.From, Filter: o.Filter.String(), Rules: map[Rule]uint64{}, Overtakings: []Overtaking{},
		},
		line: line{places: map[queue.Key]place{}, idle: map[queue.Key]bool{}}, refused: map[queue.Key]refusal{},
		chosen: map[queue.Key]*choice{},
	}
	if err := a.start(); err != nil {
		return nil, err
	}
	behind := history.Query{From: m.Seq() + 1, To: history.Bound{Seq: o.Last}}
	for e, err := range log.Entries(ctx, behind) {
		if err != nil {
			return nil, err
		}
		if err := a.take(e); err != nil {
			return nil, fmt.Errorf("audit entry %d: %w", e.Seq, err)
		}
	}
	return a.report, nil
}

// auditor is an audit under way.
type auditor struct {
	Options
	m      *scheduler.Machine
	report *Report

	line      line
	policies  map[string]string // by profile: the queue policy of its lane; none for BestEffort
	byRequeue bool              // equal priorities go by when they were queued last, as PrioritySort has it
	refused   map[queue.Key]refusal
	chosen    map[queue.Key]*choice // the attempts under way
	blocked   []backfill.BlockedLane
	blockedAt uint64 // behind which entry blocked was asked for
}

// refusal is the last Decision that refused an entity.
type refusal struct {
	seq     uint64
	reasons []string
}

// choice is an attempt under way: what it overtakes if it places its entity.
type choice struct {
	overtakes []passed
	// placed says that the overtakings are reported. The attempt may continue with members beyond the minimum.
	placed bool
}

// passed is an overtaking, with the rule and the detail that hold if it is not allowed by Nominated.
type passed struct {
	Overtaking
	key       queue.Key // of the one that was overtaken
	otherwise Rule
	instead   string
	strayed   bool // a pod was placed where no Decision had kept room for it
}

// start takes in the state before the first entry.
func (a *auditor) start() error {
	if a.m.Seq() == 0 {
		return nil
	}
	if err := a.configure(a.m.Config()); err != nil {
		return err
	}
	for _, e := range a.m.Queue().All() {
		a.line.touch(a, e.Key())
	}
	return nil
}

// take audits an entry and applies it.
func (a *auditor) take(e eventlog.Entry) error {
	d, _ := e.Payload.(*eventlog.Decision)
	var key queue.Key
	if d != nil {
		key = a.beforeDecision(e, d)
	}
	touched := a.keysOf(e.Payload) // an object that goes is not found any more behind its entry
	if err := a.m.Apply(e); err != nil {
		return err
	}
	if p, ok := e.Payload.(*eventlog.EpochStarted); ok {
		if err := a.configure(p.Config); err != nil {
			return err
		}
		for _, entity := range a.m.Queue().All() {
			a.line.touch(a, entity.Key())
		}
	}
	for _, key := range append(touched, a.keysOf(e.Payload)...) {
		a.line.touch(a, key)
	}
	if d != nil {
		a.afterDecision(e, d, key)
	}
	if e.Seq >= a.From {
		a.report.Last = e.Seq
	}
	return nil
}

// beforeDecision judges the choice that a Decision makes if it begins an attempt. It returns the Decision's entity: one
// that is attempted, or one of which a pod was held and continues.
func (a *auditor) beforeDecision(e eventlog.Entry, d *eventlog.Decision) queue.Key {
	q := a.m.Queue()
	pod := a.m.Cluster().Pods().Get(d.UID)
	if q == nil || pod == nil {
		return queue.Key{}
	}
	by := q.Find(d.UID)
	if by == nil || d.Outcome == eventlog.Evicted || d.Outcome == eventlog.Reserved || d.Outcome == eventlog.Asked {
		return queue.Key{} // it is about a pod that is bound, or about room, or asks before an attempt
	}
	if pod.Stage != cluster.Pending {
		if d.Outcome == eventlog.Scheduled {
			return by.Key() // it ends the wait of a pod, and may complete its gang
		}
		return queue.Key{}
	}
	if by.State() != queue.InFlight {
		a.choose(e, by)
	}
	if c := a.chosen[by.Key()]; c != nil && d.Node != "" {
		a.stray(e, d, by, c)
	}
	return by.Key()
}

// stray judges a pod that goes to a node where no Decision had room kept for it. While the overtaken entity lets
// nothing pass, that makes violations of the overtakings that the rule Nominated allows. So stray judges all pods that
// the attempt places, also the pods beyond the minimum.
func (a *auditor) stray(e eventlog.Entry, d *eventlog.Decision, by *queue.Entity, c *choice) {
	if !slices.ContainsFunc(c.overtakes, func(o passed) bool { return o.Rule == Nominated && !o.strayed }) {
		return
	}
	for _, k := range a.m.KeptFor(by.Key()) {
		if k.Own && k.Pod.Object.UID == d.UID && k.Node == d.Node {
			return
		}
	}
	for i := range c.overtakes {
		o := &c.overtakes[i]
		if o.Rule != Nominated || o.strayed || !a.stillWaits(o.key, by) {
			continue
		}
		o.strayed = true
		wrong := o.Overtaking
		wrong.Verdict, wrong.Rule = Violation, o.otherwise
		wrong.Detail = fmt.Sprintf("%s; pod %s/%s went to node %s, where no Decision had kept room for it", o.instead,
			d.Namespace, d.Name, d.Node)
		if !c.placed {
			o.Overtaking = wrong
			continue
		}
		wrong.Placed, wrong.Time = e.Seq, e.Time.String()
		a.add(wrong)
	}
}

// add reports an overtaking, if it is asked for.
func (a *auditor) add(o Overtaking) {
	if a.Filter.Any() || a.Filter.Selects(o.By.entity()) || a.Filter.Selects(o.Overtaken.entity()) {
		a.report.add(o, a.Keep)
	}
}

// stillWaits reports whether an entity is ahead of by, and lets none of its lane pass, while by is attempted.
func (a *auditor) stillWaits(key queue.Key, by *queue.Entity) bool {
	other := a.m.Queue().Get(key)
	if other == nil || other.State() == queue.Placed || other.State() == queue.Gated {
		return false
	}
	return a.placeOf(other).stands(a.placeOf(by)) && !a.m.LetsPass(other)
}

// choose notes an attempt that begins, and whom it overtakes if it places its entity.
func (a *auditor) choose(e eventlog.Entry, by *queue.Entity) {
	c := &choice{}
	a.chosen[by.Key()] = c
	if e.Seq < a.From {
		return
	}
	a.report.Attempts++
	for _, other := range a.line.before(a, by) {
		rule, detail := a.judge(other, by)
		verdict := Allowed
		if rule.isViolation() {
			verdict = Violation
		}
		refused := a.refused[other.Key()]
		o := passed{key: other.Key(), otherwise: rule, instead: detail, Overtaking: Overtaking{
			Verdict: verdict, Rule: rule, Detail: detail, Overtaken: entityOf(other), By: entityOf(by),
			Chosen: e.Seq, Refused: refused.seq, Reasons: refused.reasons,
		}}
		if rule.isViolation() && a.mayOvertake(other, by) {
			o.Verdict, o.Rule, o.Detail = Allowed, Nominated, nominatedDetail
		}
		c.overtakes = append(c.overtakes, o)
	}
}

// afterDecision reports the overtakings of an attempt that has placed its entity, and notes refusals.
func (a *auditor) afterDecision(e eventlog.Entry, d *eventlog.Decision, key queue.Key) {
	if key == (queue.Key{}) {
		return
	}
	if d.Outcome == eventlog.Unschedulable || d.Outcome == eventlog.Error {
		a.refused[key] = refusal{e.Seq, reasonsOf(d)}
	}
	c := a.chosen[key]
	if c != nil && !c.placed && (d.Outcome == eventlog.Scheduled || len(d.Allowed) > 0) {
		if e.Seq >= a.From {
			a.report.Placed++
		}
		for i := range c.overtakes {
			o := &c.overtakes[i]
			o.Placed, o.Time = e.Seq, e.Time.String()
			a.add(o.Overtaking)
		}
		c.placed = true
	}
	entity := a.m.Queue().Get(key)
	if c == nil || entity != nil && (entity.State() == queue.InFlight || !c.placed && entity.NumPlaced() > 0) {
		return // it continues, or its pods wait on nodes for other plugins
	}
	delete(a.chosen, key)
}

// mayOvertake reports whether by could be attempted, although other was waiting for its turn ahead of it in its lane.
// Room was kept for by then: something in the lane let nothing pass, and by overtakes both.
func (a *auditor) mayOvertake(other, by *queue.Entity) bool {
	if other.State() == queue.InFlight || !a.m.Overtakes(by, other) {
		return false
	}
	if other.State() != queue.Active {
		return true // judgeLane has found that it lets nothing pass
	}
	first := a.blocker(other)
	return first != nil && a.m.Overtakes(by, first)
}

// judge says why by could be attempted although other is ahead of it in the queue, or which rule that violates, leaving
// aside what is kept for by.
func (a *auditor) judge(other, by *queue.Entity) (Rule, string) {
	policy := a.policies[other.Profile()]
	sameLane := policy != "" && a.m.Queue().SameLane(other, by)
	switch other.State() {
	case queue.Gated:
		return Gated, fmt.Sprintf("kept out of the queue by %s: %s", other.GatingPlugin(), other.GatingMessage())
	case queue.InFlight:
		return Attempt, "its attempt was under way, and nothing else may be attempted before that ends"
	case queue.Active:
		if a.m.Queue().CompareLanes(by, other) < 0 {
			return Lane, fmt.Sprintf("the queue policy %s has its lane behind the other one", policy)
		}
		if first := a.blocker(other); first != nil && !sameLane && !a.m.Overtakes(other, first) {
			return Lane, fmt.Sprintf("%s of its profile, which comes before it, had not been placed, and its queue "+
				"policy is %s", entityOf(first), policy)
		}
		return Turn, "it was active, and its turn came first"
	}
	if a.hasMinimum(other) {
		return Beyond, "it has its minimum on nodes, and members beyond that block nothing"
	}
	if sameLane {
		if rule, detail := a.judgeLane(other, policy); rule != "" {
			return rule, detail
		}
	}
	switch {
	case other.State() == queue.Asking:
		return Asking, "HTTP extenders had been asked about it, and had not answered"
	case other.State() == queue.Backoff:
		return Backoff, fmt.Sprintf("in backoff until %s", other.BackoffUntil())
	case other.Retryable():
		return NoRoom, "it waited for room for all of it" + a.shortfall(other)
	}
	return Refused, "its last attempt failed, and nothing had come that asked for a retry" + a.shortfall(other)
}

const nominatedDetail = "the lane let nothing pass, but room was kept on nodes for the one that was placed, and " +
	"entities of its priority must leave it that"

// judgeLane judges by the queue policy of the lane that both are in; "" if that lets others pass.
func (a *auditor) judgeLane(other *queue.Entity, policy string) (Rule, string) {
	switch policy {
	case strictFIFO:
		return Strict, "the queue policy StrictFIFO lets none pass it"
	case backfilling:
	default:
		if !a.m.LetsPass(other) {
			return Strict, fmt.Sprintf("the queue policy %s lets none pass it", policy)
		}
		return "", ""
	}
	for _, r := range a.m.Reservations() {
		if r.Key == other.Key() {
			return Reserved, fmt.Sprintf("room is reserved for it at %s, and Backfill lets others use the rest", r.At)
		}
	}
	if b := a.blocks(other); b != nil {
		return Blocked, fmt.Sprintf("since %s it let nothing of its lane pass", b.Since)
	}
	return "", ""
}

// blocker returns an entity that keeps an active one of its lane from being attempted; nil for none. Under Backfill
// that is one whose own turn it is, or the one that blocks the lane.
func (a *auditor) blocker(e *queue.Entity) *queue.Entity {
	policy := a.policies[e.Profile()]
	if policy == "" {
		return nil
	}
	for _, first := range a.line.before(a, e) {
		waits := first.State() == queue.Active ||
			policy == strictFIFO && (first.State() == queue.Backoff || first.State() == queue.Unschedulable) ||
			policy != strictFIFO && a.blocks(first) != nil
		if waits && first.Profile() == e.Profile() && (first.State() == queue.Active || !a.hasMinimum(first)) {
			return first
		}
	}
	return nil
}

// blocks returns the lane that an entity blocks under Backfill, nil for none.
func (a *auditor) blocks(e *queue.Entity) *backfill.BlockedLane {
	if a.blockedAt != a.m.Seq() {
		a.blocked, a.blockedAt = a.m.BlockedLanes(), a.m.Seq()
	}
	for i := range a.blocked {
		if a.blocked[i].Key == e.Key() {
			return &a.blocked[i]
		}
	}
	return nil
}

// hasMinimum reports whether a gang has its minimum on nodes, or a composite enough of its gangs, so that only members
// beyond that wait.
func (a *auditor) hasMinimum(e *queue.Entity) bool {
	key, c := e.Key(), a.m.Cluster()
	var gangs []*cluster.Group
	switch key.Type {
	case fwk.PodGroupKeyType:
		if g := c.Gangs().Named(key.Namespace, key.Name); g != nil {
			gangs = append(gangs, g)
		}
	case fwk.CompositePodGroupKeyType:
		if composite := c.Gangs().Composite(key.Namespace, key.Name); composite != nil {
			gangs = composite.Gangs()
		}
	}
	if len(gangs) == 0 {
		return false
	}
	unit := gangs[0].Tally(nil)
	return unit.Satisfied()
}

// keysOf returns the entities that a payload may be about.
func (a *auditor) keysOf(p eventlog.Payload) []queue.Key {
	q := a.m.Queue()
	if q == nil {
		return nil
	}
	var keys []queue.Key
	find := func(uids ...types.UID) {
		for _, uid := range uids {
			if e := q.Find(uid); e != nil {
				keys = append(keys, e.Key())
			}
		}
	}
	switch p := p.(type) {
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok {
			find(pod.UID)
			break
		}
		namespace, name := p.Object.GetNamespace(), p.Object.GetName()
		keys = append(keys, fwk.PodGroupKey(namespace, name), fwk.CompositePodGroupKey(namespace, name))
	case *eventlog.Deleted:
		find(p.UID)
	case *eventlog.BindResult:
		find(p.UID)
	case *eventlog.EvictResult: // a victim that stays may be scheduled again, and pods that wait for its room retried
		find(p.UID)
		find(a.m.MakesRoomFor(p.Decision)...)
		find(a.m.WaitingBeside(p.UID)...)
	case *eventlog.Decision:
		find(p.UID)
		find(p.Rejected...)
	}
	return keys
}

// strictFIFO is the queue policy that lets nothing pass.
const strictFIFO = "StrictFIFO"

// backfilling is the queue policy that lets pass what delays nobody.
const backfilling = "Backfill"

// configure takes from a configuration the queue policies of its profiles, and how they sort.
func (a *auditor) configure(config []byte) error {
	var c struct {
		Profiles []struct {
			SchedulerName string
			Plugins       struct {
				QueueSort, MultiPoint struct{ Enabled []struct{ Name string } }
			}
			PluginConfig []struct {
				Name string
				Args json.RawMessage
			}
		}
	}
	if len(config) == 0 {
		return nil
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	a.policies, a.byRequeue = map[string]string{}, false
	for i := range c.Profiles {
		p := &c.Profiles[i]
		for _, plugin := range slices.Concat(p.Plugins.QueueSort.Enabled, p.Plugins.MultiPoint.Enabled) {
			a.byRequeue = a.byRequeue || plugin.Name == "PrioritySort"
		}
		for _, pc := range p.PluginConfig {
			var args struct{ QueuePolicy string }
			if pc.Name != "Coscheduling" || len(pc.Args) == 0 {
				continue
			}
			if err := json.Unmarshal(pc.Args, &args); err != nil {
				return fmt.Errorf("read the arguments of Coscheduling: %w", err)
			}
			if args.QueuePolicy != "" && args.QueuePolicy != "BestEffort" {
				a.policies[p.SchedulerName] = args.QueuePolicy
			}
		}
	}
	return nil
}

func entityOf(e *queue.Entity) Entity {
	key := e.Key()
	out := Entity{Kind: string(key.Type), Name: key.Namespace + "/" + key.Name, Priority: e.Priority()}
	if t := e.FirstActive(); t != 0 {
		out.ActiveSince = t.String()
	}
	return out
}
