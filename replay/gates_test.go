package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/framework/gates"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// comparing has tolerations by the operator Gt count.
var comparing = map[string]bool{"TaintTolerationComparisonOperators": true}

// containersOnly ignores the requests of pods for all their containers together.
var containersOnly = map[string]bool{
	"TaintTolerationComparisonOperators": true, "InPlacePodLevelResourcesVerticalScaling": false,
	"PodLevelResources": false, "PodLevelResourcesFixDefaulting": false, "PodLevelResourcesFixKubeletQOSClass": false,
}

// writer makes a log as an engine does.
type writer struct {
	t       *testing.T
	m       *scheduler.Machine
	entries []eventlog.Entry
	epoch   uint64
	now     time.Time

	placed map[string]string // the pods that were scheduled, and their nodes
}

func newWriter(t *testing.T) *writer {
	return &writer{t: t, m: scheduler.New(plugins.NewRegistry()), now: transcripts.Start, placed: map[string]string{}}
}

func (w *writer) take(p eventlog.Payload) {
	w.t.Helper()
	e := eventlog.Entry{Seq: w.m.Seq() + 1, Epoch: w.epoch, Time: eventlog.TimeOf(w.now), Payload: p}
	if err := w.m.Apply(e); err != nil {
		w.t.Fatal(err)
	}
	w.entries = append(w.entries, e)
}

// start begins an epoch with these gates, decides all that there is to decide, and returns where pods are.
func (w *writer) start(named map[string]bool) {
	w.t.Helper()
	cfg, err := framework.ReadOptions{FeatureGates: named}.DefaultConfig()
	if err != nil {
		w.t.Fatal(err)
	}
	w.startWith(cfg)
}

// startWith is start with a configuration.
func (w *writer) startWith(cfg *framework.Config) {
	w.t.Helper()
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.epoch++
	w.now = w.now.Add(time.Hour) // all backoffs are over
	w.take(&eventlog.EpochStarted{ID: fmt.Sprintf("epoch-%d", w.epoch), Version: "test", Format: eventlog.FormatVersion,
		Behaviour: scheduler.Behaviour, Config: config})
	w.decide()
}

func (w *writer) decide() {
	w.t.Helper()
	for d, ok := w.m.Decide(nil); ok; d, ok = w.m.Decide(nil) {
		w.take(&d)
		if d.Outcome == eventlog.Scheduled {
			w.placed[d.Name] = d.Node
		}
	}
}

// upsert takes an object in, trimmed as it is logged, and decides.
func (w *writer) upsert(r eventlog.Resource, obj eventlog.Object) {
	w.t.Helper()
	w.take(&eventlog.Upserted{Resource: r, Object: obj})
	w.decide()
}

func (w *writer) pod(name, cpu string) { w.upsert(eventlog.Pods, w.newPod(name, cpu)) }

// newPod returns a pod that tolerates the nodes' taint by its value. It requests cpu; if what pods request for all
// their containers together does not count, that is 1.
func (w *writer) newPod(name, cpu string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, UID: types.UID(name)}}
	pod.Spec.SchedulerName = "default-scheduler"
	pod.Spec.Tolerations = []v1.Toleration{{Key: "sla", Operator: v1.TolerationOpGt, Value: "900",
		Effect: v1.TaintEffectNoSchedule}}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}
	pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}}
	return pod
}

// node is of 4 cpu, with a taint that is tolerated by its value alone.
func (w *writer) node(name string) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
		Labels: map[string]string{"rack": "a"}}}
	node.Spec.Taints = []v1.Taint{{Key: "sla", Value: "950", Effect: v1.TaintEffectNoSchedule}}
	node.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"),
		v1.ResourcePods: resource.MustParse("110")}
	w.upsert(eventlog.Nodes, node)
}

// gatedLog is a log of three epochs with different gates. In each of them some pod is placed, or is not, whose outcome
// would be the opposite under the gates of another epoch.
func gatedLog(t *testing.T) []eventlog.Entry {
	t.Helper()
	w := newWriter(t)
	step := func(named map[string]bool, pod string, want ...string) {
		t.Helper()
		w.start(named)
		w.pod(pod, "3")
		if got := slices.Sorted(maps.Keys(w.placed)); !slices.Equal(got, want) {
			t.Fatalf("with the gates %v, %v are placed, want %v", named, got, want)
		}
	}
	w.start(nil)
	w.node("n1")
	step(nil, "a")
	step(comparing, "b", "a")                     // 3 of 4 cpu each
	step(containersOnly, "c", "a", "b", "c")      // 1 of 4 cpu each
	step(nil, "d", "a", "b", "c")                 // the taint is not tolerated
	step(comparing, "e", "a", "b", "c")           // 9 of 4 cpu are in use
	step(containersOnly, "f", "a", "b", "c", "d") // 4 of 4
	return w.entries
}

// TestWhatIsToleratedByComparisonIsRoomForGangsAndReservations has all nodes tainted so that pods tolerate it by the
// operator Gt alone, under the gate that makes it count. A gang that must stay in one rack finds the rack, and a pod
// that waits for room has a reservation.
func TestWhatIsToleratedByComparisonIsRoomForGangsAndReservations(t *testing.T) {
	w := newWriter(t)
	cfg, err := framework.ReadOptions{FeatureGates: comparing}.LoadConfig([]byte(backfilled), "backfilled")
	if err != nil {
		t.Fatal(err)
	}
	w.startWith(cfg)
	w.node("n1")
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "g", UID: "g"}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1}
	group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
		Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}}
	w.upsert(eventlog.PodGroups, group)
	member := w.newPod("member", "1")
	name := "g"
	member.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
	w.upsert(eventlog.Pods, member)
	runs := w.newPod("runs", "3")
	runs.Annotations = map[string]string{"rollcall.dev/duration": "1h"}
	w.upsert(eventlog.Pods, runs)
	waits := w.newPod("waits", "2")
	w.upsert(eventlog.Pods, waits)

	reserved := false
	for _, e := range w.entries {
		d, ok := e.Payload.(*eventlog.Decision)
		reserved = reserved || ok && d.Outcome == eventlog.Reserved && d.Name == "waits"
	}
	if placed := w.placed["member"] != ""; !placed || !reserved {
		t.Errorf("the member is placed: %t, the pod that waits has a reservation: %t", placed, reserved)
	}
	if report := verify(t, w.entries); !report.Identical() {
		t.Errorf("diverged: %s", report.Divergences[0])
	}
}

const backfilled = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {queuePolicy: Backfill, backfillHoldSeconds: 7200}
`

func TestALogsFeatureGatesAreThoseOfItsEpochs(t *testing.T) {
	entries := gatedLog(t)
	if err := gates.Put(gates.Set{}); err != nil { // as in a new process
		t.Fatal(err)
	}
	if report := verify(t, entries); !report.Identical() {
		t.Errorf("diverged: %s", report.Divergences[0])
	}
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.StorageCapacityScoring,
		false)
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.TaintTolerationComparisonOperators, true)
	if report := verify(t, entries); !report.Identical() {
		t.Errorf("diverged in a process with gates of its own: %s", report.Divergences[0])
	}
}

// Without the gates in the configuration the decisions are others: what the logs above show is no accident.
func TestWithoutItsFeatureGatesALogDiverges(t *testing.T) {
	entries := gatedLog(t)
	plain := entries[0].Payload.(*eventlog.EpochStarted).Config
	for i := range entries {
		if p, ok := entries[i].Payload.(*eventlog.EpochStarted); ok {
			without := *p
			without.Config = plain
			entries[i].Payload = &without
		}
	}
	if report := verify(t, entries); report.Identical() {
		t.Error("identical without its gates")
	}
}

// aloof is a pod that wants no other pod with its label in its zone.
func aloof(name string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, UID: types.UID(name)}}
	pod.Labels = map[string]string{"app": "aloof"}
	pod.Spec.SchedulerName = "default-scheduler"
	pod.Spec.Containers = []v1.Container{{Name: "c"}}
	pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}, TopologyKey: "zone",
		}},
	}}
	return pod
}

// TestPodsKeepOthersOffTheirZoneUnderTheHostnameFastPath: under that gate InterPodAffinity asks for the nodes with pods
// of wide anti-affinity by themselves.
func TestPodsKeepOthersOffTheirZoneUnderTheHostnameFastPath(t *testing.T) {
	w := newWriter(t)
	w.start(map[string]bool{"InterPodAffinityHostnameFastPath": true})
	for _, name := range []string{"n1", "n2"} {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Labels: map[string]string{"zone": "z"},
		}}
		node.Status.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("110")}
		w.upsert(eventlog.Nodes, node)
	}
	w.upsert(eventlog.Pods, aloof("first"))
	plain := aloof("second")
	plain.Spec.Affinity = nil
	w.upsert(eventlog.Pods, plain)
	if got := slices.Sorted(maps.Keys(w.placed)); !slices.Equal(got, []string{"first"}) {
		t.Errorf("%v are placed, want the first one", got)
	}
	if report := verify(t, w.entries); !report.Identical() {
		t.Errorf("diverged: %s", report.Divergences[0])
	}
}

func TestAGateThatThisKubernetesLacksIsNamed(t *testing.T) {
	entries := gatedLog(t)
	for i := range entries {
		if p, ok := entries[i].Payload.(*eventlog.EpochStarted); ok {
			later := *p
			later.Config = bytes.Replace(p.Config, []byte("TaintTolerationComparisonOperators"),
				[]byte("GateOfTomorrow"), 1)
			entries[i].Payload = &later
		}
	}
	log := eventlog.NewMemory()
	if err := log.Append(t.Context(), 0, entries); err != nil {
		t.Fatal(err)
	}
	_, err := replay.Verify(t.Context(), log.Read(t.Context(), 1), replay.Options{Registry: plugins.NewRegistry()})
	var config *scheduler.ConfigError
	if !errors.As(err, &config) || !strings.Contains(err.Error(), `has no feature gate "GateOfTomorrow"`) {
		t.Errorf("error %v", err)
	}
}

// Machines of different gates take turns, entry by entry: each has its own gates in force when it works.
func TestMachinesOfDifferentFeatureGatesTakeTurns(t *testing.T) {
	entries := gatedLog(t)
	const machines = 3
	var all [machines]*scheduler.Machine
	for i := range all {
		all[i] = scheduler.New(plugins.NewRegistry())
	}
	var hashes [][32]byte
	for round := range len(entries) + machines*4 {
		for i, m := range all {
			at := round - i*4 // each is some entries behind the one before it, so that it is in another epoch
			if at < 0 || at >= len(entries) {
				continue
			}
			if d, ok := entries[at].Payload.(*eventlog.Decision); ok {
				got, decided := m.Decide(nil)
				if !decided || !reflect.DeepEqual(&got, d) {
					t.Fatalf("Machine %d decides otherwise at entry %d", i, entries[at].Seq)
				}
			}
			if err := m.Apply(entries[at]); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				hashes = append(hashes, m.Hash())
			} else if m.Hash() != hashes[at] {
				t.Fatalf("Machine %d has another state after entry %d", i, entries[at].Seq)
			}
			state, err := m.AppendState(nil)
			if err != nil {
				t.Fatal(err)
			}
			if all[i], err = scheduler.Restore(plugins.NewRegistry(), state); err != nil {
				t.Fatal(err)
			}
		}
	}
}
