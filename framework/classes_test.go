package framework_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

// TestClassesAreOnlyAMemo places pods one after the other in worlds that change in between, by a profile that
// keeps classes and by one that does not: everything that comes out is the same.
func TestClassesAreOnlyAMemo(t *testing.T) {
	const worlds, steps = 12, 150
	evaluated := 0
	for seed := range uint64(worlds) {
		g := &generator{rand.New(rand.NewPCG(seed, 7))}
		w := newMemoWorld(t, g)
		for step := range steps {
			w.change(step)
			pod := w.podOfFewShapes(step)
			with := w.with.Place(w.ctx, framework.NewCycleState(), pod, step, nil)
			without := w.without.Place(w.ctx, framework.NewCycleState(), pod, step, nil)
			if diff := comparePlacements(with, without); diff != "" {
				t.Fatalf("world %d, step %d, pod %s: with and without classes differ in %s", seed, step, pod.Name, diff)
			}
			evaluated += int(with.Evaluated)
			if with.Node != "" {
				w.assume(pod, with.Node)
			}
		}
	}
	if evaluated < worlds*steps*60 {
		t.Fatalf("only %d nodes were evaluated: the worlds are too small to have classes", evaluated)
	}
}

// TestClassesSaveWork counts plugin calls: a class is evaluated in full once, then one node for each placement.
func TestClassesSaveWork(t *testing.T) {
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(1, 1))})
	w.plain = true
	for i := range 20 {
		pod := w.podOfFewShapes(0)
		pod.Name, pod.UID = fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("p%d", i))
		if p := w.with.Place(w.ctx, framework.NewCycleState(), pod, 0, nil); p.Node != "" {
			w.assume(pod, p.Node)
		}
	}
	if got, most := w.with.Evaluations(), 80+20; got > most {
		t.Errorf("20 pods of one class on 80 nodes took %d evaluations of a node, want at most %d", got, most)
	}
}

// TestWithoutClassesEveryNodeIsEvaluatedForEachPod counts plugin calls of a profile whose registry says that there are to be no
// classes.
func TestWithoutClassesEveryNodeIsEvaluatedForEachPod(t *testing.T) {
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(1, 1))})
	w.plain = true
	off := w.profile("plain", framework.WithoutClasses(plugins.NewRegistry()), w.state.Version)
	for range 5 {
		off.Place(w.ctx, framework.NewCycleState(), w.podOfFewShapes(0), 0, nil)
	}
	if got, want := off.Evaluations(), 5*80; got != want {
		t.Errorf("5 pods of one class on 80 nodes took %d evaluations of a node, want %d", got, want)
	}
}

func comparePlacements(a, b framework.Placement) string {
	statuses := func(p framework.Placement) (out []string) {
		if p.Statuses == nil {
			return nil
		}
		for i := range 90 {
			s := p.Statuses.Get(fmt.Sprintf("node-%02d", i))
			out = append(out, fmt.Sprintf("%s %s %d", s.Plugin(), s.Code(), len(s.Reasons())))
		}
		return out
	}
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"node", a.Node, b.Node}, {"score", a.Score, b.Score}, {"evaluated", a.Evaluated, b.Evaluated},
		{"feasible", a.Feasible, b.Feasible}, {"next", a.Next, b.Next}, {"status", a.Status.Code(), b.Status.Code()},
		{"rejections", a.Rejections, b.Rejections}, {"plugins", a.Plugins, b.Plugins},
		{"pending plugins", a.PendingPlugins, b.PendingPlugins}, {"statuses", statuses(a), statuses(b)},
	} {
		if !reflect.DeepEqual(f.a, f.b) {
			return fmt.Sprintf("%s: %v and %v", f.name, f.a, f.b)
		}
	}
	return ""
}

// memoWorld is a cluster under two profiles that differ only in whether they keep classes.
type memoWorld struct {
	t             *testing.T
	g             *generator
	ctx           context.Context
	state         *cluster.State
	with, without *framework.Profile
	shapes        []*v1.Pod
	placed        []types.UID
	plain         bool
	nodes         int
}

func newMemoWorld(t *testing.T, g *generator) *memoWorld {
	w := &memoWorld{t: t, g: g, ctx: framework.Quiet(context.Background()), state: cluster.New()}
	for i := range 80 {
		w.upsertNode(fmt.Sprintf("node-%02d", i))
	}
	w.nodes = 80
	w.with, w.without = w.profile("with", plugins.NewRegistry(), w.state.Version), w.profile("without", plugins.NewRegistry(), nil)
	return w
}

// profile returns one over the world's cluster.
func (w *memoWorld) profile(name string, registry frameworkruntime.Registry, version func() uint64) *framework.Profile {
	informers := w.state.Informers()
	cfg, err := framework.LoadConfig([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
		"profiles: [{schedulerName: "+name+", plugins: {multiPoint: {disabled: [{name: Coscheduling}, {name: DefaultPreemption}]}}}]\n"), "test.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := framework.NewProfile(w.ctx, registry, cfg.Profiles[0], framework.World{
		Lister: w.state, Informers: informers.Factory(), CSI: informers.CSI(), DRA: informers.DRA(), Version: version,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *memoWorld) upsertNode(name string) {
	if _, err := w.state.UpsertNode(w.g.node(name)); err != nil {
		w.t.Fatal(err)
	}
}

// change does to the world, now and then, what a memo must notice.
func (w *memoWorld) change(step int) {
	switch {
	case step%11 == 10:
		w.upsertNode(fmt.Sprintf("node-%02d", w.g.IntN(w.nodes)))
	case step%17 == 16:
		w.upsertNode(fmt.Sprintf("node-%02d", 80+w.g.IntN(10)))
	case step%23 == 22:
		w.state.DeleteNode(fmt.Sprintf("node-%02d", 80+w.g.IntN(10)))
	case step%5 == 4 && len(w.placed) > 0:
		i := w.g.IntN(len(w.placed))
		if _, err := w.state.DeletePod(w.placed[i]); err != nil {
			w.t.Fatal(err)
		}
		w.placed = append(w.placed[:i], w.placed[i+1:]...)
	case step%31 == 30:
		ns := &v1.Namespace{}
		ns.Name = pick(w.g, namespaces)
		ns.Labels = map[string]string{"step": fmt.Sprint(step)}
		if _, err := w.state.Upsert(eventlog.Namespaces, ns); err != nil {
			w.t.Fatal(err)
		}
	}
}

// podOfFewShapes returns a pod that is mostly alike to ones before; one in forty has affinity terms.
func (w *memoWorld) podOfFewShapes(step int) *v1.Pod {
	if len(w.shapes) == 0 {
		for i := range 6 {
			shape := w.g.pod(fmt.Sprintf("shape-%d", i))
			shape.Spec.TopologySpreadConstraints = nil
			if shape.Spec.Affinity != nil {
				shape.Spec.Affinity.PodAffinity, shape.Spec.Affinity.PodAntiAffinity = nil, nil
			}
			w.shapes = append(w.shapes, shape)
		}
	}
	pod := w.shapes[0].DeepCopy()
	if !w.plain {
		pod = pick(w.g, w.shapes).DeepCopy()
		if w.g.oneIn(40) {
			pod = w.g.pod("odd")
		}
	}
	pod.Name = fmt.Sprintf("pod-%d", step)
	pod.UID = types.UID(pod.Name)
	return pod
}

func (w *memoWorld) assume(pod *v1.Pod, node string) {
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	if _, err := w.state.UpsertPod(bound); err != nil {
		w.t.Fatal(err)
	}
	w.placed = append(w.placed, pod.UID)
}
