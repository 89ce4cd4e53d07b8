package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// told writes a Ready down, a line for each thing that it has.
func told(r engine.Ready, now time.Time) string {
	var b strings.Builder
	for _, c := range r.Commits {
		var kinds []string
		for _, e := range c.Entries {
			kinds = append(kinds, e.Kind().String())
		}
		fmt.Fprintf(&b, "commit %d-%d: %s\n", c.Entries[0].Seq, c.Last(), strings.Join(kinds, " "))
	}
	for _, x := range r.Effects {
		switch x.Kind {
		case scheduler.Bind:
			fmt.Fprintf(&b, "bind %s to %s, by entry %d", x.Pod.Name, x.Node, x.Seq)
		case scheduler.Evict:
			fmt.Fprintf(&b, "evict %s, by entry %d, makes room: %t", x.Name, x.Seq, x.MakesRoom)
			if x.Decision != nil {
				fmt.Fprintf(&b, " for %s of %s", x.Decision.Name, x.Scheduler)
			}
		}
		if x.Earlier {
			b.WriteString(", of an earlier epoch")
		}
		b.WriteString("\n")
	}
	for _, w := range r.Withdrawals {
		fmt.Fprintf(&b, "withdraw %s, by entry %d\n", w.UID, w.Seq)
	}
	if !r.Wake.IsZero() {
		fmt.Fprintf(&b, "wake in %s\n", r.Wake.Sub(now))
	}
	if r.Busy {
		b.WriteString("busy\n")
	}
	return b.String()
}

// turn is a call of the engine and the Ready that it returns.
type turn struct {
	call string
	do   func(*engine.Engine, time.Time) (engine.Ready, error)
	want string
}

// step is a turn of Step, advance one of Advance.
func step(call, want string, inputs ...eventlog.Payload) turn {
	return turn{call, func(e *engine.Engine, now time.Time) (engine.Ready, error) {
		return e.Step(context.Background(), now, inputs)
	}, want}
}

func advance(call, want string, inputs ...eventlog.Payload) turn {
	return turn{call, func(e *engine.Engine, now time.Time) (engine.Ready, error) {
		return e.Advance(context.Background(), now, inputs)
	}, want}
}

// tell calls the engine turn by turn, a second apart, and compares what it returns.
func tell(t *testing.T, e *engine.Engine, now time.Time, turns []turn) {
	t.Helper()
	for i, turn := range turns {
		now = now.Add(time.Second)
		ready, err := turn.do(e, now)
		if err != nil {
			t.Fatalf("turn %d, %s: %v", i+1, turn.call, err)
		}
		got := strings.Split(strings.TrimSpace(told(ready, now)), "\n")
		var want []string
		for line := range strings.Lines(strings.TrimSpace(turn.want)) {
			want = append(want, strings.TrimSpace(line))
		}
		if len(want) == 0 {
			want = []string{""}
		}
		if !slices.Equal(got, want) {
			t.Errorf("turn %d, %s:\n%s\nwant:\n%s", i+1, turn.call, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func withPriority(p eventlog.Payload, priority int32) eventlog.Payload {
	p.(*eventlog.Upserted).Object.(*v1.Pod).Spec.Priority = &priority
	return p
}

// TestASequenceOfReadyValues shows the values for a driver that waits for the disk in each turn.
func TestASequenceOfReadyValues(t *testing.T) {
	log := eventlog.NewMemory()
	e := openReleasing(t, log, engine.WhenDurable, nil)
	victim := withPriority(pod("low", "3", ""), 1)
	bound := &eventlog.BindResult{UID: "uid-low", Node: "n1", Outcome: eventlog.BindBound, Decision: 4}
	turns := []turn{
		step("a node and a pod that fits", `
			commit 1-1: EpochStarted
			commit 2-4: Upserted Upserted Decision
			bind low to n1, by entry 4`, node("n1", "4"), victim),
		step("nothing has happened", ``),
		step("the pod is bound", `
			commit 5-5: BindResult`, bound),
		step("a more important pod comes", `
			commit 6-7: Upserted Decision
			evict low, by entry 7, makes room: true for high of default-scheduler`,
			withPriority(pod("high", "4", ""), 9)),
		step("the API server has not answered yet, and the preemptor is deleted", `
			commit 8-8: Deleted
			withdraw uid-low, by entry 7`, gone("high")),
		step("there is no result yet", `
			withdraw uid-low, by entry 7`),
		step("the eviction was not sent", `
			commit 9-9: EvictResult`,
			&eventlog.EvictResult{UID: "uid-low", Outcome: eventlog.EvictWithdrawn, Decision: 7}),
		step("a pod that fits nowhere", `
			commit 10-11: Upserted Decision`, pod("wide", "16", "")),
		step("room for it comes while it is backed off", `
			commit 12-13: Upserted Decision
			bind wide to n2, by entry 13`, node("n2", "32")),
	}
	tell(t, e, start, turns)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openReleasing(t, log, engine.WhenDurable, nil)
	tell(t, e, start.Add(time.Minute), []turn{
		step("the next epoch, in which the bind of wide has no result yet", `
			commit 14-14: EpochStarted
			bind wide to n2, by entry 13, of an earlier epoch`),
	})
	verify(t, log, false)
}

// TestASequenceOfReadyValuesAheadOfTheDisk shows the values for a driver that does not wait for the disk.
func TestASequenceOfReadyValuesAheadOfTheDisk(t *testing.T) {
	e, log := held(t, engine.WhenDurable)
	// begins has the engine take in pod a, and waits until its append is under way; appended lets that succeed, and
	// calls the engine without inputs.
	begins := func(e *engine.Engine, now time.Time) (engine.Ready, error) {
		ready, err := e.Advance(context.Background(), now, []eventlog.Payload{pod("a", "1", "")})
		<-log.entered
		return ready, err
	}
	appended := func(e *engine.Engine, now time.Time) (engine.Ready, error) {
		log.goOn <- nil
		<-e.Appended()
		if e.Durable() < e.Machine().Seq() {
			<-log.entered
		}
		return e.Advance(context.Background(), now, nil)
	}
	tell(t, e, start, []turn{
		{"a pod that fits is decided on, and being appended", begins, ``},
		advance("so are two more", ``, pod("b", "1", ""), pod("c", "1", "")),
		{"the first append has succeeded", appended, `
			commit 3-4: Upserted Decision
			bind a to n1, by entry 4`},
		{"the second one has all that came meanwhile", appended, `
			commit 5-8: Upserted Upserted Decision Decision
			bind b to n1, by entry 7
			bind c to n1, by entry 8`},
		advance("nothing comes twice", ``),
	})
	log.held = false
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	verify(t, log.Memory, false)
}
