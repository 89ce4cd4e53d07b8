package queue

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// hintful is a profile whose plugins A, B and C each wait for an event of their own; Only waits for the gang member
// g-1.
func hintful() Profile {
	return Profile{Hints: map[string][]fwk.ClusterEventWithHint{
		"A":    {on(nodeAdd, nil)},
		"B":    {on(podDelete, nil)},
		"C":    {on(nodeLabel, nil)},
		"Only": {on(nodeAdd, onlyFor("g-1"))},
	}}
}

// restored writes the queue down and makes another one of that, with equal options.
func restored(t *testing.T, q *Queue) *Queue {
	t.Helper()
	again, err := New(q.opts)
	if err != nil {
		t.Fatal(err)
	}
	state := q.AppendState(nil)
	r := canonical.NewReader(state)
	err = again.Restore(r, q.now, func(uid types.UID) *v1.Pod {
		if m := q.byUID[uid]; m != nil {
			return m.pod
		}
		return nil
	})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.AppendState(nil), state) {
		t.Fatal("what was restored is not what was written down")
	}
	return again
}

// told are calls on a queue, about the gang g, which has the members g-0 and g-1.
type told []func(*Queue)

var (
	startAttempt = func(q *Queue) { q.StartAttempt(gangKey("g")) }
	finish       = func(q *Queue) { q.Finish(gangKey("g")) }
)

func park(f Failure) func(*Queue)   { return func(q *Queue) { q.Park(gangKey("g"), f) } }
func refuse(f Failure) func(*Queue) { return func(q *Queue) { q.Refuse(gangKey("g"), f) } }
func markPlaced(pod string) func(*Queue) {
	return func(q *Queue) { q.MarkPlaced(gangKey("g"), types.UID("uid-"+pod)) }
}
func markPending(pod string) func(*Queue) {
	return func(q *Queue) { q.MarkPending(gangKey("g"), types.UID("uid-"+pod)) }
}
func move(ev fwk.ClusterEvent) func(*Queue) { return func(q *Queue) { q.Move(ev, nil, nil) } }
func pass(d time.Duration) func(*Queue)     { return func(q *Queue) { q.SetTime(q.now.Add(d)) } }

// blaming is a failure that the plugins are to blame for.
func blaming(plugins ...string) Failure { return Failure{Plugins: plugins} }

// fieldCases has, for each encoded field of an entity, states in which the next step depends on that field alone.
var fieldCases = []struct {
	field         string
	before, after told
	want          State
	wantNext      string // the member whose turn it is, if that matters
}{
	// The event of a plugin that answered Pending lets the gang skip its backoff.
	{
		"pendingPlugins of the last attempt",
		told{startAttempt, park(Failure{PendingPlugins: []string{"A"}})},
		told{move(nodeAdd)},
		Active,
		"",
	},
	{
		"pendingPlugins of the attempt under way",
		told{startAttempt, refuse(Failure{UID: "uid-g-0", PendingPlugins: []string{"A"}}), move(nodeAdd)},
		told{finish},
		Active,
		"",
	},
	// A failure that nobody is to blame for, or a plugin that told no events, is retried after any event.
	{"notedAny, with no plugin to blame", told{startAttempt, move(nodeAdd)}, told{park(Failure{})}, Backoff, ""},
	{
		"notedAny, with a plugin that told no events",
		told{startAttempt, move(nodeAdd)},
		told{park(blaming("Unknown"))},
		Backoff,
		"",
	},
	{"notedAll", told{startAttempt, move(wildcard)}, told{park(blaming("A"))}, Backoff, ""},
	{"noted", told{startAttempt, move(nodeAdd)}, told{park(blaming("A"))}, Backoff, ""},
	// An event that helps a member that was not refused is of no use to the one that was.
	{
		"refused in the last attempt",
		told{startAttempt, park(Failure{UID: "uid-g-0", Plugins: []string{"Only"}})},
		told{move(nodeAdd)},
		Unschedulable,
		"",
	},
	{
		"refused in the attempt under way",
		told{startAttempt, refuse(Failure{UID: "uid-g-0", Plugins: []string{"Only"}})},
		told{finish, move(nodeAdd)},
		Unschedulable,
		"",
	},
	{"tried", told{startAttempt, refuse(Failure{UID: "uid-g-0", Plugins: []string{"A"}})}, nil, InFlight, "g-1"},
	{"placed", told{startAttempt, markPlaced("g-0")}, nil, InFlight, "g-1"},
	{"plugins of the last attempt", told{startAttempt, park(blaming("A"))}, told{move(podDelete)}, Unschedulable, ""},
	{
		"plugins of the attempt under way",
		told{startAttempt, refuse(Failure{UID: "uid-g-0", Plugins: []string{"A"}}), move(nodeAdd)},
		told{finish},
		Backoff,
		"",
	},
	{
		"failed",
		told{startAttempt, refuse(Failure{UID: "uid-g-0", Plugins: []string{"A"}})},
		told{finish},
		Unschedulable,
		"",
	},
	{"erred", told{startAttempt, refuse(Failure{UID: "uid-g-0", Error: true})}, told{finish}, Backoff, ""},
	{"backoffUntil", told{startAttempt, park(Failure{Error: true})}, told{pass(999 * time.Millisecond)}, Backoff, ""},
	{
		"unschedulableCount",
		told{startAttempt, park(blaming("A")), startAttempt, park(blaming("A")), startAttempt},
		told{park(blaming("A")), move(nodeAdd), pass(3999 * time.Millisecond)},
		Backoff,
		"",
	},
	{
		"errorCount",
		told{startAttempt, park(Failure{Error: true}), startAttempt, park(Failure{Error: true}), startAttempt},
		told{park(Failure{Error: true}), pass(3999 * time.Millisecond)},
		Backoff,
		"",
	},
	// A gang that fails after it was placed, with nothing new since, is not tried again.
	{
		"begun",
		told{startAttempt, markPlaced("g-0"), markPlaced("g-1"), finish, markPending("g-0")},
		told{park(Failure{UID: "uid-g-0", Plugins: []string{"A"}})},
		Unschedulable,
		"",
	},
	{
		"since",
		told{pass(time.Minute), startAttempt, park(blaming("A")), move(podDelete)},
		told{pass(DefaultFlushAfter - time.Second)},
		Unschedulable,
		"",
	},
	// Nothing has changed since it came to rest, so that time alone does not retry it.
	{"stamp", told{startAttempt, park(blaming("A"))}, told{pass(time.Hour)}, Unschedulable, ""},
	{
		"changedAt",
		told{startAttempt, park(blaming("A")), pass(time.Hour), move(podDelete)},
		told{pass(DefaultFlushPeriod - time.Second)},
		Unschedulable,
		"",
	},
}

// TestEachFieldOfTheStateDecidesWhatComesAfterARestore makes the same calls on a queue that was encoded, and on one
// that was restored from these bytes. Both must equal a queue that was never encoded.
func TestEachFieldOfTheStateDecidesWhatComesAfterARestore(t *testing.T) {
	for _, c := range fieldCases {
		t.Run(c.field, func(t *testing.T) {
			q := newQueue(t, hintful())
			addGang(q, "g", 2)
			for _, tell := range c.before {
				tell(q)
			}
			again := restored(t, q)
			for _, q := range []*Queue{q, again} {
				for _, tell := range c.after {
					tell(q)
				}
				wantState(t, q, gangKey("g"), c.want)
				if next := q.Get(gangKey("g")).Next(); c.wantNext != "" && (next == nil || next.Name != c.wantNext) {
					t.Errorf("the next member is not %s", c.wantNext)
				}
			}
			wantAlike(t, q, again)
			wantAsLong(t, q, again)
		})
	}
}

// TestARestoredQueueShowsWhatTheOriginalShows is about what others read of an entity, and about members that are kept
// out.
func TestARestoredQueueShowsWhatTheOriginalShows(t *testing.T) {
	gate := &gatePlugin{name: "Gate", gated: map[types.UID]string{"uid-a-0": "wait for it", "uid-a-1": "not yet"}}
	p := hintful()
	p.PreEnqueue = []fwk.PreEnqueuePlugin{gate}
	q := newQueue(t, p, func(o *Options) { o.Room = func(*Entity) bool { return false } })
	addGang(q, "a", 2)
	gate.gated["uid-a-0"] = "wait longer"
	q.Update(gangKey("a"), nil, podNamed("a-0")) // tested last, though not the last by name
	addGang(q, "g", 2)
	for _, tell := range (told{pass(time.Second), startAttempt, park(blaming("A")), move(nodeAdd), pass(time.Minute)}) {
		tell(q)
	}
	q.ChooseHead()
	if e := q.Get(gangKey("g")); !e.Retryable() {
		t.Fatalf("the gang is %v, want a retry owed to it", e.State())
	}
	wantState(t, q, gangKey("a"), Gated)
	again := restored(t, q)
	wantAlike(t, q, again)
	checkPlaces(t, again)
	clear(gate.gated)
	for _, q := range []*Queue{q, again} {
		q.Recheck(gangKey("a"))
		wantState(t, q, gangKey("a"), Active)
		q.opts.Room = func(*Entity) bool { return true }
		q.Move(podDelete, nil, nil)
		q.ChooseHead()
		wantHead(t, q, "a")
		q.Delete(gangKey("a"), "uid-a-0")
		q.Delete(gangKey("a"), "uid-a-1")
		q.ChooseHead()
		wantHead(t, q, "g") // with no event of its own: it was retryable
	}
	wantAlike(t, q, again)
}

// wantAlike compares all that can be seen of the entities, and what would be written down.
func wantAlike(t *testing.T, q, again *Queue) {
	t.Helper()
	if diff := cmp.Diff(shown(q), shown(again)); diff != "" {
		t.Errorf("the restored queue shows something else (- original, + restored):\n%s", diff)
	}
	if !bytes.Equal(q.AppendState(nil), again.AppendState(nil)) {
		t.Error("the restored queue would be written down otherwise")
	}
}

func shown(q *Queue) (lines []string) {
	for _, e := range q.sorted.all() {
		refused, pending := e.RejectedBy()
		lines = append(
			lines,
			fmt.Sprintf(
				"%v of %s %v owed %v, first active %v, since %v, %v, backoff until %v, %d attempts, %d failed, %d "+
					"with an error, by %v %v, gated by %q: %q",
				e.key,
				e.profile,
				e.state,
				e.retryable,
				e.FirstActive(),
				e.Since(),
				e.Timestamp(),
				e.BackoffUntil(),
				e.Attempts(),
				e.GetUnschedulableCount(),
				e.GetConsecutiveErrorsCount(),
				refused,
				pending,
				e.GatingPlugin(),
				e.GatingMessage(),
			),
		)
		for _, m := range e.members {
			name, message, _ := e.Gate(m.pod.UID)
			lines = append(lines, fmt.Sprintf("%s held %v, gated by %q: %q", m.pod.Name, m.placed, name, message))
		}
	}
	return lines
}

// wantAsLong checks that time alone brings both queues the same heads at the same times.
func wantAsLong(t *testing.T, q, again *Queue) {
	t.Helper()
	var wakes [2][]eventlog.Time
	for i, q := range []*Queue{q, again} {
		for range 3 {
			at, ok := q.Wake()
			if !ok {
				break
			}
			q.SetTime(at)
			wakes[i] = append(wakes[i], at)
		}
	}
	if !slices.Equal(wakes[0], wakes[1]) {
		t.Errorf("the original wakes at %v, the restored one at %v", wakes[0], wakes[1])
	}
}
