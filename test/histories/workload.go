package histories

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// namespace is the namespace of all pods.
const namespace = "ml"

// hopeless is the label of pods of gangs for which there is never room.
const hopeless = "hopeless"

// A workload adds and removes objects of a cluster: nodes, pods, gangs, and gangs for which there is never room. Its
// choices follow from its seed; their times depend on the clock.
type workload struct {
	cluster *cluster
	rng     *rand.Rand
	every   time.Duration // the time between two of its steps, on average
	fat     bool          // pods have long labels, so that appends are more than one message
	pods    int           // number of pods made
	gangs   int
	nodes   int
	bound   map[string]int // by UID, the number of steps for which a pod has been bound
}

// gangPriority is the priority of the members of gangs, for which pods without a gang are evicted.
const gangPriority int32 = 100

// nodeCPU is the number of CPUs of a node. At most mostPods pods exist: no more come until some have ended.
const (
	nodeCPU  = 8
	mostPods = 60
)

func newWorkload(c *cluster, seed uint64, every time.Duration, fat bool) *workload {
	w := &workload{cluster: c, rng: rand.New(rand.NewPCG(seed, 1)), every: every, fat: fat, bound: map[string]int{}}
	for range 6 {
		w.addNode()
	}
	w.addGang(hopeless)
	return w
}

// run continues until end is closed.
func (w *workload) run(end <-chan struct{}) {
	for {
		select {
		case <-end:
			return
		case <-time.After(w.every/2 + time.Duration(w.rng.Int64N(int64(w.every)))):
		}
		w.step()
	}
}

// step makes one change or a few.
func (w *workload) step() {
	w.complete()
	if len(w.cluster.pods()) > mostPods {
		return
	}
	switch n := w.rng.IntN(20); {
	case n < 12:
		for range 1 + w.rng.IntN(3) {
			w.addPod("", "")
		}
	case n < 17:
		w.addGang("")
	case n < 18:
		w.addNode()
	case n < 19:
		w.removeNode()
	default: // a burst
		for range 10 {
			w.addPod("", "")
		}
	}
}

// complete takes pods away that have run for a while, gangs as a whole.
func (w *workload) complete() {
	running := map[string]int{} // gangs: number of members that have not run for long enough
	pods := w.cluster.pods()
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			w.bound[string(p.UID)]++
		}
		if w.bound[string(p.UID)] < 30 {
			running[gangOf(p)]++
		}
	}
	for _, p := range pods {
		gang := gangOf(p)
		if w.bound[string(p.UID)] >= 30 && (gang == "" || running[gang] == 0) {
			w.cluster.remove(eventlog.Pods, nameOf(p))
			if gang != "" {
				w.cluster.remove(eventlog.PodGroups, types.NamespacedName{Namespace: namespace, Name: gang})
			}
		}
	}
}

// gangOf returns the name of a pod's gang, "" for none.
func gangOf(p *v1.Pod) string {
	if p.Spec.SchedulingGroup == nil || p.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *p.Spec.SchedulingGroup.PodGroupName
}

func (w *workload) addNode() {
	w.nodes++
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", w.nodes)}}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(nodeCPU, resource.DecimalSI), v1.ResourcePods: resource.MustParse("110"),
	}
	w.cluster.put(eventlog.Nodes, n)
}

// removeNode takes a node away with its pods. Gangs that lose a member end.
func (w *workload) removeNode() {
	name := fmt.Sprintf("node-%d", 1+w.rng.IntN(w.nodes))
	w.cluster.remove(eventlog.Nodes, types.NamespacedName{Name: name})
	ended := map[string]bool{}
	pods := w.cluster.pods()
	for _, p := range pods {
		if p.Spec.NodeName == name {
			w.cluster.remove(eventlog.Pods, nameOf(p))
			ended[gangOf(p)] = true
		}
	}
	for _, p := range pods {
		if gang := gangOf(p); gang != "" && ended[gang] {
			w.cluster.remove(eventlog.Pods, nameOf(p))
			w.cluster.remove(eventlog.PodGroups, types.NamespacedName{Namespace: namespace, Name: gang})
		}
	}
}

// addPod adds a pod, of a gang if that is not "", with a label if that is not "".
func (w *workload) addPod(gang, label string) { w.addSized(gang, label, 0) }

// addSized is addPod of a pod that requests so many CPUs, or, for 0, one or two.
func (w *workload) addSized(gang, label string, cpus int64) {
	if cpus == 0 {
		cpus = 1 + w.rng.Int64N(2)
	}
	w.pods++
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprintf("pod-%d", w.pods), Labels: map[string]string{},
	}}
	p.Spec.SchedulerName = "default-scheduler"
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI),
	}}}}
	if gang != "" {
		p.Spec.Priority = new(gangPriority)
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &gang}
	}
	if label != "" {
		p.Labels[label] = "yes"
	}
	if w.fat {
		p.Labels["load"] = strings.Repeat("x", 12<<10)
	}
	w.cluster.put(eventlog.Pods, p)
}

// addGang adds a gang and its pods; a hopeless one needs all of them, and there is never room for one.
func (w *workload) addGang(label string) {
	w.gangs++
	g := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("gang-%d", w.gangs)}}
	members := 2 + w.rng.IntN(5)
	minimum := members - w.rng.IntN(2)
	if label == hopeless {
		minimum = members
	}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(minimum)}
	w.cluster.put(eventlog.PodGroups, g)
	for i := range members {
		cpus := int64(0)
		if label == hopeless && i == 0 {
			cpus = 100 * nodeCPU
		}
		w.addSized(g.Name, label, cpus)
	}
}

// last brings room for everything but the hopeless, and pods that come after all else.
func (w *workload) last() {
	for range 2 * mostPods / nodeCPU {
		w.addNode()
	}
	w.addGang("")
	w.addPod("", "")
}

// waiting returns the pods that have no node although there is room for them, by name.
func (w *workload) waiting() (names []string) {
	for _, p := range w.cluster.pods() {
		if p.Spec.NodeName == "" && p.Labels[hopeless] == "" {
			names = append(names, p.Name)
		}
	}
	return names
}
