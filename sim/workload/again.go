package workload

import (
	"strconv"
	"strings"

	"github.com/google/uuid"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Controller describes how a pod's controller makes the pod again after it was evicted or lost.
type Controller struct {
	// Kind and Name name the object that owns the pod.
	Kind, Name string
	// Prefix begins the names of its pods, before some generated letters, as for a ReplicaSet's pods. "" is for a
	// StatefulSet: the new pod has the name of the old one, once that one has ended.
	Prefix string
	// PerNode says that it has a pod on each node, as a DaemonSet has: no pod is made again for a lost node.
	PerNode bool
}

// ControllerOf returns the controller of a pod by its owner references, nil if it has none. A pod that its node itself
// made (a static pod's mirror) has none that would make it again.
func ControllerOf(pod *corev1.Pod) *Controller {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind == "Node" {
		return nil
	}
	c := &Controller{Kind: owner.Kind, Name: owner.Name, PerNode: owner.Kind == "DaemonSet"}
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	switch {
	case pod.GenerateName != "":
		c.Prefix = pod.GenerateName
	case group == batchv1.GroupName && owner.Kind == "Job":
		c.Prefix = jobPrefix(owner.Name, pod)
	case owner.Kind == "ReplicaSet" || owner.Kind == "ReplicationController" || owner.Kind == "DaemonSet":
		c.Prefix = owner.Name + "-"
	}
	return c
}

// jobPrefix begins the name of a Job's pod: the Job's name, and the pod's index if it has one.
func jobPrefix(job string, pod *corev1.Pod) string {
	for _, from := range []map[string]string{pod.Annotations, pod.Labels} {
		if index, indexed := from[batchv1.JobCompletionIndexAnnotation]; indexed {
			return job + "-" + index + "-"
		}
	}
	return job + "-"
}

// Again returns the name and UID of the n-th pod that replaces this one, from 1. They follow from the plan: nothing is
// random.
func (p *PodPlan) Again(n int) (name string, uid types.UID) {
	sum := uuid.NewSHA1(uidSpace, []byte("again/"+string(p.EffectiveUID())+"/"+strconv.Itoa(n)))
	uid = types.UID(sum.String())
	if p.Controller == nil || p.Controller.Prefix == "" {
		return p.Name, uid
	}
	prefix, suffix := p.Controller.Prefix, [5]byte{}
	for i := range suffix {
		suffix[i] = generatedLetters[int(sum[i])%len(generatedLetters)]
	}
	return prefix[:min(len(prefix), generatedBase)] + string(suffix[:]), uid
}
