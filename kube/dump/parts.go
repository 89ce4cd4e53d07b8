package dump

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// A part is a value in the spec or the status of a pod that follows from its template. All pods of the template have
// the same. Each distinct part is decoded once, which halves the time.
type part struct{ name, text string }

// sharedParts are the names of parts, with the member of the pod that they are in.
var sharedParts = map[string]string{
	"containers": "spec", "initContainers": "spec", "tolerations": "spec", "topologySpreadConstraints": "spec",
	"affinity": "spec", "containerStatuses": "status", "initContainerStatuses": "status",
}

// inPod returns JSON of a pod that has nothing but the part.
func (p part) inPod() []byte { return []byte(`{"spec":{"` + p.name + `":` + p.text + `}}`) }

// maxParts and maxPartBytes limit the parts that a decoder remembers.
const (
	maxParts     = 20000
	maxPartBytes = 16 << 20
)

// parts are the decoded parts that a decoder remembers. Nobody writes to them.
type parts struct {
	known map[part]*corev1.Pod
	bytes int
}

// into gives a pod its parts. It reports whether all of them were known.
func (c *parts) into(pod *corev1.Pod, all []part) (known bool, err error) {
	known = true
	for _, p := range all {
		from := c.known[p]
		if from == nil {
			known = false
			if from, err = c.decode(p); err != nil {
				return false, err
			}
		}
		switch p.name {
		case "containers":
			pod.Spec.Containers = from.Spec.Containers
		case "initContainers":
			pod.Spec.InitContainers = from.Spec.InitContainers
		case "tolerations":
			pod.Spec.Tolerations = from.Spec.Tolerations
		case "topologySpreadConstraints":
			pod.Spec.TopologySpreadConstraints = from.Spec.TopologySpreadConstraints
		case "affinity":
			pod.Spec.Affinity = from.Spec.Affinity
		case "containerStatuses":
			pod.Status.ContainerStatuses = from.Status.ContainerStatuses
		case "initContainerStatuses":
			pod.Status.InitContainerStatuses = from.Status.InitContainerStatuses
		}
	}
	return known, nil
}

// decode decodes a part, and remembers it.
func (c *parts) decode(p part) (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(p.inPod(), &pod); err != nil {
		return nil, err
	}
	if c.known == nil || len(c.known) >= maxParts || c.bytes > maxPartBytes {
		c.known, c.bytes = map[part]*corev1.Pod{}, 0
	}
	c.known[p] = &pod
	c.bytes += len(p.text)
	return &pod, nil
}
