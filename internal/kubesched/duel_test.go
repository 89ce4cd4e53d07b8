package kubesched_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/internal/kubesched"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

var oneSeed = flag.Uint64("kubesched.seed", 0, "the only world to try")

// duel is a world in which both schedulers decide. Both get the objects in api. Ours gets them through the log's
// encoding, which leaves out the fields that no decision may depend on.
type duel struct {
	*rand.Rand
	tb        testing.TB
	seed      uint64
	shape     shape
	ours      *scheduler.Machine
	theirs    *kubesched.Scheduler
	encoder   eventlog.Encoder
	api       map[string]kubesched.Object
	now       time.Time
	names     int
	flying    []flight
	nominated map[types.UID]string
	seen      map[string]int
	deciding  string
}

// flight is a pod that has a node, and has not been bound.
type flight struct {
	pod      *v1.Pod
	node     string
	decision uint64
	volumes  []eventlog.VolumeClaim
	// claims are the ResourceClaims as they are written.
	claims map[string]*resourcev1.ResourceClaim
}

// shape selects the features of a world.
type shape struct{ volumes, devices, extended, preemption, affinity bool }

const namespace = "ns"

// run tries that many worlds, and returns how often each thing was seen.
func run(t *testing.T, s shape, worlds int) map[string]int {
	t.Helper()
	seen := map[string]int{}
	first := uint64(1)
	if os.Getenv("ROLLCALL_SOAK") != "" {
		first = rand.Uint64() >> 16
	}
	for seed := first; seed < first+uint64(worlds); seed++ {
		if *oneSeed != 0 {
			seed = *oneSeed
		}
		newDuel(t, s, seed, seen).run()
		if *oneSeed != 0 {
			t.SkipNow() // how often things are seen in one world says nothing
		}
	}
	return seen
}

func newDuel(tb testing.TB, s shape, seed uint64, seen map[string]int) *duel {
	tb.Helper()
	d := &duel{
		Rand: rand.New(rand.NewPCG(seed, 20261123)), tb: tb, seed: seed, shape: s, seen: seen,
		api: map[string]kubesched.Object{}, now: time.Unix(1_700_000_000, 0), nominated: map[types.UID]string{},
		ours: scheduler.New(plugins.NewRegistry()),
	}
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	cfg := framework.DefaultConfig()
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	d.apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion, Config: config,
		Behaviour: scheduler.Behaviour})
	if d.theirs, err = kubesched.New(ctx, cfg.Profiles[0]); err != nil {
		tb.Fatal(err)
	}
	return d
}

// run makes the world, and pods that come one after the other.
func (d *duel) run() {
	if d.shape.affinity {
		d.labelNamespace()
	}
	d.makeNodes()
	if d.shape.volumes {
		d.makeVolumes()
	}
	if d.shape.devices {
		d.makeDevices()
	}
	if d.shape.preemption {
		d.makeBudgets()
	}
	for range d.n(6, 14) {
		d.put(d.newPod())
		d.decideAll()
		for d.oneIn(2) {
			d.happen()
			d.decideAll()
		}
		d.now = d.now.Add(time.Duration(d.n(0, 90)) * time.Second)
		d.apply(&eventlog.Tick{})
		d.decideAll()
	}
}

// n returns a number from lo to hi.
func (d *duel) n(lo, hi int) int { return lo + d.IntN(hi-lo+1) }

func (d *duel) oneIn(n int) bool { return d.IntN(n) == 0 }

func one[T any](d *duel, of ...T) T { return of[d.IntN(len(of))] }

// name returns a new name.
func (d *duel) name(prefix string) string {
	d.names++
	return fmt.Sprintf("%s-%02d", prefix, d.names)
}

// fatalf ends the test, and shows the world.
func (d *duel) fatalf(format string, args ...any) {
	d.tb.Helper()
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(d.api)) {
		text, err := json.Marshal(d.api[key])
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s %s\n", key, text)
	}
	d.tb.Fatalf("-kubesched.seed %d (%+v): %s: %s\nin flight: %+v\n%s", d.seed, d.shape, d.deciding,
		fmt.Sprintf(format, args...), d.flying, &b)
}

func keyOf(kind kubesched.Object, namespace, name string) string {
	return strings.TrimPrefix(reflect.TypeOf(kind).String(), "*") + " " + namespace + "/" + name
}

func resourceOf(obj kubesched.Object) eventlog.Resource {
	switch obj.(type) {
	case *v1.Pod:
		return eventlog.Pods
	case *v1.Node:
		return eventlog.Nodes
	case *v1.Namespace:
		return eventlog.Namespaces
	case *v1.PersistentVolume:
		return eventlog.PersistentVolumes
	case *v1.PersistentVolumeClaim:
		return eventlog.PersistentVolumeClaims
	case *policyv1.PodDisruptionBudget:
		return eventlog.PodDisruptionBudgets
	case *storagev1.StorageClass:
		return eventlog.StorageClasses
	case *storagev1.CSINode:
		return eventlog.CSINodes
	case *storagev1.CSIDriver:
		return eventlog.CSIDrivers
	case *storagev1.CSIStorageCapacity:
		return eventlog.CSIStorageCapacities
	case *storagev1.VolumeAttachment:
		return eventlog.VolumeAttachments
	case *resourcev1.ResourceClaim:
		return eventlog.ResourceClaims
	case *resourcev1.ResourceSlice:
		return eventlog.ResourceSlices
	case *resourcev1.DeviceClass:
		return eventlog.DeviceClasses
	}
	panic(fmt.Sprintf("the test has no %T", obj))
}

// put adds an object, or changes it.
func (d *duel) put(obj kubesched.Object) {
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(strings.ToLower(reflect.TypeOf(obj).Elem().Name()) + "-" + obj.GetName()))
		obj.SetCreationTimestamp(metav1.Time{Time: d.now})
	}
	d.api[keyOf(obj, obj.GetNamespace(), obj.GetName())] = obj
	up, _, err := d.encoder.Logged(&eventlog.Upserted{Resource: resourceOf(obj), Object: obj})
	if err != nil {
		d.fatalf("encode: %v", err)
	}
	d.apply(up)
	if err := d.theirs.Put(obj); err != nil {
		d.fatalf("put: %v", err)
	}
}

// remove removes an object from both sides.
func (d *duel) remove(obj kubesched.Object) {
	delete(d.api, keyOf(obj, obj.GetNamespace(), obj.GetName()))
	d.apply(&eventlog.Deleted{Resource: resourceOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		UID: obj.GetUID()})
	if err := d.theirs.Delete(obj); err != nil {
		d.fatalf("delete: %v", err)
	}
}

// apply enters an entry into our scheduler.
func (d *duel) apply(p eventlog.Payload) {
	epoch := d.ours.Epoch()
	if _, ok := p.(*eventlog.EpochStarted); ok {
		epoch++
	}
	d.now = d.now.Add(time.Millisecond)
	err := d.ours.Apply(eventlog.Entry{Seq: d.ours.Seq() + 1, Epoch: epoch, Time: eventlog.TimeOf(d.now), Payload: p})
	if err != nil {
		d.fatalf("apply %+v: %v", p, err)
	}
}

// all returns the objects of a kind in the order of their names.
func all[T kubesched.Object](d *duel) (list []T) {
	for _, key := range slices.Sorted(maps.Keys(d.api)) {
		if obj, ok := d.api[key].(T); ok {
			list = append(list, obj)
		}
	}
	return list
}

// get returns a copy of an object; ok is false if there is none.
func get[T kubesched.Object](d *duel, namespace, name string) (obj T, ok bool) {
	var kind T
	found, ok := d.api[keyOf(kind, namespace, name)]
	if !ok {
		return kind, false
	}
	return found.DeepCopyObject().(T), true
}

func (d *duel) podOf(uid types.UID) *v1.Pod {
	for _, p := range all[*v1.Pod](d) {
		if p.UID == uid {
			return p
		}
	}
	d.fatalf("there is no pod %s", uid)
	return nil
}

// nominate nominates a pod to a node, "" for none.
func (d *duel) nominate(pod *v1.Pod, node string) {
	if node == "" {
		delete(d.nominated, pod.UID)
	} else {
		d.nominated[pod.UID] = node
		d.seen["nominated"]++
	}
	d.theirs.Nominate(pod, node)
}

// evict begins the end of the victims of a decision: they are there for a while.
func (d *duel) evict(ours *eventlog.Decision, victims []*v1.Pod) {
	seq := d.ours.Seq()
	for _, p := range victims {
		d.apply(&eventlog.EvictResult{UID: p.UID, Outcome: eventlog.EvictDone, Decision: seq})
		p = p.DeepCopy()
		p.DeletionTimestamp = &metav1.Time{Time: d.now}
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget,
			Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler})
		d.put(p)
	}
}

// happen makes one event happen in the world.
func (d *duel) happen() {
	switch d.n(0, 9) {
	case 0, 1, 2, 3:
		if len(d.flying) > 0 {
			d.land(d.IntN(len(d.flying)))
		}
	case 4, 5:
		d.endPod()
	case 6:
		if d.shape.volumes {
			d.bindImmediately()
		}
	case 7:
		if d.shape.volumes {
			d.changeStorage()
		}
	case 8:
		if d.shape.devices {
			d.changeDevices()
		}
		if d.shape.affinity {
			d.labelNamespace()
		}
	case 9:
		node, _ := get[*v1.Node](d, "", one(d, all[*v1.Node](d)...).Name)
		node.Spec.Unschedulable = !node.Spec.Unschedulable && d.oneIn(2)
		d.put(node)
	}
}

// land binds a pod that has a node: first its volumes and its devices.
func (d *duel) land(i int) {
	f := d.flying[i]
	d.flying = slices.Delete(d.flying, i, i+1)
	d.landVolumes(f)
	for _, name := range slices.Sorted(maps.Keys(f.claims)) {
		claim, ok := get[*resourcev1.ResourceClaim](d, namespace, name)
		if devices.MadeFor(f.claims[name], f.pod.UID) {
			d.put(f.claims[name])
			continue
		}
		if !ok {
			d.fatalf("claim %s is gone", name)
		}
		if claim.Status.Allocation == nil {
			claim.Finalizers, claim.Status.Allocation = f.claims[name].Finalizers, f.claims[name].Status.Allocation
		}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: f.pod.Name, UID: f.pod.UID})
		d.put(claim)
	}
	d.apply(&eventlog.BindResult{UID: f.pod.UID, Node: f.node, Outcome: eventlog.BindBound, Decision: f.decision})
	pod, _ := get[*v1.Pod](d, namespace, f.pod.Name)
	pod.Spec.NodeName = f.node
	d.now = d.now.Add(time.Second) // no two pods start at once: which is the more important victim is no chance
	pod.Status.StartTime = &metav1.Time{Time: d.now.Truncate(time.Second)}
	d.put(pod)
}

// endPod ends a pod, preferably one that is leaving.
func (d *duel) endPod() {
	var bound, leaving []*v1.Pod
	for _, p := range all[*v1.Pod](d) {
		switch {
		case p.Spec.NodeName == "":
		case p.DeletionTimestamp != nil:
			leaving = append(leaving, p)
		default:
			bound = append(bound, p)
		}
	}
	if len(leaving) > 0 {
		bound = leaving
	}
	if len(bound) == 0 {
		return
	}
	pod := one(d, bound...)
	d.remove(pod)
	for _, claim := range all[*resourcev1.ResourceClaim](d) {
		claim := claim.DeepCopy()
		if devices.MadeFor(claim, pod.UID) {
			d.remove(claim)
			continue
		}
		had := len(claim.Status.ReservedFor)
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor,
			func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
		if len(claim.Status.ReservedFor) == had {
			continue
		}
		if len(claim.Status.ReservedFor) == 0 && !d.isFlying(claim.Name) {
			claim.Status.Allocation, claim.Finalizers = nil, nil
		}
		d.put(claim)
	}
}

// isFlying says whether a pod is about to be added to the pods that a claim is reserved for.
func (d *duel) isFlying(claim string) bool {
	return slices.ContainsFunc(d.flying, func(f flight) bool { return f.claims[claim] != nil })
}

// worldsOf returns the number of worlds that a test tries.
func worldsOf(few int) int { return fixedseed.Of(20*few, few) }

// check reports the things that were seen too seldom.
func check(t *testing.T, seen map[string]int, atLeast int, what ...string) {
	t.Helper()
	for _, w := range what {
		if seen[w] < atLeast {
			t.Errorf("%q was seen %d times only", w, seen[w])
		}
	}
	if t.Failed() || testing.Verbose() {
		for _, w := range slices.Sorted(maps.Keys(seen)) {
			t.Logf("%6d %s", seen[w], w)
		}
	}
}
