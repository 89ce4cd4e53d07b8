package cluster

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// This file reads the PodGroups of Volcano and of the KAI Scheduler. docs/GANGS.md has the fields that Rollcall carries
// out, ignores, and refuses.

// GroupResources returns the resources whose objects declare gangs, in order of precedence: of several objects of one
// name the first one counts.
func GroupResources() []eventlog.Resource {
	return []eventlog.Resource{
		eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups,
	}
}

// DeclaresGroups reports whether the objects of a resource declare gangs.
func DeclaresGroups(res eventlog.Resource) bool { return slices.Contains(GroupResources(), res) }

// volcano reads a PodGroup of scheduling.volcano.sh.
func (r *annotations) volcano(d *declaration, spec *volcano.PodGroupSpec) {
	r.atLeastZero("spec.minMember", spec.MinMember)
	d.terms.min = int(spec.MinMember)
	d.class = spec.PriorityClassName
	d.room = roomOf(WithoutQuotaNames(spec.MinResources))
	d.parts.label = volcano.TaskLabel
	sum := 0
	for _, task := range slices.Sorted(maps.Keys(spec.MinTaskMember)) {
		p := part{task, int(spec.MinTaskMember[task]), "spec.minTaskMember[" + quoted(task) + "]"}
		r.atLeastZero(p.field, spec.MinTaskMember[task])
		d.parts.add(p)
		sum += p.min
	}
	if sum > d.terms.min {
		d.parts.each = nil // Volcano does not look at them either
	}
	r.networkTopology("spec.networkTopology", spec.NetworkTopology)
	if len(spec.SubGroupPolicy) > 0 {
		r.fail("has spec.subGroupPolicy, which is not carried out: leave it out, or make a PodGroup of each part")
	}
}

// networkTopology refuses a topology that must be kept, and ignores a soft one. Without a tier none is asked for.
func (r *annotations) networkTopology(field string, t *volcano.NetworkTopology) {
	if t == nil {
		return
	}
	switch t.Mode {
	case "", "hard":
		if t.HighestTierAllowed != nil || t.HighestTierName != "" {
			r.fail("has %s of the mode hard, which is not carried out: leave it out, and use annotation %s", field,
				topologyRequired)
		}
	case "soft":
	default:
		r.fail("has %s.mode %s: want hard or soft", field, quoted(t.Mode))
	}
}

// kai reads a PodGroup of scheduling.run.ai.
func (r *annotations) kai(d *declaration, spec *kai.PodGroupSpec) {
	d.terms.min = 1
	if n := spec.MinMember; n != nil {
		r.atLeastZero("spec.minMember", *n)
		d.terms.min = int(*n)
	}
	d.class = spec.PriorityClassName
	switch spec.Preemptibility {
	case "", kai.Preemptible:
	case kai.NonPreemptible:
		d.stays = true
	default:
		r.fail("has spec.preemptibility %s: want %s or %s", quoted(spec.Preemptibility), kai.Preemptible,
			kai.NonPreemptible)
	}
	if spec.MinMember != nil && spec.MinSubGroup != nil {
		r.fail("has both spec.minMember and spec.minSubGroup: want one of them")
	}
	if n := spec.MinSubGroup; n != nil && int(*n) != len(spec.SubGroups) {
		r.fail("has spec.minSubGroup %d and %d spec.subGroups: to need some of them only is not carried out", *n,
			len(spec.SubGroups))
	}
	r.kaiTopology("spec.topologyConstraint", &spec.TopologyConstraint)
	d.own.topology(spec.TopologyConstraint.RequiredTopologyLevel, spec.TopologyConstraint.PreferredTopologyLevel)
	if len(spec.SubGroups) > 0 {
		r.subGroups(d, spec.SubGroups)
	}
}

// subGroups reads the parts of a PodGroup of KAI, all of which are needed: the minimum is the sum of their minimums.
func (r *annotations) subGroups(d *declaration, all []kai.SubGroup) {
	d.parts.label = kai.SubGroupLabel
	sum, known := 0, make(map[string]bool, len(all)) // objects may have tens of thousands
	for i := range all {
		sub, field := &all[i], fmt.Sprintf("spec.subGroups[%d]", i)
		switch {
		case sub.Name == "":
			r.fail("has %s.name \"\": want a name", field)
		case known[sub.Name]:
			r.fail("has %s.name %s, which another one has too", field, quoted(sub.Name))
		case sub.Parent != nil:
			r.fail("has %s.parent %s: subgroups below each other are not carried out", field, quoted(*sub.Parent))
		case sub.MinSubGroup != nil:
			r.fail("has %s.minSubGroup %d, and no subgroup is below it", field, *sub.MinSubGroup)
		case sub.MinMember == nil:
			r.fail("has %s without minMember: want a number from 0 to %d", field, math.MaxInt32)
		default:
			r.atLeastZero(field+".minMember", *sub.MinMember)
			if t := sub.TopologyConstraint; t != nil && t.RequiredTopologyLevel != "" {
				r.fail("has %s.topologyConstraint.requiredTopologyLevel %s: a topology of a subgroup is not "+
					"carried out", field, quoted(t.RequiredTopologyLevel))
			}
			known[sub.Name] = true
			d.parts.add(part{sub.Name, int(*sub.MinMember), field + ".minMember"})
			sum += int(*sub.MinMember)
		}
	}
	slices.SortFunc(d.parts.each, func(a, b part) int { return strings.Compare(a.value, b.value) })
	d.terms.min = sum
}

// kaiTopology reports levels that name no label of nodes, and levels without a Topology, which KAI ignores.
func (r *annotations) kaiTopology(field string, t *kai.TopologyConstraint) {
	for _, level := range [...]struct{ name, label string }{
		{"requiredTopologyLevel", t.RequiredTopologyLevel}, {"preferredTopologyLevel", t.PreferredTopologyLevel},
	} {
		switch {
		case level.label == "":
		case len(validation.IsQualifiedName(level.label)) > 0:
			r.fail("has %s.%s %s: want a label key such as topology.kubernetes.io/zone", field, level.name,
				quoted(level.label))
		case t.Topology == "":
			r.fail("has %s.%s %s, and %[1]s.topology is missing", field, level.name, quoted(level.label))
		}
	}
}

// topology adds labels to the ones in Rollcall's annotations, unless these have a fault.
func (o *own) topology(required, preferred string) {
	if o.fault == "" {
		o.required, o.preferred = withKey(o.required, required), withKey(o.preferred, preferred)
	}
}

// withKey adds a label to a list of them, unless it is there, or none.
func withKey(list, key string) string {
	if key == "" || slices.Contains(strings.Split(list, ","), key) {
		return list
	}
	return strings.TrimPrefix(list+","+key, ",")
}

// atLeastZero faults a number that the API's own validation does not let pass either.
func (r *annotations) atLeastZero(field string, n int32) {
	if n < 0 {
		r.fail("has %s %d: want a number from 0 to %d", field, n, math.MaxInt32)
	}
}

// WithoutQuotaNames returns the amounts without names that only a ResourceQuota uses, such as limits.cpu and
// count/pods. Volcano's controllers write them into minResources beside resources of nodes.
func WithoutQuotaNames(list v1.ResourceList) v1.ResourceList {
	plain := v1.ResourceList{}
	// any order: each by itself
	for name, amount := range list {
		isOf := func(begin string) bool { return strings.HasPrefix(string(name), begin) }
		if !slices.ContainsFunc([]string{"requests.", "limits.", "count/"}, isOf) {
			plain[name] = amount
		}
	}
	return plain
}

// Stays reports whether the gang's object says that its pods are not to be preempted.
func (g *Group) Stays() bool { return len(g.declarations) > 0 && g.declarations[0].stays }
