package workload

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// fieldAt returns the value that is below value at a path of keys, nil if there is none.
func fieldAt(value any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		mapping, _ := value.(map[string]any)
		value = mapping[key]
	}
	return value
}

// number reads a whole number between low and high; absent if there is none.
func (d *document) number(path string, value any, absent, low, high int) (int, error) {
	var n int64
	switch v := value.(type) {
	case nil:
		return absent, nil
	case int64:
		n = v
	default:
		return 0, d.errorf(path, "%s: %s is not a whole number", path, cut(fmt.Sprint(value), 40))
	}
	if n < int64(low) || n > int64(high) {
		return 0, d.errorf(path, "%s: %d lies outside %d and %d", path, n, low, high)
	}
	return int(n), nil
}

// fieldUse is the treatment of a field of a kind of the table.
type fieldUse uint8

const (
	fieldUnknown fieldUse = iota
	// fieldInner: there are known fields below it.
	fieldInner
	// fieldWhole: it is read or skipped with everything below it.
	fieldWhole
)

// fields returns the uses of the fields of a kind, by path.
func (k *podKind) fields() map[string]fieldUse {
	uses := map[string]fieldUse{"apiVersion": fieldWhole, "kind": fieldWhole, "metadata": fieldWhole,
		"status": fieldWhole}
	known := slices.Concat(k.passed, []string{k.suspend, k.deadline, k.priority, k.scheduler, k.gang.asked + ".",
		k.gang.minimum, k.gang.timeout, k.gang.resources})
	for _, r := range k.refused {
		known = append(known, r.path)
	}
	for i := range k.sets {
		s := &k.sets[i]
		known = append(known, s.otherwise, s.only)
		if !s.job {
			known = append(known, s.groups)
		}
		below := slices.Concat(s.passed, []string{s.key, s.schedule, s.template, s.count, s.lowest, s.highest, s.times,
			s.off, s.least})
		if s.job {
			below = append(below, s.groups)
		}
		for _, field := range below {
			if field != "" {
				known = append(known, s.at+"."+field)
			}
		}
	}
	for _, path := range known {
		if !strings.HasSuffix(path, ".") && path != "" {
			uses[path] = fieldWhole
		}
		for at := strings.LastIndexByte(path, '.'); at > 0; at = strings.LastIndexByte(path, '.') {
			path = path[:at]
			if uses[path] == fieldUnknown {
				uses[path] = fieldInner
			}
			if inner, isList := strings.CutSuffix(path, "[]"); isList {
				uses[inner] = fieldInner
			}
		}
	}
	return uses
}

// checkFields refuses unknown and unsupported fields.
func (k *podKind) checkFields(d *document, tree map[string]any) error {
	return k.checkBelow(d, k.fields(), "", "", tree)
}

// checkBelow checks the fields of a mapping at path, which in the table is pattern.
func (k *podKind) checkBelow(d *document, uses map[string]fieldUse, path, pattern string,
	mapping map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(mapping)) {
		at, as := path+key, pattern+key
		for _, r := range k.refused {
			if r.path == as && !r.allows(mapping[key]) {
				return d.errorf(at, "%s: it is not carried out in a simulation: %s", at, r.advice)
			}
		}
		use, value := uses[as], mapping[key]
		switch {
		case use == fieldUnknown:
			return d.errorf(at, "unknown field %q", cut(at, 80))
		case use == fieldWhole || value == nil:
			continue
		}
		if _, isList := uses[as+"[]"]; !isList {
			inner, ok := value.(map[string]any)
			if !ok {
				return d.errorf(at, "%s: an object is expected", at)
			}
			if err := k.checkBelow(d, uses, at+".", as+".", inner); err != nil {
				return err
			}
			continue
		}
		list, ok := value.([]any)
		if !ok {
			return d.errorf(at, "%s: a list is expected", at)
		}
		for i, element := range list {
			at := fmt.Sprintf("%s[%d]", at, i)
			inner, ok := element.(map[string]any)
			if !ok {
				return d.errorf(at, "%s: an object is expected", at)
			}
			if err := k.checkBelow(d, uses, at+".", as+"[].", inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// allows reports whether the field's value changes nothing.
func (r *refusal) allows(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == "" || r.except != "" && slices.Contains(strings.Split(r.except, "|"), v)
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// submitter is the template of the pod with which KubeRay submits a RayJob that has none of its own.
func submitter() *corev1.PodTemplateSpec {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{
			Name:      "ray-job-submitter",
			Resources: corev1.ResourceRequirements{Requests: list("500m", "200Mi"), Limits: list("1", "1Gi")},
		}},
	}}
}

// initialiser is an init container that a controller adds to pods of a set, for example to wait for another pod.
type initialiser struct {
	name string
	// requests and limits are its amounts, by resource.
	requests, limits map[corev1.ResourceName]string
	// beside is the field of a set without which it is not added; "" for none.
	beside string
}

// The init containers of KubeRay's workers, of PyTorchJobs' workers, and of the launcher of an MPIJob (v1). The last
// two are the training operator's (pkg/controller.v1/pytorch/initcontainer.go, pkg/controller.v1/mpi/mpijob.go).
var (
	waitForHead = initialiser{name: "wait-gcs-ready",
		requests: amounts("200m", "256Mi", ""), limits: amounts("200m", "256Mi", "")}
	waitForMaster = initialiser{name: "init-pytorch", beside: "spec.pytorchReplicaSpecs.Master",
		requests: amounts("50m", "10Mi", ""), limits: amounts("100m", "20Mi", "")}
	deliverKubectl = initialiser{name: "kubectl-delivery",
		requests: amounts("100m", "512Mi", "5Gi"), limits: amounts("100m", "512Mi", "5Gi")}
)

// amounts returns amounts of CPU, memory and ephemeral storage ("" for none).
func amounts(cpu, memory, storage string) map[corev1.ResourceName]string {
	list := map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
	if storage != "" {
		list[corev1.ResourceEphemeralStorage] = storage
	}
	return list
}

// container returns the init container for a pod. Resources that no container of the pod asks for are left out: nodes
// that are given as a shape may not have them.
func (i *initialiser) container(spec *corev1.PodSpec) corev1.Container {
	list := func(of map[corev1.ResourceName]string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for name, amount := range of { // any order: a map is filled
			if slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
				_, requested := c.Resources.Requests[name]
				_, limited := c.Resources.Limits[name]
				return requested || limited
			}) {
				list[name] = resource.MustParse(amount)
			}
		}
		return list
	}
	return corev1.Container{Name: i.name,
		Resources: corev1.ResourceRequirements{Requests: list(i.requests), Limits: list(i.limits)}}
}

// mostMembers is the largest minimum.
const mostMembers = math.MaxInt32
