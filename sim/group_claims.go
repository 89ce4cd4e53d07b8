package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// groups are the PodGroups whose claims the resource claim controller manages, with the feature gate
// DRAWorkloadResourceClaims: it makes claims from templates for them, and frees a PodGroup's claims after its end. As
// in a cluster, a deleted PodGroup stays until it has no pods left.
type groups struct {
	// on says that the feature gate is on; without it PodGroups have no claims.
	on      bool
	objects map[types.NamespacedName]*schedulingv1beta1.PodGroup
	// leaving are the deleted PodGroups that still have pods.
	leaving map[types.NamespacedName]bool
}

func newGroups(on bool) groups {
	return groups{on: on, objects: map[types.NamespacedName]*schedulingv1beta1.PodGroup{},
		leaving: map[types.NamespacedName]bool{}}
}

// checkGroup returns an error if a PodGroup names a template that does not exist.
func (d *claimController) checkGroup(o eventlog.Object) error {
	group, ok := o.(*schedulingv1beta1.PodGroup)
	if !ok || !d.groups.on {
		return nil
	}
	for _, c := range group.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil || generatedFor(group, c.Name) {
			continue
		}
		key := types.NamespacedName{Namespace: group.Namespace, Name: *c.ResourceClaimTemplateName}
		if d.templates[key] == nil {
			return fmt.Errorf("spec.resourceClaims: the ResourceClaimTemplate %s is not in the workload", key)
		}
	}
	return nil
}

// generatedFor reports whether the PodGroup's status names a claim that is made from a template.
func generatedFor(group *schedulingv1beta1.PodGroup, claim string) bool {
	return slices.ContainsFunc(group.Status.ResourceClaimStatuses,
		func(s schedulingv1beta1.PodGroupResourceClaimStatus) bool { return s.Name == claim })
}

// groupComes makes the claims of a PodGroup that come from templates, and returns the PodGroup with their names in its
// status.
func (d *claimController) groupComes(o eventlog.Object) (inputs []eventlog.Payload, object eventlog.Object, err error) {
	group, ok := o.(*schedulingv1beta1.PodGroup)
	if !ok || !d.groups.on || len(group.Spec.ResourceClaims) == 0 {
		return nil, o, nil
	}
	group = group.DeepCopy()
	for _, c := range group.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil || generatedFor(group, c.Name) {
			continue
		}
		template := d.templates[types.NamespacedName{Namespace: group.Namespace, Name: *c.ResourceClaimTemplateName}]
		key := types.NamespacedName{Namespace: group.Namespace, Name: group.Name + "-" + c.Name}
		group.Status.ResourceClaimStatuses = append(group.Status.ResourceClaimStatuses,
			schedulingv1beta1.PodGroupResourceClaimStatus{Name: c.Name, ResourceClaimName: &key.Name})
		if there := d.claims[key]; there != nil {
			if metav1.IsControlledBy(there, group) {
				continue // the PodGroup has only changed
			}
			return nil, nil, fmt.Errorf("ResourceClaim %s is there: PodGroup %s/%s needs that name for its claim %q",
				key, group.Namespace, group.Name, c.Name)
		}
		claim := &resourcev1.ResourceClaim{ObjectMeta: *template.Spec.ObjectMeta.DeepCopy()}
		claim.Spec = *template.Spec.Spec.DeepCopy()
		claim.Namespace, claim.Name = key.Namespace, key.Name
		claim.UID = workload.UID(eventlog.ResourceClaims, group.Namespace, key.Name+"/"+string(group.UID))
		claim.CreationTimestamp = group.CreationTimestamp
		claim.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(group, schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup")),
		}
		d.claims[key] = claim
		inputs = append(inputs, upserted(eventlog.ResourceClaims, claim))
	}
	key := types.NamespacedName{Namespace: group.Namespace, Name: group.Name}
	d.groups.objects[key] = group
	delete(d.groups.leaving, key)
	return inputs, group, nil
}

// groupGoes returns the inputs about the end of a PodGroup's claims; none while it has pods.
func (d *claimController) groupGoes(key types.NamespacedName, pods int) []eventlog.Payload {
	if d.groups.objects[key] == nil {
		return nil
	}
	if pods > 0 {
		d.groups.leaving[key] = true
		return nil
	}
	return d.forgetGroup(key)
}

// podGone is called for each pod of a group that has ended, with the number of the remaining ones.
func (d *claimController) podGone(key types.NamespacedName, pods int) []eventlog.Payload {
	if pods > 0 || !d.groups.leaving[key] {
		return nil
	}
	return d.forgetGroup(key)
}

// forgetGroup frees the claims of a PodGroup that has ended. The ones that were made for it are deleted.
func (d *claimController) forgetGroup(key types.NamespacedName) (inputs []eventlog.Payload) {
	group := d.groups.objects[key]
	delete(d.groups.objects, key)
	delete(d.groups.leaving, key)
	names := slices.SortedFunc(maps.Keys(d.claims), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, name := range names {
		claim := d.claims[name]
		if metav1.IsControlledBy(claim, group) {
			inputs = append(inputs, d.goes(claim)...)
			continue
		}
		inputs = append(inputs, d.unreserve(claim, group.UID)...)
	}
	return inputs
}

// unreserve removes a consumer from a claim, which frees its devices if it has no other.
func (d *claimController) unreserve(claim *resourcev1.ResourceClaim, consumer types.UID) []eventlog.Payload {
	at := slices.IndexFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.UID == consumer
	})
	if at < 0 {
		return nil
	}
	claim = claim.DeepCopy()
	claim.Status.ReservedFor = slices.Delete(claim.Status.ReservedFor, at, at+1)
	if len(claim.Status.ReservedFor) == 0 {
		if isLeaving(claim) {
			return d.goes(claim)
		}
		claim.Status = resourcev1.ResourceClaimStatus{}
	}
	d.remember(claim)
	return []eventlog.Payload{upserted(eventlog.ResourceClaims, claim)}
}

// giveBack gives claims of a PodGroup back of which no pod has a node, as the scheduler asks.
func (c *Cluster) giveBack(e *engine.Effect) (inputs []eventlog.Payload) {
	g, ok := c.groupIndex[types.NamespacedName{Namespace: e.Namespace, Name: e.Name}]
	if ok && c.groups[g].running > 0 {
		return nil
	}
	for _, wanted := range e.Devices {
		claim := c.devices.claims[types.NamespacedName{Namespace: e.Namespace, Name: wanted.Claim}]
		if claim != nil && claim.UID == wanted.UID {
			inputs = append(inputs, c.devices.unreserve(claim, e.UID)...)
		}
	}
	return inputs
}

// groupOf returns the PodGroup whose claims the pod may use; nil for none. waits says that it does not exist yet:
// claims from templates are not made for the pod before.
func (d *claimController) groupOf(pod *corev1.Pod) (group *schedulingv1beta1.PodGroup, waits bool) {
	if !d.groups.on || pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return nil, false
	}
	group = d.groups.objects[types.NamespacedName{Namespace: pod.Namespace,
		Name: *pod.Spec.SchedulingGroup.PodGroupName}]
	return group, group == nil
}

// isOfGroup reports whether the pod's claim is one of its PodGroup's.
func isOfGroup(pod *corev1.Pod, group *schedulingv1beta1.PodGroup, claim *corev1.PodResourceClaim) bool {
	if group == nil {
		return false
	}
	to, err := resourceclaim.BindTo(pod, group, claim)
	return err == nil && to.UID == group.UID
}

// consumers returns the consumers for which the pod's claims are reserved in its place.
func (d *claimController) consumers(pod *corev1.Pod) map[string]resourcev1.ResourceClaimConsumerReference {
	group, _ := d.groupOf(pod)
	return devices.GroupClaimsOf(pod, group)
}

// tellWaiting returns the inputs for the pods of a group that have waited for its PodGroup, with their claims.
func (c *Cluster) tellWaiting(key types.NamespacedName) (inputs []eventlog.Payload, err error) {
	g, ok := c.groupIndex[key]
	if !ok || c.groups[g].running+c.groups[g].pending == 0 || c.devices.groups.objects[key] == nil {
		return nil, nil
	}
	for i := range c.pods {
		p := &c.pods[i]
		if p.group != g || p.phase != pending || len(p.template.Spec.ResourceClaims) == 0 {
			continue
		}
		told, err := c.tellPod(int32(i), c.name(int32(i)).Name)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, told...)
	}
	return inputs, nil
}
