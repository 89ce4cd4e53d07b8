package status

import (
	"context"
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// groupKey names a PodGroup of one of the APIs.
type groupKey struct {
	resource        eventlog.Resource
	namespace, name string
}

// groupStatus is the wanted status of a PodGroup.
type groupStatus struct {
	uid types.UID
	// condition is the wanted condition, without its type; nil says that the PodGroup waits for its pods, see awaited.
	condition *metav1.Condition
	// refused: the gang contradicts itself.
	refused bool
	// unmade: it has no pods, and its condition is only written if they would be this scheduler's.
	unmade bool
}

// groupWriter writes PodGroups.
type groupWriter struct {
	made    sync.Once
	dynamic dynamic.Interface // of custom resources
	err     error
	said    map[groupKey]saying // of the writer of PodGroups: what it last wrote, or found to stand
}

// saying is the content of the condition of a PodGroup that is a custom resource.
type saying struct {
	uid     types.UID
	status  metav1.ConditionStatus
	message string
}

func (g *groupStatus) saying() saying { return saying{g.uid, g.condition.Status, g.condition.Message} }

// hasSaid reports whether a condition was written already and no other one since. It is not written again then, even if
// it has gone: the scheduler of the PodGroup's own project may be running and write its own words, and the two would
// take turns.
func (w *groupWriter) hasSaid(key groupKey, want groupStatus) bool {
	last, known := w.said[key]
	return known && last == want.saying()
}

// says notes the present condition.
func (w *groupWriter) says(key groupKey, want groupStatus) {
	if want.condition == nil {
		return
	}
	if w.said == nil || len(w.said) >= maxAttempts {
		w.said = map[groupKey]saying{}
	}
	w.said[key] = want.saying()
}

// showGroup has the status of the gang's PodGroup say so, if it has one of the cluster's.
func (s *Status) showGroup(g *cluster.Group, want groupStatus) {
	if res, obj := declaring(g); obj != nil {
		want.uid = obj.GetUID()
		s.group.put(groupKey{res, g.Namespace, g.Name}, want)
	}
}

// declaring returns the first of the gang's PodGroups that exists: it declares the gang, as cluster.Group says. It is
// nil if there is none.
func declaring(g *cluster.Group) (eventlog.Resource, eventlog.Object) {
	for _, res := range cluster.GroupResources() {
		if obj := g.ObjectOf(res); obj != nil {
			return res, obj
		}
	}
	return "", nil
}

// writeGroup writes the status of a PodGroup, unless the API server says it already.
func (s *Status) writeGroup(ctx context.Context, key groupKey, want groupStatus) (outcome, error) {
	var write func(context.Context, groupKey, groupStatus) (bool, error)
	switch key.resource {
	case eventlog.PodGroups:
		write = s.writeCondition
	case eventlog.XPodGroups:
		write = s.writePhase
	case eventlog.VolcanoPodGroups:
		write = s.writeVolcano
	case eventlog.KAIPodGroups:
		write = s.writeKAI
	}
	changed, err := write(ctx, key, want)
	switch {
	case err == nil && changed:
		return wrote, nil
	case err == nil:
		return stands, nil
	case lasting(err):
		return lost, err
	}
	return failed, err // after a conflict it is read again
}

// writeCondition writes the condition PodGroupInitiallyScheduled of a PodGroup of scheduling.k8s.io. As in
// kube-scheduler it never goes back from True: it is about the first time only.
func (s *Status) writeCondition(ctx context.Context, key groupKey, want groupStatus) (wrote bool, err error) {
	client := s.opts.Pods.SchedulingV1beta1().PodGroups(key.namespace)
	stands, err := client.Get(ctx, key.name, metav1.GetOptions{})
	if err != nil || stands.UID != want.uid {
		return false, err
	}
	condition := *want.condition
	condition.Type, condition.ObservedGeneration = schedulingv1beta1.PodGroupInitiallyScheduled, stands.Generation
	condition.LastTransitionTime = metav1.NewTime(s.opts.Now())
	if condition.Status != metav1.ConditionTrue &&
		meta.IsStatusConditionTrue(stands.Status.Conditions, condition.Type) {
		return false, nil
	}
	if !meta.SetStatusCondition(&stands.Status.Conditions, condition) {
		return false, nil
	}
	_, err = client.UpdateStatus(ctx, stands, metav1.UpdateOptions{})
	return err == nil, err
}

// The phases of a PodGroup of scheduling.x-k8s.io that a scheduler sees. Its controller writes the later phases, from
// Running on.
const (
	phaseScheduling = "Scheduling"
	phaseScheduled  = "Scheduled"
)

// writePhase writes the phase of a PodGroup of scheduling.x-k8s.io.
func (s *Status) writePhase(ctx context.Context, key groupKey, want groupStatus) (wrote bool, err error) {
	client, stands, err := s.stands(ctx, key, want.uid)
	if err != nil || stands == nil {
		return false, err
	}
	if want.refused {
		return false, nil // there is no condition to say it
	}
	status, _ := stands.Object["status"].(map[string]any)
	phase, _ := status["phase"].(string)
	next := phaseScheduling
	if want.condition.Status == metav1.ConditionTrue {
		next = phaseScheduled
	}
	switch phase {
	case "", "Pending", "PreScheduling":
	case phaseScheduling:
		if next == phaseScheduling {
			return false, nil
		}
	default:
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": want.uid},
		"status":   map[string]any{"phase": next},
	})
	if err != nil {
		return false, err
	}
	_, err = client.Patch(ctx, key.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err == nil, err
}
