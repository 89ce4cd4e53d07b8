package queue

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// hintsOf returns hints in which the plugins are known and want no event.
func hintsOf(names ...string) map[string][]fwk.ClusterEventWithHint {
	hints := map[string][]fwk.ClusterEventWithHint{}
	for _, n := range names {
		hints[n] = nil
	}
	return hints
}

func pre(plugins ...*gatePlugin) []fwk.PreEnqueuePlugin {
	var ps []fwk.PreEnqueuePlugin
	for _, p := range plugins {
		ps = append(ps, p)
	}
	return ps
}

// gatedPods takes pairs of a pod's name and the message.
func gatedPods(pairs ...string) map[types.UID]string {
	gated := map[types.UID]string{}
	for i := 0; i < len(pairs); i += 2 {
		gated[types.UID("uid-"+pairs[i])] = pairs[i+1]
	}
	return gated
}

func TestAGatedPodSaysWhoGatesItAndWhy(t *testing.T) {
	gate := &gatePlugin{name: "G", gated: gatedPods("a", "wait for it")}
	q := newQueue(t, Profile{PreEnqueue: pre(gate)})
	q.Add(podKey("a"), podNamed("a"))
	wantState(t, q, podKey("a"), Gated)
	wantHead(t, q, "none")
	e := q.Get(podKey("a"))
	if e.GatingPlugin() != "G" || e.GatingMessage() != "wait for it" {
		t.Errorf("gated by %q: %q", e.GatingPlugin(), e.GatingMessage())
	}
	if p, m, ok := e.Gate("uid-a"); p != "G" || m != "wait for it" || !ok {
		t.Errorf("Gate says %q %q %v", p, m, ok)
	}
	if e.FirstActive() != 0 || e.GetInitialAttemptTimestamp() != nil {
		t.Error("it was never active")
	}
}

func TestOnlyTheGatingPluginsEventsUngate(t *testing.T) {
	for _, c := range []struct {
		name  string
		hints map[string][]fwk.ClusterEventWithHint
		ev    fwk.ClusterEvent
		obj   any
		want  State
	}{
		{"its event, no hint", hints("G", on(nodeAdd, nil)), nodeAdd, nil, Active},
		{"its event, the hint says skip", hints("G", on(nodeAdd, says(fwk.QueueSkip, nil))), nodeAdd, nil, Gated},
		{"its event, the hint fails", hints("G", on(nodeAdd, says(fwk.QueueSkip, errHint))), nodeAdd, nil, Active},
		{"another event", hints("G", on(nodeAdd, nil)), nodeLabel, nil, Gated},
		{"another plugin's event", hints("P", on(nodeAdd, nil), "G"), nodeAdd, nil, Gated},
		{"a plugin that told no events", hints("P", on(nodeAdd, nil)), nodeLabel, nil, Active},
		{"the wildcard", hints("G"), wildcard, nil, Active},
		{"the wildcard for this pod", hints("G"), wildcard, podNamed("a"), Active},
		{"the wildcard for another", hints("G"), wildcard, podNamed("b"), Gated},
	} {
		t.Run(c.name, func(t *testing.T) {
			gate := &gatePlugin{name: "G", gated: gatedPods("a", "no")}
			q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: c.hints})
			q.Add(podKey("a"), podNamed("a"))
			clear(gate.gated)
			q.Move(c.ev, nil, c.obj)
			wantState(t, q, podKey("a"), c.want)
		})
	}
}

func TestOwnUpdateUngates(t *testing.T) {
	gate := &gatePlugin{name: "G", gated: gatedPods("a", "no")}
	q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hintsOf("G")})
	q.Add(podKey("a"), podNamed("a"))
	q.Update(podKey("a"), nil, podNamed("a"))
	wantState(t, q, podKey("a"), Gated)
	clear(gate.gated)
	q.Update(podKey("a"), nil, podNamed("a"))
	wantState(t, q, podKey("a"), Active)
}

func TestTheSecondPluginMayGateWhatTheFirstLetsGo(t *testing.T) {
	first := &gatePlugin{name: "G1", gated: gatedPods("a", "one")}
	second := &gatePlugin{name: "G2", gated: gatedPods("a", "two")}
	q := newQueue(t, Profile{PreEnqueue: pre(first, second), Hints: hints("G1", on(nodeAdd, nil), "G2")})
	q.Add(podKey("a"), podNamed("a"))
	clear(first.gated)
	q.Move(nodeAdd, nil, nil)
	wantState(t, q, podKey("a"), Gated)
	if got := q.Get(podKey("a")).GatingPlugin(); got != "G2" {
		t.Errorf("gated by %s, want G2", got)
	}
	clear(second.gated)
	q.Recheck(podKey("a"))
	wantState(t, q, podKey("a"), Active)
}

func TestAGangIsReadyWithItsFirstReadyMember(t *testing.T) {
	gate := &gatePlugin{name: "G", gated: gatedPods("g-0", "1 of 3", "g-1", "2 of 3")}
	q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hintsOf("G")})
	addGang(q, "g", 2)
	wantState(t, q, gangKey("g"), Gated)
	if got := q.Get(gangKey("g")).GatingMessage(); got != "2 of 3" {
		t.Errorf("the message is %q, want the latest", got)
	}
	clear(gate.gated)
	q.Add(gangKey("g"), podNamed("g-2"))
	wantState(t, q, gangKey("g"), Active)
	if e := q.Get(gangKey("g")); e.NumReady() != 3 || e.NumGated() != 0 {
		t.Errorf("%d ready, %d gated", e.NumReady(), e.NumGated())
	}
}

func TestOneGatedMemberDoesNotHoldBackTheOthers(t *testing.T) {
	gate := &gatePlugin{name: "G", gated: gatedPods("g-1", "no")}
	q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hints("G", on(nodeAdd, nil))})
	addGang(q, "g", 3)
	wantState(t, q, gangKey("g"), Active)
	e := q.Get(gangKey("g"))
	if len(e.Pending()) != 3 || len(e.Ready()) != 2 || e.Ready()[1].Name != "g-2" || e.Next().Name != "g-0" {
		t.Errorf("%d pending, %d ready", len(e.Pending()), len(e.Ready()))
	}
	q.StartAttempt(e.Key())
	q.MarkPlaced(e.Key(), "uid-g-0")
	q.MarkPlaced(e.Key(), "uid-g-2")
	q.Finish(e.Key())
	wantState(t, q, gangKey("g"), Gated)
	clear(gate.gated)
	q.Move(nodeAdd, nil, nil)
	wantState(t, q, gangKey("g"), Active)
}

func TestAddingToAGatedGangAsksForTheNewMemberOnly(t *testing.T) {
	const n = 500
	gate := &gatePlugin{name: "G", gated: map[types.UID]string{}}
	q := newQueue(t, Profile{PreEnqueue: pre(gate)})
	for i := range n {
		pod := podNamed("g-" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		gate.gated[pod.UID] = "too few"
		q.Add(gangKey("g"), pod)
	}
	if gate.asked != n {
		t.Errorf("asked %d times for %d members", gate.asked, n)
	}
}

func TestRecheckGatesAndUngates(t *testing.T) {
	gate := &gatePlugin{name: "G", gated: gatedPods()}
	q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hintsOf("G", "P")})
	key := addGang(q, "g", 2)
	for _, from := range []State{Active, Unschedulable, Backoff} {
		switch from {
		case Unschedulable:
			fail(q, key, "P")
		case Backoff:
			q.StartAttempt(key)
			q.Park(key, Failure{Error: true})
		}
		wantState(t, q, key, from)
		gate.gated["uid-g-0"], gate.gated["uid-g-1"] = "no", "no"
		q.Recheck(key)
		wantState(t, q, key, Gated)
		clear(gate.gated)
		q.SetTime(q.now + 20*sec)
		q.Recheck(key)
		wantState(t, q, key, Active)
	}
}

func TestAGateThatOpensDuringABackoffWaitsForItsEnd(t *testing.T) {
	gate := &gatePlugin{name: "G", gated: gatedPods()}
	q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hintsOf("G")})
	q.Add(podKey("a"), podNamed("a"))
	q.StartAttempt(podKey("a"))
	q.Park(podKey("a"), Failure{Error: true})
	gate.gated["uid-a"] = "no"
	q.Recheck(podKey("a"))
	wantState(t, q, podKey("a"), Gated)
	clear(gate.gated)
	q.Recheck(podKey("a"))
	wantState(t, q, podKey("a"), Backoff)
}

func TestAGatedEntityShowsTheEventsItWaitsFor(t *testing.T) {
	gate := &gatePlugin{name: "G", gated: gatedPods("a", "no")}
	q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hints("G", on(nodeAdd, nil), on(podDelete, nil))})
	q.Add(podKey("a"), podNamed("a"))
	e := q.Get(podKey("a"))
	if got := e.GetGatingPluginEvents(); len(got) != 2 || got[0] != nodeAdd || e.Since() != epoch {
		t.Errorf("events %v, since %v", got, e.Since())
	}
	clear(gate.gated)
	q.Recheck(podKey("a"))
	if e.GetGatingPluginEvents() != nil || e.GatingPlugin() != "" || e.GatingMessage() != "" || e.Since() != 0 {
		t.Error("it still shows a gate")
	}
}
