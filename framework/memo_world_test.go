package framework_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

// memoWorld is a cluster under two profiles. One keeps memos. The other keeps none, and its InterPodAffinity and
// PodTopologySpread are kube-scheduler's own.
type memoWorld struct {
	t             testing.TB
	g             *generator
	config        string
	ctx           context.Context
	state         *cluster.State
	with, without *framework.Profile
	shapes        []*v1.Pod
	placed        []types.UID
	node          func(name string) *v1.Node // makes nodes, and pod makes pods for rehearsals
	pod           func(step int) *v1.Pod
	plain         bool
	nodes         int
	reserving     reserving
	nominations   currentWorld
}

// nominate sometimes changes which pods are nominated to nodes.
// inputs is the version of the plugins' inputs besides nodes and pods.
func (w *memoWorld) inputs() uint64 { return w.state.Changed(cluster.PluginInputs) }

func (w *memoWorld) nominate(step int) {
	switch step % 40 {
	case 20:
		w.nominations.nominated = map[string][]fwk.PodInfo{}
		for i := range 6 {
			info, err := upstream.NewPodInfo(w.g.pod(fmt.Sprintf("nominated-%d", i)))
			if err != nil {
				w.t.Fatal(err)
			}
			node := fmt.Sprintf("node-%02d", w.g.IntN(w.nodes))
			w.nominations.nominated[node] = append(w.nominations.nominated[node], info)
		}
	case 30:
		w.nominations.nominated = nil
	}
}

// rehearse removes pods in a rehearsal, and places some pods in it with both profiles.
func (w *memoWorld) rehearse(step int) (diff string) {
	a, b := w.with.Handle().Rehearse("", nil), w.without.Handle().Rehearse("", nil)
	defer a.End()
	defer b.End()
	for _, uid := range w.placed[:min(len(w.placed), 5)] {
		info := w.state.Pods().Get(uid).Info()
		if err := errors.Join(a.RemovePod(info), b.RemovePod(info)); err != nil {
			w.t.Fatal(err)
		}
	}
	for i := range 4 {
		pod := w.pod(step)
		pod.Name = fmt.Sprintf("rehearsed-%d", i)
		pod.UID = types.UID(pod.Name)
		with, without := a.Place(w.ctx, pod), b.Place(w.ctx, pod)
		if diff := comparePlacements(with, without); diff != "" || with.Node == "" {
			return diff
		}
		pod.Spec.NodeName = with.Node
		info, err := upstream.NewPodInfo(pod)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := errors.Join(a.AddPod(info), b.AddPod(info)); err != nil {
			w.t.Fatal(err)
		}
	}
	return ""
}

// reserving selects the nodes of a memoWorld that are reserved for others.
type reserving int

const (
	reservingNone  reserving = iota
	reservingThird           // four of each ten nodes, in two ways
	reservingSome            // these up to node-49, told by name, with others
	reservingMost            // all but one
	reservingFew             // node-05, node-78 and node-79, told by name
)

// reserved is the world's Reserved.
func (w *memoWorld) reserved(*v1.Pod) *framework.Reserved {
	reserved := map[reserving]func(name string) bool{
		reservingThird: func(name string) bool { return name[len(name)-1]%3 == 0 },
		reservingSome:  func(name string) bool { return name < "node-5" && name[len(name)-1]%3 == 0 },
		reservingMost:  func(name string) bool { return name != "node-33" },
		reservingFew:   func(name string) bool { return name == "node-05" || name == "node-78" || name == "node-79" },
	}[w.reserving]
	if reserved == nil {
		return nil
	}
	r := &framework.Reserved{Why: func(node fwk.NodeInfo) *fwk.Status {
		name := node.Node().Name
		if !reserved(name) {
			return nil
		}
		why := "reserved"
		if w.reserving == reservingThird && name < "node-4" {
			why = "kept"
		}
		return fwk.NewStatus(fwk.Unschedulable, why).WithPlugin("others")
	}}
	switch w.reserving {
	case reservingFew:
		r.Limited, r.Nodes = true, []string{"node-05", "node-78", "node-79"}
	case reservingSome:
		r.Limited = true
		for i := range 50 { // in no order, some twice, one that is not there
			if name := fmt.Sprintf("node-%02d", (i*7)%50); i < 3 || reserved(name) {
				r.Nodes = append(r.Nodes, name)
			}
		}
		r.Nodes = append(r.Nodes, "node-03", "node-99")
	}
	return r
}

func newMemoWorld(t *testing.T, g *generator) *memoWorld {
	return newMemoWorldOf(t, g, comparedConfigs["default"])
}

// newMemoWorldOf returns a world under profiles of the given configuration.
func newMemoWorldOf(t *testing.T, g *generator, config string) *memoWorld {
	w := &memoWorld{t: t, g: g, config: config, nodes: 80, node: g.node}
	w.pod = w.podOfFewShapes
	w.begin()
	return w
}

// begin makes the nodes and the profiles.
func (w *memoWorld) begin() {
	w.ctx, w.state = framework.WithoutLogger(context.Background()), cluster.New()
	for i := range w.nodes {
		w.upsertNode(fmt.Sprintf("node-%02d", i))
	}
	without := plugins.NewRegistry()
	for _, name := range []string{names.InterPodAffinity, names.PodTopologySpread} {
		without.Factories[name] = intree.NewInTreeRegistry()[name]
	}
	w.with, w.without = w.profile("with", plugins.NewRegistry(), w.inputs), w.profile("without", without, nil)
}

// profile returns a profile over the world's cluster.
func (w *memoWorld) profile(name string, registry framework.Registry, version func() uint64) *framework.Profile {
	informers := w.state.Informers()
	cfg, err := framework.LoadConfig(
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+w.config),
		"test.yaml",
	)
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.Profiles[0].SchedulerName = name
	p, err := framework.NewProfile(w.ctx, registry, cfg.Profiles[0], framework.World{
		Lister: w.state, Informers: informers.Factory(), CSI: informers.CSI(), DRA: w.state.Devices(), Version: version,
		Changed:  w.state.Nodes().ChangedSince,
		Reserved: w.reserved, Nominator: &w.nominations,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *memoWorld) upsertNode(name string) {
	if _, err := w.state.UpsertNode(w.node(name)); err != nil {
		w.t.Fatal(err)
	}
}

// change sometimes changes the world in ways that a memo must notice.
func (w *memoWorld) change(step int) {
	switch {
	case step%11 == 10:
		w.upsertNode(fmt.Sprintf("node-%02d", w.g.IntN(w.nodes)))
	case step%17 == 16:
		w.upsertNode(fmt.Sprintf("node-%02d", w.nodes+w.g.IntN(10)))
	case step%23 == 22:
		w.state.DeleteNode(fmt.Sprintf("node-%02d", w.nodes+w.g.IntN(10)))
	case step%5 == 4 && len(w.placed) > 0:
		i := w.g.IntN(len(w.placed))
		if _, err := w.state.DeletePod(w.placed[i]); err != nil {
			w.t.Fatal(err)
		}
		w.placed = append(w.placed[:i], w.placed[i+1:]...)
	case step%3 == 1:
		w.relabel()
	case step%31 == 30:
		ns := &v1.Namespace{}
		ns.Name = pick(w.g, namespaces)
		ns.Labels = map[string]string{"step": fmt.Sprint(step), "team": pick(w.g, namespaces)}
		if _, err := w.state.Upsert(eventlog.Namespaces, ns); err != nil {
			w.t.Fatal(err)
		}
	}
}

// relabel changes a node's labels, taints and amounts, but not its images, so that memos stay valid.
func (w *memoWorld) relabel() {
	node := w.state.Nodes().Object(fmt.Sprintf("node-%02d", w.g.IntN(w.nodes))).DeepCopy()
	images := node.Status.Images
	*node = *w.node(node.Name)
	node.Status.Images = images
	if _, err := w.state.UpsertNode(node); err != nil {
		w.t.Fatal(err)
	}
}

// podOfFewShapes returns a pod that mostly equals earlier ones. One in three has its own requests, and one in forty
// equals no other. Some shapes have spread constraints. In half of the worlds some have affinity terms.
func (w *memoWorld) podOfFewShapes(step int) *v1.Pod {
	if len(w.shapes) == 0 {
		for i := range 6 {
			shape := w.g.pod(fmt.Sprintf("shape-%d", i))
			if i > 1 {
				shape.Spec.TopologySpreadConstraints = nil
			}
			if shape.Spec.Affinity != nil && (i > 0 || w.g.oneIn(2)) {
				shape.Spec.Affinity.PodAffinity, shape.Spec.Affinity.PodAntiAffinity = nil, nil
			}
			if i > 3 { // two scores of it are normalized
				shape.Spec.Tolerations = nil
				shape.Spec.Affinity.NodeAffinity = w.g.wishes()
			}
			w.shapes = append(w.shapes, shape)
		}
	}
	pod := w.shapes[0].DeepCopy()
	if !w.plain {
		pod = pick(w.g, w.shapes).DeepCopy()
		switch {
		case w.g.oneIn(40):
			pod = w.g.pod("odd")
		case w.g.oneIn(3):
			for i := range pod.Spec.Containers {
				pod.Spec.Containers[i].Resources = w.g.container("c").Resources
			}
		}
	}
	if !w.plain && w.g.oneIn(3) {
		w.vary(pod)
	}
	pod.Name = fmt.Sprintf("pod-%d", step)
	pod.UID = types.UID(pod.Name)
	return pod
}

// vary changes the pod slightly.
func (w *memoWorld) vary(pod *v1.Pod) {
	c := &pod.Spec.Containers[w.g.IntN(len(pod.Spec.Containers))]
	switch w.g.IntN(6) {
	case 0:
		for i := range c.Ports {
			c.Ports[i].Protocol = pick(w.g, []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP})
		}
	case 1:
		for i := range c.Ports {
			c.Ports[i].HostIP = pick(w.g, []string{"", "127.0.0.1"})
		}
	case 2:
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "more", Image: c.Image})
	case 3:
		c.Image = pick(w.g, images)
	case 4: // all requests in the first
		first := pod.Spec.Containers[0].Resources.Requests
		for i := range pod.Spec.Containers[1:] {
			for name, amount := range pod.Spec.Containers[1+i].Resources.Requests {
				sum := first[name]
				sum.Add(amount)
				first[name] = sum
			}
			pod.Spec.Containers[1+i].Resources.Requests = nil
		}
	case 5:
		pod.Spec.InitContainers = append(pod.Spec.InitContainers,
			v1.Container{Name: "i", Image: c.Image, Ports: c.Ports})
		c.Ports = nil
	}
}

func (w *memoWorld) assume(pod *v1.Pod, node string) {
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	if _, err := w.state.UpsertPod(bound); err != nil {
		w.t.Fatal(err)
	}
	w.placed = append(w.placed, pod.UID)
}
