package victims

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/entities"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Options say what is audited.
type Options struct {
	// From and Last are the first and the last entry that are audited. Entries before From are applied.
	From, Last uint64
	// Keep is the number of preemptions without a violation that the report keeps; it counts all.
	Keep uint64
	// Filter selects the preemptions for an entity, or with victims of one.
	Filter entities.Filter
}

// Audit reads a range of a log, and the entries before it that make the state to begin with, and checks every
// preemption in the range.
func Audit(ctx context.Context, log *history.Log, o Options) (*Report, error) {
	m, err := log.Nearest(o.From - min(1, o.From))
	if err != nil {
		return nil, err
	}
	a := &auditor{Options: o, m: m, report: &Report{First: o.From, Filter: o.Filter.String(),
		Rules: map[Rule]uint64{}, Preemptions: []Preemption{}}}
	for e, err := range log.Entries(ctx, history.Query{From: m.Seq() + 1, To: history.Bound{Seq: o.Last}}) {
		if err != nil {
			return nil, err
		}
		if d, ok := e.Payload.(*eventlog.Decision); ok && e.Seq >= o.From {
			a.audit(e, d)
		}
		if err := m.Apply(e); err != nil {
			return nil, fmt.Errorf("audit entry %d: %w", e.Seq, err)
		}
		if e.Seq >= o.From {
			a.report.Last = e.Seq
		}
	}
	return a.report, nil
}

// auditor is an audit under way. Its Machine has the state before the entry that is audited.
type auditor struct {
	Options
	m      *scheduler.Machine
	report *Report
}

// audit checks a Decision, if it preempts.
func (a *auditor) audit(e eventlog.Entry, d *eventlog.Decision) {
	c := newCheck(a.m, d)
	if c == nil {
		return
	}
	p := Preemption{Seq: e.Seq, Time: e.Time.String(), By: c.by(), Policy: c.policyName}
	for _, v := range c.victims {
		p.Victims = append(p.Victims, c.victimOf(v))
	}
	if !a.concerns(&p) {
		return
	}
	c.run(&p)
	a.report.add(p, a.Keep)
}

// concerns reports whether the filter selects the preemptor or a victim.
func (a *auditor) concerns(p *Preemption) bool {
	return a.Filter.Any() || a.Filter.Selects(p.By) || slices.ContainsFunc(p.Victims, func(v Victim) bool {
		pod := entities.Entity{Kind: entities.Pod, Name: v.Pod, Priority: v.Priority}
		gang := entities.Entity{Kind: entities.Gang, Name: v.Gang, Priority: v.Priority}
		return a.Filter.Selects(pod) || v.Gang != "" && a.Filter.Selects(gang)
	})
}

// preempts reports whether a Decision has pods give up their nodes for its own pod or gang.
func preempts(d *eventlog.Decision) bool {
	if d.Outcome != eventlog.Unschedulable && d.Outcome != eventlog.Error {
		return len(d.Victims) > 0 && d.Outcome != eventlog.Evicted
	}
	return len(d.Victims) > 0 || len(d.Rejected) > 0 && (d.Nominated != "" ||
		slices.ContainsFunc(d.Nominations, func(n eventlog.Nomination) bool { return n.Node != "" }))
}

// victimsOf returns the pods that give up their nodes for the Decision's pod or gang: the ones that are evicted, and
// pods of others that Permit held and that are released.
func victimsOf(
	m *scheduler.Machine, pod *cluster.Pod, d *eventlog.Decision,
) (victims []*cluster.Pod, unknown []types.UID) {
	for _, uid := range d.Victims {
		if v := m.Cluster().Pods().Get(uid); v != nil {
			victims = append(victims, v)
		} else {
			unknown = append(unknown, uid)
		}
	}
	for _, uid := range d.Rejected {
		if v := m.Cluster().Pods().Get(uid); v != nil && v != pod && !together(v, pod) {
			victims = append(victims, v)
		}
	}
	return victims, unknown
}

// together reports whether two pods are admitted together.
func together(a, b *cluster.Pod) bool {
	if a.Group == nil || b.Group == nil {
		return false
	}
	return slices.Contains(a.Group.Unit(), b.Group)
}

func nameOf(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
