package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations of a Node with the offsets at which something happens to it.
const (
	// JoinsAnnotation is the offset at which it joins.
	JoinsAnnotation = "rollcall.dev/joins"
	// FailsAnnotation is the offset at which it is lost, and ReturnsAnnotation the one at which a node of that name
	// joins again.
	FailsAnnotation   = "rollcall.dev/fails"
	ReturnsAnnotation = "rollcall.dev/returns"
	// CordonedAnnotation and UncordonedAnnotation are the offsets at which spec.unschedulable is set and cleared.
	CordonedAnnotation   = "rollcall.dev/cordoned"
	UncordonedAnnotation = "rollcall.dev/uncordoned"
	// DrainedAnnotation is the offset at which it is cordoned and its pods are evicted.
	DrainedAnnotation = "rollcall.dev/drained"
	// NotReadyAnnotation and UnreachableAnnotation are the periods in which its kubelet is not ready and does not
	// answer, such as "10m..25m, 2h..".
	NotReadyAnnotation    = "rollcall.dev/not-ready"
	UnreachableAnnotation = "rollcall.dev/unreachable"
)

var (
	// nodeTimes are the annotations with one offset.
	nodeTimes = []string{JoinsAnnotation, FailsAnnotation, ReturnsAnnotation, CordonedAnnotation, UncordonedAnnotation,
		DrainedAnnotation}
	// nodeOutages are the annotations with periods.
	nodeOutages = []string{NotReadyAnnotation, UnreachableAnnotation}
)

// addNode adds a Node. Without a limit of pods it gets the kubelet's default.
func (m *manifest) addNode(d *document, node *corev1.Node) error {
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = corev1.ResourceList{}
	}
	if _, given := node.Status.Allocatable[corev1.ResourcePods]; !given {
		node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse(defaultPods)
	}
	if _, given := node.Labels[corev1.LabelHostname]; !given {
		metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelHostname, node.Name)
	}
	if err := d.invalid(validate(node), ""); err != nil {
		return err
	}
	plans, err := d.planNode(node)
	if err != nil {
		return err
	}
	if len(m.in.nodes)+len(plans) > MaxNodes {
		return d.errorf("", "more than %d nodes", MaxNodes)
	}
	m.in.nodes = append(m.in.nodes, plans...)
	return nil
}

// planNode reads the annotations of a node. It returns its plan, and another one if it returns after it has failed.
func (d *document) planNode(node *corev1.Node) ([]NodePlan, error) {
	times, err := d.times("", node.Annotations, nodeOutages, nodeTimes...)
	if err != nil {
		return nil, err
	}
	joins, fails := times[JoinsAnnotation], times[FailsAnnotation]
	for _, name := range nodeTimes {
		at, given := times[name]
		switch {
		case !given || name == JoinsAnnotation:
		case at <= joins:
			return nil, d.wrongAnnotation(name, "%s is not after the node joins at %s", at, joins)
		case name == ReturnsAnnotation && fails == 0:
			return nil, d.wrongAnnotation(name, "the node never fails: give %s too", FailsAnnotation)
		case name == ReturnsAnnotation && at <= fails:
			return nil, d.wrongAnnotation(name, "%s is not after the node fails at %s", at, fails)
		}
	}
	plan := NodePlan{
		Node: node, Joins: joins, Fails: fails, Drained: times[DrainedAnnotation],
		Cordoned: times[CordonedAnnotation], Uncordoned: times[UncordonedAnnotation],
	}
	if plan.Outages, err = d.outagesOf(node, joins, fails); err != nil {
		return nil, err
	}
	plans := []NodePlan{plan}
	if returns := times[ReturnsAnnotation]; returns != 0 {
		again := node.DeepCopy()
		again.UID, again.CreationTimestamp = "", metav1.Time{}
		plans = append(plans, NodePlan{Node: again, Joins: returns})
	}
	return plans, nil
}

// wrongAnnotation is the error of a wrong annotation of an object.
func (d *document) wrongAnnotation(name, format string, args ...any) error {
	return d.errorf("metadata.annotations."+name, "annotation %s: %s", name, fmt.Sprintf(format, args...))
}

// outagesOf reads the periods in the annotations of a node that joins and, unless fails is 0, fails. It returns them in
// order of time.
func (d *document) outagesOf(node *corev1.Node, joins, fails time.Duration) ([]Outage, error) {
	var outages []Outage
	for _, name := range nodeOutages {
		text, given := node.Annotations[name]
		if !given {
			continue
		}
		periods, err := parsePeriods(text)
		if err != nil {
			return nil, d.wrongAnnotation(name, "%v", err)
		}
		for _, p := range periods {
			if p.From <= joins {
				return nil, d.wrongAnnotation(name, "%s is not after the node joins at %s", p.From, joins)
			}
			if last := max(p.From, p.Until); fails != 0 && last >= fails {
				return nil, d.wrongAnnotation(name, "%s is not before the node fails at %s", last, fails)
			}
			p.Unreachable = name == UnreachableAnnotation
			outages = append(outages, p)
		}
	}
	slices.SortStableFunc(outages, func(a, b Outage) int { return cmp.Compare(a.From, b.From) })
	for i := 1; i < len(outages); i++ {
		// The periods of one annotation do not overlap: these are of both.
		if before, o := outages[i-1], outages[i]; !before.EndsBefore(o.From) {
			return nil, d.wrongAnnotation(o.annotation(),
				"a period overlaps one of %s: the one from %s has not ended before %s", before.annotation(),
				before.From, o.From)
		}
	}
	return outages, nil
}

// annotation returns the annotation that declares the outage.
func (o Outage) annotation() string {
	if o.Unreachable {
		return UnreachableAnnotation
	}
	return NotReadyAnnotation
}

// parsePeriods reads periods such as "10m..25m, 2h..", in order. One without an end is the last one.
func parsePeriods(text string) ([]Outage, error) {
	var periods []Outage
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		begin, end, found := strings.Cut(part, "..")
		if !found {
			return nil, fmt.Errorf("%q is not a period such as 10m..25m, or 10m.. without an end", cut(part, 40))
		}
		from, err := parseOffset("", begin)
		if err != nil {
			return nil, err
		}
		until := time.Duration(0)
		if end != "" {
			if until, err = parseOffset("", end); err != nil {
				return nil, err
			}
			if until <= from {
				return nil, fmt.Errorf("%q ends before it begins", cut(part, 40))
			}
		}
		if n := len(periods); n > 0 && !periods[n-1].EndsBefore(from) {
			return nil, fmt.Errorf("%q does not begin after the period before it has ended", cut(part, 40))
		}
		periods = append(periods, Outage{From: from, Until: until})
	}
	return periods, nil
}
