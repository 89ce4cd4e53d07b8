package workload

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// The names of resources and labels in workloads from traces.
const (
	// GPUResource is a whole GPU.
	GPUResource corev1.ResourceName = "nvidia.com/gpu"
	// GPUMilliResource is a thousandth of a GPU. A node offers the sum over its devices: the model ignores that a
	// share cannot be split over devices.
	GPUMilliResource corev1.ResourceName = "rollcall.dev/gpu-milli"
	// GPUModelLabel is the node label that names the model of the node's GPUs.
	GPUModelLabel = "rollcall.dev/gpu-model"
	// GPUCountLabel is the node label that counts the node's GPUs.
	GPUCountLabel = "rollcall.dev/gpu-count"
	// QOSLabel is the pod label with the trace's quality-of-service class.
	QOSLabel = "rollcall.dev/qos"
)

// defaultPods is the default number of pods that a node holds: the kubelet's default.
const defaultPods = "110"

// The forms of a node specification and of one of its parts.
var (
	nodeSpecForm = regexp.MustCompile(`^[0-9]+x[0-9]`)
	unitPart     = regexp.MustCompile(`^([0-9][0-9.]*m?)(cpu|gpu-milli|gpu|pods)$`)
	memoryPart   = regexp.MustCompile(`^[0-9][0-9.]*([KMGTPE]i|[kMGTPE])$`)
	namedPart    = regexp.MustCompile(`^([A-Za-z0-9./_-]+)=([0-9].*)$`)
)

// looksLikeNodeSpec distinguishes a node specification from a path. A file with such a name can be written as ./NAME.
func looksLikeNodeSpec(s string) bool { return nodeSpecForm.MatchString(s) }

// ParseNodeSpec makes the nodes that a specification such as 5000x96cpu,768Gi,8gpu describes: a count, an x, and a
// shape. The shape's parts, separated by commas, each given at most once, are
//
//	Ncpu           cores (16cpu, 0.5cpu, 500mcpu)
//	N with a unit  memory in bytes (768Gi, 64G)
//	Ngpu           nvidia.com/gpu
//	Ngpu-milli     rollcall.dev/gpu-milli, for the pods of an openb trace
//	Npods          the number of pods that fit; 110 if it is not given
//	NAME=N         any other resource
//
// A node without memory in its shape has none: pods that request memory do not fit it. Several specifications are
// joined by +. The nodes join at the start and are named node-00, node-01 and so on through all of them, with as many
// digits as the last one needs, at least two.
func ParseNodeSpec(spec string) ([]NodePlan, error) {
	type shape struct {
		count     int64
		resources corev1.ResourceList
	}
	var shapes []shape
	total := int64(0)
	for part := range strings.SplitSeq(spec, "+") {
		number, text, ok := strings.Cut(part, "x")
		if !ok {
			return nil, fmt.Errorf("nodes %q: %q is not COUNTxSHAPE, as in 16x16cpu or 5000x96cpu,768Gi,8gpu", spec,
				part)
		}
		count, err := wholeNumber("count", number, 1, MaxNodes)
		if err != nil {
			return nil, fmt.Errorf("nodes %q: %w", spec, err)
		}
		resources, err := parseShape(text)
		if err != nil {
			return nil, fmt.Errorf("nodes %q: %w", spec, err)
		}
		shapes = append(shapes, shape{count, resources})
		if total += count; total > MaxNodes {
			return nil, fmt.Errorf("nodes %q: more than %d nodes", spec, MaxNodes)
		}
	}
	digits := max(2, len(strconv.FormatInt(total-1, 10)))
	plans := make([]NodePlan, 0, total)
	for _, s := range shapes {
		for range s.count {
			plans = append(plans,
				NodePlan{Node: newNode(fmt.Sprintf("node-%0*d", digits, len(plans)), s.resources, nil)})
		}
	}
	return plans, nil
}

// parseShape reads the resources of one node.
func parseShape(text string) (corev1.ResourceList, error) {
	resources := corev1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		name, number, err := parsePart(part)
		if err != nil {
			return nil, err
		}
		if err := eventlog.CheckQuantityText(number); err != nil {
			return nil, fmt.Errorf("%q: %w", cut(part, 60), err)
		}
		quantity, err := resource.ParseQuantity(number)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		if name != corev1.ResourceCPU && quantity.MilliValue()%1000 != 0 {
			return nil, fmt.Errorf("%q: %s comes in whole numbers only", part, name)
		}
		if _, twice := resources[name]; twice {
			return nil, fmt.Errorf("%q: %s is given twice", part, name)
		}
		resources[name] = quantity
		if err := checkList(nil, corev1.ResourceList{name: quantity}); err != nil {
			return nil, fmt.Errorf("%q: %s %s", cut(part, 60), name, err.Detail)
		}
	}
	if _, given := resources[corev1.ResourcePods]; !given {
		resources[corev1.ResourcePods] = resource.MustParse(defaultPods)
	}
	return resources, nil
}

// parsePart splits one part of a shape into the resource and its quantity.
func parsePart(part string) (corev1.ResourceName, string, error) {
	if m := unitPart.FindStringSubmatch(part); m != nil {
		names := map[string]corev1.ResourceName{
			"cpu": corev1.ResourceCPU, "gpu": GPUResource, "gpu-milli": GPUMilliResource, "pods": corev1.ResourcePods,
		}
		return names[m[2]], m[1], nil
	}
	if memoryPart.MatchString(part) {
		return corev1.ResourceMemory, part, nil
	}
	if m := namedPart.FindStringSubmatch(part); m != nil {
		if errs := validation.IsQualifiedName(m[1]); len(errs) > 0 {
			return "", "", fmt.Errorf("%q: resource name %q: %s", part, m[1], strings.Join(errs, "; "))
		}
		return corev1.ResourceName(m[1]), m[2], nil
	}
	return "", "", fmt.Errorf("%q is none of Ncpu, N with a unit (memory), Ngpu, Ngpu-milli, Npods, NAME=N", part)
}

// newNode makes a node that offers the resources, without copying them.
func newNode(name string, resources corev1.ResourceList, labels map[string]string) *corev1.Node {
	all := map[string]string{corev1.LabelHostname: name}
	for k, v := range labels {
		all[k] = v
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all},
		Status:     corev1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
}
