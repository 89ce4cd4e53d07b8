package histories_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/test/histories"
)

// together is the number of histories made at the same time: most of the time they wait.
const together = 4

func TestMain(m *testing.M) {
	histories.TakeRole()
	if err := flag.Set("test.parallel", strconv.Itoa(together)); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// make makes a history and checks it.
func check(t *testing.T, p histories.Plan) *histories.Recording {
	t.Helper()
	r := histories.Make(t, p)
	if r == nil {
		return nil
	}
	found := histories.Check(r)
	if len(found) > 0 {
		t.Errorf("%s", p)
	}
	for i, v := range found {
		if i == 20 {
			t.Errorf("and %d more", len(found)-i)
			break
		}
		t.Error(v)
	}
	leads := 0
	for _, notes := range r.Notes { // any order
		for _, n := range notes {
			if n.What == histories.Leads {
				leads++
			}
		}
	}
	if leads <= p.Takeovers {
		t.Errorf("%s\nschedulers have led %d times, want more than %d", p, leads, p.Takeovers)
	}
	t.Logf("%d entries, %d binds and evictions, %d processes, %d leads", len(r.Entries), len(r.Calls), len(r.Notes),
		leads)
	return r
}

// TestNothingGoesWrong makes a history without faults. No scheduler ends and none loses its lead.
func TestNothingGoesWrong(t *testing.T) {
	t.Parallel()
	r := check(t, histories.Plan{Name: "no faults", Seed: 1, Schedulers: 2, Patience: 10 * time.Second,
		Lease: time.Minute, Every: 20 * time.Millisecond, Lasts: 2 * time.Second})
	if r == nil {
		return
	}
	wantNoErrors(t, r)
}

// wantNoErrors checks that no scheduler has ended or lost its lead.
func wantNoErrors(t *testing.T, r *histories.Recording) {
	t.Helper()
	for name, notes := range r.Notes { // any order
		for _, n := range notes {
			if n.What == histories.Lost || n.What == histories.Failed {
				t.Errorf("scheduler %s: %s, %s", name, n.What, n.Text)
			}
		}
	}
}

// TestServersAreRestartedUnderSchedulers restarts the servers one after the other while decisions are made. No error
// reaches a scheduler; it tells how long the longest pause was.
func TestServersAreRestartedUnderSchedulers(t *testing.T) {
	t.Parallel()
	r := check(t, histories.RollingRestart())
	if r == nil {
		return
	}
	wantNoErrors(t, r)
	var acknowledged []time.Time
	for _, notes := range r.Notes { // any order: they are sorted
		for _, n := range notes {
			if n.What == histories.Acknowledged {
				acknowledged = append(acknowledged, n.At)
			}
		}
	}
	slices.SortFunc(acknowledged, time.Time.Compare)
	longest := time.Duration(0)
	for i := 1; i < len(acknowledged); i++ {
		longest = max(longest, acknowledged[i].Sub(acknowledged[i-1]))
	}
	t.Logf("%d appends, the longest time between two of them is %s", len(acknowledged), longest.Round(time.Millisecond))
}

// TestWrittenHistories makes the histories of schedules that are known to be hard.
func TestWrittenHistories(t *testing.T) {
	for _, p := range histories.Written() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			check(t, p)
		})
	}
}

// TestHistoriesInARealNetwork makes those in which hosts are network namespaces, and packets between them are lost. The
// process starts itself again in a namespace of its own, which is the router.
func TestHistoriesInARealNetwork(t *testing.T) {
	started, out, missing, err := histories.InNetwork("-test.run=^TestHistoriesInARealNetwork$", "-test.v")
	if missing != "" {
		t.Skipf("skipped: %s", missing)
	}
	if started {
		if err != nil {
			t.Errorf("%v", err)
		}
		t.Logf("in a network namespace of its own:\n%s", out)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range histories.Networked() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			check(t, p)
		})
	}
}

// seedVariable names the seed of the one random history that is to be made.
const seedVariable = "ROLLCALL_HISTORY"

// TestRandomHistories makes random histories: with ROLLCALL_HISTORY set the history of this seed, with ROLLCALL_SOAK
// 200 with random seeds, and otherwise always the same ten.
func TestRandomHistories(t *testing.T) {
	var seeds []uint64
	switch {
	case os.Getenv(seedVariable) != "":
		seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	case os.Getenv("ROLLCALL_SOAK") != "":
		base := uint64(time.Now().UnixMicro())
		for i := range uint64(200) {
			seeds = append(seeds, base+i)
		}
	default:
		for i := range uint64(10) {
			seeds = append(seeds, i+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			check(t, histories.Random(seed))
		})
	}
}

// BenchmarkTakeover kills a leader and measures how long a standby needs to bind the next gang, where it goes, and
// prints it. ROLLCALL_SOAK=1 has it measure 5,000 nodes and 100,000 pods, which takes some minutes.
func BenchmarkTakeover(b *testing.B) {
	sizes := [][2]int{{500, 2000}}
	if os.Getenv("ROLLCALL_SOAK") != "" {
		sizes = append(sizes, [2]int{5000, 100000})
	}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("nodes=%d,pods=%d", size[0], size[1]), func(b *testing.B) {
			for range b.N {
				r, err := histories.MeasureTakeover(b, size[0], size[1], 50)
				if err != nil {
					b.Fatal(err)
				}
				b.Logf("%d entries; the leader is gone: %s; the lead begun: %s; the state taken over: %s; the first "+
					"member bound: %s; all: %s", r.Entries, r.Gone.Round(time.Millisecond),
					r.Leads.Round(time.Millisecond), r.TakenOver.Round(time.Millisecond),
					r.First.Round(time.Millisecond), r.All.Round(time.Millisecond))
				b.ReportMetric(r.All.Seconds(), "s/takeover")
			}
		})
	}
}
