package cluster

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// partsState is a state with a PodGroup of Volcano.
func partsState(t *testing.T, minimum int32, tasks map[string]int32) testState {
	t.Helper()
	s := newState(t)
	if _, err := s.Upsert(eventlog.VolcanoPodGroups, &volcano.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"},
		Spec:       volcano.PodGroupSpec{MinMember: minimum, MinTaskMember: tasks},
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// taskPod is a member of a task.
func taskPod(name, task string) *v1.Pod {
	p := podOf(name, 1)
	p.Annotations = map[string]string{volcano.PodGroupAnnotation: "g"}
	p.Labels = map[string]string{volcano.TaskLabel: task}
	return p
}

// A task's name is quoted and cut in messages.
func TestNamesOfTasksAreQuoted(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, name := range []string{"a\x1b[2Jb", long} {
		s := partsState(t, 1, map[string]int32{name: -1})
		why := s.Gangs().Named("default", "g").Refusal()
		if strings.ContainsRune(why, '\x1b') || strings.Contains(why, long) ||
			!strings.Contains(why, `spec.minTaskMember["`) {
			t.Errorf("the refusal is %q", why)
		}
	}
}

// naiveParts reports whether every choice of members that brings the gang to its minimum has enough of each task. Only
// pods without a node can be chosen here.
func naiveParts(minimum int, tasks map[string]int32, placed, open []string) bool {
	lacking := minimum - len(placed)
	if lacking <= 0 || len(open) < lacking {
		return true
	}
	for chosen := range 1 << len(open) {
		of, n := map[string]int32{}, 0
		for _, task := range placed {
			of[task]++
		}
		for i, task := range open {
			if chosen&(1<<i) != 0 {
				of[task]++
				n++
			}
		}
		if n != lacking {
			continue
		}
		for task, least := range tasks {
			if of[task] < least {
				return false
			}
		}
	}
	return true
}

// Parts are kept if no choice of members would break them, found here by trying all choices, wherever members are, and
// also in a state that is restored.
func TestPartsEqualAllChoices(t *testing.T) {
	tasks := map[string]int32{"ps": 1, "worker": 2, "none": 0}
	kinds := [...]string{"ps", "worker", "other"}
	for code := range 3 * 3 * 3 * 3 * 3 {
		for placed := range 1 << 5 {
			s := partsState(t, 4, tasks)
			s.node("n1", 100)
			var on, open []string
			for i, c := 0, code; i < 5; i, c = i+1, c/3 {
				p := taskPod(fmt.Sprint("p", i), kinds[c%3])
				if placed&(1<<i) != 0 {
					p.Spec.NodeName = "n1"
					on = append(on, kinds[c%3])
				} else {
					open = append(open, kinds[c%3])
				}
				s.pod(p)
			}
			g := s.Gangs().Named("default", "g")
			if want := naiveParts(4, tasks, on, open); want != (g.Refusal() == "") {
				t.Fatalf("on nodes %v, not yet %v: the refusal is %q", on, open, g.Refusal())
			}
			if code%20 != 0 {
				continue
			}
			form, err := s.AppendState(nil)
			if err != nil {
				t.Fatal(err)
			}
			again := New()
			if err := again.Restore(canonical.NewReader(form)); err != nil {
				t.Fatal(err)
			}
			if got := again.Gangs().Named("default", "g").Refusal(); got != g.Refusal() {
				t.Fatalf("on nodes %v, not yet %v: restored it is %q, was %q", on, open, got, g.Refusal())
			}
		}
	}
}

// Members move between nodes and back, begin to be deleted and end well; the memo of the refusal follows.
func TestPartsFollowTheirMembers(t *testing.T) {
	s := partsState(t, 3, map[string]int32{"master": 1, "worker": 2})
	s.node("n1", 100)
	g := s.Gangs().Named("default", "g")
	refused := func(when string, want bool) {
		t.Helper()
		if got := g.Refusal() != ""; got != want {
			t.Errorf("%s: refused is %v: %s", when, got, g.Refusal())
		}
	}
	place := func(p *v1.Pod) *v1.Pod {
		p = p.DeepCopy()
		p.Spec.NodeName = "n1"
		s.pod(p)
		return p
	}
	master, a, b := taskPod("master", "master"), taskPod("a", "worker"), taskPod("b", "worker")
	for _, p := range []*v1.Pod{master, a, b, taskPod("c", "worker")} {
		s.pod(p)
	}
	refused("with a worker more than needed", true)
	gone := s.Pods().Get("c")
	if _, err := s.DeletePod(gone.Object.UID); err != nil {
		t.Fatal(err)
	}
	refused("with as many as needed", false)
	master = place(master)
	place(a)
	place(b)
	s.pod(taskPod("c", "worker"))
	refused("with its minimum on nodes", false)
	s.Evicting(s.Pods().Get("a"))
	refused("a worker is asked to go", false)
	s.Staying(s.Pods().Get("a"))
	s.pod(taskPod("master2", "master"))
	leaving := master.DeepCopy()
	leaving.DeletionTimestamp = new(metav1.Now())
	s.pod(leaving)
	refused("the master leaves, and a worker may take its place", true)
	if !g.RefusedForParts() {
		t.Error("it is not said that its minimum is known")
	}
	if changed := s.TakeChanges().Judged; len(changed) != 1 || changed[0] != g {
		t.Errorf("told are %v", changed)
	}
	if changed := s.TakeChanges().Judged; len(changed) != 0 {
		t.Errorf("told again are %v", changed)
	}
	s.Succeeded("a")
	if _, err := s.DeletePod("a"); err != nil {
		t.Fatal(err)
	}
	refused("one ended well, of whatever task", false)
}

// An object may have tens of thousands of parts, too many to compare in pairs in a test's time.
func TestManyPartsAreReadAndJudged(t *testing.T) {
	const many = 200_000 // the square of it takes a minute and more
	group := &kai.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}}
	for i := range many {
		part := kai.SubGroup{Name: fmt.Sprint(i), MinMember: new(int32(i % 2))}
		group.Spec.SubGroups = append(group.Spec.SubGroups, part)
	}
	s := newState(t)
	if _, err := s.Upsert(eventlog.KAIPodGroups, group); err != nil {
		t.Fatal(err)
	}
	g := s.Gangs().Named("default", "g")
	for i := range 50 {
		p := podOf(fmt.Sprint("p", i), 1)
		p.Annotations = map[string]string{kai.PodGroupAnnotation: "g"}
		p.Labels = map[string]string{kai.SubGroupLabel: fmt.Sprint(i)}
		s.pod(p)
		g.judged = false
		if why := g.Refusal(); why != "" {
			t.Fatal(why)
		}
	}
}
