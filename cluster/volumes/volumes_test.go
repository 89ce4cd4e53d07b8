package volumes_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster/volumes"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// volumeWorld is upstream's VolumeBinding plugin over informers with nodes n1 and n2, class "local" (bound
// when a pod comes) and class "made" (provisioned when a pod comes).
type volumeWorld struct {
	t        testing.TB
	f        store
	plugin   *volumebinding.VolumeBinding
	recorder *volumes.Recorder
}

func newVolumeWorld(t testing.TB) *volumeWorld {
	t.Helper()
	w := &volumeWorld{t: t, f: newStore()}
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	mustUpsert(
		t,
		w.f,
		&storagev1.StorageClass{
			ObjectMeta:        metav1.ObjectMeta{Name: "local"},
			Provisioner:       volume.NotSupportedProvisioner,
			VolumeBindingMode: &wait,
		},
		&storagev1.StorageClass{
			ObjectMeta:        metav1.ObjectMeta{Name: "made"},
			Provisioner:       "csi.example.com",
			VolumeBindingMode: &wait,
		},
		worldNode("n1"),
		worldNode("n2"),
		&storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		},
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
	)
	w.plugin = newPlugin(t, w.f, volumebinding.Name).(*volumebinding.VolumeBinding)
	recorder, ok, err := volumes.Record(w.plugin)
	if err != nil || !ok {
		t.Fatalf("RecordVolumes: %v, %v", ok, err)
	}
	w.recorder = recorder
	return w
}

// newPlugin makes an in-tree plugin with its default arguments.
func newPlugin(t testing.TB, f store, name string) fwk.Plugin {
	t.Helper()
	var args runtime.Object
	for _, c := range defaults.PluginConfigsV1 {
		if c.Name == name {
			args = c.Args
		}
	}
	pl, err := plugins.NewInTreeRegistry()[name](
		context.Background(),
		args,
		&pluginHandle{state: f.State, profile: "default-scheduler"},
	)
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

func worldNode(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
}

// localVolume is an available volume of class "local" that lives on a node.
func localVolume(name, node, size string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: "local",
			Capacity:         v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
				{
					MatchExpressions: []v1.NodeSelectorRequirement{
						{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}},
					},
				},
			}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}

// unboundClaim is a claim of 1Gi; a claim of class "local" or "made" waits for its first pod.
func unboundClaim(name, class string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

func boundClaim(name, class, pv string) *v1.PersistentVolumeClaim {
	claim := unboundClaim(name, class)
	claim.Spec.VolumeName = pv
	claim.Annotations = map[string]string{volume.AnnBindCompleted: "yes"}
	return claim
}

func podWithClaims(name string, claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: claim, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

// decide runs the plugin as a cycle does: filter all nodes, reserve on the first feasible one, take the
// reservation back. It tells which node that was, what was captured and what was refused.
func (w *volumeWorld) decide(pod *v1.Pod) (node string, vols []eventlog.VolumeClaim, refusals string) {
	w.t.Helper()
	ctx, state := context.Background(), framework.NewCycleState()
	if _, status := w.plugin.PreFilter(ctx, state, pod, nil); !status.IsSuccess() {
		return "", nil, status.Message()
	}
	for _, obj := range w.f.List(eventlog.Nodes) {
		info := framework.NewNodeInfo()
		info.SetNode(obj.(*v1.Node))
		if status := w.plugin.Filter(ctx, state, pod, info); !status.IsSuccess() {
			refusals += obj.GetName() + ": " + status.Message() + "; "
		} else if node == "" {
			node = obj.GetName()
		}
	}
	if node == "" {
		return "", nil, refusals
	}
	w.recorder.Reset()
	if status := w.plugin.Reserve(ctx, state, pod, node); !status.IsSuccess() {
		w.t.Fatalf("reserve: %s", status.Message())
	}
	w.plugin.Unreserve(ctx, state, pod, node)
	return node, w.recorder.Captured(), refusals
}

// place decides the pod twice, which must give the same, and assumes what was decided.
func (w *volumeWorld) place(pod *v1.Pod) string {
	w.t.Helper()
	before := w.f.AppendState(nil)
	node, vols, refusals := w.decide(pod)
	node2, vols2, refusals2 := w.decide(pod)
	if node != node2 || !slices.Equal(vols, vols2) || refusals != refusals2 {
		w.t.Fatalf("decided %s %v %q, then %s %v %q", node, vols, refusals, node2, vols2, refusals2)
	}
	if !bytes.Equal(before, w.f.AppendState(nil)) {
		w.t.Fatal("deciding changed the state")
	}
	if node == "" {
		return refusals
	}
	if err := w.f.AssumeVolumes(pod, node, vols); err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprint(node, " ", vols)
}

func (w *volumeWorld) want(pod *v1.Pod, want string) {
	w.t.Helper()
	if got := w.place(pod); got != want {
		w.t.Errorf("pod %s: %s, want %s", pod.Name, got, want)
	}
}

func TestABoundClaimHoldsItsPodToTheVolumesNode(t *testing.T) {
	w := newVolumeWorld(t)
	mustUpsert(
		t,
		w.f,
		localVolume("pv", "n2", "1Gi"),
		boundClaim("data", "local", "pv"),
		boundClaim("lost", "local", "gone"),
	)
	w.want(podWithClaims("a", "data"), "n2 []")
	if _, _, refusals := w.decide(
		podWithClaims("a", "data"),
	); refusals != "n1: node(s) didn't match PersistentVolume's node affinity; " {
		t.Errorf("refusals: %s", refusals)
	}
	w.want(
		podWithClaims("b", "lost"),
		"n1: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s); n2: node(s) unavailable due "+
			"to one or more pvc(s) bound to non-existent pv(s); ",
	)
	w.want(podWithClaims("c", "none"), `persistentvolumeclaim "none" not found`)
}

func TestAnAssumedVolumeIsNotGivenToAnotherClaim(t *testing.T) {
	w := newVolumeWorld(t)
	mustUpsert(
		t,
		w.f,
		localVolume("pv-b", "n1", "1Gi"),
		localVolume("pv-a", "n1", "1Gi"),
		localVolume("pv-c", "n2", "1Gi"),
	)
	for _, claim := range []string{"one", "two", "three", "four"} {
		mustUpsert(t, w.f, unboundClaim(claim, "local"))
	}
	empty := w.f.AppendState(nil)
	// The first by name of two volumes that fit equally well is taken.
	w.want(podWithClaims("a", "one"), "n1 [{one pv-a}]")
	assumed := w.f.Get(eventlog.PersistentVolumes, "", "pv-a").(*v1.PersistentVolume)
	if ref := assumed.Spec.ClaimRef; ref == nil || ref.Namespace != "ns" || ref.Name != "one" || ref.UID != "uid-one" ||
		assumed.Annotations[volume.AnnBoundByController] != "yes" {
		t.Errorf(
			"the assumed volume is not bound as the binder would: %v %v",
			assumed.Spec.ClaimRef,
			assumed.Annotations,
		)
	}
	if bytes.Equal(empty, w.f.AppendState(nil)) {
		t.Error("what is assumed is not in the state's bytes")
	}
	w.want(podWithClaims("b", "two"), "n1 [{two pv-b}]")
	w.want(podWithClaims("c", "three"), "n2 [{three pv-c}]")
	w.want(
		podWithClaims("d", "four"),
		"n1: node(s) didn't find available persistent volumes to bind; n2: node(s) didn't find available persistent "+
			"volumes to bind; ",
	)
	w.f.ForgetVolumes("uid-b")
	w.want(podWithClaims("d", "four"), "n1 [{four pv-b}]")
	for _, uid := range []types.UID{"uid-a", "uid-c", "uid-d", "uid-d", "uid-none"} {
		w.f.ForgetVolumes(uid)
	}
	if !bytes.Equal(empty, w.f.AppendState(nil)) || w.f.Volumes().Held() != 0 {
		t.Error("forgetting leaves a trace")
	}
}

func TestPodsThatShareAClaimHoldItTogether(t *testing.T) {
	w := newVolumeWorld(t)
	mustUpsert(
		t,
		w.f,
		localVolume("pv", "n2", "1Gi"),
		unboundClaim("shared", "local"),
		unboundClaim("other", "local"),
		unboundClaim("made", "made"),
	)
	logged := w.f.AppendState(nil)
	w.want(podWithClaims("a", "shared", "made"), "n2 [{made } {shared pv}]")
	w.want(podWithClaims("b", "shared", "made"), "n2 [{made } {shared pv}]")
	w.f.ForgetVolumes("uid-a")
	w.want(
		podWithClaims("c", "other"),
		"n1: node(s) didn't find available persistent volumes to bind; n2: node(s) didn't find available persistent "+
			"volumes to bind; ",
	)
	if got := w.f.Get(eventlog.PersistentVolumeClaims, "ns",
		"made").GetAnnotations()[volume.AnnSelectedNode]; got != "n2" {
		t.Errorf("selected node: %q", got)
	}
	w.f.ForgetVolumes("uid-b")
	if !bytes.Equal(logged, w.f.AppendState(nil)) {
		t.Error("forgetting leaves a trace")
	}
}

func TestAClaimToBeProvisionedHoldsToItsNode(t *testing.T) {
	w := newVolumeWorld(t)
	mustUpsert(t, w.f, unboundClaim("data", "made"))
	w.want(podWithClaims("a", "data"), "n1 [{data }]")
	if _, _, refusals := w.decide(
		podWithClaims("b", "data"),
	); refusals != "n2: node(s) didn't find available persistent volumes to bind; " {
		t.Errorf("refusals: %s", refusals)
	}
}

func TestTheLogOverrulesWhatWasAssumed(t *testing.T) {
	for name, c := range map[string]struct {
		log  func(*v1.PersistentVolume) *v1.PersistentVolume
		kept bool
	}{
		"other content": {func(pv *v1.PersistentVolume) *v1.PersistentVolume {
			pv.Labels = map[string]string{"a": "b"}
			return pv
		}, false},
		"another version": {func(pv *v1.PersistentVolume) *v1.PersistentVolume {
			pv.ResourceVersion = "2"
			return pv
		}, false},
		"another volume of the name": {func(pv *v1.PersistentVolume) *v1.PersistentVolume {
			pv.UID = "new"
			return pv
		}, false},
		"the same again, from a relist": {func(pv *v1.PersistentVolume) *v1.PersistentVolume { return pv }, true},
		"its deletion":                  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newVolumeWorld(t)
			mustUpsert(t, w.f, localVolume("pv", "n1", "1Gi"), unboundClaim("data", "local"))
			w.want(podWithClaims("a", "data"), "n1 [{data pv}]")
			if c.log == nil {
				if old := w.f.Delete(eventlog.PersistentVolumes, "",
					"pv").(*v1.PersistentVolume); old.Spec.ClaimRef == nil {
					t.Error("Delete does not return what plugins saw")
				}
			} else {
				mustUpsert(t, w.f, c.log(localVolume("pv", "n1", "1Gi")))
				seen := w.f.Get(eventlog.PersistentVolumes, "", "pv").(*v1.PersistentVolume)
				if kept := seen.Spec.ClaimRef != nil; kept != c.kept {
					t.Errorf("the overlay is there: %v, want %v", kept, c.kept)
				}
			}
			if held := w.f.Volumes().Held() > 0; held != c.kept {
				t.Errorf("the pod holds volumes: %v, want %v", held, c.kept)
			}
			before := w.f.AppendState(nil)
			w.f.ForgetVolumes("uid-a")
			if changed := !bytes.Equal(before, w.f.AppendState(nil)); changed != c.kept {
				t.Errorf("forgetting changed the state: %v, want %v", changed, c.kept)
			}
		})
	}
}

func TestAssumeVolumesRefusesWhatTheStateContradicts(t *testing.T) {
	w := newVolumeWorld(t)
	mustUpsert(
		t,
		w.f,
		localVolume("pv-a", "n1", "1Gi"),
		localVolume("pv-b", "n1", "1Gi"),
		unboundClaim(
			"one",
			"local",
		),
		unboundClaim("two", "local"),
		unboundClaim("made", "made"),
		unboundClaim("made-2", "made"),
	)
	taken := podWithClaims("taken", "two", "made")
	if err := w.f.AssumeVolumes(
		taken,
		"n1",
		[]eventlog.VolumeClaim{{Claim: "made"}, {Claim: "two", Volume: "pv-b"}},
	); err != nil {
		t.Fatal(err)
	}
	before := w.f.AppendState(nil)
	pod := podWithClaims("a")
	for name, c := range map[string]struct {
		pod  *v1.Pod
		vols []eventlog.VolumeClaim
	}{
		"a claim that is not there": {pod, []eventlog.VolumeClaim{{Claim: "one", Volume: "pv-a"},
			{Claim: "none"}}},
		"a volume that is not there": {pod, []eventlog.VolumeClaim{{Claim: "made-2"}, {Claim: "one",
			Volume: "none"}}},
		"a volume of another claim": {pod, []eventlog.VolumeClaim{{Claim: "made-2"}, {Claim: "one",
			Volume: "pv-b"}}},
		"one volume for two claims": {pod, []eventlog.VolumeClaim{{Claim: "one", Volume: "pv-a"},
			{Claim: "two", Volume: "pv-a"}}},
		"a claim made for another node": {pod, []eventlog.VolumeClaim{{Claim: "one", Volume: "pv-a"},
			{Claim: "made"}}},
		"a pod that holds volumes already": {taken, []eventlog.VolumeClaim{{Claim: "one", Volume: "pv-a"}}},
	} {
		if err := w.f.AssumeVolumes(c.pod, "n2", c.vols); err == nil {
			t.Errorf("%s: no error", name)
		}
		if !bytes.Equal(before, w.f.AppendState(nil)) {
			t.Fatalf("%s: the refused placement left a trace", name)
		}
	}
}

func TestVolumesAreNeverBoundInACycle(t *testing.T) {
	w := newVolumeWorld(t)
	mustUpsert(t, w.f, localVolume("pv", "n1", "1Gi"), unboundClaim("data", "local"))
	ctx, state, pod := context.Background(), framework.NewCycleState(), podWithClaims("a", "data")
	info := framework.NewNodeInfo()
	info.SetNode(worldNode("n1"))
	if _, status := w.plugin.PreFilter(ctx, state, pod, nil); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	if status := w.plugin.Filter(ctx, state, pod, info); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	if status := w.plugin.Reserve(ctx, state, pod, "n1"); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	if status := w.plugin.PreBind(ctx, state, pod, "n1"); status.IsSuccess() {
		t.Error("PreBind binds volumes")
	}
}

func TestRecordVolumesKnowsItsPlugin(t *testing.T) {
	w := newVolumeWorld(t)
	if again, ok, err := volumes.Record(w.plugin); again != w.recorder || !ok || err != nil {
		t.Errorf("a second recorder: %v %v %v", again, ok, err)
	}
	if r, ok, err := volumes.Record(newPlugin(t, w.f, "NodeName")); r != nil || ok || err != nil {
		t.Errorf("another plugin gets a recorder: %v %v %v", r, ok, err)
	}
}

// Whatever is placed, forgotten and logged in whatever order: no claim is ever given two volumes, the books
// agree, and once every pod is forgotten nothing but the log is left.
func TestAssumedVolumesStayConsistent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newVolumeWorld(t)
		logged := newStore()
		for _, res := range []eventlog.Resource{eventlog.StorageClasses, eventlog.Nodes, eventlog.CSINodes} {
			mustUpsert(t, logged, w.f.List(res)...)
		}
		put := func(obj eventlog.Object) {
			mustUpsert(t, w.f, obj)
			mustUpsert(t, logged, obj)
		}
		number := rapid.IntRange(0, 3)
		placed := map[string]bool{}
		rt.Repeat(map[string]func(*rapid.T){
			"log volume": func(rt *rapid.T) {
				n := number.Draw(rt, "volume")
				put(
					localVolume(
						fmt.Sprintf("pv%d", n),
						fmt.Sprintf("n%d", 1+n%2),
						rapid.SampledFrom([]string{"1Gi", "2Gi"}).Draw(rt, "size"),
					),
				)
			},
			"log claim": func(rt *rapid.T) {
				put(
					unboundClaim(
						fmt.Sprintf("c%d", number.Draw(rt, "claim")),
						rapid.SampledFrom([]string{"local", "made"}).Draw(rt, "class"),
					),
				)
			},
			"place": func(rt *rapid.T) {
				name := fmt.Sprintf("p%d", number.Draw(rt, "pod"))
				if placed[name] {
					rt.Skip()
				}
				claims := rapid.SliceOfNDistinct(number, 1, 2, rapid.ID).Draw(rt, "claims")
				pod := podWithClaims(name)
				for _, c := range claims {
					pod.Spec.Volumes = append(
						pod.Spec.Volumes,
						podWithClaims("", fmt.Sprintf("c%d", c)).Spec.Volumes...)
				}
				w.place(pod)
				placed[name] = w.f.Volumes().HeldBy(pod.UID) > 0
			},
			"forget": func(rt *rapid.T) {
				name := fmt.Sprintf("p%d", number.Draw(rt, "pod"))
				w.f.ForgetVolumes(types.UID("uid-" + name))
				placed[name] = false
			},
			"": func(rt *rapid.T) { w.f.Volumes().Check(rt.Fatalf) },
		})
		for i := range 4 {
			w.f.ForgetVolumes(types.UID(fmt.Sprintf("uid-p%d", i)))
		}
		if !bytes.Equal(w.f.AppendState(nil), logged.AppendState(nil)) {
			rt.Fatal("the state is not what was logged")
		}
	})
}

func TestTheStateTellsWhatWasLoggedUnderAnOverlay(t *testing.T) {
	prebound, free := localVolume("pv", "n1", "1Gi"), localVolume("pv", "n1", "1Gi")
	prebound.Annotations = map[string]string{volume.AnnBoundByController: "yes"}
	prebound.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "data"}
	free.Annotations = prebound.Annotations
	var seen [][]byte
	var states [][]byte
	for _, pv := range []*v1.PersistentVolume{prebound, free} {
		f := newStore()
		mustUpsert(t, f, pv, unboundClaim("data", "local"))
		if err := f.AssumeVolumes(
			podWithClaims("a"),
			"n1",
			[]eventlog.VolumeClaim{{Claim: "data", Volume: "pv"}},
		); err != nil {
			t.Fatal(err)
		}
		overlaid, err := f.Get(eventlog.PersistentVolumes, "", "pv").(*v1.PersistentVolume).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		seen, states = append(seen, overlaid), append(states, f.AppendState(nil))
	}
	if !bytes.Equal(seen[0], seen[1]) {
		t.Fatal("the two volumes are not seen alike, so this test tests nothing")
	}
	if bytes.Equal(states[0], states[1]) {
		t.Error("states that forgetting would tell apart have the same bytes")
	}
}
