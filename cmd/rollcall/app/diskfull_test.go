//go:build linux

package app

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/internal/smalldisk"
)

// In each of these tests the disk stops 8 simulations, or 50 (fixedseed.Whole), each at a random point. Every time the
// process has to stop with exit code 1 and say what to do. The effects that it reported have to be in the log that it
// leaves, which is whole and replays. Once the disk is in order, --resume comes to the same end as a simulation left
// alone.
var diskFailures = fixedseed.Of(50, 8)

// TestOnAFullDiskNothingIsReleasedAndWithRoomItGoesOn gives a simulation a file system that is too small for its log.
func TestOnAFullDiskNothingIsReleasedAndWithRoomItGoesOn(t *testing.T) {
	t.Parallel()
	onAFullDisk(t, newSurvivor(t, 30, "98304"), diskFailures)
}

// TestOnAFullDiskAQuietSimulationLeavesItsBeginningAndWithRoomItGoesOn fills the disk of a simulation that reports no
// effects, and so is ahead of the disk.
func TestOnAFullDiskAQuietSimulationLeavesItsBeginningAndWithRoomItGoesOn(t *testing.T) {
	t.Parallel()
	whole := newSurvivor(t, 60, "98304")
	whole.withoutEffects = true
	onAFullDisk(t, whole, diskFailures/2)
}

func onAFullDisk(t *testing.T, whole *survivor, stops int) {
	t.Helper()
	disk := &logDisk{Disk: smalldisk.New(t)}
	room := disk.measure(t, whole)
	stopAndResume(t, whole, stops, func(s *survivor, random *rand.Rand) *process {
		if !strings.HasPrefix(s.log, disk.Root) {
			s.log = disk.fresh(t)
			disk.Resize(t, 4096+random.Int64N(room))
		} // else it is tried on the disk as it is
		p := s.start(t, s.command())
		s.ended(t, p)
		return p
	}, func(*survivor) { disk.Resize(t, 64<<20) })
}

// TestAtTheLimitOfAFilesSizeNothingIsReleasedAndWithoutItGoesOn sets RLIMIT_FSIZE for a process at work, so that a
// write in the middle of a commit is cut short or refused. The limit is never within a file's first two pages. A disk
// writes their one sector that matters wholly or not at all: to cut them anywhere is damage.
func TestAtTheLimitOfAFilesSizeNothingIsReleasedAndWithoutItGoesOn(t *testing.T) {
	t.Parallel()
	stopAndResume(t, newSurvivor(t, 30, "98304"), diskFailures, func(s *survivor, random *rand.Rand) *process {
		p := s.start(t, s.command())
		s.acknowledge(t, p, max(0, random.IntN(150)-25))
		limit := unix.Rlimit{Cur: uint64(8<<10 + random.Int64N(88<<10)), Max: math.MaxUint64}
		if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
			t.Fatal(err)
		}
		s.ended(t, p)
		return p
	}, func(*survivor) {})
}

// TestAfterAFailedSyncNothingIsReleasedAndLaterItGoesOn makes every fsync and fdatasync fail from one on.
func TestAfterAFailedSyncNothingIsReleasedAndLaterItGoesOn(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command(
		"strace",
		"-f",
		"--seccomp-bpf",
		"-qq",
		"-e",
		"inject=fsync:error=EIO",
		"true",
	).CombinedOutput(); err != nil {
		t.Skipf("skipped: it takes strace, and the right to trace: %v %s", err, out)
	}
	stopAndResume(t, newSurvivor(t, 30, "98304"), diskFailures, func(s *survivor, random *rand.Rand) *process {
		args := []string{"-f", "--seccomp-bpf", "-qq", "-o", os.DevNull,
			"-e", fmt.Sprintf("inject=fsync,fdatasync:error=EIO:when=%d+", 1+random.IntN(120)), "rollcall"}
		p := s.start(t, exec.Command("strace", append(args, s.args()...)...))
		s.ended(t, p)
		return p
	}, func(*survivor) {})
}

// stopAndResume lets simulations run until their disk stops them, puts the disk in order, and resumes them.
func stopAndResume(
	t *testing.T,
	whole *survivor,
	stops int,
	stop func(*survivor, *rand.Rand) *process,
	repair func(*survivor),
) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	var unborn, entries, told, again, spared int
	for stopped := 0; stopped < stops; {
		s := whole.fresh(t)
		p := stop(s, random)
		if p.cmd.ProcessState.ExitCode() == exitDone {
			s.wantSameEnd(t, p.stdout.String()) // it ended before it could be stopped
			if spared++; spared > stops+20 {
				t.Fatal("the disk hardly ever stops it")
			}
			continue
		}
		stopped++
		s.wantStopped(t, p)
		left := s.wantBeginning(t)
		if entries += left; left == 0 {
			unborn++
		}
		told += len(s.acknowledged)
		if random.IntN(3) == 0 && left > 0 { // it is tried before the disk is in order
			again++
			p = stop(s, random)
			if p.cmd.ProcessState.ExitCode() != exitDone {
				s.wantStopped(t, p)
				s.wantBeginning(t)
			}
		}
		repair(s)
		p = s.start(t, s.command())
		s.ended(t, p)
		if p.cmd.ProcessState.ExitCode() != exitDone {
			t.Fatalf("with the disk in order it stops again:\n%s", p.stderr.String())
		}
		s.wantSameEnd(t, p.stdout.String())
	}
	t.Logf(
		"seed %d: %d stops, %d before the log had an entry, %d tried again at once; %d entries left and %d steps "+
			"with effects told of on average; %d ended before the disk was full",
		seed,
		stops,
		unborn,
		again,
		entries/stops,
		told/stops,
		spared,
	)
	if unborn > stops/2 || (told == 0) != whole.withoutEffects {
		t.Error("too little happened: nothing was tested")
	}
}

// ended waits for the end of a process and takes in the effects that it reported.
func (s *survivor) ended(t testing.TB, p *process) {
	t.Helper()
	s.acknowledge(t, p, math.MaxInt)
	_ = p.wait() // its state says it too
}

// wantStopped checks the end of a process that its disk has stopped.
func (s *survivor) wantStopped(t testing.TB, p *process) {
	t.Helper()
	said := p.stderr.String()
	if code := p.cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Fatalf("the process ends with %s, want exit code %d:\n%s", p.cmd.ProcessState, exitFailed, said)
	}
	if p.stdout.Len() > 0 {
		t.Fatalf("it printed a summary:\n%s", p.stdout.String())
	}
	const advice = "See that the disk is in order and has room, then run the same command"
	_, err := os.Stat(s.log)
	if !strings.Contains(said, advice) || strings.Contains(said, advice+" with --resume") != (err == nil) {
		t.Fatalf("the log is there: %v, and the process says:\n%s", err == nil, said)
	}
}

// A logDisk is a small disk on which logs are made, one after the other.
type logDisk struct {
	*smalldisk.Disk
	logs int
}

// fresh empties the disk and returns a path for a log on it.
func (d *logDisk) fresh(t testing.TB) string {
	t.Helper()
	for _, old := range d.entries(t) {
		if err := os.RemoveAll(old); err != nil {
			t.Fatal(err)
		}
	}
	d.logs++
	return filepath.Join(d.Root, fmt.Sprintf("log-%d.db", d.logs))
}

func (d *logDisk) entries(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(d.Root, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// measure returns the room that the whole log takes.
func (d *logDisk) measure(t testing.TB, whole *survivor) int64 {
	t.Helper()
	s := whole.fresh(t)
	s.log = d.fresh(t)
	s.ended(t, s.start(t, s.command()))
	var used int64
	err := filepath.WalkDir(s.log, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		used += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}
