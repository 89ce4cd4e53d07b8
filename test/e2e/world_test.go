package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// patience is the time that a test waits for an event that must happen, or for the next of many.
const patience = 90 * time.Second

// world is a cluster with nodes and a scheduler.
type world struct {
	*testing.T
	c         *cluster.Cluster
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	nodes     *nodes.Nodes
	scheduler *schedulers.Scheduler
	// native says that gangs are made with PodGroups of scheduling.k8s.io, and else by label, with scheduling.x-k8s.io.
	native bool
	// both says that half of the gangs, by their names, are of either API.
	both bool
}

// gangsByEachAPI runs a test with gangs of each API that the scheduler has.
func gangsByEachAPI(t *testing.T, test func(w *world)) {
	t.Run("scheduling.k8s.io", func(t *testing.T) { test(newWorld(t, true, cluster.Options{})) })
	t.Run("scheduling.x-k8s.io", func(t *testing.T) {
		needsRollcall(t, "kube-scheduler has no gangs by label")
		test(newWorld(t, false, cluster.Options{}))
	})
}

// faultsByEachAPI runs a test of faults with gangs of each API: of one after the other, and in a soak of both together,
// so that each fault meets both.
func faultsByEachAPI(t *testing.T, test func(w *world)) {
	if times() == timesInCI {
		gangsByEachAPI(t, test)
		return
	}
	needsRollcall(t, "kube-scheduler has no gangs by label")
	w := newWorld(t, true, cluster.Options{})
	w.both = true
	test(w)
}

// isNative reports whether a gang is one of scheduling.k8s.io.
func (w *world) isNative(group string) bool {
	if !w.both {
		return w.native
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(group))
	return h.Sum32()%2 == 0
}

// needsRollcall skips a test of a feature that kube-scheduler does not have.
func needsRollcall(t *testing.T, reason string) {
	t.Helper()
	if schedulers.Choice() == binaries.KubeScheduler {
		t.Skip("skipped: " + reason)
	}
}

// newWorld starts a cluster with four nodes of four processors, which have room for any number of pods. A test starts
// the scheduler.
func newWorld(t *testing.T, native bool, o cluster.Options) *world {
	t.Helper()
	return newWorldOf(t, native, o, nodes.Options{
		Count: 4, Capacity: nodes.Capacity("4", "64Gi", "5000"), WithoutPods: true,
	})
}

// newWorldOf is newWorld with other nodes.
func newWorldOf(t *testing.T, native bool, o cluster.Options, of nodes.Options) *world {
	t.Helper()
	o.GenericWorkload = native
	c := cluster.ForTest(t, o)
	config := rest.CopyConfig(c.Config())
	config.ContentConfig = rest.ContentConfig{}
	return &world{
		T: t, c: c, client: kubernetes.NewForConfigOrDie(c.Config()), dynamic: dynamic.NewForConfigOrDie(config),
		nodes:  nodes.ForTest(t, c.Config(), of),
		native: native,
	}
}

// options are the options for starting the world's scheduler.
func (w *world) options() schedulers.Options {
	var o schedulers.Options
	if w.native {
		o.FeatureGates = map[string]bool{"GenericWorkload": true}
	}
	return o
}

func (w *world) start(o schedulers.Options) {
	w.Helper()
	w.scheduler = schedulers.ForTest(w.T, w.c, o)
}

// group creates a PodGroup.
func (w *world) group(name string, least int) {
	w.Helper()
	var err error
	if w.isNative(name) {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(least)}
		_, err = w.client.SchedulingV1beta1().PodGroups("default").Create(w.Context(), g, metav1.CreateOptions{})
	} else {
		_, err = w.podGroups().Create(w.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
			"metadata": map[string]any{"name": name},
			"spec":     map[string]any{"minMember": int64(least)},
		}}, metav1.CreateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) podGroups() dynamic.ResourceInterface {
	return w.dynamic.Resource(schema.GroupVersionResource{
		Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups",
	}).Namespace("default")
}

// pod is a pod that wants so many processors; of a gang unless the group's name is empty.
func (w *world) pod(name, group, cpu string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "c", Image: "registry.k8s.io/pause:3.10",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
	switch {
	case group == "":
	case w.isNative(group):
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	default:
		p.Labels = map[string]string{accountant.GroupLabel: group}
	}
	return p
}

func (w *world) create(pods ...*v1.Pod) {
	w.Helper()
	errs := make([]error, len(pods))
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i, p := range pods {
		all.Go(func() {
			slots <- struct{}{}
			_, errs[i] = w.client.CoreV1().Pods("default").Create(w.Context(), p, metav1.CreateOptions{})
			<-slots
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		w.Fatal(err)
	}
}

// gang creates a PodGroup with as many pods, NAME-0 and so on, of so many processors each.
func (w *world) gang(name string, members int, cpu string) {
	w.Helper()
	w.group(name, members)
	var pods []*v1.Pod
	for i := range members {
		pods = append(pods, w.pod(fmt.Sprintf("%s-%d", name, i), name, cpu))
	}
	w.create(pods...)
}

// bind binds a pod by hand.
func (w *world) bind(pod, node string) error {
	return w.client.CoreV1().Pods("default").Bind(w.Context(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// priority makes a PriorityClass, and waits until the API server's admission knows it, which watches them.
func (w *world) priority(name string, value int32) {
	w.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	classes := w.client.SchedulingV1().PriorityClasses()
	if _, err := classes.Create(w.Context(), class, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	p := w.pod("knows-"+name, "", "1")
	p.Spec.PriorityClassName = name
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for tries := 0; ; tries++ {
		_, err := w.client.CoreV1().Pods("default").Create(w.Context(), p, dry)
		if err == nil {
			return
		}
		if tries == 100 {
			w.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// on returns the nodes of the pods with a prefix, by name; pods that are not bound have none.
func (w *world) on(prefix string) map[string]string {
	w.Helper()
	pods, err := w.pods(w.Context(), prefix)
	if err != nil {
		w.Fatal(err)
	}
	nodes := map[string]string{}
	for i := range pods {
		if bound(&pods[i]) {
			nodes[pods[i].Name] = pods[i].Spec.NodeName
		}
	}
	return nodes
}

// remove deletes a pod, at once.
func (w *world) remove(name string) {
	w.Helper()
	now := int64(0)
	o := metav1.DeleteOptions{GracePeriodSeconds: &now}
	if err := w.client.CoreV1().Pods("default").Delete(w.Context(), name, o); err != nil {
		w.Fatal(err)
	}
}

// pods are the pods of the cluster whose names begin with a prefix.
func (w *world) pods(ctx context.Context, prefix string) ([]v1.Pod, error) {
	list, err := w.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []v1.Pod
	for _, p := range list.Items {
		if strings.HasPrefix(p.Name, prefix) {
			out = append(out, p)
		}
	}
	return out, nil
}

func bound(p *v1.Pod) bool { return p.Spec.NodeName != "" }

// unschedulable reports whether a scheduler has said that there is no room for the pod.
func unschedulable(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

// waitFor waits until so many of the pods with a prefix are as is says. The API server may be away meanwhile.
func (w *world) waitFor(prefix string, count int, is func(*v1.Pod) bool) {
	w.Helper()
	var n int
	var last error
	for most, since := -1, time.Now(); ; {
		asked := time.Now()
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		pods, err := w.pods(ctx, prefix)
		cancel()
		n, last = 0, err
		for i := range pods {
			if is(&pods[i]) {
				n++
			}
		}
		if n >= count {
			return
		}
		if n > most {
			most, since = n, asked
		}
		if w.scheduler != nil && !w.scheduler.Running() {
			w.Fatalf("the scheduler has ended, with %d of %d pods %s*; its output:\n%s",
				n, count, prefix, w.scheduler.Tail(40))
		}
		if time.Since(since) > patience {
			if w.scheduler != nil {
				w.Logf("the scheduler's output:\n%s", w.scheduler.Tail(20))
			}
			w.Fatalf("%d of %d pods %s*, and no more for %v; the last error: %v", n, count, prefix, patience, last)
		}
		// A list of many pods costs the API server more than a bind: it is asked for less often.
		time.Sleep(max(20*time.Millisecond, 2*time.Since(asked)))
	}
}

// inPart counts the gangs with a prefix of which some members are bound and others are not.
func (w *world) inPart(prefix string, members int) (gangs int) {
	w.Helper()
	pods, err := w.pods(w.Context(), prefix)
	if err != nil {
		w.Fatal(err)
	}
	placed := map[string]int{}
	for i := range pods {
		if name, _, _ := strings.Cut(pods[i].Name, "-"); bound(&pods[i]) {
			placed[name]++
		}
	}
	for _, n := range placed {
		if n < members {
			gangs++
		}
	}
	return gangs
}

// none fails if a pod with a prefix is as is says.
func (w *world) none(prefix string, is func(*v1.Pod) bool) {
	w.Helper()
	pods, err := w.pods(w.Context(), prefix)
	if err != nil {
		w.Fatal(err)
	}
	for i := range pods {
		if is(&pods[i]) {
			w.Errorf("pod %s is on node %q", pods[i].Name, pods[i].Spec.NodeName)
		}
	}
}

// audit has the accountant check all that happened, and wants so many pods bound by the scheduler.
func (w *world) audit(bound int) *accountant.Account {
	w.Helper()
	a := accountant.Audit(w.T, w.c, w.scheduler)
	if n := a.Bound(w.scheduler.User); n != bound {
		w.Errorf("the scheduler has bound %d pods, wanted %d", n, bound)
	}
	return a
}

// asksOf calls f for each line of the audit log about a request of a user for a resource.
func (w *world) asksOf(user string, f func(*auditv1.Event)) {
	w.Helper()
	w.eachAudited(func(e *auditv1.Event) {
		if e.User.Username == user {
			f(e)
		}
	})
}

// eachAudited calls f for each line of the audit log about a request for a resource.
func (w *world) eachAudited(f func(*auditv1.Event)) {
	w.Helper()
	file, err := os.Open(w.c.AuditLog())
	if err != nil {
		w.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e auditv1.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.ObjectRef != nil { // else it is the line that is being written
			f(&e)
		}
	}
	if err := lines.Err(); err != nil {
		w.Fatal(err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
