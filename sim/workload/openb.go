package workload

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The columns of the Alibaba cluster-trace-gpu-v2023 ("openb") files, github.com/alibaba/clusterdata. A file has all
// of them, in any order. The last three of a pod are its outcome there, and are not read.
var (
	openbNodeColumns = []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
	openbPodColumns  = []string{
		"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos",
		"creation_time", "deletion_time", "pod_phase", "scheduled_time",
	}
)

// The bounds of a line's requests.
const (
	maxMilliCPU  = 1 << 40
	maxMemoryMiB = 1 << 30
	maxGPUs      = 1 << 20
	maxGPUMilli  = 1000
)

// openbRow gives the fields of one line by their columns.
type openbRow struct {
	columns map[string]int
	fields  []string
}

func (r openbRow) text(column string) string { return r.fields[r.columns[column]] }

// number reads a whole number between 0 and high.
func (r openbRow) number(column string, high int64) (int64, error) {
	return wholeNumber(column, r.text(column), 0, high)
}

// readOpenb reads a CSV file with the columns and calls f with each line.
func readOpenb(path string, r io.Reader, columns []string, f func(openbRow) error) error {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return csvError(path, err)
	}
	row := openbRow{columns: map[string]int{}}
	for i, name := range header {
		if _, twice := row.columns[name]; twice || !slices.Contains(columns, name) {
			return &InputError{path, 1, fmt.Errorf("column %q is unknown or stands twice", cut(name, 40))}
		}
		row.columns[name] = i
	}
	for _, name := range columns {
		if _, there := row.columns[name]; !there {
			return &InputError{path, 1, fmt.Errorf("column %q is missing", name)}
		}
	}
	for {
		if row.fields, err = c.Read(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return csvError(path, err)
		}
		if err := f(row); err != nil {
			line, _ := c.FieldPos(0)
			return &InputError{path, line, err}
		}
	}
}

// csvError adds the place to an error of encoding/csv.
func csvError(path string, err error) error {
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		return &InputError{path, e.Line, e.Err}
	}
	return &InputError{Path: path, Err: err}
}

// readOpenbNodes reads a node list. A node offers its GPUs as rollcall.dev/gpu-milli, 1000 each, and not also as
// nvidia.com/gpu. Every pod of the trace requests GPUs in that one resource, so whole GPUs and shares cannot
// overcommit a node together.
func readOpenbNodes(in *input, path string, r io.Reader) error {
	seen := map[string]bool{}
	return readOpenb(path, r, openbNodeColumns, func(row openbRow) error {
		name := row.text("sn")
		if err := newName("node", name, seen, MaxNodes); err != nil {
			return err
		}
		cpu, err := row.number("cpu_milli", maxMilliCPU)
		if err != nil {
			return err
		}
		memory, err := row.number("memory_mib", maxMemoryMiB)
		if err != nil {
			return err
		}
		gpus, err := row.number("gpu", maxGPUs)
		if err != nil {
			return err
		}
		resources := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
			corev1.ResourcePods:   resource.MustParse(defaultPods),
		}
		labels := map[string]string{}
		if gpus > 0 {
			resources[GPUMilliResource] = *resource.NewQuantity(gpus*1000, resource.DecimalSI)
			labels[GPUCountLabel] = strconv.FormatInt(gpus, 10)
		}
		if model := row.text("model"); model != "" {
			if errs := validation.IsValidLabelValue(model); len(errs) > 0 {
				return fmt.Errorf("model %q: %s", cut(model, 40), strings.Join(errs, "; "))
			}
			labels[GPUModelLabel] = model
		}
		in.nodes = append(in.nodes, NodePlan{Node: newNode(name, resources, labels)})
		return nil
	})
}

// newName checks that a name is valid for an object and new, in a file with at most limit of them.
func newName(what, name string, seen map[string]bool, limit int) error {
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		return fmt.Errorf("%s name %q: %s", what, cut(name, 40), strings.Join(errs, "; "))
	}
	if seen[name] {
		return fmt.Errorf("%s %s stands twice", what, name)
	}
	if len(seen) >= limit {
		return fmt.Errorf("more than %d %ss", limit, what)
	}
	seen[name] = true
	return nil
}

// openbShape is the common part of openb pods of one template.
type openbShape struct {
	cpu, memory, gpuMilli int64
	spec, qos             string
}

// readOpenbPods reads a pod list. A pod arrives at its creation time and runs, once bound, as long as it existed in
// the trace. A pod that was created and deleted in the same second runs for one second. It declares the same time with
// the annotation DurationAnnotation: the trace does not say what its users expected.
func readOpenbPods(in *input, path string, r io.Reader) error {
	seen := map[string]bool{}
	templates := map[openbShape]*corev1.Pod{}
	declared := declarations{}
	return readOpenb(path, r, openbPodColumns, func(row openbRow) error {
		name := row.text("name")
		if err := newName("pod", name, seen, MaxPods); err != nil {
			return err
		}
		shape, err := readOpenbShape(row)
		if err != nil {
			return err
		}
		created, err := row.number("creation_time", maxSeconds)
		if err != nil {
			return err
		}
		deleted, err := row.number("deletion_time", maxSeconds)
		if err != nil {
			return err
		}
		if deleted < created {
			return fmt.Errorf("deletion_time %d lies before creation_time %d", deleted, created)
		}
		template := templates[shape]
		if template == nil {
			template = shape.template()
			templates[shape] = template
		}
		ran := wholeSeconds(deleted - created)
		in.workload.Pods = append(in.workload.Pods, PodPlan{
			Namespace: metav1.NamespaceDefault, Name: name, Template: template,
			Arrival: time.Duration(created) * time.Second, Duration: ran, Annotations: declared.of(ran),
		})
		return nil
	})
}

// readOpenbShape reads a pod's requests.
func readOpenbShape(row openbRow) (s openbShape, err error) {
	if s.cpu, err = row.number("cpu_milli", maxMilliCPU); err != nil {
		return s, err
	}
	if s.memory, err = row.number("memory_mib", maxMemoryMiB); err != nil {
		return s, err
	}
	gpus, err := row.number("num_gpu", maxGPUs)
	if err != nil {
		return s, err
	}
	milli, err := row.number("gpu_milli", maxGPUMilli)
	if err != nil {
		return s, err
	}
	if (gpus == 0) != (milli == 0) {
		return s, fmt.Errorf("num_gpu %d and gpu_milli %d contradict each other", gpus, milli)
	}
	s.gpuMilli, s.spec, s.qos = gpus*milli, row.text("gpu_spec"), row.text("qos")
	for _, value := range append(strings.Split(s.spec, "|"), s.qos) {
		if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
			return s, fmt.Errorf("gpu_spec or qos %q: %s", cut(value, 40), strings.Join(errs, "; "))
		}
	}
	return s, nil
}

// template makes the pod. The accepted GPU models become a required node affinity.
func (s openbShape) template() *corev1.Pod {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(s.cpu, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(s.memory<<20, resource.BinarySI),
	}
	var limits corev1.ResourceList
	if s.gpuMilli > 0 {
		gpu := *resource.NewQuantity(s.gpuMilli, resource.DecimalSI)
		requests[GPUMilliResource] = gpu
		// An extended resource cannot be overcommitted: the API asks for a limit that equals the request.
		limits = corev1.ResourceList{GPUMilliResource: gpu}
	}
	pod := newTemplate(requests, limits)
	if s.qos != "" {
		pod.Labels = map[string]string{QOSLabel: s.qos}
	}
	if s.spec != "" {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: GPUModelLabel, Operator: corev1.NodeSelectorOpIn, Values: strings.Split(s.spec, "|"),
				}}}},
			},
		}}
	}
	return pod
}

// newTemplate makes a pod of one container with the API's defaults.
func newTemplate(requests, limits corev1.ResourceList) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{
			{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}},
	}}
	setDefaults(pod)
	return pod
}
