package scheduler_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/restorecheck"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// richWorld makes histories of everything that is state: volumes that are bound and provisioned, images, affinity,
// ports, gangs of both APIs, gates, priorities, pods that change while they are held. A seed determines the events.
type richWorld struct {
	t       testing.TB
	draw    *rand.Rand
	m       *scheduler.Machine
	now     eventlog.Time
	entries []eventlog.Entry
	pods    []*v1.Pod
	made    int
	seen    map[string]bool
	affine  int // percent of pods that have affinity terms of a kind
	// together is the percent of pods that must be in a zone with their app.
	together int
	spread   bool // some pods are spread over the zones
	before   func(eventlog.Entry)
}

func newRichWorld(t testing.TB, seed uint64) *richWorld {
	w := &richWorld{
		t:      t,
		draw:   rand.New(rand.NewPCG(seed, 1)),
		m:      scheduler.New(plugins.NewRegistry()),
		seen:   map[string]bool{},
		affine: 20,
	}
	w.now = eventlog.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	w.take(
		&eventlog.EpochStarted{
			ID:        "epoch-1",
			Version:   "test",
			Format:    eventlog.FormatVersion,
			Behaviour: scheduler.Behaviour,
			Config:    defaultConfig(t),
		},
	)
	late := storagev1.VolumeBindingWaitForFirstConsumer
	w.upsert(
		eventlog.StorageClasses,
		&storagev1.StorageClass{
			ObjectMeta:        metav1.ObjectMeta{Name: "local"},
			Provisioner:       "kubernetes.io/no-provisioner",
			VolumeBindingMode: &late,
		},
	)
	w.upsert(
		eventlog.StorageClasses,
		&storagev1.StorageClass{
			ObjectMeta:        metav1.ObjectMeta{Name: "made"},
			Provisioner:       "example.com/disk",
			VolumeBindingMode: &late,
		},
	)
	w.upsert(eventlog.Namespaces, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ml"}})
	for range 4 {
		w.node()
	}
	return w
}

func (w *richWorld) take(p eventlog.Payload) {
	w.t.Helper()
	if up, ok := p.(*eventlog.Upserted); ok {
		obj, err := eventlog.Canonical(up.Resource, eventlog.Trim(up.Resource, up.Object))
		if err != nil {
			w.t.Fatal(err)
		}
		up.Object = obj
	}
	e := eventlog.Entry{Seq: w.m.Seq() + 1, Epoch: 1, Time: w.now, Payload: p}
	if w.before != nil {
		w.before(e)
	}
	if err := w.m.Apply(e); err != nil {
		w.t.Fatal(err)
	}
	w.entries = append(w.entries, e)
	w.look()
}

// look notes what there is in the state: a test that restores it is worth as much as there is.
func (w *richWorld) look() {
	for _, e := range w.m.Queue().All() {
		w.seen[e.State().String()] = true
		w.seen["owed"] = w.seen["owed"] || e.Retryable()
	}
	for _, p := range w.m.Cluster().Pods().All() {
		w.seen["refused"] = w.seen["refused"] || p.Group != nil && p.Group.Refusal() != ""
	}
	w.m.WaitingPods().Each(func(p *cluster.Wait) bool {
		w.seen["held"] = true
		w.seen["changed while held"] = w.seen["changed while held"] || p.Pod.Object.Labels["changed"] != ""
		return true
	})
	for _, x := range w.m.Effects() {
		for _, v := range x.Volumes {
			w.seen["provisioned"] = w.seen["provisioned"] || v.Volume == ""
			w.seen["volume assumed"] = w.seen["volume assumed"] || v.Volume != ""
		}
	}
	nodes, _ := w.m.Cluster().Nodes().List()
	for _, n := range nodes {
		w.seen["affinity"] = w.seen["affinity"] ||
			len(n.GetPodsWithRequiredAntiAffinity()) > 0 && len(n.GetPodsWithAffinity()) > 1
		w.seen["images"] = w.seen["images"] || len(n.GetImageStates()) > 0
	}
}

func (w *richWorld) upsert(res eventlog.Resource, obj eventlog.Object) {
	w.t.Helper()
	w.take(&eventlog.Upserted{Resource: res, Object: obj})
}

func (w *richWorld) chance(percent int) bool { return w.draw.IntN(100) < percent }

func (w *richWorld) name(kind string) string {
	w.made++
	return fmt.Sprintf("%s-%d", kind, w.made)
}

// run lets steps happen, and after each decides as often as is drawn, mostly until nothing is left.
func (w *richWorld) run(steps int) {
	acts := []func(){
		w.node,
		w.pod,
		w.pod,
		w.pod,
		w.gang,
		w.gang,
		w.changePod,
		w.changePod,
		w.deletePod,
		w.claimPod,
		w.claimPod,
		w.bindsComeBack,
		w.bindsComeBack,
		w.timePasses,
		w.changeNode,
		w.relogClaim,
	}
	for range steps {
		acts[w.draw.IntN(len(acts))]()
		for n := w.draw.IntN(20); n != 10; n++ {
			d, ok := w.m.Decide(nil)
			if !ok {
				break
			}
			w.take(&d)
		}
	}
}

func (w *richWorld) node() {
	name := w.name("node")
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			UID:    types.UID(name),
			Labels: map[string]string{v1.LabelHostname: name, "zone": fmt.Sprint(w.draw.IntN(2))},
		},
	}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("8"),
		v1.ResourceMemory: resource.MustParse("16Gi"),
		v1.ResourcePods:   resource.MustParse("12"),
	}
	if w.chance(50) {
		n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("4")
	}
	w.images(n)
	w.upsert(eventlog.Nodes, n)
}

// images gives a node images whose sizes nodes tell differently.
func (w *richWorld) images(n *v1.Node) {
	n.Status.Images = nil
	for i := range 3 {
		if w.chance(60) {
			n.Status.Images = append(
				n.Status.Images,
				v1.ContainerImage{
					Names:     []string{fmt.Sprintf("image-%d:latest", i)},
					SizeBytes: 1e8 * int64(1+w.draw.IntN(9)),
				},
			)
		}
	}
}

func (w *richWorld) changeNode() {
	nodes, _ := w.m.Cluster().Nodes().List()
	if len(nodes) == 0 {
		return
	}
	n := nodes[w.draw.IntN(len(nodes))].Node().DeepCopy()
	if w.chance(25) {
		w.take(&eventlog.Deleted{Resource: eventlog.Nodes, Name: n.Name, UID: n.UID})
		return
	}
	n.Spec.Unschedulable = w.chance(20)
	w.images(n)
	w.upsert(eventlog.Nodes, n)
}

// newPod makes a pod with whatever is drawn.
func (w *richWorld) newPod() *v1.Pod {
	name := w.name("pod")
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml",
			Name:      name,
			UID:       types.UID("uid-" + name),
			Labels:    map[string]string{"app": fmt.Sprint(w.draw.IntN(3))},
		},
	}
	p.Spec.SchedulerName = "default-scheduler"
	c := v1.Container{Name: "main", Image: fmt.Sprintf("image-%d:latest", w.draw.IntN(3))}
	c.Resources.Requests = v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(int64(1+w.draw.IntN(4)), resource.DecimalSI),
	}
	if w.chance(30) {
		c.Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
	}
	if w.chance(15) {
		c.Ports = []v1.ContainerPort{
			{ContainerPort: 80, HostPort: int32(8000 + w.draw.IntN(2)), Protocol: v1.ProtocolTCP},
		}
	}
	p.Spec.Containers = []v1.Container{c}
	if w.chance(20) {
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "later"}}
	}
	if w.chance(30) {
		priority := int32(w.draw.IntN(3))
		p.Spec.Priority = &priority
	}
	w.affinity(p)
	if w.spread {
		w.vary(p)
	}
	if w.spread && w.chance(15) {
		w.spreadOut(p)
	}
	return p
}

func (w *richWorld) affinity(p *v1.Pod) {
	term := v1.PodAffinityTerm{
		TopologyKey:   v1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(w.draw.IntN(3))}},
	}
	if w.chance(w.affine) {
		p.Spec.Affinity = &v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term},
			},
		}
	}
	if w.chance(w.affine) {
		term.TopologyKey = "zone"
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &v1.Affinity{}
		}
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
				{Weight: 7, PodAffinityTerm: term},
			},
		}
	}
	if w.together > 0 && w.chance(w.together) { // to pods of the same app, of which it may be the first
		term.TopologyKey, term.LabelSelector = "zone", &metav1.LabelSelector{MatchLabels: p.Labels}
		if w.chance(50) {
			term.NamespaceSelector = &metav1.LabelSelector{}
		}
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &v1.Affinity{}
		}
		if p.Spec.Affinity.PodAffinity == nil {
			p.Spec.Affinity.PodAffinity = &v1.PodAffinity{}
		}
		p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []v1.PodAffinityTerm{term}
	}
}

// vary makes the pod into one that is nearly the same.
func (w *richWorld) vary(p *v1.Pod) {
	c := &p.Spec.Containers[0]
	switch w.draw.IntN(6) {
	case 0:
		for i := range c.Ports {
			c.Ports[i].Protocol = v1.ProtocolUDP
		}
	case 1:
		for i := range c.Ports {
			c.Ports[i].HostIP = "127.0.0.1"
		}
	case 2:
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "more", Image: c.Image})
	case 3:
		p.Spec.InitContainers = []v1.Container{{Name: "first", Image: c.Image, Ports: c.Ports}}
		c.Ports = nil
	}
}

// spreadOut has the pod spread over the zones.
func (w *richWorld) spreadOut(p *v1.Pod) {
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
		{
			MaxSkew: int32(
				1 + w.draw.IntN(2),
			),
			TopologyKey:       "zone",
			LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}},
			WhenUnsatisfiable: []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}[w.draw.IntN(2)],
		},
	}
}

func (w *richWorld) add(p *v1.Pod) {
	w.pods = append(w.pods, p)
	w.upsert(eventlog.Pods, p.DeepCopy())
}

func (w *richWorld) pod() { w.add(w.newPod()) }

// gang makes a gang of either API, sometimes with fewer members than it needs.
func (w *richWorld) gang() {
	name, minimum := w.name("gang"), int32(2+w.draw.IntN(3))
	meta := metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("group-" + name)}
	ours := w.chance(50)
	if ours {
		g := &xscheduling.PodGroup{ObjectMeta: meta}
		g.Spec.MinMember = minimum
		w.upsert(eventlog.XPodGroups, g)
	} else {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: meta}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
		w.upsert(eventlog.PodGroups, g)
	}
	first := w.newPod()
	for range int(minimum) + w.draw.IntN(3) - 1 {
		p := w.newPod()
		if p.Spec.Priority = first.Spec.Priority; w.chance(3) {
			p.Labels["kueue.x-k8s.io/pod-group-name"] = "another" // the gang is refused
		}
		if ours {
			p.Labels[xscheduling.PodGroupLabel] = name
		} else {
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		}
		if w.chance(30) {
			w.claim(p)
		}
		w.add(p)
	}
}

// claim gives the pod a claim that its placement binds, to an existing volume or to one that is made for it.
func (w *richWorld) claim(p *v1.Pod) {
	name, class := w.name("claim"), "made"
	if w.chance(60) {
		class = "local"
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.name("volume"), ResourceVersion: "1"}}
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")}
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		pv.Spec.StorageClassName = class
		pv.Status.Phase = v1.VolumeAvailable
		w.upsert(eventlog.PersistentVolumes, pv)
	}
	pvc := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
	}
	pvc.Spec.StorageClassName = &class
	pvc.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pvc.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("5Gi")}
	pvc.Status.Phase = v1.ClaimPending
	w.upsert(eventlog.PersistentVolumeClaims, pvc)
	p.Spec.Volumes = append(
		p.Spec.Volumes,
		v1.Volume{
			Name: name,
			VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			},
		},
	)
}

func (w *richWorld) claimPod() {
	p := w.newPod()
	for range 1 + w.draw.IntN(2) {
		w.claim(p)
	}
	w.add(p)
	if w.chance(30) { // another one on the same claims
		other := w.newPod()
		other.Spec.Volumes = p.Spec.Volumes
		w.add(other)
	}
}

// relogClaim brings a claim again, with the same content or with another.
func (w *richWorld) relogClaim() {
	claims := w.m.Cluster().Informers().List(eventlog.PersistentVolumeClaims)
	if len(claims) == 0 {
		return
	}
	pvc := claims[w.draw.IntN(len(claims))].(*v1.PersistentVolumeClaim).DeepCopy()
	if w.chance(30) {
		pvc.ResourceVersion = fmt.Sprint(w.m.Seq())
	}
	w.upsert(eventlog.PersistentVolumeClaims, pvc)
}

// changePod changes a pod, wherever it stands: its label, its gates, its priority.
func (w *richWorld) changePod() {
	if len(w.pods) == 0 {
		return
	}
	p := w.pods[w.draw.IntN(len(w.pods))]
	p.Labels["changed"] = fmt.Sprint(w.m.Seq())
	p.Spec.SchedulingGates = nil
	if w.chance(10) {
		p.DeletionTimestamp = &metav1.Time{Time: w.now.Std()}
	}
	w.upsert(eventlog.Pods, p.DeepCopy())
}

func (w *richWorld) deletePod() {
	if len(w.pods) == 0 {
		return
	}
	i := w.draw.IntN(len(w.pods))
	p := w.pods[i]
	w.pods = append(w.pods[:i:i], w.pods[i+1:]...)
	w.take(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: p.Namespace, Name: p.Name, UID: p.UID})
}

func (w *richWorld) bindsComeBack() {
	for _, x := range w.m.Effects() {
		if x.Kind != scheduler.Bind || w.chance(40) {
			continue
		}
		outcome := eventlog.BindBound
		if w.chance(20) {
			outcome = eventlog.BindFailed
		} else {
			for _, p := range w.pods {
				if p.UID == x.UID {
					p.Spec.NodeName = x.Node
				}
			}
		}
		w.take(&eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: outcome})
	}
}

func (w *richWorld) timePasses() {
	w.now = w.now.Add(time.Duration(w.draw.IntN(20000)) * time.Millisecond)
	if w.chance(5) {
		w.now = w.now.Add(6 * time.Minute)
	}
	w.take(&eventlog.Tick{})
}

func defaultConfig(t testing.TB) []byte {
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// storyState is a state with something of everything in it.
func storyState(t testing.TB) []byte {
	w := newRichWorld(t, 7)
	w.run(60)
	state, err := w.m.AppendState(nil)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestMachinesRestoredAfterEveryEntryGoOnAsTheOriginal restores after every entry of histories with everything in them.
func TestMachinesRestoredAfterEveryEntryGoOnAsTheOriginal(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newRichWorld(t, seed)
			w.run(40)
			restorecheck.New(transcripts.Registry(), t.Fatalf).Play(w.entries, 1, 25)
			maps.Copy(seen, onlyTrue(w.seen))
		})
	}
	for _, what := range []string{"Gated", "Active", "Backoff", "Unschedulable", "InFlight", "Placed", "owed", "held",
		"changed while held",
		"provisioned", "volume assumed", "affinity", "images", "refused"} {
		if !seen[what] {
			t.Errorf("there was never anything in the state that is: %s", what)
		}
	}
}

func onlyTrue(m map[string]bool) map[string]bool {
	maps.DeleteFunc(m, func(_ string, v bool) bool { return !v })
	return m
}
