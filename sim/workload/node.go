package workload

import (
	"fmt"
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
	wrong := func(name, format string, args ...any) error {
		return d.errorf("metadata.annotations."+name, "annotation %s: %s", name, fmt.Sprintf(format, args...))
	}
	joins, fails := times[JoinsAnnotation], times[FailsAnnotation]
	for _, name := range nodeTimes {
		at, given := times[name]
		switch {
		case !given || name == JoinsAnnotation:
		case at <= joins:
			return nil, wrong(name, "%s is not after the node joins at %s", at, joins)
		case name == ReturnsAnnotation && fails == 0:
			return nil, wrong(name, "the node never fails: give %s too", FailsAnnotation)
		case name == ReturnsAnnotation && at <= fails:
			return nil, wrong(name, "%s is not after the node fails at %s", at, fails)
		}
	}
	plan := NodePlan{
		Node: node, Joins: joins, Fails: fails, Drained: times[DrainedAnnotation],
		Cordoned: times[CordonedAnnotation], Uncordoned: times[UncordonedAnnotation],
	}
	for _, name := range nodeOutages {
		text, given := node.Annotations[name]
		if !given {
			continue
		}
		periods, err := parsePeriods(text)
		if err != nil {
			return nil, wrong(name, "%v", err)
		}
		for _, p := range periods {
			if p.From <= joins {
				return nil, wrong(name, "%s is not after the node joins at %s", p.From, joins)
			}
			if fails != 0 && max(p.From, p.Until) >= fails {
				return nil, wrong(name, "%s is not before the node fails at %s", max(p.From, p.Until), fails)
			}
			p.Unreachable = name == UnreachableAnnotation
			plan.Outages = append(plan.Outages, p)
		}
	}
	plans := []NodePlan{plan}
	if returns := times[ReturnsAnnotation]; returns != 0 {
		again := node.DeepCopy()
		again.UID, again.CreationTimestamp = "", metav1.Time{}
		plans = append(plans, NodePlan{Node: again, Joins: returns})
	}
	return plans, nil
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
		if n := len(periods); n > 0 && (periods[n-1].Until == 0 || periods[n-1].Until >= from) {
			return nil, fmt.Errorf("%q does not begin after the period before it has ended", cut(part, 40))
		}
		periods = append(periods, Outage{From: from, Until: until})
	}
	return periods, nil
}
