package coscheduling

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

// world is a cluster with one node of 4 cores, its waiting pods, and the handle that shows both.
type world struct {
	fwk.Handle
	*cluster.State
	t       *testing.T
	waiting []*waitingPod
	// heldByOthers: another Permit plugin holds the pod whose cycle is running.
	heldByOthers bool
	plugin       *Coscheduling
}

// waitingPod writes down its calls.
type waitingPod struct {
	fwk.WaitingPod
	pod  *v1.Pod
	told string
}

func (w *waitingPod) GetPod() *v1.Pod             { return w.pod }
func (w *waitingPod) GetPendingPlugins() []string { return []string{Name} }
func (w *waitingPod) Allow(plugin string)         { w.told += "allowed by " + plugin }
func (w *waitingPod) Reject(plugin, _ string) bool {
	w.told += "rejected by " + plugin
	return true
}

func (w *world) Gangs() framework.Gangs { return w }

// GroupOf is the state's.
func (w *world) GroupOf(pod *v1.Pod) *cluster.Group { return w.State.Gangs().OfPod(pod) }

func (w *world) HeldByOthers() bool { return w.heldByOthers }

// Cleared counts the members that are held.
func (w *world) Cleared(g *cluster.Group) int { return g.Waiting() }

// LacksTogether finds nothing lacking for composites.
func (w *world) LacksTogether(*cluster.Composite) (cluster.Shortfall, bool) {
	return cluster.Shortfall{}, false
}

// Domain limits no gang to a domain.
func (w *world) Domain(*cluster.Group) framework.Domain { return framework.Domain{} }

// Left counts the members of the group that are pending.
func (w *world) Left(g *cluster.Group) int { return g.Ready() }

func (w *world) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	for _, p := range w.waiting {
		if p.pod.UID == uid {
			return p
		}
	}
	return nil
}

func (w *world) IterateOverWaitingPods(f func(fwk.WaitingPod)) {
	for _, p := range w.waiting {
		f(p)
	}
}

func newWorld(t *testing.T, args string) *world {
	t.Helper()
	w := &world{State: cluster.New(), t: t}
	plugin, err := New(context.Background(), &runtime.Unknown{Raw: []byte(args)}, w)
	if err != nil {
		t.Fatal(err)
	}
	w.plugin = plugin.(*Coscheduling)
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU:  resource.MustParse("4"),
		v1.ResourcePods: resource.MustParse("10"),
	}
	_, err = w.UpsertNode(n)
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// group declares ml/g.
func (w *world) group(minimum, seconds int32) {
	g := &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "g"}}
	g.Spec.MinMember, g.Spec.ScheduleTimeoutSeconds = minimum, &seconds
	_, err := w.Upsert(eventlog.XPodGroups, g)
	w.must(err)
}

// member adds a pod of 1 core to the group, in the stage given.
func (w *world) member(name, group string, stage cluster.Stage) *v1.Pod {
	w.t.Helper()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
	if group != "" {
		p.Labels = map[string]string{xscheduling.PodGroupLabel: group}
	}
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}}
	_, err := w.UpsertPod(p)
	w.must(err)
	if stage != cluster.Pending {
		w.must(w.Assume(w.State.Pods().Get(p.UID), "n", stage, nil))
	}
	if stage == cluster.Waiting {
		w.waiting = append(w.waiting, &waitingPod{pod: p})
	}
	return p
}

func (w *world) told() string {
	var told []string
	for _, p := range w.waiting {
		if p.told != "" {
			told = append(told, p.pod.Name+" "+p.told)
		}
	}
	return strings.Join(told, ", ")
}

func statusOf(s *fwk.Status) string {
	return strings.TrimSuffix(fmt.Sprintf("%s: %s", s.Code(), s.Message()), ": ")
}

func TestPreEnqueueWaitsForTheGroupAndItsMinimum(t *testing.T) {
	w := newWorld(t, "{}")
	ctx := context.Background()
	want := func(step string, pod *v1.Pod, want string) {
		t.Helper()
		if got := statusOf(w.plugin.PreEnqueue(ctx, pod)); got != want {
			t.Errorf("%s: got %s, want %s", step, got, want)
		}
	}
	want("a pod of no group", w.member("single", "", cluster.Pending), "Success")
	p := w.member("a", "g", cluster.Pending)
	want("no group yet", p, "UnschedulableAndUnresolvable: pod group ml/g does not exist yet")
	w.group(3, 0)
	want("one of three", p, "UnschedulableAndUnresolvable: pod group ml/g has 1 of the 3 members it needs")
	w.member("b", "g", cluster.Waiting)
	want("a held one counts", p, "UnschedulableAndUnresolvable: pod group ml/g has 2 of the 3 members it needs")
	gated := w.member("c", "g", cluster.Pending).DeepCopy()
	want("three", p, "Success")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "gate"}}
	_, err := w.UpsertPod(gated)
	w.must(err)
	want(
		"a gated one does not count",
		p,
		"UnschedulableAndUnresolvable: pod group ml/g has 2 of the 3 members it needs",
	)
	w.member("d", "g", cluster.Binding)
	want("one that is being bound does", p, "Success")
}

// entity is an entity for QueueSort.
type entity struct {
	fwk.QueuedEntityInfo
	priority      int32
	queued, first int64 // in seconds; first 0 means none
}

func (e entity) GetPriority() int32      { return e.priority }
func (e entity) GetTimestamp() time.Time { return time.Unix(e.queued, 0) }
func (e entity) GetInitialAttemptTimestamp() *time.Time {
	if e.first == 0 {
		return nil
	}
	at := time.Unix(e.first, 0)
	return &at
}

func TestLessOrdersByPriorityThenByFirstQueued(t *testing.T) {
	w := newWorld(t, "{}")
	want := []entity{
		{priority: 9, queued: 50},
		{priority: 1, queued: 40, first: 10},
		{priority: 1, queued: 20},
		{priority: 1, queued: 5, first: 30},
		{queued: 1},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b entity) int {
		switch {
		case w.plugin.Less(a, b):
			return -1
		case w.plugin.Less(b, a):
			return 1
		}
		return 0
	})
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if w.plugin.Less(want[0], want[0]) {
		t.Error("an entity is before itself")
	}
}

func TestPreFilterRefusesAGangThatCannotFit(t *testing.T) {
	cases := []struct {
		name                    string
		minimum                 int32
		pending, waiting, bound int
		want                    string
	}{
		{"there is room", 4, 4, 0, 0, "Skip"},
		{"too little in all", 5, 5, 0, 0, "Unschedulable: pod group ml/g needs 5 cpu for 5 members; 4 free"},
		{"more members than room, but not than the minimum", 4, 6, 0, 0, "Skip"},
		{"some have their nodes", 6, 4, 0, 2, "Unschedulable: pod group ml/g needs 4 cpu for 4 members; 2 free"},
		{"the gang's cycles have begun", 5, 4, 1, 0, "Skip"},
		{"beyond the minimum", 4, 1, 0, 4, "Skip"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "{}")
			w.group(c.minimum, 0)
			for i, stage := range slices.Concat(slices.Repeat([]cluster.Stage{cluster.Binding}, c.bound),
				slices.Repeat([]cluster.Stage{cluster.Waiting}, c.waiting),
				slices.Repeat([]cluster.Stage{cluster.Pending}, c.pending)) {
				w.member(fmt.Sprintf("m%d", i), "g", stage)
			}
			pod := w.State.Pods().Named("ml", fmt.Sprintf("m%d", c.bound+c.waiting+c.pending-1)).Object
			result, status := w.plugin.PreFilter(context.Background(), nil, pod, nil)
			if got := statusOf(status); got != c.want || result != nil {
				t.Errorf("got %s and %v, want %s", got, result, c.want)
			}
		})
	}
	w := newWorld(t, "{}")
	if _, status := w.plugin.PreFilter(
		context.Background(),
		nil,
		w.member("single", "", cluster.Pending),
		nil,
	); !status.IsSkip() {
		t.Errorf("a pod of no group: %s", statusOf(status))
	}
}

func TestAmountsAreWrittenAsPeopleWriteThem(t *testing.T) {
	for _, c := range []struct {
		name v1.ResourceName
		n    int64
		want string
	}{{v1.ResourceCPU, 2500, "2500m"}, {v1.ResourceCPU, 3000, "3"}, {v1.ResourceMemory, 3 << 30, "3Gi"},
		{"nvidia.com/gpu", 8, "8"}} {
		if got := amount(c.name, c.n); got != c.want {
			t.Errorf("%d of %s is %s, want %s", c.n, c.name, got, c.want)
		}
	}
}

func TestPermitHoldsMembersUntilTheMinimumIsThere(t *testing.T) {
	cases := []struct {
		name           string
		args           string
		minimum        int32
		seconds        int32
		waiting, bound int
		held           bool // by another plugin
		want           string
		told           string
	}{
		{"the first of three", "{}", 3, 0, 0, 0, false, "Wait for 1m0s", ""},
		{"as long as the arguments say", `{"permitWaitingTimeSeconds": 7}`, 3, 0, 1, 0, false, "Wait for 7s", ""},
		{"as long as the group says", `{"permitWaitingTimeSeconds": 7}`, 3, 90, 1, 0, false, "Wait for 1m30s", ""},
		{"the last of three", "{}", 3, 0, 2, 0, false, "Success for 0s",
			"m0 allowed by Coscheduling, m1 allowed by Coscheduling"},
		{"bound members count", "{}", 3, 0, 1, 1, false, "Success for 0s", "m1 allowed by Coscheduling"},
		{"beyond the minimum", "{}", 1, 0, 0, 1, false, "Success for 0s", ""},
		{"the first of three, which another plugin holds", "{}", 3, 0, 0, 0, true, "Wait for 1m0s", ""},
		{
			"the last of three waits for another plugin, as long as that one says",
			"{}",
			3,
			0,
			2,
			0,
			true,
			"Wait for 15m0s",
			"",
		},
		{"the minimum is there without the one that another plugin holds", "{}", 2, 0, 2, 0, true, "Success for 0s",
			"m0 allowed by Coscheduling, m1 allowed by Coscheduling"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.args)
			w.heldByOthers = c.held
			w.group(c.minimum, c.seconds)
			w.member("stranger", "h", cluster.Waiting)
			for i, stage := range slices.Concat(slices.Repeat([]cluster.Stage{cluster.Binding}, c.bound),
				slices.Repeat([]cluster.Stage{cluster.Waiting}, c.waiting)) {
				w.member(fmt.Sprintf("m%d", i), "g", stage)
			}
			status, timeout := w.plugin.Permit(context.Background(), nil, w.member("now", "g", cluster.Pending), "n")
			if got := fmt.Sprintf("%s for %s", statusOf(status), timeout); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if got := w.told(); got != c.told {
				t.Errorf("waiting pods were told %q, want %q", got, c.told)
			}
		})
	}
	w := newWorld(t, "{}")
	if status, _ := w.plugin.Permit(
		context.Background(),
		nil,
		w.member("single", "", cluster.Pending),
		"n",
	); !status.IsSuccess() {
		t.Errorf("a pod of no group: %s", statusOf(status))
	}
}

func TestPostFilterReleasesHeldMembersOnlyIfTheGangCannotBeCompleted(t *testing.T) {
	cases := []struct {
		name           string
		group          string
		minimum        int32
		waiting, bound int
		want           string
		told           string
	}{
		{"nothing is held", "g", 3, 0, 0, "Unschedulable", ""},
		{
			"one is held",
			"g",
			3,
			1,
			0,
			"Unschedulable: pod group ml/g placed 1 of the 3 members it needs",
			"m0 rejected by Coscheduling",
		},
		{
			"bound members count as placed",
			"g",
			4,
			1,
			2,
			"Unschedulable: pod group ml/g placed 3 of the 4 members it needs",
			"m2 rejected by Coscheduling",
		},
		{"the gang is complete without it", "g", 2, 1, 1, "Unschedulable", "m1 allowed by Coscheduling"},
		{"beyond the minimum", "g", 1, 0, 2, "Unschedulable", ""},
		{"a pod of no group", "", 3, 2, 0, "Unschedulable", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "{}")
			w.group(c.minimum, 0)
			w.member("stranger", "h", cluster.Waiting)
			for i, stage := range slices.Concat(slices.Repeat([]cluster.Stage{cluster.Binding}, c.bound),
				slices.Repeat([]cluster.Stage{cluster.Waiting}, c.waiting)) {
				w.member(fmt.Sprintf("m%d", i), "g", stage)
			}
			result, status := w.plugin.PostFilter(
				context.Background(),
				nil,
				w.member("now", c.group, cluster.Pending),
				nil,
			)
			if got := statusOf(status); got != c.want || result != nil {
				t.Errorf("got %s and %v, want %s", got, result, c.want)
			}
			if got := w.told(); got != c.told {
				t.Errorf("waiting pods were told %q, want %q", got, c.told)
			}
		})
	}
}

func TestUnreserveReleasesTheHeldMembers(t *testing.T) {
	w := newWorld(t, "{}")
	w.group(3, 0)
	w.member("stranger", "h", cluster.Waiting)
	w.member("m0", "g", cluster.Waiting)
	now := w.member("now", "g", cluster.Pending)
	if status := w.plugin.Reserve(context.Background(), nil, now, "n"); !status.IsSuccess() || w.told() != "" {
		t.Errorf("Reserve: %s, and %s", statusOf(status), w.told())
	}
	w.plugin.Unreserve(context.Background(), nil, w.member("single", "", cluster.Pending), "n")
	if got := w.told(); got != "" {
		t.Errorf("for a pod of no group waiting pods were told %q", got)
	}
	w.plugin.Unreserve(context.Background(), nil, now, "n")
	if got, want := w.told(), "m0 rejected by Coscheduling"; got != want {
		t.Errorf("waiting pods were told %q, want %q", got, want)
	}
}

func TestHintsAreAboutGroupsOnly(t *testing.T) {
	w := newWorld(t, "{}")
	w.group(2, 0)
	member, single := w.member("m", "g", cluster.Pending), w.member("single", "", cluster.Pending)
	own := &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "g"}}
	elsewhere := &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "g"}}
	events, err := w.plugin.EventsToRegister(context.Background())
	w.must(err)
	hint := func(r fwk.EventResource, a fwk.ActionType, pod *v1.Pod, obj any) fwk.QueueingHint {
		t.Helper()
		for _, e := range events {
			if e.Event.Resource == r && e.Event.ActionType&a != 0 {
				h, err := e.QueueingHintFn(klog.Logger{}, pod, nil, obj)
				w.must(err)
				return h
			}
		}
		t.Fatalf("%s %v is not registered", r, a)
		return 0
	}
	cases := []struct {
		name   string
		r      fwk.EventResource
		action fwk.ActionType
		pod    *v1.Pod
		obj    any
		want   fwk.QueueingHint
	}{
		{"its group comes", fwk.PodGroup, fwk.Add, member, own, fwk.Queue},
		{"its group changes", fwk.PodGroup, fwk.Update, member, own, fwk.Queue},
		{"a group of the same name elsewhere", fwk.PodGroup, fwk.Update, member, elsewhere, fwk.QueueSkip},
		{"a group, to a pod of none", fwk.PodGroup, fwk.Add, single, own, fwk.QueueSkip},
		{"a pod goes", fwk.AssignedPod, fwk.Delete, member, nil, fwk.Queue},
		{"a pod goes, to a pod of no group", fwk.AssignedPod, fwk.Delete, single, nil, fwk.QueueSkip},
		{"a node comes", fwk.Node, fwk.Add, member, &v1.Node{}, fwk.Queue},
		{"a node has more", fwk.Node, fwk.UpdateNodeAllocatable, member, &v1.Node{}, fwk.Queue},
		{"it wants less", fwk.TargetPod, fwk.UpdatePodScaleDown, member, member, fwk.Queue},
	}
	for _, c := range cases {
		if got := hint(c.r, c.action, c.pod, c.obj); got != c.want {
			t.Errorf("%s: hint is %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSignPodAddsNothing(t *testing.T) {
	w := newWorld(t, "{}")
	if fragments, status := w.plugin.SignPod(
		context.Background(),
		w.member("m", "g", cluster.Pending),
	); len(fragments) > 0 ||
		!status.IsSuccess() {
		t.Errorf("signed %v, %s", fragments, statusOf(status))
	}
}

func TestArgsAreReadStrictly(t *testing.T) {
	cases := []struct {
		name, args string
		wait       time.Duration
		backoff    int64
		percentage int32
		err        string
	}{
		{"none", "{}", time.Minute, 0, 10, ""},
		{"all", `{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"CoschedulingArgs",
			"permitWaitingTimeSeconds":900,"podGroupBackoffSeconds":30,"podGroupRejectPercentage":0}`, 15 * time.Minute, 30, 0, ""},
		{
			"a wait of 0 is the default",
			`{"permitWaitingTimeSeconds":0,"podGroupRejectPercentage":100}`,
			time.Minute,
			0,
			100,
			"",
		},
		{
			"a wait longer than kube-scheduler grants",
			`{"permitWaitingTimeSeconds":9223372036854775807}`,
			15 * time.Minute,
			0,
			10,
			"",
		},
		{
			"a wait below 0",
			`{"permitWaitingTimeSeconds":-1}`,
			0,
			0,
			0,
			"permitWaitingTimeSeconds is -1: want 0 or more",
		},
		{"a backoff below 0", `{"podGroupBackoffSeconds":-1}`, 0, 0, 0, "podGroupBackoffSeconds is -1: want 0 or more"},
		{
			"a share below 0",
			`{"podGroupRejectPercentage":-1}`,
			0,
			0,
			0,
			"podGroupRejectPercentage is -1: want 0 to 100",
		},
		{
			"a share above all",
			`{"podGroupRejectPercentage":101}`,
			0,
			0,
			0,
			"podGroupRejectPercentage is 101: want 0 to 100",
		},
		{"a policy", `{"queuePolicy":"Backfill","backfillHoldSeconds":0}`, time.Minute, 0, 10, ""},
		{"a policy of others", `{"queuePolicy":"FIFO","queuePolicyArgs":{"x":1}}`, time.Minute, 0, 10, ""},
		{"a hold below 0", `{"backfillHoldSeconds":-1}`, 0, 0, 0, "backfillHoldSeconds is -1: want 0 or more"},
		{"misspelt", `{"permitWaitingTime":10}`, 0, 0, 0, `unknown field "permitWaitingTime"`},
		{"of the wrong type", `{"permitWaitingTimeSeconds":"10s"}`, 0, 0, 0, "cannot unmarshal string"},
		{"not JSON", `permit`, 0, 0, 0, "decode CoschedulingArgs"},
		{"something after it", `{} {}`, 0, 0, 0, "decode CoschedulingArgs"},
		{"of another kind", `{"kind":"NodeResourcesFitArgs"}`, 0, 0, 0, `kind is "NodeResourcesFitArgs"`},
		{
			"of another version",
			`{"apiVersion":"kubescheduler.config.k8s.io/v2"}`,
			0,
			0,
			0,
			"want kubescheduler.config.k8s.io/v1",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			args, err := decodeArgs(&runtime.Unknown{Raw: []byte(c.args)})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error is %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if args.permitWaitingTime() != c.wait || *args.PodGroupBackoffSeconds != c.backoff ||
				*args.PodGroupRejectPercentage != c.percentage {
				t.Errorf(
					"waits for %s, backs off for %d s, rejects above %d%%; want %s, %d, %d",
					args.permitWaitingTime(),
					*args.PodGroupBackoffSeconds,
					*args.PodGroupRejectPercentage,
					c.wait,
					c.backoff,
					c.percentage,
				)
			}
		})
	}
	if args, err := decodeArgs(nil); err != nil || args.permitWaitingTime() != time.Minute {
		t.Errorf("no arguments: %v, %v", args, err)
	}
	if _, err := decodeArgs(&v1.Pod{}); err == nil || !strings.Contains(err.Error(), "got a *v1.Pod") {
		t.Errorf("arguments of another type: %v", err)
	}
}

// plainHandle has no view of groups, and no informers to make one.
type plainHandle struct{ fwk.Handle }

func (plainHandle) SharedInformerFactory() informers.SharedInformerFactory { return nil }

// withoutGangs has the method for a view of gangs, and no view.
type withoutGangs struct{ fwk.Handle }

func (withoutGangs) Gangs() framework.Gangs { return nil }

func TestNewNeedsAViewOfGroups(t *testing.T) {
	for _, h := range []fwk.Handle{plainHandle{}, withoutGangs{}} {
		if _, err := New(
			context.Background(),
			nil,
			h,
		); err == nil ||
			!strings.Contains(err.Error(), "offers no view of pod groups") {
			t.Errorf("with a %T: %v", h, err)
		}
	}
	if _, err := New(context.Background(), &runtime.Unknown{Raw: []byte(`{"x":1}`)}, &world{}); err == nil {
		t.Error("made with arguments that it does not know")
	}
}
