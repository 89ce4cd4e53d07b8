// Package plugintest compares a plugin of Rollcall with kube-scheduler's plugin of the same name. In a world of nodes
// and pods that changes, both have to give the same answers. It is for tests.
//
// Start at Pair.Compare.
package plugintest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
)

// World is nodes with pods that change, and the lister that shows them. A test says how nodes and pods are made.
type World struct {
	*rand.Rand
	TB    testing.TB
	Nodes []fwk.NodeInfo // by name
	Shown []fwk.NodeInfo // what the lister lists

	// NewNode returns a node of that name, NewPod a pod for a node to have, and NewTrial one that is added for a trial.
	// Relabel changes a pod's labels. Extra is one more thing that may happen; nil for none.
	NewNode  func(name string) *v1.Node
	NewPod   func() *v1.Pod
	NewTrial func() *v1.Pod
	Relabel  func(*v1.Pod)
	Extra    func()

	tells   bool    // which nodes have changed
	other   bool    // Shown is not Nodes
	changed []int32 // the places of nodes that have changed
	version uint64  // of the list
	names   int     // the number of the last name
}

// Chance returns true so many times in a hundred.
func (w *World) Chance(percent int) bool { return w.IntN(100) < percent }

// Pick returns one of them.
func Pick[T any](w *World, of ...T) T { return of[w.IntN(len(of))] }

// Name returns a new name.
func (w *World) Name() string {
	w.names++
	return fmt.Sprint("p", w.names)
}

// Context returns a context without a logger.
func Context() context.Context { return framework.WithoutLogger(context.Background()) }

// Info returns the PodInfo of a pod that has no faults.
func (w *World) Info(pod *v1.Pod) fwk.PodInfo {
	info, err := upstream.NewPodInfo(pod)
	if err != nil {
		w.TB.Fatal(err)
	}
	return info
}

// Place puts a pod on a node.
func (w *World) Place(at int, pod *v1.Pod) {
	w.Nodes[at].AddPodInfo(w.Info(pod))
	w.changed = append(w.changed, int32(at))
}

// Changed tells the plugin that something is different besides nodes and their pods.
func (w *World) Changed() { w.version++ }

// AddNode adds a node with a few pods, anywhere in the list.
func (w *World) AddNode() {
	w.names++
	name := fmt.Sprintf("n%03d-%d", w.IntN(1000), w.names)
	info := upstream.NewNodeInfo()
	info.SetNode(w.NewNode(name))
	for range w.IntN(4) {
		info.AddPodInfo(w.Info(w.NewPod()))
	}
	at, _ := slices.BinarySearchFunc(w.Nodes, name, func(n fwk.NodeInfo, name string) int {
		return strings.Compare(n.Node().Name, name)
	})
	w.Nodes = slices.Insert(w.Nodes, at, fwk.NodeInfo(info))
	w.version++
}

// Step is one thing that happens to the world.
func (w *World) Step() {
	if len(w.Nodes) == 0 {
		w.AddNode()
		return
	}
	at := w.IntN(len(w.Nodes))
	info := w.Nodes[at].(*upstream.NodeInfo)
	w.changed = append(w.changed, int32(at))
	switch w.IntN(12) {
	case 0:
		w.AddNode()
	case 1:
		if len(w.Nodes) > 3 {
			w.Nodes = slices.Delete(w.Nodes, at, at+1)
			w.version++
		}
	case 2:
		info.SetNode(w.NewNode(info.Node().Name))
	case 3:
		info.SetNode(info.Node().DeepCopy())
	case 4:
		if w.Extra != nil {
			w.Extra()
		}
	case 5, 6, 7:
		info.AddPodInfo(w.Info(w.NewPod()))
	default:
		if len(info.Pods) == 0 {
			return
		}
		pod := info.Pods[w.IntN(len(info.Pods))].GetPod()
		if err := info.RemovePod(klog.FromContext(Context()), pod); err != nil {
			w.TB.Fatal(err)
		}
		if w.Chance(60) { // it is another from now on: with other labels, or being deleted
			pod = pod.DeepCopy()
			if w.Chance(50) {
				pod.DeletionTimestamp = &metav1.Time{}
			} else {
				w.Relabel(pod)
			}
			info.AddPodInfo(w.Info(pod))
		}
	}
}

// show has the lister list all nodes, or, at times, copies of them, or only some.
func (w *World) show() {
	w.Shown, w.other = slices.Clone(w.Nodes), w.Chance(10)
	switch {
	case w.other:
		w.Shown = slices.DeleteFunc(w.Shown, func(fwk.NodeInfo) bool { return w.Chance(30) })
	case w.Chance(10):
		for i := range w.Shown {
			w.Shown[i] = w.Shown[i].Snapshot()
		}
	}
}

// rehearse has the lister list the nodes with some of them changed, in copies.
func (w *World) rehearse() {
	w.show()
	w.other = true
	for i := range w.Shown {
		if !w.Chance(10) {
			continue
		}
		w.Shown[i] = w.Shown[i].Snapshot()
		w.Shown[i].AddPodInfo(w.Info(w.NewPod()))
		if w.Chance(30) {
			w.Shown[i].SetNode(w.moved(w.Shown[i].Node().Name))
		}
	}
}

// moved returns another node of that name, in a zone where no other node is.
func (w *World) moved(name string) *v1.Node {
	node := w.NewNode(name)
	if node.Labels != nil {
		node.Labels[v1.LabelTopologyZone] = "z-new"
	}
	return node
}

// lister shows the nodes of the world.
type lister struct {
	fwk.SharedLister
	w *World
}

func (l lister) NodeInfos() fwk.NodeInfoLister    { return l }
func (l lister) List() ([]fwk.NodeInfo, error)    { return l.w.Shown, nil }
func (l lister) Get(string) (fwk.NodeInfo, error) { return nil, errors.New("nobody asks") }
func (l lister) having(has func(fwk.NodeInfo) bool) ([]fwk.NodeInfo, error) {
	return slices.DeleteFunc(slices.Clone(l.w.Shown), func(n fwk.NodeInfo) bool { return !has(n) }), nil
}
func (l lister) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return l.having(func(n fwk.NodeInfo) bool { return len(n.GetPodsWithAffinity()) > 0 })
}
func (l lister) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return l.having(func(n fwk.NodeInfo) bool { return len(n.GetPodsWithRequiredAntiAffinity()) > 0 })
}
func (l lister) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return l.having(func(n fwk.NodeInfo) bool { return len(n.GetPodsWithRequiredNonHostScopedAntiAffinity()) > 0 })
}

// handle tells which nodes have changed, in some worlds.
type handle struct {
	fwk.Handle
	w *World
}

// ChangedSince implements framework.Changes.
func (h handle) ChangedSince(since framework.Mark) ([]int32, framework.Mark, bool) {
	w := h.w
	if !w.tells || w.other {
		return nil, framework.Mark{}, false
	}
	now := framework.Mark{Version: w.version, Change: uint64(len(w.changed)), Valid: true}
	if !since.Valid || since.Version != now.Version {
		return nil, now, false
	}
	return w.changed[since.Change:], now, true
}
