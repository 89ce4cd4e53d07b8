package scheduler_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/yaml"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// TestTranscripts plays the stories in testdata. With -rewrite it writes down what happens now; commit such a
// change only if you understand what caused it.
//
// A story's commands (one a block; what follows ---- is what happened):
//
//	config                          begin an epoch with the KubeSchedulerConfiguration that stands below
//	node NAME cpu=4 [memory=] [gpu=] [label=k:v] [cordoned]
//	group NS/NAME min=3 [api=x-k8s.io] [timeout=30s] [priority=]
//	pod NS/NAME cpu=1 [memory=] [gpu=] [group=G] [xgroup=G] [priority=] [gate=G] [scheduler=S] [node=N]
//	    [selector=k:v] [label=k:v] [labels=(k:v,...)] [annotations=(k:v,...)] [volume=CLAIM] [devices=RESOURCECLAIM]
//	apply RESOURCE                  the object that stands below as YAML
//	placed NS/NAME node=N           somebody else binds the pod
//	reschedule NS/NAME scheduler=S  the pod names another scheduler, which the API forbids
//	ungate NS/NAME                  the pod's scheduling gates are removed
//	terminate NS/NAME               the pod's deletion begins
//	delete RESOURCE [NS/]NAME
//	advance DURATION                time passes, and a Tick says so
//	decide                          one cycle
//	run                             cycles until nothing is left to decide
//	bound|failed|conflict|unknown NS/NAME [node=N]
//	show                            the queue and the pods with nodes
//	wake                            when time alone will make work
func TestTranscripts(t *testing.T) {
	stories, err := filepath.Glob("testdata/*.txt") // a property that fails leaves a directory beside them
	if err != nil || len(stories) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range stories {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			s := &story{t: t, now: eventlog.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
			datadriven.RunTest(t, path, s.play)
			s.replay(filepath.Base(path))
			newRestorations(t.Fatalf).play(s.entries, 1, 1)
		})
	}
}

// registry holds the real plugins, and one for stories.
func registry() runtime.Registry {
	r := plugins.NewRegistry()
	r["Approval"] = func(_ context.Context, _ kruntime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return approval{h}, nil
	}
	return r
}

// approval is a Permit plugin that holds pods labelled approval=wanted for half a minute, until it lets a pod pass
// that is labelled approval=given. On pods labelled approval=broken it ends in an error. It is worth asking again when a node joins.
type approval struct{ handle fwk.Handle }

var (
	_ fwk.PermitPlugin      = approval{}
	_ fwk.EnqueueExtensions = approval{}
)

func (approval) Name() string { return "Approval" }

func (a approval) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	switch pod.Labels["approval"] {
	case "wanted":
		return fwk.NewStatus(fwk.Wait), 30 * time.Second
	case "broken":
		return fwk.NewStatus(fwk.Error, "out of order"), 0
	case "given":
		a.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) { w.Allow(a.Name()) })
	}
	return nil, 0
}

func (approval) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}, nil
}

type story struct {
	epoch   uint64
	t       *testing.T
	m       *scheduler.Machine
	now     eventlog.Time
	entries []eventlog.Entry
	hashes  [][32]byte
	seen    uint64 // effects up to this entry have been printed
	uids    int
}

func (s *story) play(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	if s.m == nil || d.Cmd == "config" {
		if s.m == nil {
			s.m = scheduler.New(registry())
		}
		config, err := framework.EncodeConfig(framework.DefaultConfig())
		if d.Cmd == "config" {
			cfg, lerr := framework.LoadConfig([]byte(d.Input), "config")
			s.must(lerr)
			config, err = framework.EncodeConfig(cfg)
		}
		s.must(err)
		s.epoch++
		s.apply(&eventlog.EpochStarted{ID: fmt.Sprintf("epoch-%d", s.epoch), Version: "test", Format: eventlog.FormatVersion, Config: config})
		if d.Cmd == "config" {
			return "ok"
		}
	}
	out := s.command(d)
	return strings.TrimSuffix(out, "\n")
}

func (s *story) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "node":
		return s.apply(&eventlog.Upserted{Resource: eventlog.Nodes, Object: s.node(d)})
	case "group":
		res, obj := s.group(d)
		return s.apply(&eventlog.Upserted{Resource: res, Object: obj})
	case "composite":
		return s.apply(&eventlog.Upserted{Resource: eventlog.CompositePodGroups, Object: s.composite(d)})
	case "pod":
		return s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: s.pod(d)})
	case "apply":
		res := eventlog.Resource(d.CmdArgs[0].Key)
		obj := eventlog.NewObject(res)
		s.must(yaml.UnmarshalStrict([]byte(d.Input), obj))
		return s.apply(&eventlog.Upserted{Resource: res, Object: obj})
	case "placed":
		pod := s.existing(d).DeepCopy()
		pod.Spec.NodeName = arg(d, "node", "")
		return s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
	case "reschedule":
		pod := s.existing(d).DeepCopy()
		pod.Spec.SchedulerName = arg(d, "scheduler", "")
		return s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
	case "finish":
		pod := s.existing(d).DeepCopy()
		pod.Spec.NodeName = s.m.Cluster().Pod(pod.UID).Node
		pod.Status.Phase = v1.PodPhase(arg(d, "phase", "Succeeded"))
		return s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
	case "ungate":
		pod := s.existing(d).DeepCopy()
		pod.Spec.SchedulingGates = nil
		return s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
	case "terminate":
		pod := s.existing(d).DeepCopy()
		pod.DeletionTimestamp = &metav1.Time{Time: s.now.Std()}
		return s.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
	case "delete":
		return s.apply(s.deletion(d))
	case "advance":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		s.must(err)
		s.now = s.now.Add(by)
		return s.apply(&eventlog.Tick{})
	case "decide":
		return s.decide(1)
	case "run":
		return s.decide(1000)
	case "bound", "failed", "conflict", "unknown":
		outcome := map[string]eventlog.BindOutcome{"bound": eventlog.BindBound, "failed": eventlog.BindFailed,
			"conflict": eventlog.BindConflict, "unknown": eventlog.BindUnknown}[d.Cmd]
		p := s.m.Cluster().PodNamed(split(d.CmdArgs[0].Key))
		return s.apply(&eventlog.BindResult{UID: p.Object.UID, Node: arg(d, "node", p.Node), Outcome: outcome})
	case "show":
		return s.show()
	case "wake":
		at, ok := s.m.Wake()
		if !ok {
			return "never"
		}
		return "in " + eventlog.TimeOf(at).Sub(s.now).String()
	}
	s.t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return ""
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// apply takes a payload in as the next entry and prints it.
func (s *story) apply(p eventlog.Payload) string {
	s.t.Helper()
	if up, ok := p.(*eventlog.Upserted); ok {
		obj, err := eventlog.Canonical(up.Resource, eventlog.Trim(up.Resource, up.Object))
		s.must(err)
		up.Object = obj
	}
	e := eventlog.Entry{Seq: s.m.Seq() + 1, Epoch: s.epoch, Time: s.now, Payload: p}
	s.must(s.m.Apply(e))
	s.entries = append(s.entries, e)
	s.hashes = append(s.hashes, s.m.Hash())
	return s.print(e)
}

func (s *story) decide(atMost int) string {
	var b strings.Builder
	for range atMost {
		d, ok := s.m.Decide(nil)
		if !ok {
			break
		}
		b.WriteString(s.apply(&d))
	}
	for _, x := range s.m.EffectsAfter(s.seen) {
		fmt.Fprintf(&b, "   -> %s %s/%s", map[scheduler.EffectKind]string{scheduler.Bind: "bind", scheduler.Evict: "evict"}[x.Kind], x.Namespace, x.Name)
		if x.Kind == scheduler.Bind {
			fmt.Fprintf(&b, " to %s", x.Node)
		}
		for _, v := range x.Volumes {
			fmt.Fprintf(&b, ", claim %s", v.Claim)
		}
		b.WriteByte('\n')
	}
	s.seen = s.m.Seq()
	if b.Len() == 0 {
		return "nothing to decide"
	}
	return b.String()
}

func (s *story) print(e eventlog.Entry) string {
	at := e.Time.Std().Format("15:04:05")
	switch p := e.Payload.(type) {
	case *eventlog.Decision:
		return fmt.Sprintf("%d %s %s\n", e.Seq, at, s.printDecision(p))
	case *eventlog.BindResult:
		return fmt.Sprintf("%d %s %s %s", e.Seq, at, e.Kind(), p.Outcome)
	}
	return fmt.Sprintf("%d %s %s", e.Seq, at, e.Kind())
}

func (s *story) printDecision(d *eventlog.Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cycle %d: %s/%s %s", d.Cycle, d.Namespace, d.Name, d.Outcome)
	if d.Node != "" {
		fmt.Fprintf(&b, " on %s (score %d, %d of %d nodes feasible)", d.Node, d.Score, d.Feasible, d.Evaluated)
	}
	if d.Outcome == eventlog.Reserved {
		fmt.Fprintf(&b, " at %s:", d.WaitUntil.Std().Format("15:04:05"))
		for _, place := range d.Places {
			fmt.Fprintf(&b, " %s on %s", s.m.Cluster().Pod(place.UID).Object.Name, place.Node)
		}
	} else if d.WaitUntil != 0 {
		fmt.Fprintf(&b, ", waits for %s until %s", strings.Join(d.WaitFor, ","), d.WaitUntil.Std().Format("15:04:05"))
	}
	for _, r := range d.Rejections {
		fmt.Fprintf(&b, "\n     %s %s", r.Plugin, r.Code)
		if r.Reason != "" {
			fmt.Fprintf(&b, ": %s", r.Reason)
		}
		if r.Nodes > 0 {
			fmt.Fprintf(&b, " (%d nodes)", r.Nodes)
		}
	}
	for _, v := range d.Volumes {
		fmt.Fprintf(&b, "\n     claim %s gets %s", v.Claim, cmp.Or(v.Volume, "a new volume"))
	}
	if len(d.Allowed) > 0 {
		fmt.Fprintf(&b, "\n     allows %s", s.names(d.Allowed))
	}
	if len(d.Rejected) > 0 {
		fmt.Fprintf(&b, "\n     releases %s", s.names(d.Rejected))
	}
	if len(d.Victims) > 0 {
		fmt.Fprintf(&b, "\n     evicts %s", s.names(d.Victims))
	}
	return b.String()
}

func (s *story) names(uids []types.UID) string {
	var names []string
	for _, uid := range uids {
		names = append(names, s.m.Cluster().Pod(uid).Object.Name)
	}
	return strings.Join(names, " ")
}

func (s *story) show() string {
	var b strings.Builder
	for _, e := range s.m.Queue().All() {
		name := e.Key().Name
		if e.Key().Namespace != "" {
			name = e.Key().Namespace + "/" + name
		}
		fmt.Fprintf(&b, "%-9s %s: %s", e.Type(), name, e.State())
		if e.Owed() {
			b.WriteString(" (owed a retry)")
		}
		if n := e.Attempts(); n > 0 {
			fmt.Fprintf(&b, ", attempts %d", n)
		}
		if e.State() == queue.Backoff {
			fmt.Fprintf(&b, ", backs off until %s", e.BackoffUntil().Std().Format("15:04:05"))
		}
		if p := e.GatingPlugin(); p != "" {
			fmt.Fprintf(&b, ", gated by %s: %s", p, e.GatingMessage())
		}
		if u, _ := e.RejectedBy(); len(u) > 0 {
			fmt.Fprintf(&b, ", rejected by %s", strings.Join(u, ","))
		}
		b.WriteByte('\n')
	}
	var placed []string
	for _, e := range s.entries {
		up, ok := e.Payload.(*eventlog.Upserted)
		if !ok || up.Resource != eventlog.Pods {
			continue
		}
		if p := s.m.Cluster().Pod(up.Object.GetUID()); p != nil && p.Stage != cluster.Pending {
			placed = append(placed, fmt.Sprintf("%s/%s is %s on %s\n", p.Object.Namespace, p.Object.Name, p.Stage, p.Node))
		}
	}
	slices.Sort(placed)
	for _, line := range slices.Compact(placed) {
		b.WriteString(line)
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

// replay applies the story's entries to a Machine of its own: every state and every decision is the same.
func (s *story) replay(name string) {
	s.t.Helper()
	m := scheduler.New(registry())
	for i, e := range s.entries {
		b, err := eventlog.AppendRecord(nil, e, [32]byte{})
		s.must(err)
		read, _, err := eventlog.DecodeRecord(b)
		s.must(err)
		if d, ok := read.Payload.(*eventlog.Decision); ok {
			decided, ok := m.Decide(nil)
			if !ok || fmt.Sprintf("%+v", decided) != fmt.Sprintf("%+v", *d) {
				s.t.Fatalf("%s: entry %d is decided as %+v on replay, recorded %+v", name, e.Seq, decided, *d)
			}
		}
		s.must(m.Apply(read))
		if m.Hash() != s.hashes[i] {
			s.t.Fatalf("%s: after entry %d the replayed state differs", name, e.Seq)
		}
	}
}

func split(name string) (namespace, rest string) {
	namespace, rest, ok := strings.Cut(name, "/")
	if !ok {
		return "", namespace
	}
	return namespace, rest
}

func (s *story) existing(d *datadriven.TestData) *v1.Pod {
	s.t.Helper()
	p := s.m.Cluster().PodNamed(split(d.CmdArgs[0].Key))
	if p == nil {
		s.t.Fatalf("%s: no pod %s", d.Pos, d.CmdArgs[0].Key)
	}
	return p.Object
}

func arg(d *datadriven.TestData, key, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			if len(a.Vals) == 0 {
				return "true"
			}
			return a.Vals[0]
		}
	}
	return otherwise
}

// pairs returns the argument's values as keys and values; nil for none.
func pairs(d *datadriven.TestData, key string) map[string]string {
	var out map[string]string
	for _, a := range d.CmdArgs {
		if a.Key != key {
			continue
		}
		out = map[string]string{}
		for _, pair := range a.Vals {
			k, v, _ := strings.Cut(pair, ":")
			out[k] = v
		}
	}
	return out
}

func resources(d *datadriven.TestData, keys ...string) v1.ResourceList {
	names := map[string]v1.ResourceName{"cpu": v1.ResourceCPU, "memory": v1.ResourceMemory, "gpu": "nvidia.com/gpu", "pods": v1.ResourcePods}
	list := v1.ResourceList{}
	for _, key := range keys {
		if v := arg(d, key, ""); v != "" {
			list[names[key]] = resource.MustParse(v)
		}
	}
	return list
}

func (s *story) node(d *datadriven.TestData) *v1.Node {
	name := d.CmdArgs[0].Key
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Spec.Unschedulable = arg(d, "cordoned", "") != ""
	n.Status.Allocatable = resources(d, "cpu", "memory", "gpu")
	n.Status.Allocatable[v1.ResourcePods] = resource.MustParse(arg(d, "pods", "110"))
	if l := arg(d, "label", ""); l != "" {
		k, v, _ := strings.Cut(l, ":")
		n.Labels = map[string]string{k: v}
	}
	if more := pairs(d, "labels"); more != nil {
		n.Labels = more
	}
	return n
}

func (s *story) group(d *datadriven.TestData) (eventlog.Resource, eventlog.Object) {
	namespace, name := split(d.CmdArgs[0].Key)
	minimum := resource.MustParse(arg(d, "min", "1"))
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("group-" + name)}
	if arg(d, "api", "") == "x-k8s.io" {
		g := &xscheduling.PodGroup{ObjectMeta: meta}
		g.Spec.MinMember = int32(minimum.Value())
		if t := arg(d, "timeout", ""); t != "" {
			duration, err := time.ParseDuration(t)
			s.must(err)
			seconds := int32(duration.Seconds())
			g.Spec.ScheduleTimeoutSeconds = &seconds
		}
		return eventlog.XPodGroups, g
	}
	g := &schedulingv1beta1.PodGroup{ObjectMeta: meta}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(minimum.Value())}
	if v := arg(d, "priority", ""); v != "" {
		q := resource.MustParse(v)
		priority := int32(q.Value())
		g.Spec.Priority = &priority
	}
	if more := pairs(d, "annotations"); more != nil {
		g.Annotations = more
	}
	if key := arg(d, "topology", ""); key != "" {
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}}}
	}
	if c := arg(d, "parent", ""); c != "" {
		g.Spec.ParentCompositePodGroupName = &c
	}
	if others := arg(d, "with", ""); others != "" {
		names, err := json.Marshal(strings.Split(others, "+"))
		s.must(err)
		g.Annotations = map[string]string{"gang.scheduling.koordinator.sh/groups": string(names)}
	}
	if below := arg(d, "below", ""); below != "" {
		g.Annotations = map[string]string{"rollcall.dev/below-minimum": below}
	}
	return eventlog.PodGroups, g
}

func (s *story) composite(d *datadriven.TestData) eventlog.Object {
	namespace, name := split(d.CmdArgs[0].Key)
	c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("composite-" + name)}}
	minimum := resource.MustParse(arg(d, "min", "0"))
	if n := int32(minimum.Value()); n > 0 {
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: n}
	} else {
		c.Spec.SchedulingPolicy.Basic = &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}
	}
	if v := arg(d, "priority", ""); v != "" {
		q := resource.MustParse(v)
		priority := int32(q.Value())
		c.Spec.Priority = &priority
	}
	if parent := arg(d, "parent", ""); parent != "" {
		c.Spec.ParentCompositePodGroupName = &parent
	}
	return c
}

func (s *story) pod(d *datadriven.TestData) *v1.Pod {
	namespace, name := split(d.CmdArgs[0].Key)
	s.uids++
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("pod-%s-%d", name, s.uids))}}
	p.Spec.SchedulerName = arg(d, "scheduler", "default-scheduler")
	p.Spec.NodeName = arg(d, "node", "")
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: resources(d, "cpu", "memory", "gpu")}}}
	if g := arg(d, "group", ""); g != "" {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g}
	}
	if g := arg(d, "xgroup", ""); g != "" {
		p.Labels = map[string]string{xscheduling.PodGroupLabel: g}
	}
	if v := arg(d, "priority", ""); v != "" {
		q := resource.MustParse(v)
		priority := int32(q.Value())
		p.Spec.Priority = &priority
	}
	if g := arg(d, "gate", ""); g != "" {
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: g}}
	}
	if l := arg(d, "selector", ""); l != "" {
		k, v, _ := strings.Cut(l, ":")
		p.Spec.NodeSelector = map[string]string{k: v}
	}
	if l := arg(d, "label", ""); l != "" {
		k, v, _ := strings.Cut(l, ":")
		p.Labels = map[string]string{k: v}
	}
	if more := pairs(d, "labels"); more != nil {
		p.Labels = more
	}
	p.Annotations = pairs(d, "annotations")
	if claim := arg(d, "volume", ""); claim != "" {
		source := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: source}}
	}
	if claim := arg(d, "devices", ""); claim != "" {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim}}
	}
	return p
}

func (s *story) deletion(d *datadriven.TestData) *eventlog.Deleted {
	res := eventlog.Resource(d.CmdArgs[0].Key)
	namespace, name := split(d.CmdArgs[1].Key)
	del := &eventlog.Deleted{Resource: res, Namespace: namespace, Name: name}
	switch res {
	case eventlog.Pods:
		del.UID = s.m.Cluster().PodNamed(namespace, name).Object.UID
	case eventlog.Nodes:
		del.UID = types.UID("node-" + name)
	default:
		del.UID = types.UID("group-" + name)
	}
	return del
}
