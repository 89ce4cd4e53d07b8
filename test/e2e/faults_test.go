package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/faults"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// timesInCI is the number of times that each fault is to happen, and timesInSoak how often with ROLLCALL_SOAK=1.
const (
	timesInCI   = 5
	timesInSoak = 100
)

// times is the number of times that each fault is to happen. A number in ROLLCALL_SOAK above 1 means itself.
func times() int {
	text := os.Getenv("ROLLCALL_SOAK")
	if text == "" {
		return timesInCI
	}
	if n, err := strconv.Atoi(text); err == nil && n > 1 {
		return n
	}
	return timesInSoak
}

// behind starts the scheduler behind a proxy.
func (w *world) behind(seed uint64, rules []faults.Rule) *faults.Proxy {
	w.Helper()
	p := faults.ForTest(w.T, w.c, faults.Options{Seed: seed, Rules: rules})
	o := w.options()
	o.Server = p.URL()
	w.start(o)
	return p
}

// full creates gangs of four that ask together for exactly the 16 processors that the nodes have, and returns how many
// pods they have.
func (w *world) full(gangs int) int {
	w.Helper()
	for i := range gangs {
		w.gang(fmt.Sprintf("g%03d", i), 4, fmt.Sprintf("%dm", 16000/(4*gangs)))
	}
	return 4 * gangs
}

// TestWhateverBecomesOfABindGangsAreBoundWhole has each fault of a bind happen, on nodes that have just enough room.
func TestWhateverBecomesOfABindGangsAreBoundWhole(t *testing.T) {
	needsRollcall(t, "kube-scheduler asks for other nodes after a bind that was done and answered with an error")
	faultsByEachAPI(t, func(w *world) {
		var rules []faults.Rule
		for _, f := range faults.BindFaults() {
			rules = append(rules, faults.Rule{
				Kind: faults.Binds, Fault: f, Probability: 0.1, Delay: 200 * time.Millisecond, Most: times(),
			})
		}
		p := w.behind(1, rules)
		pods := w.full(10 * times())
		w.waitFor("g", pods, bound)
		for _, f := range faults.BindFaults() {
			if n := p.Counts()[f]; n < times() {
				w.Errorf("%s: happened %d times, wanted %d", f, n, times())
			}
		}
		w.audit(pods)
	})
}

// TestWhateverBecomesOfWatchesGangsAreBoundWhole has watches end, expire and lag while gangs come and go, until each
// has happened often enough. Four gangs fill the nodes: the next one is placed only once the first one is seen to be
// gone.
func TestWhateverBecomesOfWatchesGangsAreBoundWhole(t *testing.T) {
	late := time.Second
	if times() > timesInCI {
		late = 10 * time.Second
	}
	faultsByEachAPI(t, func(w *world) {
		rules := []faults.Rule{
			{Kind: faults.Watches, Fault: faults.Watch410, Probability: 0.3, Most: times()},
			{Kind: faults.Watches, Fault: faults.WatchLate, Probability: 0.5, Delay: late, Life: late, Most: times()},
			{
				// More often than is asked for: a watch that lives makes no request to which 410 can be the answer.
				Kind: faults.Watches, Fault: faults.WatchClosed, Probability: 1, Delay: 300 * time.Millisecond,
				Most: 10 * times(),
			},
		}
		p := w.behind(1, rules)
		happened := func() (all bool) {
			all = true
			for _, rule := range rules {
				all = all && p.Counts()[rule.Fault] >= times()
			}
			return all
		}
		begun, gangs := time.Now(), 0
		for ; gangs < 10 || !happened(); gangs++ {
			if time.Since(begun) > 20*time.Minute {
				w.Fatalf("after %v these faults have happened, each wanted %d times: %v", time.Since(begun), times(),
					p.Counts())
			}
			w.gang(fmt.Sprintf("g%04d", gangs), 4, "1")
			w.waitFor(fmt.Sprintf("g%04d-", gangs), 4, bound)
			for member := range 4 {
				if gangs >= 3 {
					w.remove(fmt.Sprintf("g%04d-%d", gangs-3, member))
				}
			}
		}
		w.audit(4 * gangs)
	})
}

// TestKilledAtAnyMomentASchedulerBindsEachGangWhole kills the scheduler with signal 9 while it works off a backlog
// whose binds arrive late or are answered late, and starts it again on its log.
func TestKilledAtAnyMomentASchedulerBindsEachGangWhole(t *testing.T) {
	faultsByEachAPI(t, func(w *world) {
		pods := w.full(10 * times())
		w.behind(2, []faults.Rule{
			{Kind: faults.Binds, Fault: faults.Slow, Probability: 0.4, Delay: 200 * time.Millisecond},
			{Kind: faults.Binds, Fault: faults.Late, Probability: 0.3, Delay: 50 * time.Millisecond},
		})
		moment := rand.New(rand.NewPCG(2, 2))
		for i := range times() {
			w.waitFor("g", 1+i*pods/(2*times()), bound)
			time.Sleep(time.Duration(moment.IntN(20)) * time.Millisecond)
			w.scheduler.Kill()
			w.Logf("kill %d left %d gangs bound in part", i+1, w.inPart("g", 4))
			if err := w.scheduler.Start(w.Context()); err != nil {
				w.Fatal(err)
			}
		}
		w.waitFor("g", pods, bound)
		w.audit(pods)
	})
}

// TestPodsThatComeAndGoLeaveNoGangInPart deletes members and ends others while gangs are bound and wait for room.
func TestPodsThatComeAndGoLeaveNoGangInPart(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		w.start(w.options())
		pods := w.full(8)
		w.waitFor("g", pods, bound)
		w.gang("wants-room", 4, "500m")
		w.waitFor("wants-room-", 4, unschedulable)
		if err := accountant.Look(w.Context(), w.c); err != nil {
			w.Fatal(err)
		}
		for i := range 4 {
			w.remove(fmt.Sprintf("g000-%d", i))
		}
		w.waitFor("wants-room-", 4, bound)
		w.audit(pods + 4)
	})
}

// TestAPodMadeAgainUnderItsNameIsAnotherPod deletes pods that were just created, and makes them again, while their
// binds are under way.
func TestAPodMadeAgainUnderItsNameIsAnotherPod(t *testing.T) {
	w := newWorld(t, true, cluster.Options{})
	w.behind(3, []faults.Rule{{
		Kind: faults.Binds, Fault: faults.Late, Probability: 0.5, Delay: 100 * time.Millisecond,
	}})
	for i := range 20 {
		name := fmt.Sprintf("p%02d", i)
		w.create(w.pod(name, "", "100m"))
		if i%3 == 0 {
			w.waitFor(name, 1, bound)
		}
		w.remove(name)
		w.create(w.pod(name, "", "100m"))
	}
	w.waitFor("p", 20, bound)
	accountant.Audit(t, w.c, w.scheduler)
}

// TestASecondSchedulerWithTheSameNameBindsNothingTwice runs two schedulers of the same name with logs of their own, as
// happens when the first was cut off and did not end. The API server lets only one of them bind each pod.
func TestASecondSchedulerWithTheSameNameBindsNothingTwice(t *testing.T) {
	w := newWorld(t, true, cluster.Options{})
	w.start(w.options())
	first := w.scheduler
	o := w.options()
	o.User = "second"
	second := schedulers.ForTest(t, w.c, o)
	for i := range 20 {
		w.create(w.pod(fmt.Sprintf("p%02d", i), "", "100m"))
	}
	w.waitFor("p", 20, bound)
	a := accountant.Audit(t, w.c, first)
	if n := a.Bound(first.User) + a.Bound(second.User); n != 20 {
		t.Errorf("%d pods were bound, wanted 20", n)
	}
}
