package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ktesting "k8s.io/client-go/testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// describe says what an object says that was written.
func describe(obj runtime.Object) string {
	switch o := obj.(type) {
	case *eventsv1.Event:
		line := fmt.Sprintf("event %s %s of %s by %s: %s",
			o.Type, o.Reason, o.Regarding.Name, o.ReportingController, o.Note)
		if o.Series != nil {
			line += fmt.Sprintf(" (%d times)", o.Series.Count)
		}
		return line
	case *schedulingv1beta1.PodGroup:
		var all []string
		for _, c := range o.Status.Conditions {
			all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		return fmt.Sprintf("PodGroup %s %s", o.Name, strings.Join(all, "; "))
	}
	return fmt.Sprintf("%T", obj)
}

// expect compares what was written, in any order.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	left := append([]string(nil), got...)
	for _, line := range want {
		found := false
		for i := range left {
			if left[i] == line {
				left, found = append(left[:i], left[i+1:]...), true
				break
			}
		}
		if !found {
			t.Errorf("not written: %s", line)
		}
	}
	for _, line := range left {
		t.Errorf("written: %s", line)
	}
}

const (
	tooWide            = "0/1 nodes are available: 1 Insufficient cpu."
	tooWideAndCordoned = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
)

func TestAPodWithoutANodeIsToldWhyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.step(node("n1", "4"), pod("wide", "16", "", 0))
		expect(t, w.written(),
			"patch wide/status of uid-wide PodScheduled=False Unschedulable: "+tooWide,
			"create event Warning FailedScheduling of wide by default-scheduler: "+tooWide)
		w.step(cordoned("n2", "16"))
		expect(t, w.written(),
			"patch wide/status of uid-wide PodScheduled=False Unschedulable: "+tooWideAndCordoned,
			"create event Warning FailedScheduling of wide by default-scheduler: "+tooWideAndCordoned)
		w.step(cordoned("n2", "17")) // it is tried again, and nothing is new
		expect(t, w.written(),
			"update event Warning FailedScheduling of wide by default-scheduler: "+tooWideAndCordoned+" (2 times)")
	})
}

func TestOfSeveralThingsOnlyTheLastIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.step(node("n1", "4"), pod("wide", "16", "", 0))
		w.step(cordoned("n2", "16"))
		expect(t, w.written(),
			"patch wide/status of uid-wide PodScheduled=False Unschedulable: "+tooWideAndCordoned,
			"create event Warning FailedScheduling of wide by default-scheduler: "+tooWideAndCordoned)
		if c := w.status.Counts(); c.Replaced != 2 || c.PodStatuses != 1 || c.Events != 1 || c.Waiting != 0 {
			t.Errorf("the counts are %+v", c)
		}
		w.step(cordoned("n2", "17"))
		w.step(node("n3", "16"))
		w.step(bound("wide", "n3")) // its condition is the API server's now
		expect(t, w.written(),
			"update event Warning FailedScheduling of wide by default-scheduler: "+tooWideAndCordoned+" (2 times)",
			"create event Normal Scheduled of wide by default-scheduler: Successfully assigned ml/wide to n3")
	})
}

func TestAGangIsToldAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := podGroup("green", 3)
		w := newWorld(t, group)
		w.step(node("n1", "4"), &eventlog.Upserted{Resource: eventlog.PodGroups, Object: group},
			pod("green-0", "2", "green", 0), pod("green-1", "2", "green", 0), pod("green-2", "16", "green", 0))
		var conditions, groups int
		const why = "update PodGroup green PodGroupInitiallyScheduled=False Unschedulable: 0/1 nodes"
		for _, line := range w.written() {
			switch {
			case strings.HasPrefix(line, "patch green-") &&
				strings.Contains(line, "PodScheduled=False Unschedulable: "):
				conditions++
			case strings.HasPrefix(line, why):
				groups++
			case !strings.HasPrefix(line, "create event Warning FailedScheduling of green-"):
				t.Errorf("written: %s", line)
			}
		}
		if conditions != 3 || groups != 1 {
			t.Errorf("%d conditions and %d statuses of the PodGroup were written, want 3 and 1", conditions, groups)
		}
		w.step(node("n2", "20"))
		w.step(bound("green-0", "n1"), bound("green-1", "n1"), bound("green-2", "n2")) // wherever: it is what stands
		var ready int
		for _, line := range w.written() {
			if strings.HasPrefix(line, "update PodGroup green PodGroupInitiallyScheduled=True Scheduled: ") {
				ready++
			}
		}
		if ready != 1 {
			t.Errorf("the PodGroup's condition became True %d times", ready)
		}
	})
}

func TestTheConditionOfAPodGroupNeverGoesBackFromTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := podGroup("green", 1)
		w := newWorld(t, group)
		w.step(node("n1", "4"), &eventlog.Upserted{Resource: eventlog.PodGroups, Object: group},
			pod("green-0", "2", "green", 0))
		w.step(bound("green-0", "n1"))
		_ = w.written()
		w.step(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: "green-0", UID: "uid-green-0"},
			pod("green-1", "16", "green", 0))
		for _, line := range w.written() {
			if strings.Contains(line, "PodGroup green") {
				t.Errorf("written: %s", line)
			}
		}
	})
}

func TestPreemptionIsShownOnBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.step(node("n1", "4"), pod("low", "4", "", 0))
		w.step(bound("low", "n1"))
		_ = w.written()
		w.step(pod("high", "4", "", 100))
		expect(t, w.written(),
			"patch high/status of uid-high PodScheduled=False Unschedulable: "+tooWide+` nominated to "n1"`,
			"create event Warning FailedScheduling of high by default-scheduler: "+tooWide,
			"create event Normal Preempted of low by default-scheduler: Preempted by pod uid-high on node n1")
	})
}

func TestAVictimIsToldThatAPodGroupPreemptsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := podGroup("high", 2)
		w := newWorld(t, group)
		w.step(node("n1", "4"), pod("low", "4", "", 0))
		w.step(bound("low", "n1"))
		_ = w.written()
		w.step(&eventlog.Upserted{Resource: eventlog.PodGroups, Object: group},
			pod("high-0", "2", "high", 100), pod("high-1", "2", "high", 100))
		var told []string
		for _, line := range w.written() {
			if strings.Contains(line, "Preempted") {
				told = append(told, line)
			}
		}
		expect(t, told, "create event Normal Preempted of low by default-scheduler: "+
			"Preempted by podgroup ml/high (pod uid-high-0) on node n1")
	})
}

func TestWhatCannotBeWrittenIsTriedAgainAndGivenUp(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		tries int
	}{
		{"a server that is out of order", errors.New("connection refused"), maxTries},
		{"a pod that is gone", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "wide"), 1},
		{"another pod of the name", apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "wide", nil), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tries := 0
				w.client.PrependReactor("patch", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
					tries++
					return true, nil, tc.err
				})
				w.step(node("n1", "4"), pod("wide", "16", "", 0))
				_ = w.written()
				if c := w.status.Counts(); tries != tc.tries || c.Failed != 1 {
					t.Errorf("%d tries, want %d; counts %+v", tries, tc.tries, c)
				}
			})
		})
	}
}

func TestNothingIsWrittenOfPodsThatHaveANodeOrAreLeaving(t *testing.T) {
	for _, seen := range []Pod{{NodeName: "n1"}, {Terminating: true}, {
		Scheduled: &corev1.PodCondition{Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: tooWide},
	}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.step(node("n1", "4"), pod("wide", "16", "", 0))
			w.seen["uid-wide"] = seen
			expect(t, w.written(), "create event Warning FailedScheduling of wide by default-scheduler: "+tooWide)
		})
	}
}

// A victim of a preemption that lost its node because its bind failed is still to go: its gang's next attempt is none
// of its own, and says nothing of it.
func TestNothingIsWrittenOfAMemberThatIsToBeEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := podGroup("green", 1)
		w := newWorld(t, group)
		w.step(node("n1", "4"), &eventlog.Upserted{Resource: eventlog.PodGroups, Object: group},
			pod("green-0", "4", "green", 0))
		w.step(pod("high", "4", "", 100)) // which green-0 has to go for
		w.step(bindFailed("green-0", "n1"))
		_ = w.written()
		w.step(pod("green-1", "16", "green", 0))
		told := false
		for _, line := range w.written() {
			told = told || strings.HasPrefix(line, "patch green-1/status of uid-green-1 PodScheduled=False")
			if strings.Contains(line, "green-0") {
				t.Errorf("written: %s", line)
			}
		}
		if !told {
			t.Error("nothing is written of the member that was tried")
		}
	})
}

func TestANoteIsCutAtWhatTheServerTakes(t *testing.T) {
	long := strings.Repeat("ä", maxNote)
	if got := cutNote(long); len(got) > maxNote || !strings.HasSuffix(got, " ...") || !strings.HasPrefix(got, "ää") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := cutNote("short"); got != "short" {
		t.Errorf("%q", got)
	}
}
