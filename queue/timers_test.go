package queue

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestBackoffDoublesUpToTheMaximum(t *testing.T) {
	for _, c := range []struct {
		name             string
		initial, max     time.Duration
		rejected, errors int
		want             time.Duration
	}{
		{"first rejection", time.Second, 10 * time.Second, 1, 0, time.Second},
		{"second", time.Second, 10 * time.Second, 2, 0, 2 * time.Second},
		{"fourth", time.Second, 10 * time.Second, 4, 0, 8 * time.Second},
		{"fifth is capped", time.Second, 10 * time.Second, 5, 0, 10 * time.Second},
		{"exactly the maximum", time.Second, 8 * time.Second, 4, 0, 8 * time.Second},
		{"many shifts", time.Second, 10 * time.Second, 1000, 0, 10 * time.Second},
		{"errors count when there are any", time.Second, 10 * time.Second, 5, 2, 2 * time.Second},
		{"other settings", 3 * time.Second, time.Minute, 3, 0, 12 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue(t, Profile{}, func(o *Options) { o.InitialBackoff, o.MaxBackoff = c.initial, c.max })
			q.Add(podKey("a"), podNamed("a"))
			for range c.rejected {
				fail(q, podKey("a"), "P")
			}
			for range c.errors {
				q.StartAttempt(podKey("a"))
				q.Park(podKey("a"), Failure{Error: true})
			}
			if got := q.Get(podKey("a")).BackoffUntil().Sub(epoch); got != c.want {
				t.Errorf("the backoff is %v, want %v", got, c.want)
			}
		})
	}
}

func TestARejectionEndsARunOfErrors(t *testing.T) {
	q := newQueue(t, Profile{})
	q.Add(podKey("a"), podNamed("a"))
	for range 3 {
		q.StartAttempt(podKey("a"))
		q.Park(podKey("a"), Failure{Error: true})
	}
	fail(q, podKey("a"), "P")
	e := q.Get(podKey("a"))
	if e.GetConsecutiveErrorsCount() != 0 || e.GetUnschedulableCount() != 1 || e.GetAttempts() != 4 {
		t.Errorf("counters are %d errors, %d rejections, %d attempts",
			e.GetConsecutiveErrorsCount(), e.GetUnschedulableCount(), e.GetAttempts())
	}
}

func TestAnErrorBacksOffAndThenGoesActive(t *testing.T) {
	q := newQueue(t, Profile{})
	q.Add(podKey("a"), podNamed("a"))
	q.StartAttempt(podKey("a"))
	q.Park(podKey("a"), Failure{Error: true})
	wantState(t, q, podKey("a"), Backoff)
	wantWake(t, q, epoch+sec)
	q.SetTime(epoch + sec - 1)
	wantState(t, q, podKey("a"), Backoff)
	q.SetTime(epoch + sec)
	wantState(t, q, podKey("a"), Active)
	wantWake(t, q, 0)
}

func TestFlushMovesWhatWasUnschedulableForLong(t *testing.T) {
	const a, b = "a", "b"
	park := func(t *testing.T) *Queue {
		q := newQueue(t, Profile{Hints: hintsOf("P")})
		q.Add(podKey(a), podNamed(a))
		q.SetTime(epoch + 7*sec)
		fail(q, podKey(a), "P")
		wantState(t, q, podKey(a), Unschedulable)
		return q
	}
	t.Run("never while nothing changes", func(t *testing.T) {
		q := park(t)
		wantWake(t, q, 0)
		q.SetTime(epoch + 100_000*sec)
		wantState(t, q, podKey(a), Unschedulable)
	})
	t.Run("what was refused outside, while nothing changes", func(t *testing.T) {
		const outsider = "E"
		q := newQueue(t, Profile{Hints: hintsOf("P", outsider)}, func(o *Options) { o.Outside = []string{outsider} })
		q.Add(podKey(a), podNamed(a))
		q.Add(podKey(b), podNamed(b))
		q.SetTime(epoch + 7*sec)
		fail(q, podKey(a), outsider)
		fail(q, podKey(b), "P")
		for _, due := range []eventlog.Time{330, 660} {
			wantWake(t, q, epoch+due*sec)
			q.SetTime(epoch + due*sec - 1)
			wantState(t, q, podKey(a), Unschedulable)
			q.SetTime(epoch + due*sec)
			wantState(t, q, podKey(a), Active)
			fail(q, podKey(a), outsider)
		}
		wantState(t, q, podKey(b), Unschedulable)
	})
	t.Run("what is gated by time, while nothing changes", func(t *testing.T) {
		for _, byTime := range []bool{false, true} {
			gate := &gatePlugin{name: "G", gated: map[types.UID]string{podNamed(a).UID: "not yet"}}
			q := newQueue(t, Profile{PreEnqueue: pre(gate)}, func(o *Options) { o.GatesByTime = byTime })
			q.SetTime(epoch + 7*sec)
			q.Add(podKey(a), podNamed(a))
			wantState(t, q, podKey(a), Gated)
			if !byTime {
				wantWake(t, q, 0)
				continue
			}
			wantWake(t, q, epoch+330*sec)
			q.SetTime(epoch + 330*sec)
			wantState(t, q, podKey(a), Gated)
			clear(gate.gated)
			wantWake(t, q, epoch+660*sec)
			q.SetTime(epoch + 660*sec - 1)
			wantState(t, q, podKey(a), Gated)
			q.SetTime(epoch + 660*sec)
			wantState(t, q, podKey(a), Active)
		}
	})
	t.Run("at the first period after five minutes", func(t *testing.T) {
		q := park(t)
		q.SetTime(epoch + 8*sec)
		q.Move(nodeAdd, nil, nil) // no plugin cares
		wantState(t, q, podKey(a), Unschedulable)
		wantWake(t, q, epoch+330*sec)
		q.SetTime(epoch + 330*sec - 1)
		wantState(t, q, podKey(a), Unschedulable)
		q.SetTime(epoch + 330*sec)
		wantState(t, q, podKey(a), Active)
	})
	t.Run("a wait that ends on a period ends on the next", func(t *testing.T) {
		q := newQueue(t, Profile{Hints: hintsOf("P")})
		q.Add(podKey(a), podNamed(a))
		fail(q, podKey(a), "P")
		q.Move(nodeAdd, nil, nil)
		wantWake(t, q, epoch+330*sec)
	})
	t.Run("a change after the wait counts from the next period", func(t *testing.T) {
		q := park(t)
		q.SetTime(epoch + 1000*sec)
		q.Add(podKey(b), podNamed(b))
		wantWake(t, q, epoch+1020*sec)
		q.SetTime(epoch + 1019*sec)
		wantState(t, q, podKey(a), Unschedulable)
		q.SetTime(epoch + 1025*sec)
		wantState(t, q, podKey(a), Active)
	})
	t.Run("once for each change", func(t *testing.T) {
		q := park(t)
		q.Move(nodeAdd, nil, nil)
		q.SetTime(epoch + 330*sec)
		fail(q, podKey(a), "P")
		wantWake(t, q, 0)
	})
	t.Run("what changed during the attempt is news", func(t *testing.T) {
		q := park(t)
		q.StartAttempt(podKey(a))
		q.Move(nodeAdd, nil, nil)
		q.Park(podKey(a), Failure{Plugins: []string{"P"}})
		wantState(t, q, podKey(a), Unschedulable)
		wantWake(t, q, epoch+330*sec)
	})
	t.Run("gated entities are asked again and rest anew", func(t *testing.T) {
		gate := &gatePlugin{name: "G", gated: gatedPods("a", "not yet")}
		q := newQueue(t, Profile{PreEnqueue: pre(gate), Hints: hintsOf("G")})
		q.Add(podKey(a), podNamed(a))
		q.Move(nodeAdd, nil, nil)
		q.SetTime(epoch + 330*sec)
		wantState(t, q, podKey(a), Gated)
		wantWake(t, q, 0)
		q.Move(nodeAdd, nil, nil)
		clear(gate.gated)
		wantWake(t, q, epoch+660*sec)
		q.SetTime(epoch + 660*sec)
		wantState(t, q, podKey(a), Active)
	})
}

func TestTimeGoingBackPanics(t *testing.T) {
	q := newQueue(t, Profile{})
	defer func() {
		if s, _ := recover().(string); !strings.Contains(s, "time went back") {
			t.Errorf("recovered %q", s)
		}
	}()
	q.SetTime(epoch - 1)
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		opts Options
		want string
	}{
		{"no order", Options{}, "Less"},
		{"negative", Options{Less: byPriority, FlushAfter: -1}, "FlushAfter"},
		{"maximum below initial", Options{Less: byPriority, InitialBackoff: 2, MaxBackoff: 1}, "MaxBackoff"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := New(c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %s", err, c.want)
			}
		})
	}
	q, err := New(Options{Less: byPriority, InitialBackoff: time.Minute})
	if err != nil || q.opts.MaxBackoff != time.Minute || q.opts.FlushAfter != 5*time.Minute ||
		q.opts.FlushPeriod != 30*time.Second {
		t.Errorf("defaults: %v, %+v", err, q.opts)
	}
}

func TestAppendStateKeepsWhatItWasGiven(t *testing.T) {
	q := newQueue(t, Profile{})
	q.Add(podKey("a"), podNamed("a"))
	if got := q.AppendState([]byte("before")); !bytes.HasPrefix(got, []byte("before")) {
		t.Error("the prefix is gone")
	}
}
