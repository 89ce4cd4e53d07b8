package queue

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestTheOrderIsPriorityThenTimeThenKey(t *testing.T) {
	q := newQueue(t, Profile{})
	q.Add(podKey("c"), podNamed("c"))
	q.Add(podKey("b"), podNamed("b"))
	q.Add(gangKey("a"), podNamed("a-0"))
	q.SetTime(epoch + sec)
	q.Add(podKey("later"), podNamed("later"))
	q.Add(podKey("urgent"), withPriority(podNamed("urgent"), 5))
	for _, want := range []string{"urgent", "b", "c", "a", "later"} {
		wantHead(t, q, want)
		q.Delete(q.Head().Key(), q.Head().Pending()[0].UID)
	}
	if q.Len() != 0 {
		t.Error("something is left")
	}
}

func TestAGangHasItsHighestMembersPriority(t *testing.T) {
	q := newQueue(t, Profile{})
	addGang(q, "g", 2)
	addGang(q, "f", 2)
	wantHead(t, q, "f")
	q.Update(gangKey("g"), nil, withPriority(podNamed("g-1"), 3))
	wantHead(t, q, "g")
	q.Add(gangKey("f"), withPriority(podNamed("f-9"), 4))
	wantHead(t, q, "f")
	q.Delete(gangKey("f"), "uid-f-9")
	wantHead(t, q, "g")
	if p := q.Get(gangKey("f")).Priority(); p != 0 {
		t.Errorf("f has priority %d", p)
	}
	checkPlaces(t, q)
}

func TestHeadIsTheEntityInFlight(t *testing.T) {
	q := newQueue(t, Profile{})
	q.Add(podKey("a"), podNamed("a"))
	q.Add(podKey("b"), podNamed("b"))
	q.StartAttempt(podKey("b"))
	wantHead(t, q, "b")
	q.StartAttempt(podKey("b"))
	if n := q.Get(podKey("b")).Attempts(); n != 1 {
		t.Errorf("%d attempts", n)
	}
	q.Delete(podKey("b"), "uid-b")
	wantHead(t, q, "a")
}

func TestAGangGoesFromTheQueueToPlaced(t *testing.T) {
	q := newQueue(t, Profile{})
	key := addGang(q, "g", 3)
	q.StartAttempt(key)
	q.MarkPlaced(key, "uid-g-0")
	q.MarkPlaced(key, "uid-g-1")
	e := q.Get(key)
	if got := e.Next().Name; got != "g-2" || e.NumPlaced() != 2 || e.PlacedMembers()[1] != "uid-g-1" {
		t.Errorf("next is %s, %d held", got, e.NumPlaced())
	}
	q.MarkPlaced(key, "uid-g-2")
	q.Finish(key)
	wantState(t, q, key, Placed)
	wantHead(t, q, "none")
	for _, uid := range e.PlacedMembers() {
		q.Delete(key, uid)
	}
	if q.Get(key) != nil || q.Len() != 0 {
		t.Error("the gang is still there")
	}
}

func TestFinishRequeuesMembersThatWereNotTried(t *testing.T) {
	q := newQueue(t, Profile{})
	key := addGang(q, "g", 2)
	fail(q, key, "P")
	q.SetTime(epoch + 60*sec)
	q.StartAttempt(key)
	q.MarkPlaced(key, "uid-g-0")
	q.Finish(key)
	wantState(t, q, key, Active)
	e := q.Get(key)
	if e.GetUnschedulableCount() != 0 || e.Failed() || e.BackoffUntil() != 0 || e.Timestamp() != epoch+60*sec {
		t.Errorf(
			"it was not made anew: %d, %v, %v, %v",
			e.GetUnschedulableCount(),
			e.Failed(),
			e.BackoffUntil(),
			e.Timestamp(),
		)
	}
	if e.FirstActive() != epoch || e.Attempts() != 2 {
		t.Errorf("first active %v, %d attempts", e.FirstActive(), e.Attempts())
	}
}

func TestALateMemberWakesAPlacedGangOnly(t *testing.T) {
	q := newQueue(t, Profile{Hints: hintsOf("P")})
	key := addGang(q, "g", 1)
	q.StartAttempt(key)
	q.MarkPlaced(key, "uid-g-0")
	q.Finish(key)
	q.Add(key, podNamed("g-1"))
	wantState(t, q, key, Active)
	fail(q, key, "P")
	q.Add(key, podNamed("g-2"))
	wantState(t, q, key, Unschedulable)
}

func TestAFailedAttemptReleasesWhatItHeld(t *testing.T) {
	q := newQueue(t, Profile{Hints: hintsOf("P")})
	key := addGang(q, "g", 2)
	q.StartAttempt(key)
	q.MarkPlaced(key, "uid-g-0")
	q.MarkPending(key, "uid-g-0")
	q.Park(key, by("P"))
	wantState(t, q, key, Unschedulable)
	wantWake(t, q, 0)
	if e := q.Get(key); e.NumReady() != 2 {
		t.Errorf("%d ready", e.NumReady())
	}
}

func TestDecisionsAreFactsInAnyState(t *testing.T) {
	gate := &gatePlugin{name: "G", gated: gatedPods()}
	for _, s := range []State{Gated, Active, Backoff, Unschedulable, Placed} {
		t.Run(s.String(), func(t *testing.T) {
			clear(gate.gated)
			q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hintsOf("G", "P")})
			key := addGang(q, "g", 1)
			switch s {
			case Gated:
				gate.gated["uid-g-0"] = "no"
				q.Recheck(key)
			case Backoff:
				q.StartAttempt(key)
				q.Park(key, Failure{Error: true})
			case Unschedulable:
				fail(q, key, "P")
			case Placed:
				q.MarkPlaced(key, "uid-g-0")
			}
			wantState(t, q, key, s)
			q.StartAttempt(key)
			wantState(t, q, key, InFlight)
			q.MarkPlaced(key, "uid-g-0")
			q.Finish(key)
			wantState(t, q, key, Placed)
		})
	}
}

func TestActivateSkipsTheBackoff(t *testing.T) {
	q := newQueue(t, Profile{Hints: hintsOf("P")})
	key := podKey("a")
	q.Add(key, podNamed("a"))
	fail(q, key, "P")
	q.Activate(key)
	wantState(t, q, key, Active)
	q.StartAttempt(key)
	q.Park(key, Failure{Error: true})
	q.Activate(key)
	wantState(t, q, key, Active)
	q.StartAttempt(key)
	q.Activate(key)
	q.Park(key, by("P"))
	wantState(t, q, key, Backoff)
}

func TestCallsForUnknownEntitiesChangeNothing(t *testing.T) {
	q := newQueue(t, Profile{})
	q.Add(podKey("a"), podNamed("a"))
	before := q.AppendState(nil)
	for _, key := range []Key{podKey("nobody"), gangKey("a")} {
		q.Delete(key, "uid-a")
		q.StartAttempt(key)
		q.MarkPlaced(key, "uid-a")
		q.MarkPending(key, "uid-a")
		q.Finish(key)
		q.Park(key, Failure{})
		q.Activate(key)
		q.Recheck(key)
	}
	if !bytes.Equal(before, q.AppendState(nil)) {
		t.Error("the state changed")
	}
	q.Update(podKey("b"), nil, podNamed("b"))
	wantState(t, q, podKey("b"), Active)
}

func TestAPodThatChangesItsGangMoves(t *testing.T) {
	q := newQueue(t, Profile{})
	addGang(q, "g", 2)
	q.Add(gangKey("h"), podNamed("g-1"))
	checkPlaces(t, q)
	if q.Find("uid-g-1").Key() != gangKey("h") || q.Get(gangKey("g")).Size() != 1 {
		t.Error("it is not in its new gang, or still in its old one")
	}
}

func TestAPodOfTheSameNameMayComeBeforeTheOldOneIsGone(t *testing.T) {
	q := newQueue(t, Profile{})
	q.Add(gangKey("g"), podNamed("a"))
	again := podNamed("a")
	again.UID = "uid-again"
	q.Add(gangKey("g"), again)
	q.Delete(gangKey("g"), "uid-a")
	checkPlaces(t, q)
	if q.Get(gangKey("g")).Pending()[0] != again {
		t.Error("the wrong one is left")
	}
}

func TestEachProfileUsesItsOwnPluginsAndHints(t *testing.T) {
	gate := &gatePlugin{name: "G", gated: gatedPods("a", "no", "b", "no", "c", "no")}
	q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hints("P")}, func(o *Options) {
		o.Profiles["other"] = Profile{Hints: hints("P", on(nodeAdd, nil))}
	})
	b, c := podNamed("b"), podNamed("c")
	b.Spec.SchedulerName, c.Spec.SchedulerName = "other", "none of ours"
	q.Add(podKey("a"), podNamed("a"))
	q.Add(podKey("b"), b)
	q.Add(podKey("c"), c)
	wantState(t, q, podKey("a"), Gated)
	clear(gate.gated)
	q.Recheck(podKey("a"))
	for _, n := range []string{"a", "b", "c"} {
		fail(q, podKey(n), "P")
	}
	q.Move(nodeAdd, nil, nil)
	wantState(t, q, podKey("a"), Unschedulable)
	wantState(t, q, podKey("b"), Backoff)
	wantState(t, q, podKey("c"), Backoff)
	if q.Get(podKey("b")).Profile() != "other" {
		t.Error("wrong profile")
	}
}

func TestAnEntityIsWhatQueueSortPluginsRead(t *testing.T) {
	q := newQueue(t, Profile{})
	q.Add(podKey("a"), withPriority(podNamed("a"), 7))
	q.StartAttempt(podKey("a"))
	q.Park(podKey("a"), Failure{Plugins: []string{"R", "P", "R"}, PendingPlugins: []string{"W"}})
	var e fwk.QueuedEntityInfo = q.Get(podKey("a"))
	if e.Type() != fwk.PodKeyType || e.GetPriority() != 7 || !e.GetTimestamp().Equal(epoch.Std()) ||
		!e.GetBackoffExpiration().Equal((epoch + sec).Std()) || !e.GetInitialAttemptTimestamp().Equal(epoch.Std()) ||
		e.GetUnschedulablePlugins().Len() != 2 || !e.GetPendingPlugins().Has("W") || e.GetGatingPlugin() != "" {
		t.Errorf("it shows something else: %+v", e)
	}
	un, pending := q.Get(podKey("a")).RejectedBy()
	if len(un) != 2 || un[0] != "P" || len(pending) != 1 {
		t.Errorf("rejected by %v and %v", un, pending)
	}
}

func TestAllIsSortedByKey(t *testing.T) {
	q := newQueue(t, Profile{})
	for _, n := range []string{"c", "a", "b"} {
		q.Add(podKey(n), podNamed(n))
		q.Add(gangKey(n), podNamed("g-"+n))
	}
	all := q.All()
	for i := 1; i < len(all); i++ {
		if CompareKeys(all[i-1].Key(), all[i].Key()) >= 0 {
			t.Errorf("%v before %v", all[i-1].Key(), all[i].Key())
		}
	}
	if len(all) != 6 || q.Find(types.UID("uid-b")) != all[1] {
		t.Errorf("%d entities", len(all))
	}
}

func TestARenamedPodIsFoundByItsNewName(t *testing.T) {
	q := newQueue(t, Profile{})
	key := addGang(q, "g", 2)
	renamed := podNamed("a")
	renamed.UID = "uid-g-1"
	q.Update(key, nil, renamed)
	checkPlaces(t, q)
	if q.Get(key).Next() != renamed {
		t.Error("the members are out of order")
	}
}
