package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// factsOf reads the facts of a pod that belongs to g.
func factsOf(pod *v1.Pod, g *Group) facts {
	f := facts{naming: namingFault(pod), priority: corev1helpers.PodPriority(pod), scheduler: pod.Spec.SchedulerName}
	f.terms, f.fault = termsOf(pod, g.Key())
	f.own = ownOf(pod.Annotations)
	f.parts = partsOf(pod)
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		f.controller = owner.UID
	}
	return f
}

// enroll counts the facts of a member in.
func (g *Group) enroll(p *Pod) {
	g.judged = false
	g.namings.add(p, namingFact)
	g.faults.add(p, faultFact)
	g.terms.add(p, termsFact)
	g.own.add(p, ownFact)
	g.priorities.add(p, priorityFact)
	g.schedulers.add(p, schedulerFact)
	g.controllers.add(p, controllerFact)
}

// strike counts them out.
func (g *Group) strike(p *Pod) {
	g.judged = false
	g.namings.remove(p, namingFact)
	g.faults.remove(p, faultFact)
	g.terms.remove(p, termsFact)
	g.own.remove(p, ownFact)
	g.priorities.remove(p, priorityFact)
	g.schedulers.remove(p, schedulerFact)
	g.controllers.remove(p, controllerFact)
}

// Refusal returns the contradiction between the gang's members and its object, naming both sides, "" for none. A gang
// with a contradiction is not scheduled, because its intention is not known. The text follows from the present objects,
// in whatever order they came.
func (g *Group) Refusal() string {
	if !g.judged {
		g.refusal, g.judged, g.forParts = g.judge(), true, false
		if g.refusal == "" {
			g.refusal = g.judgeParts()
			g.forParts = g.refusal != ""
		}
	}
	return g.refusal
}

func (g *Group) judge() string {
	for _, find := range [...]func() string{
		g.judgeNames, g.judgeTerms, g.judgeOwn, g.judgeTotal, g.judgePriorities, g.judgeSchedulers,
	} {
		if why := find(); why != "" {
			return why
		}
	}
	return ""
}

func (g *Group) judgeNames() string {
	if len(g.namings.count) == 0 {
		return ""
	}
	p, _ := g.namings.sides(g.members, namingFact)
	return p.name() + " " + p.facts.naming
}

// judgeTerms checks the object's fields if there is an object, and else the members' fields.
func (g *Group) judgeTerms() string {
	if len(g.declarations) > 0 {
		d := &g.declarations[0]
		if d.fault != "" {
			return fmt.Sprintf("%s %s %s", d.resource, g, d.fault)
		}
		if d.parent != "" && d.terms.together != "" {
			return fmt.Sprintf(
				"%s %s is to be admitted with others by two ways: spec.parentCompositePodGroupName %s, annotation %s",
				d.resource,
				g,
				quoted(d.parent),
				koordinatorGroups,
			)
		}
		return ""
	}
	if len(g.faults.count) > 0 {
		p, _ := g.faults.sides(g.members, faultFact)
		return p.name() + " " + p.facts.fault
	}
	if len(g.terms.count) > 1 {
		a, b := g.terms.sides(g.members, termsFact)
		return fmt.Sprintf(
			"its members ask for different things: %s for %s, %s for %s",
			a.name(),
			a.facts.terms,
			b.name(),
			b.facts.terms,
		)
	}
	return ""
}

func (g *Group) judgeTotal() string {
	t := g.asked()
	if t.total == 0 || t.min <= t.total {
		return ""
	}
	who := ""
	if len(g.declarations) > 0 {
		who = fmt.Sprintf("%s %s", g.declarations[0].resource, g)
	} else {
		p, _ := g.terms.sides(g.members, termsFact)
		who = p.name()
	}
	return fmt.Sprintf("its minimum %d is above its total %d: %s", t.min, t.total, who)
}

// judgePriorities: without a priority of its own the gang has the priority of its members, which must be one.
func (g *Group) judgePriorities() string {
	if len(g.priorities.count) < 2 {
		return ""
	}
	if _, own := g.Priority(); own {
		return ""
	}
	a, b := g.priorities.sides(g.members, priorityFact)
	return fmt.Sprintf(
		"its members have different priorities: %s %d, %s %d",
		a.name(),
		a.facts.priority,
		b.name(),
		b.facts.priority,
	)
}

func (g *Group) judgeSchedulers() string {
	if len(g.schedulers.count) < 2 {
		return ""
	}
	a, b := g.schedulers.sides(g.members, schedulerFact)
	return fmt.Sprintf("its members are for different schedulers: %s for %s, %s for %s",
		a.name(), quoted(a.facts.scheduler), b.name(), quoted(b.facts.scheduler))
}

// name returns the pod's name in messages.
func (p *Pod) name() string { return "pod " + p.Object.Namespace + "/" + p.Object.Name }
