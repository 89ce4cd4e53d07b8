package victims_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// yaml returns a small random world: two or three nodes of four CPUs, pods of low priority that fill them, and later
// pods and gangs of higher priority. A budget protects some of the pods.
func yaml(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 7))
	var b strings.Builder
	for i := range 2 + r.IntN(2) {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Node\nmetadata: {name: n%d}\n"+
			"status: {allocatable: {cpu: \"4\", pods: \"10\"}}\n", i)
	}
	fmt.Fprintf(&b, "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: "+
		"{name: keep, namespace: default}\nspec: {selector: {matchLabels: {app: kept}}}\n"+
		"status: {disruptionsAllowed: %d}\n", r.IntN(2))
	for i := range 4 + r.IntN(6) {
		app := "free"
		if r.IntN(3) == 0 {
			app = "kept"
		}
		b.WriteString(pod(fmt.Sprintf("low-%d", i), r.IntN(3), fmt.Sprintf("%ds", i), 1+r.IntN(3), app, ""))
	}
	for i := range 1 + r.IntN(3) {
		b.WriteString(pod(fmt.Sprintf("high-%d", i), 5+i, fmt.Sprintf("%ds", 100+10*i), 1+r.IntN(4), "free", ""))
	}
	members := 2 + r.IntN(2)
	fmt.Fprintf(&b, "---\napiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: "+
		"{name: gang, namespace: default, annotations: {rollcall.dev/arrival: 200s}}\n"+
		"spec: {priority: 9, schedulingPolicy: {gang: {minCount: %d}}}\n", members)
	for i := range members {
		b.WriteString(pod(fmt.Sprintf("member-%d", i), 9, "200s", 1+r.IntN(3), "free", "gang"))
	}
	return b.String()
}

func pod(name string, priority int, arrival string, cpu int, app, gang string) string {
	group := ""
	if gang != "" {
		group = "\n  schedulingGroup: {podGroupName: " + gang + "}"
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: default
  labels: {app: %s}
  annotations: {rollcall.dev/arrival: %s, rollcall.dev/duration: 1h}
spec:
  priority: %d%s
  containers: [{name: c, resources: {requests: {cpu: "%d"}}}]
`, name, app, arrival, priority, group, cpu)
}

// recorded simulates a world and returns the entries of its log.
func recorded(t *testing.T, yaml string) []eventlog.Entry {
	t.Helper()
	nodes, work, err := workload.Parse("workload.yaml", strings.NewReader(yaml))
	if err != nil {
		t.Fatal(err)
	}
	world, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	log := eventlog.NewMemory()
	eng, err := engine.Open(t.Context(), log, workload.Start,
		engine.Options{Registry: plugins.NewRegistry(), Config: config, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := world.Run(t.Context(), sim.Stepping(eng), func(sim.Progress) {}); err != nil {
		t.Fatal(err)
	}
	var entries []eventlog.Entry
	for e, err := range log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// naive reads entries and counts CPUs. It knows these worlds only, and shares no code with the audit.
type naive struct {
	free map[string]int64 // by node
	pods map[types.UID]*naivePod
}

type naivePod struct {
	name, gang, node string
	nominated        string
	kept             bool
	priority         int32
	cpu              int64
	runs, leaves     bool
}

func readNaively(entries []eventlog.Entry) *naive {
	n := &naive{free: map[string]int64{}, pods: map[types.UID]*naivePod{}}
	groups := map[string]int32{}
	for _, e := range entries {
		switch p := e.Payload.(type) {
		case *eventlog.Upserted:
			switch o := p.Object.(type) {
			case *v1.Node:
				n.free[o.Name] = o.Status.Allocatable.Cpu().Value()
			case *schedulingv1beta1.PodGroup:
				groups[o.Name] = *o.Spec.Priority
			case *v1.Pod:
				n.upserted(o, groups)
			}
		case *eventlog.Deleted:
			n.put(n.pods[p.UID], "")
			delete(n.pods, p.UID)
		case *eventlog.BindResult:
			n.pods[p.UID].runs = true
		case *eventlog.Decision:
			n.decided(p)
		}
	}
	return n
}

func (n *naive) upserted(o *v1.Pod, groups map[string]int32) {
	if n.pods[o.UID] == nil {
		x := &naivePod{name: o.Namespace + "/" + o.Name, priority: *o.Spec.Priority, kept: o.Labels["app"] == "kept",
			cpu: o.Spec.Containers[0].Resources.Requests.Cpu().Value()}
		if g := o.Spec.SchedulingGroup; g != nil {
			x.gang, x.priority = *g.PodGroupName, groups[*g.PodGroupName]
		}
		n.pods[o.UID] = x
	}
	if o.Status.Phase == v1.PodSucceeded {
		n.put(n.pods[o.UID], "")
		delete(n.pods, o.UID)
	}
}

func (n *naive) decided(d *eventlog.Decision) {
	if d.Node != "" {
		n.put(n.pods[d.UID], d.Node)
	}
	for _, uid := range d.Rejected {
		n.put(n.pods[uid], "")
	}
	for _, uid := range d.Victims {
		n.pods[uid].leaves = true
	}
	if d.Outcome == eventlog.Unschedulable {
		n.pods[d.UID].nominated = d.Nominated
	}
	for _, x := range d.Nominations {
		n.pods[x.UID].nominated = x.Node
	}
}

// put moves a pod to a node, "" for none.
func (n *naive) put(p *naivePod, node string) {
	if p == nil {
		return
	}
	if p.node != "" {
		n.free[p.node] += p.cpu
	}
	if p.node = node; node != "" {
		n.free[node] -= p.cpu
		p.nominated = ""
	}
}

// fits reports whether the pods that a Decision keeps nodes for fit there without some pods.
func (n *naive) fits(d *eventlog.Decision, gone []types.UID) bool {
	own := n.pods[d.UID]
	places := map[types.UID]string{}
	if d.Nominated != "" {
		places[d.UID] = d.Nominated
	}
	for _, x := range d.Nominations {
		if x.Node != "" {
			places[x.UID] = x.Node
		}
	}
	for node, free := range n.free {
		for uid, p := range n.pods {
			ours := own.gang != "" && p.gang == own.gang
			switch {
			case p.node == node && (slices.Contains(gone, uid) || own.gang != "" && p.leaves || ours && !p.runs):
				free += p.cpu
			case p.node == "" && p.nominated == node && uid != d.UID && !ours && p.priority >= own.priority:
				free -= p.cpu
			}
			if places[uid] == node {
				free -= p.cpu
			}
		}
		wanted := false
		for _, at := range places {
			wanted = wanted || at == node
		}
		if wanted && free < 0 {
			return false
		}
	}
	return true
}

// faults returns the findings that the audit must have about a Decision with some victims, as "Rule name".
func (n *naive) faults(d *eventlog.Decision, allowed int) (found []string) {
	own := n.pods[d.UID]
	protected := 0
	for _, uid := range d.Victims {
		v := n.pods[uid]
		if v.priority >= own.priority {
			found = append(found, "Policy pod "+v.name)
		}
		if v.kept {
			protected++
		}
	}
	if protected > allowed {
		found = append(found, "Budget ")
	}
	if !n.fits(d, d.Victims) {
		return append(found, "TooFew ")
	}
	needless := false
	for _, uid := range d.Victims {
		if n.fits(d, except(d.Victims, uid)) {
			needless = true
			found = append(found, "Needless pod "+n.pods[uid].name)
		}
	}
	if needless {
		return found
	}
	for _, uid := range d.Victims {
		if n.exchangeable(d, uid, protected, allowed) {
			found = append(found, "LessImportant pod "+n.pods[uid].name)
		}
	}
	return found
}

// exchangeable reports whether a pod of lower priority could go in place of a victim.
func (n *naive) exchangeable(d *eventlog.Decision, victim types.UID, protected, allowed int) bool {
	own, v := n.pods[d.UID], n.pods[victim]
	for uid, p := range n.pods {
		kept := protected
		if v.kept {
			kept--
		}
		if p.kept {
			kept++
		}
		if !p.runs && p.node == "" || p.node == "" || slices.Contains(d.Victims, uid) || p.leaves || uid == d.UID ||
			own.gang != "" && p.gang == own.gang || p.priority >= own.priority || kept > max(allowed, protected) {
			continue
		}
		less := p.priority < v.priority || p.priority == v.priority && p.gang == "" && v.gang == "" && p.name > v.name
		if less && n.fits(d, append(except(d.Victims, victim), uid)) {
			return true
		}
	}
	return false
}

func except(uids []types.UID, uid types.UID) []types.UID {
	return slices.DeleteFunc(slices.Clone(uids), func(o types.UID) bool { return o == uid })
}

// allowedBy returns the disruptions that the world's budget allows.
func allowedBy(yaml string) int {
	if strings.Contains(yaml, "disruptionsAllowed: 1") {
		return 1
	}
	return 0
}
