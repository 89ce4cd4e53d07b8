package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// own has the values of Rollcall's own annotations, of a gang's object or of a member. It does not matter who gives the
// minimum. Two members agree if theirs are equal. The zero value has none.
type own struct {
	below     string // Keep or Evict: the rest, when the gang falls below its minimum
	required  string // labels of nodes, joined by commas, of each of which all members' nodes have one value
	preferred string // labels of which they had better have one value, the first one first
	fault     string // what is wrong with one of the annotations; nothing else is said then
}

// OwnAnnotations are Rollcall's own annotations for PodGroups and members.
func OwnAnnotations() []string { return []string{belowMinimum, topologyRequired, topologyPreferred} }

func ownOf(values map[string]string) own {
	r := annotations{values: values}
	o := own{
		below:     values[belowMinimum],
		required:  r.labelKeys(topologyRequired),
		preferred: r.labelKeys(topologyPreferred),
	}
	switch o.below {
	case "", "Keep", "Evict":
	default:
		r.bad(belowMinimum, "Keep or Evict")
	}
	if r.fault != "" {
		return own{fault: r.fault}
	}
	return o
}

// labelKeys reads a list of label keys, separated by commas; spaces around them do not count.
func (r *annotations) labelKeys(key string) string {
	text := r.values[key]
	if text == "" {
		return ""
	}
	var keys []string
	for part := range strings.SplitSeq(text, ",") {
		label := strings.TrimSpace(part)
		if errs := validation.IsQualifiedName(label); len(errs) > 0 || slices.Contains(keys, label) {
			r.bad(key, "a list of different label keys such as topology.kubernetes.io/zone,example.com/rack")
			return ""
		}
		keys = append(keys, label)
	}
	return strings.Join(keys, ",")
}

// requireAlso adds the topology constraints of a PodGroup of scheduling.k8s.io to the constraints of its annotation.
func (o *own) requireAlso(constraints *schedulingv1beta1.PodGroupSchedulingConstraints) {
	if constraints == nil || o.fault != "" {
		return
	}
	var keys []string
	if o.required != "" {
		keys = strings.Split(o.required, ",")
	}
	for i, c := range constraints.Topology {
		if errs := validation.IsQualifiedName(c.Key); len(errs) > 0 {
			*o = own{
				fault: fmt.Sprintf(
					"has spec.schedulingConstraints.topology[%d].key %s: want a label key such as "+
						"topology.kubernetes.io/zone",
					i,
					quoted(c.Key),
				),
			}
			return
		}
		if !slices.Contains(keys, c.Key) {
			keys = append(keys, c.Key)
		}
	}
	o.required = strings.Join(keys, ",")
}

// said returns the values for the gang: from its object, and from its members where the object has none. If members
// contradict each other it is the most that any of them asks for. The gang is refused then.
func (g *Group) said() own {
	var most own
	// any order: the greatest is found
	for o := range g.own.count {
		if o.compare(most) > 0 {
			most = o
		}
	}
	if len(g.declarations) == 0 {
		return most
	}
	o := g.declarations[0].own
	return own{
		below:     cmp.Or(o.below, most.below),
		required:  cmp.Or(o.required, most.required),
		preferred: cmp.Or(o.preferred, most.preferred),
	}
}

func (o own) compare(p own) int {
	return cmp.Or(
		strings.Compare(p.fault, o.fault),
		strings.Compare(o.below, p.below),
		strings.Compare(o.required, p.required),
		strings.Compare(o.preferred, p.preferred),
	)
}

// asked returns the terms of the gang, from whichever source gives its minimum, and from Rollcall's own annotations.
func (g *Group) asked() terms {
	t, o := g.declaredTerms(), g.said()
	t.evict, t.required, t.preferred = o.below == "Evict", o.required, o.preferred
	return t
}

// judgeOwn compares what members say in Rollcall's own annotations with each other and with the object.
func (g *Group) judgeOwn() string {
	if len(g.own.count) == 0 {
		return ""
	}
	a, b := g.own.sides(g.members, ownFact)
	for _, p := range []*Pod{a, b} {
		if p != nil && p.facts.own.fault != "" {
			return p.name() + " " + p.facts.own.fault
		}
	}
	if b != nil {
		return fmt.Sprintf(
			"its members ask for different things: %s for %s, %s for %s",
			a.name(),
			a.facts.own,
			b.name(),
			b.facts.own,
		)
	}
	if len(g.declarations) == 0 {
		return ""
	}
	d, o := &g.declarations[0], a.facts.own
	for _, row := range [...]struct{ key, object, member string }{
		{belowMinimum, d.own.below, o.below}, {topologyRequired, d.own.required, o.required},
		{topologyPreferred, d.own.preferred, o.preferred},
	} {
		if row.object != "" && row.member != "" && row.object != row.member {
			return fmt.Sprintf(
				"it is asked for different things by %s: %s %s for %s, %s for %s",
				row.key,
				d.resource,
				g,
				quoted(row.object),
				a.name(),
				quoted(row.member),
			)
		}
	}
	return ""
}

// String returns the values as messages about a contradiction show them.
func (o own) String() string {
	var parts []string
	for _, row := range [...]struct{ key, value string }{
		{belowMinimum, o.below}, {topologyRequired, o.required}, {topologyPreferred, o.preferred},
	} {
		if row.value != "" {
			parts = append(parts, row.key+" "+abridged(row.value))
		}
	}
	return strings.Join(parts, ", ")
}
