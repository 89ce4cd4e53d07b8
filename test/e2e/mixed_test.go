package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
)

// twoNames has pods of pack go where most is used, and pods of default-scheduler where least is.
const twoNames = `
profiles:
- schedulerName: default-scheduler
- schedulerName: pack
  plugins: {score: {disabled: [{name: PodTopologySpread}, {name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
`

// TestEachProfilePlacesThePodsOfItsName lets one scheduler place pods and gangs of two names, each by its own profile,
// and ignore the pods of a third name.
func TestEachProfilePlacesThePodsOfItsName(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		o := w.options()
		o.Config = twoNames
		w.start(o)
		of := func(scheduler, prefix, group string, count int) (pods []*v1.Pod) {
			for i := range count {
				p := w.pod(fmt.Sprintf("%s-%d", prefix, i), group, "500m")
				p.Spec.SchedulerName = scheduler
				pods = append(pods, p)
			}
			return pods
		}
		distinct := func(prefix string) int {
			nodes := map[string]bool{}
			for _, node := range w.on(prefix) {
				nodes[node] = true
			}
			return len(nodes)
		}
		w.create(of("stranger", "theirs", "", 1)...)
		w.create(of("default-scheduler", "spread", "", 4)...)
		w.waitFor("spread-", 4, bound)
		if n := distinct("spread-"); n != 4 {
			w.Errorf("the default profile's pods are on %d nodes, wanted 4", n)
		}
		w.group("together", 4)
		w.create(of("pack", "together", "together", 4)...)
		w.waitFor("together-", 4, bound)
		if n := distinct("together-"); n != 1 {
			w.Errorf("the packing profile's gang is on %d nodes, wanted 1", n)
		}
		w.group("apart", 4)
		w.create(of("default-scheduler", "apart", "apart", 4)...)
		w.waitFor("apart-", 4, bound)
		// Both names want the room that is left for one gang: 10 processors of 16.
		for _, name := range []string{"default-scheduler", "pack"} {
			prefix := "rest" + name[:4]
			w.group(prefix, 4)
			pods := of(name, prefix, prefix, 4)
			for _, p := range pods {
				p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1500m")
			}
			w.create(pods...)
		}
		w.waitFor("rest", 4, bound)
		w.waitFor("rest", 4, unschedulable)
		w.none("theirs", bound)
		w.audit(16)
	})
}

// TestPodsBoundByHandAtAnyTimeAreCounted binds pods of another scheduler's name, and members of the gangs, to random
// nodes while the scheduler binds the gangs. Everything fits, on any node.
func TestPodsBoundByHandAtAnyTimeAreCounted(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		w.start(w.options())
		const gangs, members = 12, 4
		names, chance, byHand := w.nodes.Names(), rand.New(rand.NewPCG(5, 5)), 0
		for i := range gangs {
			theirs := w.pod(fmt.Sprintf("theirs-%02d", i), "", "20m")
			theirs.Spec.SchedulerName = "another"
			w.create(theirs)
			name := fmt.Sprintf("g%02d", i)
			w.group(name, members)
			for k := range members {
				w.create(w.pod(fmt.Sprintf("%s-%d", name, k), name, "20m"))
			}
			// The gang is being decided, or bound: the first bind succeeds.
			time.Sleep(time.Duration(chance.IntN(15)) * time.Millisecond)
			if err := w.bind(fmt.Sprintf("%s-%d", name, chance.IntN(members)), names[chance.IntN(4)]); err == nil {
				byHand++
			}
			if err := w.bind(theirs.Name, names[chance.IntN(4)]); err != nil {
				w.Fatal(err)
			}
		}
		w.waitFor("g", gangs*members, bound)
		w.Logf("%d members were bound by hand", byHand)
		w.audit(gangs*members - byHand)
	})
}

// TestAMemberBoundByHandCountsForItsGang has one member of a gang that waits for room bound by hand to a node that is
// cordoned: the others have room.
func TestAMemberBoundByHandCountsForItsGang(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		w.start(w.options())
		node, err := w.client.CoreV1().Nodes().Get(w.Context(), w.nodes.Names()[0], metav1.GetOptions{})
		if err != nil {
			w.Fatal(err)
		}
		cordoned := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cordoned"}, Status: node.Status}
		cordoned.Spec.Unschedulable = true
		if _, err := w.client.CoreV1().Nodes().Create(w.Context(), cordoned, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
		w.gang("g", 5, "3")
		w.waitFor("g-", 5, unschedulable)
		w.none("g-", bound)
		if err := w.bind("g-0", cordoned.Name); err != nil {
			w.Fatal(err)
		}
		w.waitFor("g-", 5, bound)
		w.audit(4)
	})
}

// TestPodsOfANodeThatComesBackStillTakeItsRoom deletes a node under a gang, and registers it again.
func TestPodsOfANodeThatComesBackStillTakeItsRoom(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		w.start(w.options())
		w.gang("first", 4, "3")
		w.waitFor("first-", 4, bound)
		w.gang("waits", 2, "1500m") // both have room on a node without its pod, and none beside it
		w.waitFor("waits-", 2, unschedulable)
		var lost string
		for pod, node := range w.on("first-") {
			if node == w.nodes.Names()[2] {
				lost = pod
			}
		}
		clients := w.client.CoreV1().Nodes()
		node, err := clients.Get(w.Context(), w.nodes.Names()[2], metav1.GetOptions{})
		if err != nil {
			w.Fatal(err)
		}
		again := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}, Status: node.Status}
		for i := range 3 {
			if err := clients.Delete(w.Context(), node.Name, metav1.DeleteOptions{}); err != nil {
				w.Fatal(err)
			}
			only := w.pod(fmt.Sprintf("only-%d", i), "", "1")
			only.Spec.NodeSelector = map[string]string{v1.LabelHostname: node.Name}
			w.create(only)
			w.waitFor(only.Name, 1, unschedulable)
			if _, err := clients.Create(w.Context(), again, metav1.CreateOptions{}); err != nil {
				w.Fatal(err)
			}
			w.waitFor(only.Name, 1, bound)
			w.remove(only.Name)
		}
		w.none("waits-", bound)
		w.remove(lost)
		w.waitFor("waits-", 2, bound)
		w.audit(9)
	})
}

// TestStaticPodsAreCountedAndLeftAlone makes kubelets report static pods with mirror pods: they come with a node,
// whether or not it has room, and come again under the same name.
func TestStaticPodsAreCountedAndLeftAlone(t *testing.T) {
	w := newWorld(t, false, cluster.Options{})
	owner := true
	mirror := func(node, cpu string) *v1.Pod {
		p := w.pod("static-"+node, "", cpu)
		p.Annotations = map[string]string{
			v1.MirrorPodAnnotationKey: "hash", "kubernetes.io/config.hash": "hash",
			"kubernetes.io/config.source": "file",
		}
		registered, err := w.client.CoreV1().Nodes().Get(w.Context(), node, metav1.GetOptions{})
		if err != nil {
			w.Fatal(err)
		}
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node, UID: registered.UID, Controller: &owner,
		}}
		p.Spec.NodeName, p.Spec.PriorityClassName = node, "system-node-critical"
		p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}}
		return p
	}
	names := w.nodes.Names()
	w.create(mirror(names[0], "4"))
	w.start(w.options())
	w.gang("g", 4, "3")
	w.waitFor("g-", 4, unschedulable)
	// It is made again, and smaller, as when its file is changed.
	w.remove("static-" + names[0])
	w.create(mirror(names[0], "500m"))
	w.waitFor("g-", 4, bound)
	// One more comes to a node that has no room for it; its room is gone for others.
	w.create(mirror(names[1], "4"))
	w.gang("rest", 3, "500m")
	w.waitFor("rest-", 3, bound)
	for pod, node := range w.on("rest-") {
		if node == names[1] {
			w.Errorf("%s is on %s, which static pods fill", pod, node)
		}
	}
	w.audit(7)
}

// TestClocksOfMachinesNeedNotAgree has the kubelets of half the nodes stamp what they report an hour too late, and the
// others an hour too early, while gangs come, end and are preempted.
func TestClocksOfMachinesNeedNotAgree(t *testing.T) {
	for _, wrong := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(wrong.String(), func(t *testing.T) {
			w := newWorldOf(t, true, cluster.Options{}, nodes.Options{
				Count: 4, Capacity: nodes.Capacity("4", "64Gi", "110"), Skew: func(number int) time.Duration {
					return wrong * time.Duration(1-number%2*2)
				},
			})
			w.start(w.options())
			w.gang("low", 4, "3")
			w.waitFor("low-", 4, func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
			high := w.pod("high", "", "3")
			w.priority("high", 1000)
			high.Spec.PriorityClassName = "high"
			w.create(high)
			w.waitFor("high", 1, bound)
			w.audit(5)
		})
	}
}

// TestALeaseStampedByAWrongClockIsHeldAndExpires has a lease that is held by a machine whose clock is an hour ahead,
// and then by one whose clock is an hour behind. While it is renewed the scheduler waits, and after that it leads.
func TestALeaseStampedByAWrongClockIsHeldAndExpires(t *testing.T) {
	needsRollcall(t, "kube-scheduler takes no lease from its flags beside a configuration")
	w := newWorld(t, false, cluster.Options{})
	o := w.options()
	o.Args = []string{
		"--leader-elect=true", "--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms",
		"--leader-elect-retry-period=200ms", "--leader-elect-resource-namespace=default",
		"--leader-elect-resource-name=e2e",
	}
	for i, wrong := range []time.Duration{time.Hour, -time.Hour} {
		renew := w.holdLease("e2e", wrong)
		if i == 0 {
			w.start(o)
		} else if err := w.scheduler.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("p%d", i)
		w.create(w.pod(name, "", "1m"))
		for range 15 { // 3 s, which is longer than the lease holds
			renew()
			w.none(name, bound)
			time.Sleep(200 * time.Millisecond)
		}
		w.waitFor(name, 1, bound)
		w.scheduler.Kill()
	}
	if err := w.scheduler.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.create(w.pod("last", "", "1m"))
	w.waitFor("last", 1, bound)
	w.audit(3)
}

// holdLease takes a lease for a machine whose clock is wrong, and returns a function that renews it.
func (w *world) holdLease(name string, wrong time.Duration) (renew func()) {
	w.Helper()
	leases := w.client.CoordinationV1().Leases("default")
	holder, seconds := "elsewhere", int32(2)
	lease, err := leases.Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
		lease, err = leases.Create(w.Context(), lease, metav1.CreateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
	renew = func() {
		w.Helper()
		now := metav1.NewMicroTime(time.Now().Add(wrong))
		lease.Spec = coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now,
		}
		if lease, err = leases.Update(w.Context(), lease, metav1.UpdateOptions{}); err != nil {
			w.Fatalf("the lease was taken while it was renewed: %v", err)
		}
	}
	renew()
	return renew
}
