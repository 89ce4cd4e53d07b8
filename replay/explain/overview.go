package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// How much an overview has of each kind.
const (
	maxOverviewNames   = 5
	maxOverviewWaiting = 5
	maxOverviewNever   = 20
	maxOverviewRecent  = 5

	recentTime    = time.Hour // in which a preemption is recent
	recentEntries = 20000     // the number of entries that are searched for one at most
)

// Overview says what is wrong at a point of the log.
func Overview(ctx context.Context, log *history.Log, opts Options) (*answer.Overview, error) {
	at, err := log.Locate(ctx, opts.bound())
	if err != nil {
		return nil, err
	}
	base, err := log.Base()
	if err != nil {
		return nil, err
	}
	m, err := log.At(ctx, at.Seq)
	if err != nil {
		return nil, err
	}
	o := &overview{m: m, survey: NewSurveyOf(log, m), x: &answer.Overview{Findings: []answer.Finding{}}}
	o.x.Undecided = log.Undecided(m)
	o.x.At, o.x.Pods = o.survey.At(), m.Cluster().Pods().Len()
	if base > 0 {
		o.x.KnownFrom = base + 1
	}
	pending, err := o.survey.Pending(nil)
	if err != nil {
		return nil, err
	}
	o.x.PendingEntities = len(pending)
	o.nodes()
	o.never(pending)
	o.below()
	o.waiting(pending)
	o.reserved()
	return o.x, o.preemptions(ctx, log, base)
}

// overview is an Overview under way.
type overview struct {
	m      *scheduler.Machine
	survey *Survey
	x      *answer.Overview
}

func (o *overview) add(kind string, names []string, command, format string, args ...any) {
	if command != "" {
		command += fmt.Sprintf(" --at %d", o.x.At.Seq)
	}
	o.x.Findings = append(o.x.Findings, answer.Finding{Kind: kind, Names: names,
		Message: fmt.Sprintf(format, args...), Command: command})
}

// named lists the first of some names.
func named(names []string) string {
	shown := strings.Join(names[:min(maxOverviewNames, len(names))], ", ")
	if more := len(names) - maxOverviewNames; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown
}

// nodes adds the nodes that are down, and the cordoned ones.
func (o *overview) nodes() {
	infos, _ := o.m.Cluster().Nodes().List()
	o.x.Nodes = len(infos)
	by, pods := map[string][]string{}, map[string]int{}
	for _, n := range infos {
		status := NodeStatus(n.Node())
		worst := status[0]
		if worst == Ready {
			worst = status[len(status)-1]
		}
		by[worst] = append(by[worst], n.Node().Name)
		pods[worst] += len(n.GetPods())
	}
	for _, status := range []string{Unreachable, NotReady, Tainted, Cordoned} {
		names := by[status]
		if len(names) == 0 {
			continue
		}
		kind, command := "NodesDown", "rollcall explain LOG node "+names[0]
		if status == Cordoned {
			kind = "NodesCordoned"
		}
		words := map[string]string{Unreachable: "unreachable", NotReady: "not ready",
			Tainted: "tainted, so that their pods are evicted", Cordoned: "cordoned"}[status]
		o.add(kind, names, command, "%s %s, with %s on %s: %s",
			phrase.Count(int64(len(names)), "node is", "nodes are"), words,
			phrase.Count(int64(pods[status]), "pod", "pods"), phrase.Verb(len(names), "it", "them"), named(names))
	}
}

// never adds the entities that no end of other pods helps.
func (o *overview) never(pending []answer.Pending) {
	for i := range pending {
		x := &pending[i]
		if x.Never == "" {
			continue
		}
		if len(o.x.Findings) > maxOverviewNever {
			o.add("NeverPlaced", nil, "rollcall get LOG pending", "more entities cannot be placed as they are")
			return
		}
		o.add("NeverPlaced", []string{x.Name}, fmt.Sprintf("rollcall explain LOG %s %s", x.Kind, x.Name),
			"%s %s cannot be placed as it is: %s", x.Kind, x.Name, x.Never)
	}
}

// below adds the gangs that had their minimum and have lost it.
func (o *overview) below() {
	for _, name := range o.m.Cluster().Gangs().Names() {
		o.x.Gangs++
		g := o.m.Cluster().Gangs().Named(name.Namespace, name.Name)
		ending := 0
		for _, p := range g.Members() {
			if p.Stage == cluster.Bound && p.Leaving() {
				ending++
			}
		}
		if ending > 0 && g.Placed() == 0 && g.Ready() > 0 {
			o.add("LostNodes", []string{g.String()}, "rollcall explain LOG gang "+g.String(),
				"gang %s has lost its nodes: %s on nodes are ending, and %d others wait", g,
				phrase.Count(int64(ending), "member", "members"), g.Ready())
		}
		running := g.Placed() > 0 && g.Met() && !g.HasMinimum(gang.Kept)
		if !running {
			continue
		}
		o.add("BelowMinimum", []string{g.String()}, "rollcall explain LOG gang "+g.String(),
			"gang %s is below its minimum: %d of %d members are on nodes", g, g.Placed(), g.Min())
	}
}

// waiting adds the entities that have waited longest, of the ones that may be placed some day.
func (o *overview) waiting(pending []answer.Pending) {
	var waiting []answer.Pending
	for _, x := range pending {
		if x.Never == "" && x.Since != 0 {
			waiting = append(waiting, x)
		}
	}
	slices.SortStableFunc(waiting, func(a, b answer.Pending) int { return cmp.Compare(a.Since, b.Since) })
	for i := range waiting {
		x := &waiting[i]
		if i == maxOverviewWaiting {
			o.add("Waiting", nil, "rollcall get LOG pending", "%s more", phrase.Count(int64(len(waiting)-i),
				"entity waits", "entities wait"))
			return
		}
		o.add("Waiting", []string{x.Name}, fmt.Sprintf("rollcall explain LOG %s %s", x.Kind, x.Name),
			"%s %s has waited for %s (%s): %s", x.Kind, x.Name,
			(time.Duration(o.x.At.Time-x.Since) / time.Second * time.Second).String(), x.Code, x.Why)
	}
}

// reserved adds the room that is kept for the first entities of lanes.
func (o *overview) reserved() {
	for _, r := range o.m.Reservations() {
		key := holderOfEntity(r.Key)
		name := phrase.Entity(key.kind, key.name)
		o.add("Reservation", []string{key.name}, "rollcall get LOG queue", "room for %s is reserved on %s, for %s",
			name, phrase.Count(int64(len(r.Places)), "node", "nodes"), answer.Instant(r.At))
	}
	for _, h := range o.m.BlockedLanes() {
		key := holderOfEntity(h.Key)
		o.add("Reservation", []string{key.name}, "rollcall get LOG queue",
			"nothing of its lane passes %s since %s: %d of the %d pods that it needs find room",
			phrase.Entity(key.kind, key.name), answer.Instant(h.Since), h.Pods, h.Needed)
	}
}

// preemptions adds the last preemptions of the last hour.
func (o *overview) preemptions(ctx context.Context, log *history.Log, base uint64) error {
	query := history.Query{To: history.Bound{Seq: o.x.At.Seq},
		Kinds: []eventlog.Kind{eventlog.KindDecision, eventlog.KindDeleted},
		Since: max(0, eventlog.Time(o.x.At.Time).Add(-recentTime))}
	query.From = max(base, o.x.At.Seq-min(o.x.At.Seq, recentEntries)) + 1
	var found []recorded
	names := map[types.UID]string{} // of pods that went
	for e, err := range log.Entries(ctx, query) {
		if err != nil {
			return err
		}
		switch p := e.Payload.(type) {
		case *eventlog.Decision:
			if len(p.Victims) > 0 {
				found = append(found, recorded{pointOf(e), p})
			}
		case *eventlog.Deleted:
			if p.Resource == eventlog.Pods {
				names[p.UID] = p.Namespace + "/" + p.Name
			}
		}
	}
	o.addPreemptions(found, names)
	return nil
}

// addPreemptions adds the last of some preemptions. names are the names of pods that have gone since.
func (o *overview) addPreemptions(found []recorded, names map[types.UID]string) {
	for i, r := range slices.Backward(found) {
		d := r.decision
		by := "pod " + decidedPod(d)
		if d.Group != "" {
			by = "gang " + d.Namespace + "/" + d.Group
		}
		if len(found)-i > maxOverviewRecent {
			o.add("Preemption", nil, "", "%s before in the last hour",
				phrase.Count(int64(i+1), "preemption", "preemptions"))
			return
		}
		verb := "were preempted for"
		if d.Outcome == eventlog.Evicted {
			verb = "were evicted with the rest of"
		}
		victim, command := names[d.Victims[0]], ""
		if p := o.m.Cluster().Pods().Get(d.Victims[0]); p != nil {
			victim = nameOf(p.Object)
		}
		if victim != "" {
			command = "rollcall explain LOG eviction " + victim
		}
		o.add("Preemption", []string{strings.TrimPrefix(strings.TrimPrefix(by, "gang "), "pod ")}, command,
			"%s %s %s at %s (entry %d)", phrase.Count(int64(len(d.Victims)), "pod", "pods"), verb, by, r.at.Time,
			r.at.Seq)
	}
}
