package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/restorecheck"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

const resizeProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
featureGates:
  InPlacePodVerticalScalingSchedulerPreemption: true
`

// TestAResizeEvictsWhatItNeedsOnItsNodeAndNothingElse plays generated histories of pods that are resized on their
// nodes. It compares every Decision on a resize with a count, and the queue with the pods that await a resize.
func TestAResizeEvictsWhatItNeedsOnItsNodeAndNothingElse(t *testing.T) {
	evicting, fitting := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := transcripts.New(t)
		p.KeepBinds = rapid.Bool().Draw(t, "binds are out")
		p.Configure(resizeProfile)
		p.Step("node n0 cpu=6 pods=5")
		p.Step("node n1 cpu=4 pods=3")
		p.Step("group ml/g min=2")
		for range rapid.IntRange(5, 25).Draw(t, "steps") {
			resizeStep(t, p)
		}
		entries := p.Entries()
		e, f := checkResizes(t, entries)
		evicting, fitting = evicting+e, fitting+f
		restorecheck.New(transcripts.Registry(), t.Fatalf).Play(entries, 1, 5)
	})
	if evicting < 20 || fitting < 20 {
		t.Errorf("only %d Decisions evicted pods, and %d found that a resize fits", evicting, fitting)
	}
}

// resizeStep has one thing happen.
func resizeStep(t *rapid.T, p *transcripts.Player) {
	name := fmt.Sprintf("ml/p%d", rapid.IntRange(0, 6).Draw(t, "pod"))
	cpu := rapid.IntRange(1, 5).Draw(t, "cpu")
	known := p.Machine().Cluster().Pods().Named("ml", name[3:])
	if known == nil {
		line := fmt.Sprintf("pod %s cpu=%d priority=%d", name, (cpu+1)/2, rapid.IntRange(1, 3).Draw(t, "priority"))
		if rapid.IntRange(0, 4).Draw(t, "member") == 0 {
			line = fmt.Sprintf("pod %s cpu=1 priority=2 group=g", name)
		}
		if rapid.IntRange(0, 4).Draw(t, "pending") > 0 {
			line += fmt.Sprintf(" node=n%d", rapid.IntRange(0, 1).Draw(t, "node"))
		}
		p.Step(line)
		return
	}
	switch what := rapid.SampledFrom([]string{"resize", "resize", "resize", "resized", "delete", "terminate", "advance",
		"epoch", "node"}).Draw(t, "what"); {
	case what == "delete":
		p.Step("delete pods " + name)
	case what == "advance":
		p.Step("advance 11s")
	case what == "epoch":
		p.Configure(rapid.SampledFrom([]string{resizeProfile, resizeProfile, ""}).Draw(t, "configuration"))
	case what == "node":
		p.Step(fmt.Sprintf("node n1 cpu=%d pods=3", cpu))
	case known.Stage != cluster.Bound || known.Object.Spec.NodeName == "":
	case what == "resize":
		p.Step(fmt.Sprintf("resize %s cpu=%d deferred", name, cpu))
	default:
		p.Step(what + " " + name)
	}
}

// checkResizes applies the entries and checks the Decisions on resizes, and who is in the queue for one. It returns how
// many Decisions had pods evicted, and how many found that a resize fits.
func checkResizes(t *rapid.T, entries []eventlog.Entry) (evicting, fitting int) {
	m := scheduler.New(transcripts.Registry())
	gate := false
	for _, e := range entries {
		d, _ := e.Payload.(*eventlog.Decision)
		if d != nil && m.Cluster().Pods().Get(d.UID).Stage == cluster.Bound && d.Outcome != eventlog.Evicted {
			checkResize(t, m, d)
			if len(d.Victims) > 0 {
				evicting++
			}
			if d.Feasible > 0 {
				fitting++
			}
		}
		if err := m.Apply(e); err != nil {
			t.Fatal(err)
		}
		if epoch, ok := e.Payload.(*eventlog.EpochStarted); ok {
			gate = strings.Contains(string(epoch.Config), names.DeferredPodScheduling)
		}
		for _, p := range m.Cluster().Pods().All() {
			wanted := gate && p.Stage == cluster.Bound && p.Object.Spec.NodeName != "" &&
				len(p.Object.Status.Conditions) > 0 && p.Object.DeletionTimestamp == nil &&
				m.AskedBy(p.Object.UID, scheduler.Evict) == 0
			entity := m.Queue().Find(p.Object.UID)
			if got := entity != nil && entity.Resize(); got != wanted {
				t.Fatalf("entry %d: pod %s is in the queue for a resize: %t, want %t", e.Seq, p.Object.Name, got,
					wanted)
			}
		}
	}
	return evicting, fitting
}

// checkResize compares a Decision, about to be applied, with a count.
func checkResize(t *rapid.T, m *scheduler.Machine, d *eventlog.Decision) {
	own := m.Cluster().Pods().Get(d.UID)
	if d.Outcome != eventlog.Unschedulable || d.Group != "" || d.Node != "" || d.Nominated != "" {
		t.Fatalf("the Decision on the resize of %s is %+v", d.Name, d)
	}
	offers := m.Cluster().Nodes().Object(own.Node).Status.Allocatable
	room := offers.Cpu().MilliValue() - own.Object.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	slots := int(offers.Pods().Value()) - 1
	var lower []*cluster.Pod
	blurred := false // what leaves or is expected is no matter of counting
	for _, p := range m.Cluster().Pods().All() {
		uid := p.Object.UID
		blurred = blurred || m.NominatedNode(uid) == own.Node && p.Stage == cluster.Pending
		if p.Node != own.Node || p == own {
			continue
		}
		room, slots = room-counted(p), slots-1
		blurred = blurred || p.Object.DeletionTimestamp != nil || m.AskedBy(uid, scheduler.Evict) > 0
		if priorityOf(p) < priorityOf(own) && (own.Group == nil || p.Group != own.Group) {
			lower = append(lower, p)
		}
	}
	for _, uid := range slices.Concat(d.Victims, d.Rejected) {
		if !slices.Contains(lower, m.Cluster().Pods().Get(uid)) {
			t.Fatalf("%s is a victim of the resize of %s", uid, d.Name)
		}
	}
	if blurred {
		return
	}
	fits := room >= 0 && slots >= 0
	if fits != (d.Feasible == 1) || fits && len(d.Victims) > 0 {
		t.Fatalf("the resize of %s fits by counting: %t; decided is %+v", d.Name, fits, d)
	}
	if fits {
		return
	}
	without := func(gone []*cluster.Pod) bool {
		left := room
		for _, p := range gone {
			left += counted(p)
		}
		return left >= 0 && slots+len(gone) >= 0
	}
	var victims []*cluster.Pod
	for _, uid := range slices.Concat(d.Victims, d.Rejected) {
		victims = append(victims, m.Cluster().Pods().Get(uid))
	}
	if without(lower) != (len(victims) > 0) || len(victims) > 0 && !without(victims) {
		t.Fatalf("the resize of %s would fit without all that may go: %t; evicted are %v", d.Name, without(lower),
			d.Victims)
	}
	for i := range victims {
		if without(slices.Concat(victims[:i], victims[i+1:])) {
			t.Fatalf("%s need not go for the resize of %s", victims[i].Object.Name, d.Name)
		}
	}
}

// counted is the amount of a pod on its node: the greater of its request and its allocation.
func counted(p *cluster.Pod) int64 {
	n := p.Object.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	for i := range p.Object.Status.ContainerStatuses {
		n = max(n, p.Object.Status.ContainerStatuses[i].AllocatedResources.Cpu().MilliValue())
	}
	return n
}

func priorityOf(p *cluster.Pod) int32 { return ptr.Deref(p.Object.Spec.Priority, 0) }
