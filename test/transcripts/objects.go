package transcripts

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// gpu is the resource that gpu=N means.
const gpu = v1.ResourceName("nvidia.com/gpu")

// resources returns the amounts of a node or a pod.
func resources(d *datadriven.TestData) v1.ResourceList {
	list := v1.ResourceList{}
	for key, name := range map[string]v1.ResourceName{"cpu": v1.ResourceCPU, "memory": v1.ResourceMemory, "gpu": gpu} {
		if v := arg(d, key, ""); v != "" {
			list[name] = resource.MustParse(v)
		}
	}
	return list
}

// number returns an argument that is a whole number.
func number(d *datadriven.TestData, key, otherwise string) int32 {
	q := resource.MustParse(arg(d, key, otherwise))
	return int32(q.Value())
}

// optional returns an argument that is a whole number; nil for none.
func optional(d *datadriven.TestData, key string) *int32 {
	if arg(d, key, "") == "" {
		return nil
	}
	n := number(d, key, "")
	return &n
}

func (p *Player) node(d *datadriven.TestData) *v1.Node {
	p.t.Helper()
	p.allow(d, 1, "cpu", "memory", "gpu", "pods", "label", "labels", "taint", "cordoned", "noresize")
	name := d.CmdArgs[0].Key
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Spec.Unschedulable = arg(d, "cordoned", "") != ""
	if key := arg(d, "taint", ""); key != "" {
		n.Spec.Taints = []v1.Taint{{Key: key, Effect: v1.TaintEffectNoSchedule}}
	}
	if arg(d, "noresize", "") != "" {
		n.Spec.PodPreemptionPolicy = &v1.NodePodPreemptionPolicy{DisableResizePreemption: []string{"operator"}}
	}
	n.Status.Allocatable = resources(d)
	n.Status.Allocatable[v1.ResourcePods] = resource.MustParse(arg(d, "pods", "110"))
	n.Labels = pair(d, "label")
	if more := pairs(d, "labels"); more != nil {
		n.Labels = more
	}
	return n
}

func (p *Player) group(d *datadriven.TestData) (eventlog.Resource, eventlog.Object) {
	p.t.Helper()
	namespace, name := p.split(d)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("group-" + name)}
	meta.Annotations = pairs(d, "annotations")
	annotate := func(key, value string) {
		if value == "" {
			return
		}
		if meta.Annotations == nil {
			meta.Annotations = map[string]string{}
		}
		meta.Annotations[key] = value
	}
	annotate("rollcall.dev/below-minimum", arg(d, "below", ""))
	if arg(d, "api", "") == "x-k8s.io" {
		annotate("gang.scheduling.koordinator.sh/mode", arg(d, "mode", ""))
		return eventlog.XPodGroups, p.xgroup(d, meta)
	}
	if others := arg(d, "with", ""); others != "" {
		names, err := json.Marshal(strings.Split(others, "+"))
		p.must(err)
		annotate("gang.scheduling.koordinator.sh/groups", string(names))
	}
	p.allow(d, 1, "min", "below", "annotations", "priority", "topology", "disruption", "preemptionPolicy", "parent",
		"with", "policy", "device")
	g := &schedulingv1beta1.PodGroup{ObjectMeta: meta}
	if arg(d, "policy", "gang") == "basic" {
		g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	} else {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: number(d, "min", "1")}
	}
	g.Spec.Priority = optional(d, "priority")
	if key := arg(d, "topology", ""); key != "" {
		within := []schedulingv1beta1.TopologyConstraint{{Key: key}}
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: within}
	}
	if arg(d, "disruption", "") == "all" {
		g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	if policy := schedulingv1beta1.PreemptionPolicy(arg(d, "preemptionPolicy", "")); policy != "" {
		g.Spec.PreemptionPolicy = &policy
	}
	if c := arg(d, "parent", ""); c != "" {
		g.Spec.ParentCompositePodGroupName = &c
	}
	return eventlog.PodGroups, g
}

// xgroup returns a PodGroup of scheduling.x-k8s.io.
func (p *Player) xgroup(d *datadriven.TestData, meta metav1.ObjectMeta) *xscheduling.PodGroup {
	p.t.Helper()
	p.allow(d, 1, "min", "api", "below", "annotations", "timeout", "mode", "asks")
	g := &xscheduling.PodGroup{ObjectMeta: meta}
	g.Spec.MinMember = number(d, "min", "1")
	if t := arg(d, "timeout", ""); t != "" {
		duration, err := time.ParseDuration(t)
		p.must(err)
		seconds := int32(duration.Seconds())
		g.Spec.ScheduleTimeoutSeconds = &seconds
	}
	if gpus := arg(d, "asks", ""); gpus != "" {
		g.Spec.MinResources = v1.ResourceList{gpu: resource.MustParse(gpus)}
	}
	return g
}

func (p *Player) composite(d *datadriven.TestData) eventlog.Object {
	p.t.Helper()
	p.allow(d, 1, "min", "priority", "parent", "topology")
	namespace, name := p.split(d)
	c := &schedulingv1alpha3.CompositePodGroup{}
	c.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("composite-" + name)}
	if n := number(d, "min", "0"); n > 0 {
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: n}
	} else {
		c.Spec.SchedulingPolicy.Basic = &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}
	}
	c.Spec.Priority = optional(d, "priority")
	if parent := arg(d, "parent", ""); parent != "" {
		c.Spec.ParentCompositePodGroupName = &parent
	}
	if key := arg(d, "topology", ""); key != "" {
		within := []schedulingv1alpha3.TopologyConstraint{{Key: key}}
		c.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: within}
	}
	return c
}

func (p *Player) pod(d *datadriven.TestData, namespace, name string) *v1.Pod {
	p.t.Helper()
	p.allow(d, 1, "cpu", "memory", "gpu", "count", "group", "xgroup", "node", "gate", "priority", "preemptionPolicy",
		"scheduler", "lasts", "started", "selector", "label", "labels", "annotations", "volume", "devices",
		"device", "groupdevice", "apart", "from")
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: p.podUID(name)}}
	pod.Labels = pair(d, "label")
	if g := arg(d, "xgroup", ""); g != "" {
		pod.Labels = map[string]string{xscheduling.PodGroupLabel: g}
	}
	if more := pairs(d, "labels"); more != nil {
		pod.Labels = more
	}
	pod.Annotations = pairs(d, "annotations")
	if lasts := arg(d, "lasts", ""); lasts != "" {
		pod.Annotations = map[string]string{"rollcall.dev/duration": lasts}
	}
	if v := arg(d, "started", ""); v != "" {
		by, err := time.ParseDuration(v)
		p.must(err)
		pod.Status.StartTime = &metav1.Time{Time: p.now.Add(by).Std()}
	}
	p.podSpec(d, &pod.Spec)
	if arg(d, "groupdevice", "") != "" {
		claim := arg(d, "group", "") + "-" + deviceClaim
		pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: deviceClaim, ResourceClaimName: &claim}}
	}
	return pod
}

func (p *Player) podSpec(d *datadriven.TestData, spec *v1.PodSpec) {
	spec.SchedulerName = arg(d, "scheduler", "default-scheduler")
	spec.NodeName = arg(d, "node", "")
	spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: resources(d)}}}
	if g := arg(d, "group", ""); g != "" {
		spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g}
	}
	spec.Priority = optional(d, "priority")
	if policy := v1.PreemptionPolicy(arg(d, "preemptionPolicy", "")); policy != "" {
		spec.PreemptionPolicy = &policy
	}
	if g := arg(d, "gate", ""); g != "" {
		spec.SchedulingGates = []v1.PodSchedulingGate{{Name: g}}
	}
	spec.NodeSelector = pair(d, "selector")
	if key := arg(d, "apart", ""); key != "" {
		term := v1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: pair(d, "from")}}
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	}
	if claim := arg(d, "volume", ""); claim != "" {
		source := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
		spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: source}}
	}
	if arg(d, "groupdevice", "") != "" {
		spec.ResourceClaims = []v1.PodResourceClaim{madeOfTemplate()}
	}
	if claim := arg(d, "devices", ""); claim != "" {
		spec.ResourceClaims = []v1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim}}
	}
}

// resize changes the requests of a pod on its node, and says how the kubelet reacts.
func (p *Player) resize(d *datadriven.TestData, pod *v1.Pod) {
	p.t.Helper()
	p.allow(d, 1, "cpu", "memory", "gpu", "deferred", "infeasible")
	main := &pod.Spec.Containers[0]
	if len(pod.Status.ContainerStatuses) == 0 {
		has := main.Resources.Requests.DeepCopy()
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{
			Name: main.Name, AllocatedResources: has, Resources: &v1.ResourceRequirements{Requests: has.DeepCopy()},
		}}
	}
	if wanted := resources(d); len(wanted) > 0 {
		main.Resources.Requests = wanted
	}
	pod.Status.Conditions = nil
	pending := func(argument, reason string) {
		if arg(d, argument, "") != "" {
			pod.Status.Conditions = []v1.PodCondition{
				{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason},
			}
		}
	}
	pending("deferred", v1.PodReasonDeferred)
	pending("infeasible", v1.PodReasonInfeasible)
}
