package victims

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/entities"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// check is the check of one preemption.
type check struct {
	m          *scheduler.Machine
	d          *eventlog.Decision
	pod        *cluster.Pod // that others are preempted for, or the last member of a gang
	gang       bool         // all of the gang is placed together
	resized    bool         // the pod has its node, and needs more room there
	policy     framework.VictimPolicy
	policyName string

	victims []*cluster.Pod
	unknown []types.UID
	units   []*unit
	placed  []place
}

// unit is a pod, or the pods that are disrupted together with it, as the victim policy sees them.
type unit struct {
	framework.Victim
	key  fwk.EntityKey
	pods []*cluster.Pod
}

// place is a node that a Decision keeps for a pod.
type place struct {
	pod  *cluster.Pod
	node string
}

// newCheck prepares the check of a Decision; nil if it preempts nothing.
func newCheck(m *scheduler.Machine, d *eventlog.Decision) *check {
	if !preempts(d) {
		return nil
	}
	pod := m.Cluster().Pods().Get(d.UID)
	if pod == nil {
		return nil
	}
	c := &check{m: m, d: d, pod: pod, resized: pod.Object.Spec.NodeName != ""}
	c.policyName, c.policy = scheduler.VictimPolicyOf(m, pod.Object.Spec.SchedulerName)
	c.gang = pod.Group != nil && !c.resized && !pod.Group.Suffices(gang.OnNodes)
	c.victims, c.unknown = victimsOf(m, pod, d)
	if c.policy == nil || len(c.victims)+len(c.unknown) == 0 {
		return nil
	}
	for _, v := range c.victims {
		if u := c.unitOf(v); !slices.ContainsFunc(c.units, func(o *unit) bool { return o.key == u.key }) {
			c.units = append(c.units, u)
		}
	}
	if d.Nominated != "" {
		c.placed = append(c.placed, place{pod, d.Nominated})
	}
	for _, n := range d.Nominations {
		if p := m.Cluster().Pods().Get(n.UID); p != nil && n.Node != "" {
			c.placed = append(c.placed, place{p, n.Node})
		}
	}
	return c
}

// unitOf returns the unit that a pod is disrupted in.
func (c *check) unitOf(p *cluster.Pod) *unit {
	u := &unit{}
	u.key, u.pods = p.DisruptedWith()
	if len(u.pods) == 0 {
		u.pods = []*cluster.Pod{p}
	}
	switch {
	case u.key.Type == fwk.CompositePodGroupKeyType:
		u.Kind = framework.CompositeVictim
	case p.Group != nil:
		u.Kind = framework.GangVictim
	default:
		u.Kind = framework.PodVictim
	}
	for i, each := range u.pods {
		started := c.m.Now().Std()
		if t := each.Object.Status.StartTime; t != nil {
			started = t.Time
		}
		priority := c.m.Cluster().Gangs().PriorityOf(each.Object)
		if i == 0 || started.Before(u.Started) {
			u.Started = started
		}
		if i == 0 || priority > u.Priority {
			u.Priority = priority
		}
		u.Pods = append(u.Pods, each.Object)
	}
	return u
}

// by returns the entity that others are preempted for.
func (c *check) by() entities.Entity {
	e := entities.Entity{Kind: entities.Pod, Name: nameOf(c.pod.Object),
		Priority: c.m.Cluster().Gangs().PriorityOf(c.pod.Object)}
	if c.gang {
		e.Kind, e.Name = entities.Gang, c.pod.Group.String()
	}
	return e
}

// preemptor returns the pod as the victim policy sees it.
func (c *check) preemptor() framework.Preemptor {
	return framework.Preemptor{Pod: c.pod.Object, Priority: c.by().Priority}
}

func (c *check) victimOf(p *cluster.Pod) Victim {
	v := Victim{Pod: nameOf(p.Object), UID: string(p.Object.UID), Node: p.Node,
		Priority: c.m.Cluster().Gangs().PriorityOf(p.Object), Held: p.Stage == cluster.Waiting}
	if p.Group != nil {
		v.Gang = p.Group.String()
	}
	return v
}

// run makes all checks, and notes their findings.
func (c *check) run(p *Preemption) {
	for _, uid := range c.unknown {
		p.find(Violation, Unknown, "", fmt.Sprintf("there is no pod with the UID %s", uid))
	}
	again := c.redo(p)
	c.checkPolicy(p)
	c.checkTogether(p)
	c.checkBudgets(p, again)
	switch {
	case c.resized || len(c.placed) == 0:
		p.Unproven = "the pod is resized on its node: no victim was tried by itself"
		if !c.resized {
			p.find(Violation, Nowhere, "", "the Decision keeps no node for the pod or gang that needs the room")
			p.Unproven = ""
		}
	case !c.fits(c.victims):
		if again.same {
			p.Unproven = "decided again the victims are the same, but the order in which the members fit was not found"
			break
		}
		p.find(Violation, TooFew, "", "without the victims there is still no room for the pod or gang on the nodes "+
			"that the Decision keeps for it")
	default:
		c.checkNeeded(p, again)
	}
}

// again is the same choice, made a second time.
type again struct {
	same    bool // the same pods are victims
	rules   bool // by the rules of the log: this version keeps them
	victims []*cluster.Pod
}

// redo decides again, and compares the victims.
func (c *check) redo(p *Preemption) again {
	out := again{rules: keepsRules(c.m)}
	d, ok := c.m.Decide(nil)
	if ok && d.UID == c.d.UID {
		out.victims, _ = victimsOf(c.m, c.pod, &d)
	}
	was, is := uidsOf(c.victims), uidsOf(out.victims)
	out.same = len(c.unknown) == 0 && slices.Equal(was, is)
	if out.same {
		return out
	}
	detail := "decided again, nobody is preempted here"
	switch {
	case ok && d.UID != c.d.UID:
		detail = fmt.Sprintf("decided again, pod %s/%s has its turn here, and nobody is preempted for %s",
			d.Namespace, d.Name, c.by().Name)
	case len(out.victims) > 0:
		detail = "decided again, " + differenceOf(c.victims, out.victims)
	}
	if !out.rules {
		p.find(Allowed, OtherRules, "", fmt.Sprintf("%s; the rules were changed since behaviour %d, which decided it",
			detail, c.m.Behaviour()))
		return out
	}
	p.find(Violation, Choice, "", detail)
	return out
}

// keepsRules reports whether this version decides by the rules of the Machine's epoch.
func keepsRules(m *scheduler.Machine) bool {
	at := slices.IndexFunc(scheduler.Behaviours, func(r scheduler.Rules) bool { return r.Number == m.Behaviour() })
	return at < 0 || scheduler.Behaviours[at].Kept
}

func uidsOf(pods []*cluster.Pod) (uids []string) {
	for _, p := range pods {
		uids = append(uids, string(p.Object.UID))
	}
	slices.Sort(uids)
	return uids
}

// differenceOf says which pods are in only one of two lists.
func differenceOf(was, is []*cluster.Pod) string {
	only := func(of, not []*cluster.Pod) string {
		var names []string
		for _, p := range of {
			if !slices.Contains(not, p) {
				names = append(names, nameOf(p.Object))
			}
		}
		if more := len(names) - maxNames; more > 0 {
			names = append(names[:maxNames], fmt.Sprintf("%d more", more))
		}
		return strings.Join(names, ", ")
	}
	var said []string
	if stay := only(was, is); stay != "" {
		said = append(said, stay+" stays")
	}
	if goes := only(is, was); goes != "" {
		said = append(said, goes+" goes")
	}
	return strings.Join(said, ", and ")
}

// maxNames is the number of names of pods that a sentence has.
const maxNames = 4

// checkPolicy checks that the victim policy lets each victim go for the preemptor, and that the preemptor may preempt.
func (c *check) checkPolicy(p *Preemption) {
	never := !c.m.Cluster().Gangs().MayPreempt(c.pod.Object)
	if c.gang {
		never = slices.ContainsFunc(c.pod.Group.Unit(), func(g *cluster.Group) bool { return !g.MayPreempt() })
	}
	if never {
		p.find(Violation, Never, "", "the preemptionPolicy of the preemptor is Never")
	}
	by := c.preemptor()
	for _, u := range c.units {
		switch {
		case c.isOwn(u):
			p.find(Violation, Own, u.name(), "it is admitted together with the preemptor")
		case c.policy.MayPreempt(by, &u.Victim):
		default:
			p.find(Violation, Policy, u.name(), fmt.Sprintf("the victim policy %s does not let it be preempted: its "+
				"priority is %d, and the preemptor's is %d", c.policyName, u.Priority, by.Priority))
		}
	}
	if sets, ok := c.policy.(framework.VictimSets); ok {
		all := make([]*framework.Victim, len(c.units))
		for i, u := range c.units {
			all[i] = &u.Victim
		}
		if !sets.Accepts(by, all) {
			p.find(Violation, Policy, "", fmt.Sprintf("the victim policy %s does not accept these victims together",
				c.policyName))
		}
	}
}

func (c *check) isOwn(u *unit) bool {
	return slices.ContainsFunc(u.pods, func(v *cluster.Pod) bool { return v == c.pod || c.gang && together(v, c.pod) })
}

// name returns the pod, or the gang that is disrupted together.
func (u *unit) name() string {
	if u.key.Type == fwk.PodKeyType {
		return "pod " + u.key.Namespace + "/" + u.key.Name
	}
	return fmt.Sprintf("%s %s/%s", u.key.Type, u.key.Namespace, u.key.Name)
}

// checkTogether checks that the pods of a unit go together.
func (c *check) checkTogether(p *Preemption) {
	for _, u := range c.units {
		for _, v := range u.pods {
			if !slices.Contains(c.victims, v) && !v.Ending() {
				p.find(Violation, Together, u.name(), fmt.Sprintf("its pods are disrupted together, and pod %s stays",
					nameOf(v.Object)))
				break
			}
		}
	}
}
