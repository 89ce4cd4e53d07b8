package queue

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

var errHint = errors.New("hint failed")

// hints builds a profile's hints from plugin names, each followed by its registrations.
func hints(args ...any) map[string][]fwk.ClusterEventWithHint {
	m := map[string][]fwk.ClusterEventWithHint{}
	name := ""
	for _, a := range args {
		switch a := a.(type) {
		case string:
			name = a
			m[name] = nil
		case fwk.ClusterEventWithHint:
			m[name] = append(m[name], a)
		}
	}
	return m
}

func TestMoveAsksThePluginsThatRejected(t *testing.T) {
	queue, skip := says(fwk.Queue, nil), says(fwk.QueueSkip, nil)
	anyPod := fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.All}
	for _, c := range []struct {
		name  string
		hints map[string][]fwk.ClusterEventWithHint
		f     Failure
		ev    fwk.ClusterEvent
		obj   any
		want  State // within the backoff
	}{
		{"queue", hints("P", on(nodeAdd, queue)), by("P"), nodeAdd, nil, Backoff},
		{"no hint is queue", hints("P", on(nodeAdd, nil)), by("P"), nodeAdd, nil, Backoff},
		{"an error is queue", hints("P", on(nodeAdd, says(fwk.QueueSkip, errHint))), by("P"), nodeAdd, nil, Backoff},
		{"skip", hints("P", on(nodeAdd, skip)), by("P"), nodeAdd, nil, Unschedulable},
		{"one registration of two", hints("P", on(nodeAdd, skip), on(nodeAdd, queue)), by("P"), nodeAdd, nil, Backoff},
		{"one plugin of two", hints("P", on(nodeAdd, skip), "R", on(nodeAdd, queue)), by("P", "R"), nodeAdd, nil,
			Backoff},
		{"another plugin did not reject", hints("P", on(nodeAdd, skip), "R", on(nodeAdd, queue)), by("P"), nodeAdd,
			nil, Unschedulable},
		{"another event", hints("P", on(nodeLabel, queue)), by("P"), nodeAdd, nil, Unschedulable},
		{"pod stands for assigned pod", hints("P", on(anyPod, queue)), by("P"), podDelete, nil, Backoff},
		{"a registered wildcard", hints("P", on(wildcard, queue)), by("P"), podDelete, nil, Backoff},
		{"no plugin recorded", hints("P"), by(), nodeAdd, nil, Backoff},
		{"a plugin that told no events", hints("P"), by("unheard of"), nodeAdd, nil, Backoff},
		{"a plugin that wants none", hints("P"), by("P"), nodeAdd, nil, Unschedulable},
		{"wildcard", hints("P"), by("P"), wildcard, nil, Backoff},
		{"wildcard for this pod", hints("P"), by("P"), wildcard, podNamed("a"), Backoff},
		{"wildcard for another pod", hints("P"), by("P"), wildcard, podNamed("b"), Unschedulable},
		{"wildcard for no pod", hints("P"), by("P"), wildcard, &v1.Node{}, Unschedulable},
		{"pending skips the backoff", hints("W", on(nodeAdd, queue)), pendingBy("W"), nodeAdd, nil, Active},
		{"pending says skip", hints("W", on(nodeAdd, skip)), pendingBy("W"), nodeAdd, nil, Unschedulable},
		{"pending says skip, the other queue", hints("W", on(nodeAdd, skip), "P", on(nodeAdd, queue)), pendingBy("W",
			"P"), nodeAdd, nil, Backoff},
		{"both say queue", hints("W", on(nodeAdd, queue), "P", on(nodeAdd, queue)), pendingBy("W", "P"), nodeAdd, nil,
			Active},
		{"wildcard does not skip the backoff", hints("W"), pendingBy("W"), wildcard, nil, Backoff},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue(t, Profile{Hints: c.hints})
			q.Add(podKey("a"), podNamed("a"))
			q.StartAttempt(podKey("a"))
			q.Park(podKey("a"), c.f)
			wantState(t, q, podKey("a"), Unschedulable)
			q.Move(c.ev, nil, c.obj)
			wantState(t, q, podKey("a"), c.want)

			// The same while in flight, with the backoff already known when it is parked.
			q = newQueue(t, Profile{Hints: c.hints})
			q.Add(podKey("a"), podNamed("a"))
			q.StartAttempt(podKey("a"))
			q.Move(c.ev, nil, c.obj)
			wantState(t, q, podKey("a"), InFlight)
			q.Park(podKey("a"), c.f)
			wantState(t, q, podKey("a"), c.want)

			// And once the backoff is over.
			q = newQueue(t, Profile{Hints: c.hints})
			q.Add(podKey("a"), podNamed("a"))
			q.StartAttempt(podKey("a"))
			q.Park(podKey("a"), c.f)
			q.SetTime(epoch + sec)
			q.Move(c.ev, nil, c.obj)
			want := c.want
			if want == Backoff {
				want = Active
			}
			wantState(t, q, podKey("a"), want)
		})
	}
}

func by(plugins ...string) Failure { return Failure{Plugins: plugins} }

func pendingBy(pending string, plugins ...string) Failure {
	return Failure{Plugins: plugins, PendingPlugins: []string{pending}}
}

func TestAGangIsMovedForAnyPendingMember(t *testing.T) {
	q := newQueue(t, Profile{Hints: hints("P", on(nodeAdd, onlyFor("g-1")))})
	key := addGang(q, "g", 3)
	fail(q, key, "P")
	q.Move(nodeAdd, nil, nil)
	wantState(t, q, key, Backoff)

	q.StartAttempt(key)
	q.MarkPlaced(key, "uid-g-1")
	q.Park(key, by("P"))
	q.Move(nodeAdd, nil, nil)
	wantState(t, q, key, Unschedulable)
}

func TestOwnUpdateAsksTheHintsForTargetPod(t *testing.T) {
	toleration := fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodToleration}
	changed := podNamed("a")
	changed.Spec.Tolerations = []v1.Toleration{{Key: "k"}}
	for _, c := range []struct {
		name string
		pod  *v1.Pod
		want State
	}{
		{"the update that was registered", changed, Backoff},
		{"another", podNamed("a"), Unschedulable},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Profile{Hints: hints("P", on(toleration, onlyFor("a")))}
			q := newQueue(t, p)
			q.Add(podKey("a"), podNamed("a"))
			fail(q, podKey("a"), "P")
			q.Update(podKey("a"), podNamed("a"), c.pod)
			wantState(t, q, podKey("a"), c.want)

			q = newQueue(t, p)
			q.Add(podKey("a"), podNamed("a"))
			q.StartAttempt(podKey("a"))
			q.Update(podKey("a"), nil, c.pod)
			q.Park(podKey("a"), by("P"))
			wantState(t, q, podKey("a"), c.want)
			if q.Get(podKey("a")).Pending()[0] != c.pod {
				t.Error("the pod is still the old one")
			}
		})
	}
}

func TestPreQueueingHintsLimitWhichPodsAreAsked(t *testing.T) {
	names := func(err error, all bool, ns ...string) fwk.PreQueueingHintFn {
		return func(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
			res := fwk.PreQueueingHintResult{AllPods: all}
			for _, n := range ns {
				res.Pods = append(res.Pods, types.NamespacedName{Namespace: "ns", Name: n})
			}
			return res, err
		}
	}
	for _, c := range []struct {
		name string
		pre  fwk.PreQueueingHintFn
		a, b State
	}{
		{"one pod", names(nil, false, "a", "nobody"), Backoff, Unschedulable},
		{"none", names(nil, false), Unschedulable, Unschedulable},
		{"all", names(nil, true), Backoff, Backoff},
		{"an error is all", names(errHint, false), Backoff, Backoff},
	} {
		t.Run(c.name, func(t *testing.T) {
			gate := &gatePlugin{name: "G", gated: gatedPods("c", "no", "d", "no")}
			reg := fwk.ClusterEventWithHint{
				Event:             nodeAdd,
				QueueingHintFn:    says(fwk.Queue, nil),
				PreQueueingHintFn: c.pre,
			}
			q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hints("P", reg, "G", reg)})
			for _, n := range []string{"a", "b", "c"} {
				q.Add(podKey(n), podNamed(n))
			}
			fail(q, podKey("a"), "P")
			fail(q, podKey("b"), "P")
			q.Move(nodeAdd, nil, &v1.Node{})
			wantState(t, q, podKey("a"), c.a)
			wantState(t, q, podKey("b"), c.b)
			wantState(t, q, podKey("c"), Gated)
		})
	}
	t.Run("for gated members too", func(t *testing.T) {
		gate := &gatePlugin{name: "G", gated: gatedPods("a", "no", "b", "no")}
		reg := fwk.ClusterEventWithHint{Event: nodeAdd, PreQueueingHintFn: names(nil, false, "b")}
		q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hints("G", reg)})
		q.Add(podKey("a"), podNamed("a"))
		q.Add(podKey("b"), podNamed("b"))
		clear(gate.gated)
		q.Move(nodeAdd, nil, &v1.Node{})
		wantState(t, q, podKey("a"), Gated)
		wantState(t, q, podKey("b"), Active)
	})
}

func TestAFailureAfterTheAttemptSeemedDoneIsRetriedIfAnythingHappened(t *testing.T) {
	for _, c := range []struct {
		name string
		move bool
		want State
	}{{"something", true, Backoff}, {"nothing", false, Unschedulable}} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue(t, Profile{Hints: hintsOf("P")})
			key := addGang(q, "g", 1)
			q.StartAttempt(key)
			q.MarkPlaced(key, "uid-g-0")
			q.Finish(key)
			wantState(t, q, key, Placed)
			if c.move {
				q.Move(nodeAdd, nil, nil)
			}
			q.MarkPending(key, "uid-g-0")
			q.Park(key, by("P"))
			wantState(t, q, key, c.want)
		})
	}
}
