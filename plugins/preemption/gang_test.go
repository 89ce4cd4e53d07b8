package preemption_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/framework"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
)

// A gang's victims make room for the whole gang, and none of them could stay. If it has no victims, none would be
// enough. The reference has resources only, and so do the worlds.
func TestAGangsVictimsAreEnoughAndNoneIsTooMany(t *testing.T) {
	kinds := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, true)
		for _, p := range w.pods {
			p.Spec.Affinity, p.Spec.TopologySpreadConstraints, p.Spec.Containers[0].Ports = nil, nil, nil
		}
		g := drawGang(t, w)
		w.build(mustOf(t))
		w.left["big"] = 1 // the cycle is the last member's: the attempt ends with it
		g.check(t, w, kinds)
		if planned := w.profile.Plugin(preemption.Name).(*preemption.Preemption).Planned(); planned.Looks > 0 {
			kinds["counted"]++
		}
	})
	for _, kind := range []string{"preempts, alike", "preempts, mixed", "a whole group goes", "not helpful",
		"would fit", "waits", "counted"} {
		if kinds[kind] < 2 {
			t.Errorf("only %d worlds are of the kind %q: %v", kinds[kind], kind, kinds)
		}
	}
}

// gang is the one that comes.
type gang struct {
	members  []*v1.Pod
	min      int
	priority int32
	alike    bool
}

func drawGang(t *rapid.T, w *world) *gang {
	g := &gang{priority: rapid.Int32Range(1, 5).Draw(t, "gang's priority"), alike: rapid.Bool().Draw(t, "alike")}
	cpu := rapid.Int64Range(1, 4).Draw(t, "cpu")
	for i := range rapid.IntRange(1, 4).Draw(t, "members") {
		if !g.alike {
			cpu = rapid.Int64Range(1, 4).Draw(t, "cpu")
		}
		p := podOf(fmt.Sprintf("big-%d", i), cpu, 0, g.priority)
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To("big")}
		g.members = append(g.members, p)
	}
	g.min = rapid.IntRange(1, len(g.members)).Draw(t, "min")
	o := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "big", UID: "group-big"}}
	o.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(g.min)}
	w.groups = append(w.groups, o)
	w.waiting = append(w.waiting, g.members...)
	return g
}

func (g *gang) check(t *rapid.T, w *world, kinds map[string]int) {
	last := g.members[len(g.members)-1]
	state := framework.NewCycleState()
	result, _ := w.profile.PostFilter(
		framework.WithoutLogger(context.Background()),
		state,
		last,
		upstream.NewDefaultNodeToStatus(),
		nil,
	)
	proposal := preemption.Proposed(state)
	if proposal == nil || len(proposal.Victims)+len(proposal.Nominations) == 0 && result.NominatedNodeName == "" {
		kinds[g.checkNothingToDo(t, w)]++
		return
	}
	victims := map[string]bool{}
	for _, uid := range proposal.Victims {
		victims[string(uid)] = true
	}
	at := map[string]string{}
	if result.NominatedNodeName != "" {
		at[last.Name] = result.NominatedNodeName
	}
	for _, n := range proposal.Nominations {
		if strings.HasPrefix(string(n.UID), "big-") && n.Node != "" {
			at[string(n.UID)] = n.Node
		}
	}
	kinds[g.checkWhoGoes(t, w, victims)]++
	if len(at) != g.min {
		t.Fatalf("%d members are nominated, the minimum is %d: %v\n%s", len(at), g.min, at, w.describe(last))
	}
	room := g.room(w, victims)
	for name, node := range at {
		room[node][0] -= w.state.Pods().Get(w.member(name).UID).Requests().GetMilliCPU()
		if room[node][1]--; room[node][0] < 0 || room[node][1] < 0 {
			t.Fatalf("with %v gone %v do not fit\n%s", victims, at, w.describe(last))
		}
	}
	g.checkAllAreNeeded(t, w, victims)
	switch {
	case len(victims) == 0:
		kinds["waits"]++
	case g.alike:
		kinds["preempts, alike"]++
	default:
		kinds["preempts, mixed"]++
	}
}

func (w *world) member(name string) *v1.Pod {
	return w.waiting[slices.IndexFunc(w.waiting, func(p *v1.Pod) bool { return p.Name == name })]
}

// checkWhoGoes: nobody of the gang's priority or above, and groups of mode all as a whole.
func (g *gang) checkWhoGoes(t *rapid.T, w *world, victims map[string]bool) string {
	kind := "pods go"
	for _, p := range w.pods {
		if victims[p.Name] && (*p.Spec.Priority >= g.priority || p.DeletionTimestamp != nil) {
			t.Fatalf(
				"%s of priority %d must go for a gang of priority %d (or is going already)\n%s",
				p.Name,
				*p.Spec.Priority,
				g.priority,
				w.describe(p),
			)
		}
		for _, q := range w.pods {
			if together(w, p, q) && p != q && q.DeletionTimestamp == nil && p.DeletionTimestamp == nil {
				if kind = "a whole group goes"; victims[p.Name] != victims[q.Name] {
					t.Fatalf(
						"%s and %s are disrupted together, and not both are victims of %v\n%s",
						p.Name,
						q.Name,
						victims,
						w.describe(p),
					)
				}
			}
		}
	}
	return kind
}

// together says whether the pods are disrupted together.
func together(w *world, p, q *v1.Pod) bool {
	if p.Spec.SchedulingGroup == nil || q.Spec.SchedulingGroup == nil ||
		*p.Spec.SchedulingGroup.PodGroupName != *q.Spec.SchedulingGroup.PodGroupName {
		return false
	}
	return slices.ContainsFunc(w.groups, func(o *schedulingv1beta1.PodGroup) bool {
		return o.Name == *p.Spec.SchedulingGroup.PodGroupName && o.Spec.DisruptionMode != nil
	})
}

// room is the cpu, in thousandths, and the number of pods that nodes have left for the gang, by node.
func (g *gang) room(w *world, gone map[string]bool) map[string]*[2]int64 {
	room := map[string]*[2]int64{}
	for _, n := range w.nodes {
		if !n.Spec.Unschedulable {
			room[n.Name] = &[2]int64{n.Status.Allocatable.Cpu().MilliValue(), n.Status.Allocatable.Pods().Value()}
		}
	}
	take := func(p *v1.Pod, node string) {
		if r := room[node]; r != nil {
			r[0] -= p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			r[1]--
		}
	}
	for _, p := range w.pods {
		if !gone[p.Name] && p.DeletionTimestamp == nil {
			take(p, p.Spec.NodeName)
		}
	}
	for _, p := range w.waiting {
		if p.Status.NominatedNodeName != "" && *p.Spec.Priority >= g.priority {
			take(p, p.Status.NominatedNodeName)
		}
	}
	return room
}

// places counts how many members would fit if all were like the first.
func (g *gang) places(w *world, gone map[string]bool) (n int64) {
	cpu := g.members[0].Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	for _, r := range g.room(w, gone) {
		n += max(0, min(r[0]/cpu, r[1]))
	}
	return n
}

// checkAllAreNeeded: with one of the victims' targets staying, the gang does not fit any more.
func (g *gang) checkAllAreNeeded(t *rapid.T, w *world, victims map[string]bool) {
	for _, p := range w.pods {
		if !victims[p.Name] {
			continue
		}
		fewer := maps.Clone(victims)
		for _, q := range w.pods {
			if p == q || together(w, p, q) {
				delete(fewer, q.Name)
			}
		}
		if g.alike && g.places(w, fewer) >= int64(g.min) || !g.alike && g.fitsOneByOne(t, w, fewer) {
			t.Fatalf("%v are victims, but without %s the gang fits just as well\n%s", victims, p.Name, w.describe(p))
		}
	}
}

// checkNothingToDo: either the gang needs no victims, or there are none that would do.
func (g *gang) checkNothingToDo(t *rapid.T, w *world) string {
	if g.alike && g.places(w, nil) >= int64(g.min) || !g.alike && g.fitsOneByOne(t, w, nil) {
		return "would fit"
	}
	all := map[string]bool{}
	for _, p := range w.pods {
		spared := slices.ContainsFunc(
			w.pods,
			func(q *v1.Pod) bool { return together(w, p, q) && *q.Spec.Priority >= g.priority },
		)
		all[p.Name] = *p.Spec.Priority < g.priority && !spared
	}
	if g.alike && g.places(w, all) >= int64(g.min) || !g.alike && g.fitsOneByOne(t, w, all) {
		t.Fatalf("nothing is proposed, but with %v gone the gang fits\n%s", all, w.describe(g.members[0]))
	}
	return "not helpful"
}

// fitsOneByOne places members of the gang, one after the other as an attempt would, with the given pods gone.
func (g *gang) fitsOneByOne(t *rapid.T, w *world, gone map[string]bool) bool {
	must, ctx := mustOf(t), framework.WithoutLogger(context.Background())
	r := w.profile.Handle().Rehearse("", nil)
	defer r.End()
	for _, p := range w.pods {
		if gone[p.Name] || p.DeletionTimestamp != nil {
			must(r.RemovePod(w.state.Pods().Get(p.UID).Info()))
		}
	}
	placed := 0
	for _, p := range g.members {
		if node := r.Place(ctx, p).Node; node != "" && placed < g.min {
			must(r.AddPod(w.state.Pods().Get(p.UID).InfoOn(node)))
			placed++
		}
	}
	return placed == g.min
}
