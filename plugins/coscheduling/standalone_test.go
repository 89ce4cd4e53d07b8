package coscheduling

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// bench is standalone without a scheduler: the test plays the scheduler and the informers.
type bench struct {
	fwk.Handle
	t         *testing.T
	plugin    *standalone
	clock     *clocktesting.FakeClock
	store     cache.Indexer // the pod informer's
	waiting   []*waitingPod
	activated []string // names of pods, sorted, since the last look
	nodes     *cluster.State
	heldTwice bool // by another plugin as well
}

func newBench(t *testing.T, args string) *bench {
	t.Helper()
	b := &bench{
		t:     t,
		clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
		nodes: cluster.New(),
		store: cache.NewIndexer(
			cache.MetaNamespaceKeyFunc,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		),
	}
	a, err := decodeArgs(&runtime.Unknown{Raw: []byte(args)})
	b.must(err)
	b.plugin = newStandalone(klog.Background(), b, a, corelisters.NewPodLister(b.store), b.clock)
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) ProfileName() string                    { return "default-scheduler" }
func (b *bench) SnapshotSharedLister() fwk.SharedLister { return b.nodes }
func (b *bench) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	b.activated = slices.Sorted(maps.Keys(pods))
}

func (b *bench) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	for _, w := range b.waiting {
		if w.pod.UID == uid && b.heldTwice {
			return heldTwice{w}
		}
		if w.pod.UID == uid {
			return w
		}
	}
	return nil
}

func (b *bench) IterateOverWaitingPods(f func(fwk.WaitingPod)) {
	for _, w := range b.waiting {
		f(w)
	}
}

// group adds the PodGroup ml/NAME of scheduling.k8s.io.
func (b *bench) group(name string, minimum int32, created time.Time) {
	g := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, CreationTimestamp: metav1.NewTime(created)},
	}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
	b.plugin.groupCame(eventlog.PodGroups, g)
}

// pod is a member of ml/GROUP that no informer has.
func pod(name, group string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml",
			Name:      name,
			UID:       types.UID(name),
			Labels:    map[string]string{xscheduling.PodGroupLabel: group},
		},
	}
	p.Spec.SchedulerName = "default-scheduler"
	return p
}

// stores adds a pod to the scheduler's informer, and tells calls the informer's handlers.
func (b *bench) stores(p *v1.Pod) *v1.Pod { b.must(b.store.Add(p)); return p }
func (b *bench) tells(p *v1.Pod) *v1.Pod  { b.plugin.podCame(b.stores(p)); return p }

func (b *bench) deletes(p *v1.Pod) {
	b.must(b.store.Delete(p))
	b.plugin.podWent(p)
}

// permits runs a pod's Permit and what the scheduler does then. It returns the status and the pods to be activated.
func (b *bench) permits(p *v1.Pod) (string, []string) {
	b.t.Helper()
	stash, state := framework.NewPodsToActivate(), framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, stash)
	status, _ := b.plugin.Permit(context.Background(), state, p, "n")
	if status.IsWait() {
		b.waiting = append(b.waiting, &waitingPod{pod: p})
	}
	return statusOf(status), slices.Sorted(maps.Keys(stash.Map))
}

// holds runs the cycle of a pod that must be held.
func (b *bench) holds(pods ...*v1.Pod) {
	b.t.Helper()
	for _, p := range pods {
		if got, _ := b.permits(p); got != "Wait" {
			b.t.Fatalf("%s in Permit: %s", p.Name, got)
		}
	}
}

// unreserves does what follows when a pod's wait has ended with no, or its bind failed.
func (b *bench) unreserves(p *v1.Pod) {
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waitingPod) bool { return w.pod.UID == p.UID })
	b.plugin.Unreserve(context.Background(), nil, p, "n")
}

// told returns the calls on the waiting pods.
func (b *bench) told() string {
	var told []string
	for _, w := range b.waiting {
		if w.told != "" {
			told = append(told, w.pod.Name+" "+w.told)
		}
	}
	return strings.Join(told, ", ")
}

func (b *bench) want(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func (b *bench) wantActivated(what string, want ...string) {
	b.t.Helper()
	if !slices.Equal(b.activated, want) {
		b.t.Errorf("%s: activated %v, want %v", what, b.activated, want)
	}
	b.activated = nil
}

func (b *bench) preEnqueue(p *v1.Pod) string {
	return statusOf(b.plugin.PreEnqueue(context.Background(), p))
}
func (b *bench) preFilter(p *v1.Pod) string {
	_, status := b.plugin.PreFilter(context.Background(), nil, p, nil)
	return statusOf(status)
}
func (b *bench) postFilter(p *v1.Pod) string {
	_, status := b.plugin.PostFilter(context.Background(), nil, p, nil)
	return statusOf(status)
}

func TestStandaloneWakesWhomItTurnedAwayWhenTheGangIsThere(t *testing.T) {
	b := newBench(t, "{}")
	m0, m1 := b.tells(pod("m0", "g")), b.tells(pod("m1", "g"))
	b.want("no group", b.preEnqueue(m0), "UnschedulableAndUnresolvable: pod group ml/g does not exist yet")
	b.group("g", 3, time.Time{})
	b.wantActivated("two of three")
	b.want(
		"two of three",
		b.preEnqueue(m1),
		"UnschedulableAndUnresolvable: pod group ml/g has 2 of the 3 members it needs",
	)

	// The scheduler gets the third before the view does.
	m2 := b.stores(pod("m2", "g"))
	b.want("the third", b.preEnqueue(m2), "Success")
	b.wantActivated("nobody can be woken from under the queue's lock")
	b.plugin.podCame(m2)
	b.wantActivated("the third came", "ml/m0", "ml/m1", "ml/m2")
	b.tells(pod("m3", "g"))
	b.wantActivated("one more: nobody was turned away since")

	b.plugin.groupWent(eventlog.PodGroups, types.NamespacedName{Namespace: "ml", Name: "g"})
	b.want(
		"its group went after it came into the queue",
		b.preFilter(m0),
		"UnschedulableAndUnresolvable: pod group ml/g does not exist yet",
	)
	b.group("g", 4, time.Time{})
	b.wantActivated("the group is back", "ml/m0", "ml/m1", "ml/m2", "ml/m3")
	b.group("g", 2, time.Time{})
	b.wantActivated("it asks for less", "ml/m0", "ml/m1", "ml/m2", "ml/m3")
}

func TestStandaloneLeavesPodsOfTheSchedulersOwnGroupCycleAlone(t *testing.T) {
	b := newBench(t, "{}")
	b.plugin.view.ownCycle = true // as with the feature gate GenericWorkload
	group := "g"
	p := pod("field", "g")
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	b.tells(p)
	b.want("names its group by the field", b.preEnqueue(p), "Success")
	b.want("in its cycle", b.preFilter(p), "Skip")
	status, _ := b.permits(p)
	b.want("in Permit", status, "Success")
	b.want(
		"names it by a label",
		b.preEnqueue(b.tells(pod("label", "g"))),
		"UnschedulableAndUnresolvable: pod group ml/g does not exist yet",
	)
}

func TestStandaloneDoesNotBringADeletedPodBack(t *testing.T) {
	b := newBench(t, "{}")
	b.group("g", 2, time.Time{})
	m0 := b.tells(pod("m0", "g"))
	b.deletes(m0)
	b.want("deleted", b.preEnqueue(m0), "UnschedulableAndUnresolvable: the pod is deleted or finished")
	m1 := b.tells(pod("m1", "g"))
	b.want("alone", b.preEnqueue(m1), "UnschedulableAndUnresolvable: pod group ml/g has 1 of the 2 members it needs")

	// A successor of the same name may come without a deletion.
	successor := pod("m1", "g")
	successor.UID = "m1-again"
	b.tells(successor)
	b.want(
		"still alone",
		b.preEnqueue(successor),
		"UnschedulableAndUnresolvable: pod group ml/g has 1 of the 2 members it needs",
	)
	finished := b.tells(pod("m2", "g"))
	finished = finished.DeepCopy()
	finished.Status.Phase = v1.PodSucceeded
	b.tells(finished)
	b.want(
		"the other has finished",
		b.preEnqueue(successor),
		"UnschedulableAndUnresolvable: pod group ml/g has 1 of the 2 members it needs",
	)
}

func TestStandaloneHoldsUntilTheMinimumIsThere(t *testing.T) {
	b := newBench(t, "{}")
	b.group("g", 3, time.Time{})
	m0, m1, m2 := b.tells(pod("m0", "g")), b.tells(pod("m1", "g")), b.tells(pod("m2", "g"))
	status, siblings := b.permits(m0)
	b.want("the first", status, "Wait")
	if want := []string{"ml/m1", "ml/m2"}; !slices.Equal(siblings, want) {
		t.Errorf("tried at once: %v, want %v", siblings, want)
	}
	b.holds(m1)
	b.want("before the third", b.told(), "")
	status, _ = b.permits(m2)
	b.want("the third", status, "Success")
	b.want("the others", b.told(), "m0 allowed by Coscheduling, m1 allowed by Coscheduling")
	if g := b.plugin.view.state.Gangs().Named("ml", "g"); g.Assigned() != 3 {
		t.Errorf("%d members have their nodes, want 3", g.Assigned())
	}
}

func TestStandaloneAdmitsGangsThatNameEachOtherTogether(t *testing.T) {
	b := newBench(t, "{}")
	group := func(name string, minimum int32) {
		g := &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name,
			Annotations: map[string]string{"gang.scheduling.koordinator.sh/groups": `["ml/a","ml/b"]`}}}
		g.Spec.MinMember = minimum
		b.plugin.groupCame(eventlog.XPodGroups, g)
	}
	group("a", 1)
	a := b.tells(pod("a0", "a"))
	b.want(
		"without the other",
		b.preEnqueue(a),
		"UnschedulableAndUnresolvable: pod groups ml/a, ml/b: 1 of the 2 pod groups needed can be complete; pod "+
			"group ml/b does not exist yet",
	)
	group("b", 2)
	b0, b1 := b.tells(pod("b0", "b")), b.tells(pod("b1", "b"))
	b.wantActivated("the other is there", "ml/a0")

	b.want("the first gang's", b.preFilter(a), "Skip")
	status, siblings := b.permits(a)
	b.want("the first gang's", status, "Wait")
	if want := []string{"ml/b0", "ml/b1"}; !slices.Equal(siblings, want) {
		t.Errorf("tried at once: %v, want %v", siblings, want)
	}
	b.holds(b0)
	b.want("one finds no node", b.postFilter(b1), "Unschedulable: pod group ml/b placed 1 of the 2 members it needs")
	b.want("both gangs are released", b.told(), "a0 rejected by Coscheduling, b0 rejected by Coscheduling")

	b.waiting = nil
	b.holds(b0, b1)
	status, _ = b.permits(a)
	b.want("the last", status, "Success")
	b.want("both gangs go", b.told(), "b0 allowed by Coscheduling, b1 allowed by Coscheduling")
}

func TestStandaloneWakesAllGangsOfAComposite(t *testing.T) {
	b := newBench(t, "{}")
	composite := "c"
	for _, name := range []string{"a", "b"} {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1}
		g.Spec.ParentCompositePodGroupName = &composite
		b.plugin.groupCame(eventlog.PodGroups, g)
	}
	c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: composite}}
	c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 2}
	a := b.tells(pod("a0", "a"))
	b.want("no composite", b.preEnqueue(a), "UnschedulableAndUnresolvable: composite pod group ml/c does not exist yet")
	b.plugin.groupCame(eventlog.CompositePodGroups, c)
	b.wantActivated("the other gang has no members")
	b.tells(pod("b0", "b"))
	b.wantActivated("it has", "ml/a0")
	b.holds(a)
	b.plugin.groupWent(eventlog.CompositePodGroups, types.NamespacedName{Namespace: "ml", Name: composite})
	b.want("the composite is gone", b.told(), "a0 rejected by Coscheduling")
}

// heldTwice is a waiting pod that another Permit plugin holds as well.
type heldTwice struct{ *waitingPod }

func (heldTwice) GetPendingPlugins() []string { return []string{"Another", Name} }

func TestStandaloneCountsMembersThatAnotherPluginHolds(t *testing.T) {
	b := newBench(t, "{}")
	b.group("g", 2, time.Time{})
	m0, m1 := b.tells(pod("m0", "g")), b.tells(pod("m1", "g"))
	b.holds(m0)
	b.heldTwice = true
	status, _ := b.permits(m1)
	b.want("the second", status, "Success")
	b.want("the first, as far as it is for this plugin to say", b.told(), "m0 allowed by Coscheduling")
}

func TestStandaloneCountsNobodyWhoseWaitHasEnded(t *testing.T) {
	b := newBench(t, "{}")
	b.group("g", 2, time.Time{})
	m0, m1 := b.tells(pod("m0", "g")), b.tells(pod("m1", "g"))
	b.holds(m0)
	b.waiting = nil // its time is up, and its Unreserve is still to come
	status, _ := b.permits(m1)
	b.want("the second", status, "Wait")
	b.unreserves(m0)
	b.want("then all are released", b.told(), "m1 rejected by Coscheduling")
}

func TestStandaloneReleasesAboveTheRejectPercentage(t *testing.T) {
	cases := []struct {
		args    string
		minimum int32
		held    int
		want    bool
	}{
		{`{}`, 3, 2, true},
		{`{}`, 10, 9, false},
		{`{}`, 10, 8, true},
		{`{}`, 19, 18, false},
		{`{}`, 19, 17, true},
		{`{"podGroupRejectPercentage":0}`, 10, 9, true},
		{`{"podGroupRejectPercentage":50}`, 3, 2, false},
		{`{"podGroupRejectPercentage":100}`, 3, 1, false},
	}
	for _, c := range cases {
		b := newBench(t, c.args)
		b.group("g", c.minimum, time.Time{})
		var members []*v1.Pod
		for i := range c.minimum {
			members = append(members, b.tells(pod("m"+string(rune('a'+i)), "g")))
		}
		b.holds(members[:c.held]...)
		b.postFilter(members[c.held])
		if got := b.told() != ""; got != c.want {
			t.Errorf("%s, %d of %d held: released is %v, want %v", c.args, c.held, c.minimum, got, c.want)
		}
	}
}

func TestStandaloneLeavesAGangThatFailedAloneForItsBackoff(t *testing.T) {
	b := newBench(t, `{"podGroupBackoffSeconds":20}`)
	b.group("g", 2, time.Time{})
	m0, m1 := b.tells(pod("m0", "g")), b.tells(pod("m1", "g"))
	b.holds(m0)
	b.want("it fails", b.postFilter(m1), "Unschedulable: pod group ml/g placed 1 of the 2 members it needs")
	b.unreserves(m0)
	b.want("tried at once", b.preFilter(m0), "UnschedulableAndUnresolvable: pod group ml/g failed less than 20s ago")
	b.postFilter(m0) // as the scheduler does after every PreFilter that refuses
	b.clock.Step(19 * time.Second)
	b.wantActivated("after 19 s")
	b.clock.Step(time.Second)
	b.wantActivated("after 20 s", "ml/m0", "ml/m1")
	b.want("tried then", b.preFilter(m0), "Skip")
}

func TestStandaloneBreaksUpAGangThatLosesAHeldMember(t *testing.T) {
	for _, lose := range []struct {
		how string
		do  func(b *bench, p *v1.Pod)
	}{
		{"its time is up", (*bench).unreserves},
		{"it is deleted", (*bench).deletes},
	} {
		b := newBench(t, "{}")
		b.group("g", 3, time.Time{})
		m0, m1 := b.tells(pod("m0", "g")), b.tells(pod("m1", "g"))
		b.tells(pod("m2", "g"))
		b.holds(m0, m1)
		lose.do(b, m0)
		b.waiting = slices.DeleteFunc(b.waiting, func(w *waitingPod) bool { return w.pod == m0 })
		b.want(lose.how, b.told(), "m1 rejected by Coscheduling")

		// Late events do no harm to the next attempt.
		b.waiting = nil
		b.tells(pod("m3", "g"))
		m4 := b.tells(pod("m4", "g"))
		b.holds(m4)
		b.unreserves(m1)
		b.want(lose.how+", late", b.told(), "")
	}
}

func TestStandaloneTakesAFailedBindOutOfItsBooks(t *testing.T) {
	b := newBench(t, "{}")
	b.group("g", 2, time.Time{})
	m0, m1 := b.tells(pod("m0", "g")), b.tells(pod("m1", "g"))
	b.holds(m0)
	b.permits(m1)
	bound := m0.DeepCopy()
	bound.Spec.NodeName = "n"
	b.tells(bound)
	b.unreserves(m1)
	b.unreserves(m1)
	b.unreserves(m0) // the bind's answer was lost, but it is bound
	g := b.plugin.view.state.Gangs().Named("ml", "g")
	if g.Assigned() != 1 || g.Ready() != 1 {
		t.Errorf("%d have nodes and %d are ready, want 1 and 1", g.Assigned(), g.Ready())
	}
	status, _ := b.permits(m1)
	b.want("again, beside the one that is bound", status, "Success")
}

func TestStandaloneAFailedBindBreaksUpWhatCannotBeCompleteWithoutIt(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		minimum    int32 // of members, when the bind fails
		told       string
	}{
		{"too few are left", "Strict", 4, "m3 rejected by Coscheduling"},
		{"the gang holds what it gets", "NonStrict", 4, ""},
		{"enough are left", "Strict", 3, ""},
	} {
		b := newBench(t, "{}")
		group := func(minimum int32) {
			g := &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "g",
				Annotations: map[string]string{"gang.scheduling.koordinator.sh/mode": c.mode}}}
			g.Spec.MinMember = minimum
			b.plugin.groupCame(eventlog.XPodGroups, g)
		}
		group(3)
		m0, m1 := b.tells(pod("m0", "g")), b.tells(pod("m1", "g"))
		m2, m3 := b.tells(pod("m2", "g")), b.tells(pod("m3", "g"))
		b.holds(m0, m1)
		b.permits(m2)
		b.waiting = nil
		group(5)
		b.tells(pod("m4", "g"))
		b.permits(m3)
		held := b.waiting
		b.waiting = nil // the scheduler has not got to it yet, so that it cannot be allowed
		group(c.minimum)
		b.waiting = held
		b.unreserves(m0)
		b.want(c.name, b.told(), c.told)
	}
}

func TestStandaloneSeesToHeldMembersWhenTheirGroupChanges(t *testing.T) {
	b := newBench(t, "{}")
	b.group("g", 3, time.Time{})
	m0, m1 := b.tells(pod("m0", "g")), b.tells(pod("m1", "g"))
	b.tells(pod("m2", "g"))
	b.holds(m0, m1)
	b.group("g", 2, time.Time{})
	b.want("two are enough by now", b.told(), "m0 allowed by Coscheduling, m1 allowed by Coscheduling")

	b = newBench(t, "{}")
	b.group("g", 3, time.Time{})
	m0 = b.tells(pod("m0", "g"))
	b.tells(pod("m1", "g"))
	b.tells(pod("m2", "g"))
	b.holds(m0)
	b.plugin.groupWent(eventlog.PodGroups, types.NamespacedName{Namespace: "ml", Name: "g"})
	b.want("it is declared no more", b.told(), "m0 rejected by Coscheduling")
}

func TestStandaloneMakesUpForWhatCameBetweenPermitAndTheWait(t *testing.T) {
	b := newBench(t, "{}")
	b.group("g", 2, time.Time{})
	m0, m1 := b.tells(pod("m0", "g")), b.tells(pod("m1", "g"))
	status, _ := b.plugin.Permit(context.Background(), framework.NewCycleState(), m0, "n")
	b.want("the first", statusOf(status), "Wait")
	bound := m1.DeepCopy() // by another scheduler, or before a restart
	bound.Spec.NodeName = "n"
	b.tells(bound)
	b.waiting = append(b.waiting, &waitingPod{pod: m0})
	_, status = b.plugin.PreBindPreFlight(context.Background(), nil, m0, "n")
	b.want("no PreBind is asked for", statusOf(status), "Skip")
	b.want("told when it can be", b.told(), "m0 allowed by Coscheduling")
}

func TestStandaloneComparesMinResourcesWithTheSnapshot(t *testing.T) {
	b := newBench(t, "{}")
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("4"),
		v1.ResourcePods:   resource.MustParse("9"),
		"example.com/gpu": resource.MustParse("2"),
	}
	_, err := b.nodes.UpsertNode(n)
	b.must(err)
	m0 := b.tells(pod("m0", "g"))
	for _, c := range []struct {
		least v1.ResourceList
		want  string
	}{
		{nil, "Skip"},
		{v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("9"),
			"example.com/gpu": resource.MustParse("2")}, "Skip"},
		{v1.ResourceList{v1.ResourceCPU: resource.MustParse("4100m")}, "Unschedulable: pod group ml/g asks for 4100m " +
			"cpu in minResources; 4 free"},
		{v1.ResourceList{"example.com/gpu": resource.MustParse("3")}, "Unschedulable: pod group ml/g asks for 3 " +
			"example.com/gpu in minResources; 2 free"},
		{v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}, "Unschedulable: pod group ml/g asks for 1Gi " +
			"memory in minResources; 0 free"},
	} {
		g := &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "g"}}
		g.Spec.MinMember, g.Spec.MinResources = 1, c.least
		b.plugin.groupCame(eventlog.XPodGroups, g)
		b.want("minResources", b.preFilter(m0), c.want)
	}
}

func TestStandaloneStandsAGangsMembersTogether(t *testing.T) {
	b := newBench(t, "{}")
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	b.group("early", 2, at(10))
	b.group("late", 2, at(20))
	classed := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "classed", CreationTimestamp: metav1.NewTime(at(90))},
	}
	classed.Spec.PriorityClassName = "high" // and no number, which the API server would have filled in
	b.plugin.groupCame(eventlog.PodGroups, classed)
	weighty := classed.DeepCopy()
	weighty.Name, weighty.Spec.Priority = "weighty", new(int32)
	*weighty.Spec.Priority = 9
	b.plugin.groupCame(eventlog.PodGroups, weighty)
	queued := func(p *v1.Pod, second int64) *framework.QueuedPodInfo {
		info, err := framework.NewPodInfo(p)
		b.must(err)
		first := at(second)
		return &framework.QueuedPodInfo{
			PodInfo:        info,
			QueueingParams: framework.QueueingParams{InitialAttemptTimestamp: &first},
		}
	}
	single := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "single", UID: "single"}}
	urgent := single.DeepCopy()
	urgent.Name, urgent.UID, urgent.Spec.Priority = "urgent", "urgent", new(int32)
	*urgent.Spec.Priority = 5
	entities := []*framework.QueuedPodInfo{
		queued(b.tells(pod("x", "late")), 1), queued(b.tells(pod("y", "early")), 50), queued(single, 15),
		queued(b.tells(pod("z", "late")), 60), queued(urgent, 99), queued(b.tells(pod("w", "early")), 3),
		queued(b.tells(pod("c", "classed")), 2), queued(b.tells(pod("h", "weighty")), 100),
	}
	slices.SortStableFunc(entities, func(a, c *framework.QueuedPodInfo) int {
		switch {
		case b.plugin.Less(a, c):
			return -1
		case b.plugin.Less(c, a):
			return 1
		}
		return 0
	})
	var names []string
	for _, e := range entities {
		names = append(names, e.Pod.Name)
	}
	b.want("in the queue", strings.Join(names, " "), "h urgent y w single x z c")
}

// annotated adds a PodGroup with annotations.
func (b *bench) annotated(name string, minimum int32, values map[string]string) {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, Annotations: values}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
	b.plugin.groupCame(eventlog.PodGroups, g)
}

func TestStandaloneRefusesARequiredTopology(t *testing.T) {
	b := newBench(t, "{}")
	b.annotated("g", 1, map[string]string{"rollcall.dev/topology-required": "zone"})
	p := b.tells(pod("p", "g"))
	b.want(
		"a required topology",
		b.preEnqueue(p),
		"UnschedulableAndUnresolvable: pod group ml/g requires one value of zone: a required topology is supported "+
			"by Rollcall only",
	)
	b.annotated("g", 1, map[string]string{"rollcall.dev/topology-preferred": "zone"})
	b.want("a preferred one", b.preEnqueue(p), "Success")
	b.wantActivated("the topology is required no more", "ml/p")
}

func TestStandaloneEvictsNobody(t *testing.T) {
	b := newBench(t, "{}")
	b.annotated("g", 2, map[string]string{"rollcall.dev/below-minimum": "Evict"})
	pods := []*v1.Pod{pod("p-0", "g"), pod("p-1", "g")}
	for _, p := range pods {
		p.Spec.NodeName = "n"
		b.tells(p)
	}
	b.deletes(pods[1])
	gangs := b.plugin.view.state.Gangs()
	if g := gangs.Named("ml", "g"); len(gangs.Fallen()) != 1 || !g.Evicts() {
		t.Error("the gang has not fallen below its minimum")
	}
	b.want("nobody is told anything", b.told(), "")
}

func TestInAStockSchedulerArgumentsOfOurOwnAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		`{}`:                           "no view of pod groups", // the handle is not even looked at with the others
		`{"queuePolicy":"BestEffort"}`: "no view of pod groups",
		`{"queuePolicy":"StrictFIFO"}`: "queuePolicy StrictFIFO is Rollcall's own",
		`{"queuePolicy":"Backfill"}`:   "queuePolicy Backfill is Rollcall's own",
		`{"backfillHoldSeconds":300}`:  "backfillHoldSeconds is Rollcall's own",
	} {
		_, err := New(context.Background(), &runtime.Unknown{Raw: []byte(args)}, plainHandle{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", args, err, want)
		}
	}
}
