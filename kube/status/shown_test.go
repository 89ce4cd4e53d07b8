package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ktesting "k8s.io/client-go/testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// describe returns the content of an object that was written.
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

// expect compares the writes, in any order.
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
			"patch event of wide: 2 times")
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
			"patch event of wide: 2 times",
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
		const why = "update PodGroup green PodGroupInitiallyScheduled=False Unschedulable: minCount ("
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
		at := func(name string) eventlog.Payload {
			return bound(name, w.engine.Machine().Cluster().Pods().Get(types.UID("uid-"+name)).Node)
		}
		w.step(at("green-0"), at("green-1"))
		for _, line := range w.written() {
			if strings.HasPrefix(line, "update PodGroup") {
				t.Errorf("with two of three pods bound: %s", line)
			}
		}
		w.step(at("green-2"))
		expect(t, w.written(), "update PodGroup green PodGroupInitiallyScheduled=True Scheduled: "+
			"the gang has its minimum of pods on nodes",
			"create event Normal Scheduled of green-2 by default-scheduler: Successfully assigned ml/green-2 to n2")
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
			"create event Warning FailedScheduling of high by default-scheduler: "+tooWide)
		w.step(evicted("low", eventlog.EvictDone))
		expect(t, w.written(),
			"create event Normal Preempted of low by default-scheduler: Preempted by pod uid-high on node n1")
	})
}

// evicted is the result of the eviction of a pod.
func evicted(name string, outcome eventlog.EvictOutcome) *eventlog.EvictResult {
	r := &eventlog.EvictResult{UID: types.UID("uid-" + name), Outcome: outcome, Message: "as it is", Decision: 1}
	if outcome == eventlog.EvictRefused {
		r.RetryAfter = time.Second
	}
	return r
}

// TestPreemptedIsToldOfPodsThatGo: a pod whose eviction is given up or withdrawn stays, and one that is refused may.
func TestPreemptedIsToldOfPodsThatGo(t *testing.T) {
	for _, test := range []struct {
		name    string
		results []eventlog.Payload
		told    bool
	}{
		{"done", []eventlog.Payload{evicted("low", eventlog.EvictDone), evicted("low", eventlog.EvictDone)}, true},
		{"gone", []eventlog.Payload{evicted("low", eventlog.EvictGone)}, true},
		{"deleted before its result", []eventlog.Payload{
			&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: "low", UID: "uid-low"},
		}, true},
		{"given up", []eventlog.Payload{evicted("low", eventlog.EvictGivenUp)}, false},
		{"withdrawn, deleted later", []eventlog.Payload{
			evicted("low", eventlog.EvictWithdrawn),
			&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: "low", UID: "uid-low"},
		}, false},
		{"refused", []eventlog.Payload{evicted("low", eventlog.EvictRefused)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.step(node("n1", "4"), pod("low", "4", "", 0))
				w.step(bound("low", "n1"))
				w.step(pod("high", "4", "", 100))
				_ = w.written()
				for _, r := range test.results {
					w.step(r)
				}
				told := 0
				for _, line := range w.written() {
					if strings.Contains(line, "Preempted by pod uid-high") {
						told++
					}
				}
				if (told == 1) != test.told || told > 1 {
					t.Errorf("it was told %d times, want %v", told, test.told)
				}
			})
		})
	}
}

func TestAGangThatPreemptsSaysSoOnBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := podGroup("high", 2)
		w := newWorld(t, group)
		w.step(node("n1", "4"), pod("low", "4", "", 0))
		w.step(bound("low", "n1"))
		_ = w.written()
		w.step(&eventlog.Upserted{Resource: eventlog.PodGroups, Object: group},
			pod("high-0", "2", "high", 100), pod("high-1", "2", "high", 100))
		w.step(evicted("low", eventlog.EvictDone))
		var told []string
		for _, line := range w.written() {
			if strings.Contains(line, "Preempted") || strings.HasPrefix(line, "update PodGroup") {
				told = append(told, line)
			}
		}
		expect(t, told,
			"create event Normal Preempted of low by default-scheduler: "+
				"Preempted by podgroup ml/high (pod uid-high-0) on node n1",
			"update PodGroup high PodGroupInitiallyScheduled=False Unschedulable: "+
				"minCount (2) cannot be satisfied: 0 scheduled, 2 remaining: "+
				"0/1 nodes are available: pod group ml/high needs 4 cpu for 2 members; 0 free. "+
				"pod group preemption: found a placement for podgroup, preempting 1 victims")
	})
}

// refusedWith is the API server's answer if a webhook refuses a request with a code.
func refusedWith(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: `admission webhook "w.example.org" denied the request: no`}}
}

// policyRefusal is the API server's answer if a ValidatingAdmissionPolicy refuses a request.
func policyRefusal() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: `pods "wide" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`,
		Details: &metav1.StatusDetails{Name: "wide", Kind: "pods", Causes: []metav1.StatusCause{{Message: "no"}}},
	}}
}

func TestWhatCannotBeWrittenIsTriedAgainAndGivenUp(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		tries int
	}{
		{"a server that is out of order", errors.New("connection refused"), maxTries},
		{"a pod that is gone", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "wide"), 1},
		{"another pod of the name", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "wide", field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), "u", "field is immutable")}), 1},
		{"a webhook that says 404", refusedWith(http.StatusNotFound, metav1.StatusReasonNotFound), maxTries},
		{"a webhook that says 422", refusedWith(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid), maxTries},
		{"a policy that says 422", policyRefusal(), maxTries},
		{"a pod that goes on changing", apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "wide", nil),
			maxTries},
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
				if p := w.status.pods; len(p.values)+len(p.taken)+len(p.order) > 0 {
					t.Errorf("%d, %d and %d are kept of what was given up", len(p.values), len(p.taken), len(p.order))
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

// A victim of a preemption that lost its node because its bind failed is still to go. Its gang's next attempt is none
// of its own, and its status does not mention it.
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

// TestAConditionIsNotWrittenOverWhatHasChanged has a pod bound by another scheduler while the watch still reports that
// it is not. The API server refuses the condition, and nothing is written once the watch has reported the bind.
func TestAConditionIsNotWrittenOverWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		refused := 0
		w.client.PrependReactor("patch", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
			refused++
			if patch := string(a.(ktesting.PatchAction).GetPatch()); !strings.Contains(patch, `"resourceVersion":"7"`) {
				t.Errorf("the patch names no version: %s", patch)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen["uid-wide"] = Pod{ResourceVersion: "8", NodeName: "n9"}
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "wide", nil)
		})
		w.step(node("n1", "4"), pod("wide", "16", "", 0))
		w.seen["uid-wide"] = Pod{ResourceVersion: "7"}
		_ = w.written()
		if c := w.status.Counts(); refused != 1 || c.PodStatuses != 0 || c.Standing != 1 || c.Failed != 0 {
			t.Errorf("%d were refused; counts %+v", refused, c)
		}
	})
}

// TestWhatStandsIsJudgedByWhatWasWrittenLast has the watch lag behind: it still reports the first reason when the
// second one was written, and the first one holds again.
func TestWhatStandsIsJudgedByWhatWasWrittenLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		version := 10
		w.client.PrependReactor("patch", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
			version++
			answer := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version)}}
			if err := json.Unmarshal(a.(ktesting.PatchAction).GetPatch(), answer); err != nil {
				t.Error(err)
			}
			answer.ResourceVersion = strconv.Itoa(version)
			return true, answer, nil
		})
		said := func(message string) *corev1.PodCondition {
			return &corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: "Unschedulable", Message: message}
		}
		w.seen["uid-wide"] = Pod{ResourceVersion: "10", Scheduled: said("a")} // as the watch has it, all the time
		for i, step := range []struct {
			message string
			want    outcome
		}{{"a", stands}, {"b", wrote}, {"b", stands}, {"a", wrote}} {
			came, err := w.status.writePod(t.Context(), "uid-wide", podStatus{
				ref: ref{"ml", "wide", "uid-wide"}, condition: said(step.message),
			})
			if came != step.want || err != nil {
				t.Errorf("%d: %q: the outcome is %d, error %v, want %d", i, step.message, came, err, step.want)
			}
		}
		w.seen["uid-wide"] = Pod{ResourceVersion: "13", NodeName: "n1"} // the watch has caught up
		came, err := w.status.writePod(t.Context(), "uid-wide", podStatus{condition: said("b")})
		if came != stands || err != nil || len(w.status.own.byUID) > 0 {
			t.Errorf("the outcome is %d, error %v; %d are kept", came, err, len(w.status.own.byUID))
		}
	})
}

// TestARetryDoesNotOverwriteWhatCameLater fails the first write, and has another reason written before it is tried
// again.
func TestARetryDoesNotOverwriteWhatCameLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPending[string, int](0)
		ctx := t.Context()
		p.put("a", 1)
		key, first := p.next()
		p.put("a", 2)
		if p.ended(ctx, key, first, failed) == lost {
			t.Error("what was replaced counts as given up")
		}
		_, second := p.next()
		if second == nil || second.value != 2 || p.ended(ctx, key, second, wrote) == lost {
			t.Fatalf("the second one is %+v", second)
		}
		time.Sleep(time.Hour)
		if _, it := p.next(); it != nil {
			t.Errorf("%d is written over 2", it.value)
		}
		p.put("a", 3)
		_, third := p.next()
		p.ended(ctx, "a", third, failed)
		p.drop("a")
		time.Sleep(time.Hour)
		if _, it := p.next(); it != nil || len(p.taken)+len(p.values) > 0 {
			t.Errorf("what was dropped is written, or %d, %d are kept", len(p.taken), len(p.values))
		}
	})
}

func TestOfTooManyEventsTheOldestAreDropped(t *testing.T) {
	p := newPending[int, int](3)
	for i := range 5 {
		p.put(i, i)
	}
	for want := 2; want < 5; want++ {
		if _, it := p.next(); it == nil || it.value != want {
			t.Errorf("%+v comes, want %d", it, want)
		}
	}
	if p.dropped() != 2 {
		t.Errorf("%d count as dropped, want 2", p.dropped())
	}
}

// TestAGroupThatCountsWaitingMembersIsPlacedWhenItsPodsAreBound has a gang that counts only members that wait: its
// minimum is on nodes all the same, and a member beyond it that finds no node changes nothing.
func TestAGroupThatCountsWaitingMembersIsPlacedWhenItsPodsAreBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := podGroup("green", 1)
		g.Annotations = map[string]string{"gang.scheduling.koordinator.sh/match-policy": "only-waiting"}
		w := newWorld(t, g)
		w.step(node("n1", "4"), &eventlog.Upserted{Resource: eventlog.PodGroups, Object: g},
			pod("green-0", "2", "green", 0))
		w.step(bound("green-0", "n1"))
		placed := false
		for _, line := range w.written() {
			placed = placed || strings.HasPrefix(line, "update PodGroup green PodGroupInitiallyScheduled=True")
		}
		if !placed {
			t.Error("the PodGroup is not told that its minimum is on nodes")
		}
		w.client.PrependReactor("get", "podgroups", func(ktesting.Action) (bool, runtime.Object, error) {
			return true, g, nil // as if nothing had been written
		})
		w.step(pod("green-1", "16", "green", 0))
		for _, line := range w.written() {
			if strings.Contains(line, "PodGroup green") {
				t.Errorf("written: %s", line)
			}
		}
	})
}

func TestABindThatFailedIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.step(node("n1", "4"), pod("a", "2", "", 0))
		_ = w.written()
		w.step(&eventlog.BindResult{UID: "uid-a", Node: "n1", Outcome: eventlog.BindFailed,
			Message: "a webhook refuses"})
		const message = "binding to node n1 failed: a webhook refuses"
		expect(t, w.written(), "patch a/status of uid-a PodScheduled=False SchedulerError: "+message,
			"create event Warning FailedScheduling of a by default-scheduler: "+message)
	})
}

// TestWhatWasNotWrittenBeforeARestartIsWrittenAfterIt ends a process before anything was written of two pods, one of
// which the API server tells the condition of already: the next process writes the other one, and no events.
func TestWhatWasNotWrittenBeforeARestartIsWrittenAfterIt(t *testing.T) {
	for _, name := range []string{"of the log", "kept while following it"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { writtenAfterARestart(t, name != "of the log") })
		})
	}
}

// writtenAfterARestart has the next process read the entries, or keep them while they were written.
func writtenAfterARestart(t *testing.T, keep bool) {
	w := newWorld(t)
	w.step(node("n1", "4"), pod("wide", "16", "", 0), pod("told", "17", "", 0), pod("gone", "18", "", 0),
		pod("small", "1", "", 0))
	w.step(bound("small", "n1"))
	w.seen["uid-told"] = Pod{Scheduled: &corev1.PodCondition{Status: corev1.ConditionFalse, Reason: "Unschedulable",
		Message: tooWide}}
	delete(w.seen, "uid-gone")
	entries := w.log.Read(t.Context(), 1)
	if keep {
		recent := Recent{Most: 1000}
		for e, err := range entries {
			if err != nil {
				t.Fatal(err)
			}
			recent.Note(e)
		}
		if entries, keep = recent.Between(1, w.engine.Machine().Seq()); !keep {
			t.Fatal("not all entries are kept")
		}
	}
	before := w.status
	w.status = New(before.opts)
	if err := w.status.Recover(w.engine.Machine(), entries); err != nil {
		t.Fatal(err)
	}
	expect(t, w.written(), "patch wide/status of uid-wide PodScheduled=False Unschedulable: "+tooWide)
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

// TestGangsThatGoTogetherAreAllToldWhyNoneIsPlaced: an attempt ends with the refusal of one gang, before another one
// had a cycle. That one hears it too; a third one was refused itself, and keeps its own reason.
func TestGangsThatGoTogetherAreAllToldWhyNoneIsPlaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &schedulingv1alpha3.CompositePodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "c", UID: "composite-c"}}
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 2}
		inputs := []eventlog.Payload{
			node("n1", "4"), &eventlog.Upserted{Resource: eventlog.CompositePodGroups, Object: c},
		}
		objects := []runtime.Object{}
		for _, name := range []string{"a", "b", "d"} {
			g := podGroup(name, 1)
			g.Spec.ParentCompositePodGroupName = &c.Name
			objects = append(objects, g.DeepCopy())
			inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.PodGroups, Object: g})
		}
		w := newWorld(t, objects...)
		w.step(append(inputs, pod("a-0", "16", "a", 0), pod("b-0", "16", "b", 0), pod("d-0", "1", "d", 0))...)
		told := map[string]string{}
		for _, line := range w.written() {
			for _, name := range []string{"a-0", "b-0", "d-0"} {
				if strings.HasPrefix(line, "patch "+name) {
					_, told[name], _ = strings.Cut(line, "PodScheduled=False ")
				}
			}
		}
		if len(told) != 3 || !strings.Contains(told["a-0"], "pod group ml/a needs 16 cpu") ||
			!strings.Contains(told["d-0"], "gang d is not placed: gang b is not placed: ") {
			t.Errorf("the conditions of pods say %q", told)
		}
	})
}

// TestARefusedCompositePodGroupIsToldItsGangs: whether the object comes before or after them. Once it is in order, its
// gangs hear the results of their attempts.
func TestARefusedCompositePodGroupIsToldItsGangs(t *testing.T) {
	const why = "SchedulerError: pod group ml/a is refused: as part of ml/c: it has " +
		"spec.schedulingPolicy.gang.minGroupCount 0: want 1 or more"
	for _, last := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			composite := func(least int32) eventlog.Payload {
				c := &schedulingv1alpha3.CompositePodGroup{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "c", UID: "composite-c"}}
				c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: least}
				return &eventlog.Upserted{Resource: eventlog.CompositePodGroups, Object: c}
			}
			g, of := podGroup("a", 1), "c"
			g.Spec.ParentCompositePodGroupName = &of
			w := newWorld(t, g.DeepCopy())
			inputs := []eventlog.Payload{node("n1", "4"), &eventlog.Upserted{Resource: eventlog.PodGroups, Object: g},
				pod("a-0", "16", "a", 0)}
			if !last {
				inputs = slices.Insert(inputs, 1, composite(0))
			}
			w.step(inputs...)
			if last {
				w.written()
				w.step(composite(0))
			}
			got := w.written()
			for _, line := range []string{"patch a-0/status of uid-a-0 PodScheduled=False " + why,
				"update PodGroup a PodGroupInitiallyScheduled=False " + why} {
				if !slices.Contains(got, line) {
					t.Errorf("last %v: not written is %s, but %q", last, line, got)
				}
			}
			w.step(composite(1))
			told := func(line string) bool { return strings.Contains(line, "PodScheduled=False Unschedulable: ") }
			if got := w.written(); !slices.ContainsFunc(got, told) {
				t.Errorf("last %v: in order, it is told %q", last, got)
			}
		})
	}
}

// TestAMemberThatComesToAGangThatFailedIsToldWhy: nothing is tried for it until that would help.
func TestAMemberThatComesToAGangThatFailedIsToldWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, podGroup("a", 1))
		w.step(node("n1", "4"), &eventlog.Upserted{Resource: eventlog.PodGroups, Object: podGroup("a", 1)},
			pod("a-0", "16", "a", 0))
		w.written()
		w.step(pod("a-1", "16", "a", 0))
		for _, line := range w.written() {
			if strings.HasPrefix(line, "patch a-1") && strings.Contains(line, "gang a is not placed: ") {
				return
			}
		}
		t.Error("the condition of the pod that came later does not say why it has no node")
	})
}

// TestMembersInSeveralDomainsAreAnErrorOfScheduling: a CompositePodGroup asks for one zone, and members of its gangs
// run in two. kube-scheduler calls that an error, of the pods and of the PodGroups.
func TestMembersInSeveralDomainsAreAnErrorOfScheduling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &schedulingv1alpha3.CompositePodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "c", UID: "composite-c"}}
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 2}
		c.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha3.TopologyConstraint{{Key: "zone"}}}
		inputs := []eventlog.Payload{&eventlog.Upserted{Resource: eventlog.CompositePodGroups, Object: c}}
		var objects []runtime.Object
		for i, name := range []string{"a", "b"} {
			g := podGroup(name, 2)
			g.Spec.ParentCompositePodGroupName = &c.Name
			objects = append(objects, g.DeepCopy())
			n := node("n"+name, "4").(*eventlog.Upserted)
			n.Object.SetLabels(map[string]string{"zone": fmt.Sprint("z", i)})
			runs := pod(name+"-0", "1", name, 0).(*eventlog.Upserted)
			runs.Object.(*corev1.Pod).Spec.NodeName = "n" + name
			inputs = append(inputs, n, &eventlog.Upserted{Resource: eventlog.PodGroups, Object: g}, runs)
		}
		w := newWorld(t, objects...)
		w.step(append(inputs, pod("a-1", "1", "a", 0), pod("b-1", "1", "b", 0))...)
		told := 0
		for _, line := range w.written() {
			if strings.Contains(line, "PodScheduled=False SchedulerError: ") ||
				strings.Contains(line, "PodGroupInitiallyScheduled=False SchedulerError: ") {
				told++
			}
		}
		if told != 4 {
			t.Errorf("%d of 2 pods and 2 PodGroups are told of an error", told)
		}
	})
}
