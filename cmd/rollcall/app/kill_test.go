package app

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// TestKilledAtAnyMomentASimulationLosesNothing kills the process of a simulation 50 times, at random moments, or 200
// times (fixedseed.Whole). Each time everything that it had reported is in the log it leaves, which is whole and
// replays. Each simulation that is resumed until it ends comes to the same end as one that was left alone.
func TestKilledAtAnyMomentASimulationLosesNothing(t *testing.T) {
	t.Parallel() // it waits for the disk most of the time
	killAtRandom(t, fixedseed.Of(200, 30))
}

// TestSoakKills is the same, many more times.
func TestSoakKills(t *testing.T) {
	if os.Getenv("ROLLCALL_SOAK") != "1" {
		t.Skip("skipped: it takes many minutes; set ROLLCALL_SOAK=1, or run make soak")
	}
	killAtRandom(t, 1000)
}

// TestKilledAtAnyMomentAQuietSimulationLeavesItsBeginning kills simulations that report no effects, and so are ahead of
// the disk. Each leaves the beginning of the log of the simulation left alone, which is whole and replays. If it is
// resumed until it ends, it comes to the same end, all of which is on the disk when it says so.
func TestKilledAtAnyMomentAQuietSimulationLeavesItsBeginning(t *testing.T) {
	t.Parallel()
	kills := fixedseed.Of(40, 8)
	s := newSurvivor(t, 150, "131072")
	s.withoutEffects = true
	alone := s.fresh(t)
	began := time.Now()
	p := alone.start(t, alone.command())
	if err := p.wait(); err != nil {
		t.Fatalf("left alone: %v\n%s", err, p.stderr.String())
	}
	took := time.Since(began)
	alone.wantSameEnd(t, p.stdout.String())
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	var entries, inside, ends int
	for left := kills; left > 0; {
		for s, done := s.fresh(t), false; !done; {
			p := s.start(t, s.command())
			time.Sleep(time.Duration(random.Int64N(int64(took))))
			killed := left > 0 && p.cmd.Process.Kill() == nil
			err := p.wait()
			if done = err == nil; done {
				s.wantSameEnd(t, p.stdout.String())
				ends++
				break
			}
			if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !killed || !ok ||
				status.Signal() != syscall.SIGKILL {
				t.Fatalf("the process ended by itself: %v\n%s", err, p.stderr.String())
			}
			left--
			n := s.wantBeginning(t)
			if entries += n; n > 1 && n < len(s.whole.told) {
				inside++
			}
		}
	}
	t.Logf(
		"seed %d, %s alone: %d kills, %d of them in the middle of the log; %d entries left on average; %d "+
			"simulations came to their end",
		seed,
		took.Round(time.Millisecond),
		kills,
		inside,
		entries/kills,
		ends,
	)
	if inside < kills/6 || ends == 0 {
		t.Error("too little happened: nothing was tested")
	}
}

// wantBeginning checks that a process left the beginning of the simulation left alone, and returns the number of its
// entries.
func (s *survivor) wantBeginning(t testing.TB) int {
	t.Helper()
	entries := s.look(t)
	told := tellingOf(t, entries)
	if len(told) > len(s.whole.told) || !slices.Equal(told, s.whole.told[:len(told)]) {
		t.Fatalf(
			"the %d inputs and decisions that are left are not the beginning of those of the simulation left alone",
			len(told),
		)
	}
	return len(entries)
}

func killAtRandom(t *testing.T, kills int) {
	whole := newSurvivor(t, 80, "131072")
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d entries in %s, seed %d", len(whole.whole.told)+1, whole.took.Round(time.Millisecond), seed)
	k := killer{random: rand.New(rand.NewPCG(seed, 0)), left: kills}
	for k.left > 0 {
		k.killUntilItEnds(t, whole.fresh(t))
	}
	t.Logf(
		"%d kills, %d before there was a log; %d entries and %d segments left on average; %d simulations came to "+
			"their end",
		kills,
		k.unborn,
		k.entries/kills,
		k.segments/kills,
		k.ends,
	)
	if k.ends < kills/40 || k.unborn > kills/2 || k.segments < 2*kills {
		t.Error("too little happened: nothing was tested")
	}
}

// killer kills processes, and counts the states in which they leave their logs.
type killer struct {
	random                          *rand.Rand
	left                            int // kills to go
	unborn, ends, entries, segments int
}

// killUntilItEnds resumes a simulation as often as it takes.
func (k *killer) killUntilItEnds(t *testing.T, s *survivor) {
	for {
		p := s.start(t, s.command())
		killed := k.left > 0 && k.kill(t, s, p)
		err := p.wait()
		s.acknowledge(t, p, math.MaxInt)
		if err == nil {
			s.wantSameEnd(t, p.stdout.String())
			k.ends++
			return
		}
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !killed || !ok ||
			status.Signal() != syscall.SIGKILL {
			t.Fatalf("the process ended by itself: %v\n%s", err, p.stderr.String())
		}
		k.left--
		k.entries += len(s.look(t))
		if _, err := os.Stat(s.log); err != nil {
			k.unborn++
		}
		if found, err := filepath.Glob(filepath.Join(s.log, "*.seg")); err == nil {
			k.segments += len(found)
		}
	}
}

// kill waits for a random moment and kills the process: mostly at work, sometimes while it starts, makes its log, or
// takes it over. It reports whether it was in time.
func (k *killer) kill(t *testing.T, s *survivor, p *process) bool {
	if k.random.IntN(4) == 0 {
		time.Sleep(time.Duration(k.random.Int64N(int64(60 * time.Millisecond))))
	} else {
		s.acknowledge(t, p, 1+k.random.IntN(200))
		time.Sleep(time.Duration(k.random.Int64N(int64(3 * time.Millisecond))))
	}
	return p.cmd.Process.Kill() == nil
}
