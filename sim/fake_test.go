package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// blank is the View of a scheduler that counts no attempts and reserves nothing.
type blank struct{}

func (blank) GangAttempts(string, string) int    { return 0 }
func (blank) PodAttempts(string, string) int     { return 0 }
func (blank) Priority(types.UID) (int32, bool)   { return 0, false }
func (blank) Reservations() []report.Reservation { return nil }

// ready is a Ready with effects.
func ready(effects []scheduler.Effect) (r engine.Ready) {
	for _, x := range effects {
		r.Effects = append(r.Effects, engine.Effect{Effect: x})
	}
	return r
}

// firstFit is a scheduler for tests: it binds every pod, in order of arrival, to the first node by name that has room;
// a gang only as a whole. It asserts the promises of a Cluster and writes its inputs into a transcript.
type firstFit struct {
	blank
	t       testing.TB
	nodes   map[string]*corev1.Node
	used    map[string]map[corev1.ResourceName]int64
	pods    map[types.UID]*corev1.Pod
	order   []types.UID
	on      map[types.UID]string
	sent    map[types.UID]bool
	minimum map[types.NamespacedName]int
	last    time.Time
	// retry, if not 0, makes it wake that often while pods are pending.
	retry        time.Duration
	steps        int
	noTranscript bool // no transcript
	story        []string
	// effects, if set, replaces what it decides.
	effects func(f *firstFit) []scheduler.Effect
}

func newFirstFit(t testing.TB) *firstFit {
	return &firstFit{
		t: t, nodes: map[string]*corev1.Node{}, used: map[string]map[corev1.ResourceName]int64{},
		pods: map[types.UID]*corev1.Pod{},
		on:   map[types.UID]string{}, sent: map[types.UID]bool{}, minimum: map[types.NamespacedName]int{},
	}
}

// wake is the time at which it wants to be woken; the zero time if it does not.
func (f *firstFit) wake() time.Time {
	if f.retry == 0 {
		return time.Time{}
	}
	for _, uid := range f.order {
		if !f.sent[uid] {
			return f.last.Add(f.retry)
		}
	}
	return time.Time{}
}

func (f *firstFit) Step(_ context.Context, now time.Time, inputs []eventlog.Payload) (r engine.Ready, err error) {
	if now.Before(f.last) {
		f.t.Errorf("time goes back from %s to %s", f.last, now)
	}
	f.last = now
	f.steps++
	if len(inputs) == 0 {
		f.tell(now, "tick")
	}
	for _, in := range inputs {
		f.take(now, in)
	}
	if f.effects != nil {
		r = ready(f.effects(f))
	} else {
		r = ready(f.decide())
	}
	r.Wake = f.wake()
	return r, nil
}

func (f *firstFit) tell(now time.Time, format string, args ...any) {
	if !f.noTranscript {
		f.story = append(f.story, fmt.Sprintf("%-8s %s", now.Sub(workload.Start), fmt.Sprintf(format, args...)))
	}
}

func (f *firstFit) take(now time.Time, in eventlog.Payload) {
	switch in := in.(type) {
	case *eventlog.Upserted:
		suffix := ""
		switch o := in.Object.(type) {
		case *corev1.Node:
			f.nodes[o.Name] = o
			if f.used[o.Name] == nil {
				f.used[o.Name] = map[corev1.ResourceName]int64{}
			}
			if o.Spec.Unschedulable {
				suffix = " unschedulable"
			}
		case *corev1.Pod:
			if o.Status.Phase == corev1.PodSucceeded {
				suffix = " has succeeded"
				if f.pods[o.UID] == nil || f.on[o.UID] != o.Spec.NodeName {
					f.t.Errorf("pod %s has succeeded on %q, and was on %q", o.Name, o.Spec.NodeName, f.on[o.UID])
				}
				f.add(o, -1)
				delete(f.on, o.UID)
				break
			}
			if f.pods[o.UID] == nil {
				f.order = append(f.order, o.UID)
			}
			for uid, other := range f.pods { // any order: one is enough
				if uid != o.UID && other.Namespace == o.Namespace && other.Name == o.Name {
					f.t.Errorf("pod %s/%s comes as %s while %s of that name is there", o.Namespace, o.Name, o.UID, uid)
				}
			}
			f.pods[o.UID] = o
			if o.Spec.NodeName != "" {
				suffix = " on " + o.Spec.NodeName
				f.sent[o.UID], f.on[o.UID] = true, o.Spec.NodeName
				f.add(o, +1)
			}
		case *corev1.PersistentVolumeClaim:
			suffix = " bound to " + o.Spec.VolumeName
		}
		if minimum, gang := workload.GroupMinimum(in.Object); gang || in.Resource == eventlog.PodGroups {
			f.minimum[types.NamespacedName{Namespace: in.Object.GetNamespace(), Name: in.Object.GetName()}] = max(1,
				minimum)
		}
		f.tell(now, "+ %s %s%s", in.Resource, in.Object.GetName(), suffix)
		if created := in.Object.GetCreationTimestamp(); in.Object.GetUID() == "" || created.IsZero() {
			f.t.Errorf("%s %s without workload.UID or creation time", in.Resource, in.Object.GetName())
		}
	case *eventlog.Deleted:
		f.tell(now, "- %s %s", in.Resource, in.Name)
		if in.UID == "" {
			f.t.Errorf("deletion of %s %s without workload.UID", in.Resource, in.Name)
		}
		if in.Resource == eventlog.Nodes {
			delete(f.nodes, in.Name)
		}
		if in.Resource == eventlog.Pods {
			f.drop(in.UID)
		}
	case *eventlog.BindResult:
		message := ""
		if in.Message != "" {
			message = ": " + in.Message
		}
		name := "gone"
		if p := f.pods[in.UID]; p != nil {
			name = p.Name
		}
		f.tell(now, "%s on %s %s%s", name, in.Node, outcomes[in.Outcome], message)
	default:
		f.t.Errorf("unexpected input %T", in)
	}
}

var outcomes = map[eventlog.BindOutcome]string{
	eventlog.BindBound: "Bound", eventlog.BindConflict: "Conflict", eventlog.BindFailed: "Failed",
	eventlog.BindUnknown: "Unknown",
}

func (f *firstFit) drop(uid types.UID) {
	pod := f.pods[uid]
	if pod == nil {
		f.t.Errorf("deletion of unknown pod %s", uid)
		return
	}
	if f.on[uid] != "" {
		f.add(pod, -1)
	}
	delete(f.pods, uid)
	delete(f.on, uid)
	f.order = slices.DeleteFunc(f.order, func(u types.UID) bool { return u == uid })
}

// add counts a pod's requests on its node.
func (f *firstFit) add(pod *corev1.Pod, sign int64) {
	node := f.on[pod.UID]
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		f.used[node][name] += sign * report.Units(name, q)
	}
	f.used[node][corev1.ResourcePods] += sign
}

func (f *firstFit) fits(pod *corev1.Pod, node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for k, v := range pod.Spec.NodeSelector {
		if node.Labels[k] != v {
			return false
		}
	}
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if f.used[node.Name][name]+report.Units(name, q) > report.Units(name, node.Status.Allocatable[name]) {
			return false
		}
	}
	return f.used[node.Name][corev1.ResourcePods]+1 <= node.Status.Allocatable.Pods().Value()
}

func (f *firstFit) place(uid types.UID, names []string) bool {
	for _, name := range names {
		if f.fits(f.pods[uid], f.nodes[name]) {
			f.on[uid] = name
			f.add(f.pods[uid], +1)
			return true
		}
	}
	return false
}

func (f *firstFit) decide() (effects []scheduler.Effect) {
	names := slices.Sorted(maps.Keys(f.nodes))
	tried := map[types.NamespacedName]bool{}
	for _, uid := range slices.Clone(f.order) {
		if f.sent[uid] {
			continue
		}
		members := []types.UID{uid}
		pod := f.pods[uid]
		plan := workload.PodPlan{Namespace: pod.Namespace, Template: pod}
		if key, ok := plan.Group(); ok {
			if tried[key] {
				continue
			}
			tried[key] = true
			members = f.members(key)
			if len(members) < f.minimum[key] || f.minimum[key] == 0 {
				continue
			}
		}
		placed := 0
		for placed < len(members) && f.place(members[placed], names) {
			placed++
		}
		if placed < len(members) {
			for _, m := range members[:placed] {
				f.add(f.pods[m], -1)
				delete(f.on, m)
			}
			continue
		}
		for _, m := range members {
			f.sent[m] = true
			effects = append(effects, f.bindEffect(m, f.on[m]))
		}
	}
	return effects
}

func (f *firstFit) members(key types.NamespacedName) (members []types.UID) {
	for _, uid := range f.order {
		plan := workload.PodPlan{Namespace: f.pods[uid].Namespace, Template: f.pods[uid]}
		if k, ok := plan.Group(); ok && k == key && !f.sent[uid] {
			members = append(members, uid)
		}
	}
	return members
}

func (f *firstFit) bindEffect(uid types.UID, node string) scheduler.Effect {
	e := scheduler.Effect{Kind: scheduler.Bind, UID: uid, Node: node}
	if p := f.pods[uid]; p != nil {
		e.Namespace, e.Name = p.Namespace, p.Name
	}
	return e
}

// pod returns the workload.UID of the pod of that name.
func (f *firstFit) pod(name string) types.UID {
	for _, uid := range f.order {
		if f.pods[uid].Name == name {
			return uid
		}
	}
	return ""
}

func (f *firstFit) text() string { return strings.Join(f.story, "\n") + "\n" }
