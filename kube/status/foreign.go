package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// This file writes the statuses of PodGroups of Volcano and of the KAI Scheduler, as far as their own schedulers would,
// and no field that their controllers write. docs/GANGS.md says which.

// The phases of a PodGroup of Volcano. Pending, or none, is one of which Volcano's job controller has not made pods: it
// waits for a scheduler to write another one. Completed is not written here, nor Unknown, which is of some pods only.
const (
	volcanoPending = "Pending"
	volcanoInqueue = "Inqueue"
	volcanoRunning = "Running"
	volcanoUnknown = "Unknown"
)

// The condition types of the two APIs.
const (
	volcanoUnschedulable = "Unschedulable"
	volcanoScheduled     = "Scheduled"
	kaiUnschedulable     = "UnschedulableOnNodePool"
)

// declared takes in a PodGroup that has come or changed. The PodGroup of a gang that is refused gets the refusal.
// Volcano makes the pods of a job once its PodGroup says so. If it has no pod yet and the pods will be this
// scheduler's, declared writes that, unless the gang is refused as it is.
func (s *Status) declared(m *scheduler.Machine, res eventlog.Resource, obj eventlog.Object) {
	g := m.Cluster().Gangs().Named(obj.GetNamespace(), obj.GetName())
	if g == nil {
		return
	}
	if known := g.Gang(); known.Members() > 0 {
		s.judgedGroup(m, g)
		return
	}
	if res != eventlog.VolcanoPodGroups {
		return
	}
	want := groupStatus{uid: obj.GetUID(), unmade: true}
	if g.Refusal() != "" {
		want.condition, want.refused = contradicted(g).condition(), true
	}
	s.group.put(groupKey{res, obj.GetNamespace(), obj.GetName()}, want)
}

// stands reads a PodGroup that is a custom resource, and returns it with its client; nil if it is another one by now.
func (s *Status) stands(ctx context.Context, key groupKey, uid types.UID) (
	client dynamic.ResourceInterface, group *unstructured.Unstructured, err error,
) {
	made, err := s.dynamic()
	if err != nil {
		return nil, nil, err
	}
	resource := eventlog.KindFor(key.resource).GroupVersion().WithResource("podgroups")
	client = made.Resource(resource).Namespace(key.namespace)
	group, err = client.Get(ctx, key.name, metav1.GetOptions{})
	if err != nil || group.GetUID() != uid {
		return nil, nil, err
	}
	return client, group, nil
}

// dynamic returns the client of custom resources.
func (s *Status) dynamic() (dynamic.Interface, error) {
	s.groups.made.Do(func() {
		if s.opts.Config == nil {
			s.groups.err = fmt.Errorf("no client for custom resources")
			return
		}
		s.groups.dynamic, s.groups.err = dynamic.NewForConfig(s.opts.Config)
	})
	return s.groups.dynamic, s.groups.err
}

// writeVolcano writes the status of a PodGroup of Volcano, which is no subresource.
func (s *Status) writeVolcano(ctx context.Context, key groupKey, want groupStatus) (wrote bool, err error) {
	client, stands, err := s.stands(ctx, key, want.uid)
	if err != nil || stands == nil {
		return false, err
	}
	is, _ := stands.Object["status"].(map[string]any)
	phase, _ := is["phase"].(string)
	if want.unmade {
		if phase != "" && phase != volcanoPending {
			return false, nil // its pods are made, or were
		}
		if ours, err := s.isOurJob(ctx, key, stands); err != nil || !ours {
			return false, err
		}
	}
	status := map[string]any{}
	switch {
	case want.condition == nil:
		status["phase"] = volcanoInqueue
	case s.groups.hasSaid(key, want):
		return false, nil
	default:
		if want.condition.Status == metav1.ConditionTrue &&
			slices.Contains([]string{"", volcanoPending, volcanoInqueue, volcanoUnknown}, phase) {
			status["phase"] = volcanoRunning
		}
		if conditions, changed := s.volcanoConditions(is, want.condition); changed {
			status["conditions"] = conditions
		}
	}
	if wrote, err = s.patchStatus(ctx, client, stands, status); err == nil {
		s.groups.says(key, want)
	}
	return wrote, err
}

// volcanoConditions returns the conditions with the one that is wanted: of Unschedulable and Scheduled one is true.
func (s *Status) volcanoConditions(status map[string]any, want *metav1.Condition) (conditions []any, changed bool) {
	now := s.opts.Now().UTC().Format(time.RFC3339)
	next := map[string]any{"type": volcanoUnschedulable, "status": string(metav1.ConditionTrue),
		"reason": "NotEnoughResources", "message": want.Message, "lastTransitionTime": now}
	other := volcanoScheduled
	if want.Status == metav1.ConditionTrue {
		next["type"], next["reason"], other = volcanoScheduled, want.Reason, volcanoUnschedulable
	} else if want.Reason == corev1.PodReasonSchedulerError {
		next["reason"] = want.Reason
	}
	stands, _ := status["conditions"].([]any)
	there := false
	for _, each := range stands {
		c, known := each.(map[string]any)
		switch {
		case !known: // it is somebody else's
			conditions = append(conditions, each)
			continue
		case c["type"] == next["type"]:
			same := sameFields(c, next, "status", "reason", "message")
			if same {
				next = c
			}
			there, changed = true, changed || !same
			c = next
		case c["type"] == other && c["status"] != string(metav1.ConditionFalse):
			c = maps.Clone(c)
			c["status"], c["lastTransitionTime"], changed = string(metav1.ConditionFalse), now, true
		}
		conditions = append(conditions, c)
	}
	if !there {
		conditions, changed = append(conditions, next), true
	}
	return conditions, changed
}

// sameFields reports whether two objects have the same values of the fields.
func sameFields(a, b map[string]any, fields ...string) bool {
	return !slices.ContainsFunc(fields, func(f string) bool { return a[f] != b[f] })
}

// isOurJob reports whether the PodGroup is one that Volcano's job controller has made for a job whose pods this
// scheduler will place. Another scheduler's are admitted by that one.
func (s *Status) isOurJob(ctx context.Context, key groupKey, group *unstructured.Unstructured) (bool, error) {
	owner := metav1.GetControllerOf(group)
	if owner == nil || owner.Kind != "Job" {
		return false, nil
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil || version.Group != "batch.volcano.sh" || len(content.IsPathSegmentName(owner.Name)) > 0 ||
		len(content.IsPathSegmentName(version.Version)) > 0 { // anybody may have written it
		return false, nil
	}
	client, err := s.dynamic()
	if err != nil {
		return false, err
	}
	job, err := client.Resource(version.WithResource("jobs")).Namespace(key.namespace).Get(ctx, owner.Name,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && job.GetUID() != owner.UID {
		return false, nil // it is gone, and the PodGroup will be
	}
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(schedulersOf(job), func(name string) bool {
		return !slices.Contains(s.opts.Schedulers, name)
	}), nil
}

// schedulersOf returns the schedulers that the pods of a Job of Volcano will name: the scheduler of their task's
// template, or else the Job's.
func schedulersOf(job *unstructured.Unstructured) []string {
	ofJob, _, _ := unstructured.NestedString(job.Object, "spec", "schedulerName")
	ofJob = cmp.Or(ofJob, corev1.DefaultSchedulerName)
	tasks, _, _ := unstructured.NestedSlice(job.Object, "spec", "tasks")
	if len(tasks) == 0 {
		return []string{ofJob}
	}
	var names []string
	for _, each := range tasks {
		task, _ := each.(map[string]any)
		name, _, _ := unstructured.NestedString(task, "template", "spec", "schedulerName")
		names = append(names, cmp.Or(name, ofJob))
	}
	return names
}

// writeKAI writes the scheduling condition of a PodGroup of KAI, as KAI does. One condition for each node pool says
// that the group cannot be placed there, and a group that is placed has none.
func (s *Status) writeKAI(ctx context.Context, key groupKey, want groupStatus) (wrote bool, err error) {
	client, stands, err := s.stands(ctx, key, want.uid)
	if err != nil || stands == nil {
		return false, err
	}
	if s.groups.hasSaid(key, want) {
		return false, nil
	}
	pool := stands.GetLabels()[kai.NodePoolLabel]
	if pool == "" {
		pool = "default"
	}
	is, _, _ := unstructured.NestedSlice(stands.Object, "status", "schedulingConditions")
	others, last := make([]any, 0, len(is)+1), 0
	var mine map[string]any
	for _, each := range is {
		c, known := each.(map[string]any)
		if !known { // it is somebody else's
			others = append(others, each)
			continue
		}
		id, _ := c["transitionID"].(string)
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			last = max(last, int(n))
		}
		if c["nodePool"] == pool {
			mine = c
		} else {
			others = append(others, c)
		}
	}
	if want.condition.Status == metav1.ConditionTrue {
		if mine == nil {
			return false, nil
		}
		if wrote, err = s.patchStatus(ctx, client, stands, map[string]any{"schedulingConditions": others},
			"status"); err == nil {
			s.groups.says(key, want)
		}
		return wrote, err
	}
	next := map[string]any{
		"type": kaiUnschedulable, "nodePool": pool, "status": string(metav1.ConditionTrue),
		"reason": "Unschedulable", "message": want.condition.Message,
		"transitionID": strconv.Itoa(last + 1), "lastTransitionTime": s.opts.Now().UTC().Format(time.RFC3339),
		"reasons": []any{map[string]any{"reason": "Unschedulable", "message": want.condition.Message}},
	}
	if mine != nil && sameFields(mine, next, "type", "status", "reason", "message") {
		return false, nil
	}
	conditions := map[string]any{"schedulingConditions": append(others, next)}
	if wrote, err = s.patchStatus(ctx, client, stands, conditions, "status"); err == nil {
		s.groups.says(key, want)
	}
	return wrote, err
}

// patchStatus writes fields of the status of the object that was read, unless there are none. An object that has
// changed since is a conflict: its lists are written whole.
func (s *Status) patchStatus(ctx context.Context, client dynamic.ResourceInterface, stands *unstructured.Unstructured,
	status map[string]any, subresources ...string) (wrote bool, err error) {
	if len(status) == 0 {
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": stands.GetUID(), "resourceVersion": stands.GetResourceVersion()},
		"status":   status,
	})
	if err != nil {
		return false, err
	}
	is, err := client.Patch(ctx, stands.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return false, err
	}
	if phase, asked := status["phase"]; asked {
		if got, _, _ := unstructured.NestedString(is.Object, "status", "phase"); got != phase {
			return false, fmt.Errorf("the API server did not take the phase %s: status is a subresource there", phase)
		}
	}
	return true, nil
}
