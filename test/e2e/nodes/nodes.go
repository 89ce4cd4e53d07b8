// Package nodes plays the kubelets of a cluster: it registers nodes, renews their leases, and runs the pods that are
// bound to them in name only. A pod is Running once it is bound. With the annotation rollcall.dev/duration (such as
// "90s") it has Succeeded after that time. A pod that is being deleted is gone at once.
//
//	nodes.ForTest(t, c.Config(), nodes.Options{Count: 10})
package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Options say what nodes are wanted.
type Options struct {
	// Count is the number of nodes; their names are Prefix and a number from 00000 on.
	Count int
	// Prefix is "node-" if it is empty.
	Prefix string
	// Capacity is a node's capacity, all of it allocatable. nil: 16 CPUs, 64Gi of memory, 110 pods.
	Capacity v1.ResourceList
	// Labels are added to the default labels of the node with a number: its host name and a zone of four; may be nil.
	Labels func(number int) map[string]string
	// Heartbeat is the number of times that each node renews its lease: every 10 s if it is 0, never if it is
	// negative.
	Heartbeat time.Duration
	// Report is the number of times that each node writes its status with new times, as kubelets do every five
	// minutes; 0: never.
	Report time.Duration
	// Skew is the amount that the clock of the node with a number is ahead, in its own timestamps. nil: none.
	Skew func(number int) time.Duration
	// WithoutPods leaves the pods alone: they stay Pending on their nodes, and pods that are being deleted stay too.
	WithoutPods bool
}

// leaseSeconds is for how long a lease holds, as kubelets have it.
const leaseSeconds = 40

// workers is the number of requests in progress at a time.
const workers = 16

// Nodes are the nodes that one call of Start has made.
type Nodes struct {
	client  kubernetes.Interface
	options Options
	names   []string
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu sync.Mutex
	// silent nodes renew no lease and run no pods, as if their machines had failed.
	silent map[string]bool
}

// Start registers the nodes, and plays them until Stop or until ctx ends.
func Start(ctx context.Context, config *rest.Config, o Options) (*Nodes, error) {
	if o.Prefix == "" {
		o.Prefix = "node-"
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 10 * time.Second
	}
	if o.Capacity == nil {
		o.Capacity = Capacity("16", "64Gi", "110")
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for the nodes: %w", err)
	}
	n := &Nodes{client: client, options: o, silent: map[string]bool{}}
	for i := range o.Count {
		n.names = append(n.names, fmt.Sprintf("%s%05d", o.Prefix, i))
	}
	if err := n.register(ctx); err != nil {
		return nil, err
	}
	ctx, n.stop = context.WithCancel(ctx)
	if o.Heartbeat > 0 {
		n.done.Go(func() { n.renewLeases(ctx) })
	}
	if o.Report > 0 {
		n.done.Go(func() { n.reportStatus(ctx) })
	}
	if !o.WithoutPods {
		if err := n.runPods(ctx); err != nil {
			n.Stop()
			return nil, err
		}
	}
	return n, nil
}

// ForTest starts nodes for a test, and stops them with the test.
func ForTest(t testing.TB, config *rest.Config, o Options) *Nodes {
	t.Helper()
	n, err := Start(t.Context(), config, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return n
}

// Stop stops playing the nodes. They stay registered.
func (n *Nodes) Stop() {
	n.stop()
	n.done.Wait()
}

// Names are the names of the nodes, in order.
func (n *Nodes) Names() []string { return n.names }

// Silence makes a node fail: it renews no lease and runs no pods, until it is called with false.
func (n *Nodes) Silence(name string, silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent[name] = silent
}

// skew is by how much the clock of the node with a number is ahead.
func (n *Nodes) skew(number int) time.Duration {
	if n.options.Skew == nil {
		return 0
	}
	return n.options.Skew(number)
}

func (n *Nodes) isSilent(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silent[name]
}

// Capacity is a node's capacity of the three resources that every node has.
func Capacity(cpu, memory, pods string) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory),
		v1.ResourcePods: resource.MustParse(pods),
	}
}

// register creates the nodes. One that exists already, from an earlier start, is left as it is.
func (n *Nodes) register(ctx context.Context) error {
	return each(len(n.names), func(i int) error {
		_, err := n.client.CoreV1().Nodes().Create(ctx, n.node(i), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("register node %s: %w", n.names[i], err)
		}
		return nil
	})
}

// each calls f for the numbers below count, several at a time, and returns their errors.
func each(count int, f func(int) error) error {
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < count && errs[w] == nil; i += workers {
				errs[w] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (n *Nodes) node(i int) *v1.Node {
	name, now := n.names[i], metav1.NewTime(time.Now().Add(n.skew(i)))
	labels := map[string]string{
		v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%4),
		v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64",
	}
	if n.options.Labels != nil {
		maps.Copy(labels, n.options.Labels(i))
	}
	condition := func(kind v1.NodeConditionType, status v1.ConditionStatus, reason string) v1.NodeCondition {
		return v1.NodeCondition{
			Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: v1.NodeStatus{
			Capacity: n.options.Capacity, Allocatable: n.options.Capacity,
			Conditions: []v1.NodeCondition{
				condition(v1.NodeMemoryPressure, v1.ConditionFalse, "KubeletHasSufficientMemory"),
				condition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure"),
				condition(v1.NodePIDPressure, v1.ConditionFalse, "KubeletHasSufficientPID"),
				condition(v1.NodeReady, v1.ConditionTrue, "KubeletReady"),
			},
			NodeInfo: v1.NodeSystemInfo{
				KubeletVersion: "v1.37.2", ContainerRuntimeVersion: "none://0",
				OperatingSystem: "linux", Architecture: "amd64",
			},
		},
	}
}

// reportStatus writes the nodes' conditions with the present time as their last heartbeat, one node after the other,
// evenly over the time between two reports. Failed writes are repeated with the next report.
func (n *Nodes) reportStatus(ctx context.Context) {
	ticker := time.NewTicker(max(n.options.Report/time.Duration(max(len(n.names), 1)), time.Millisecond))
	defer ticker.Stop()
	for i := 0; len(n.names) > 0; i = (i + 1) % len(n.names) {
		if !n.isSilent(n.names[i]) {
			if node, err := n.client.CoreV1().Nodes().Get(ctx, n.names[i], metav1.GetOptions{}); err == nil {
				for c := range node.Status.Conditions {
					node.Status.Conditions[c].LastHeartbeatTime = metav1.NewTime(time.Now().Add(n.skew(i)))
				}
				_, _ = n.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// renewLeases renews the nodes' leases, one after the other, evenly over the time of a heartbeat. Failed renewals are
// repeated at the next heartbeat, as kubelets do.
func (n *Nodes) renewLeases(ctx context.Context) {
	leases := n.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	held := make([]*coordinationv1.Lease, len(n.names))
	ticker := time.NewTicker(max(n.options.Heartbeat/time.Duration(max(len(n.names), 1)), time.Millisecond))
	defer ticker.Stop()
	for i := 0; ; i = (i + 1) % max(len(n.names), 1) {
		if i < len(held) && !n.isSilent(n.names[i]) {
			now, seconds, name := metav1.NewMicroTime(time.Now().Add(n.skew(i))), int32(leaseSeconds), n.names[i]
			var err error
			if held[i] == nil {
				held[i], err = leases.Create(ctx, &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: name},
					Spec: coordinationv1.LeaseSpec{
						HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now,
					},
				}, metav1.CreateOptions{})
				if apierrors.IsAlreadyExists(err) {
					held[i], err = leases.Get(ctx, name, metav1.GetOptions{})
				}
			} else {
				held[i].Spec.RenewTime = &now
				held[i], err = leases.Update(ctx, held[i], metav1.UpdateOptions{})
			}
			if err != nil {
				held[i] = nil
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
