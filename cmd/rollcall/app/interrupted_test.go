//go:build linux

package app

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// needsStrace skips a test that cannot make system calls fail.
func needsStrace(t *testing.T) {
	t.Helper()
	probe := exec.Command("strace", "-f", "--seccomp-bpf", "-qq", "-e", "inject=fsync:error=EIO", "true")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("skipped: it takes strace, and the right to trace: %v %s", err, out)
	}
}

// interrupting runs the simulation with system calls that a signal interrupts: when is as strace takes it.
func (s *survivor) interrupting(t *testing.T, calls, when string) *process {
	t.Helper()
	args := []string{"-f", "--seccomp-bpf", "-qq", "-o", os.DevNull,
		"-e", fmt.Sprintf("inject=%s:error=EINTR:when=%s", calls, when), "rollcall"}
	p := s.start(t, exec.Command("strace", append(args, s.args()...)...))
	s.ended(t, p)
	return p
}

// The program repeats a sync, a lock, a link, a read or a write that a signal interrupts, wherever it comes: the
// simulation ends as if nothing had been. It gives up bbolt's own syncs (fdatasync).
func TestWhatASignalInterruptsIsTriedAgain(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	whole := newSurvivor(t, 30, "98304")
	whens := []string{"1+3", "2+3", "3+4"} // of syncs by one and the same thread
	for n := range fixedseed.Of(12, 3) {
		whens = append(whens, fmt.Sprint(n+1))
	}
	for _, when := range whens {
		s := whole.fresh(t)
		p := s.interrupting(t, "fdatasync,fsync", when)
		if code := p.cmd.ProcessState.ExitCode(); code != exitDone {
			t.Errorf("with sync %s interrupted it ends with exit code %d:\n%s", when, code, p.stderr.String())
			continue
		}
		s.wantSameEnd(t, p.stdout.String())
	}
	for _, c := range []struct{ calls, when string }{
		// bbolt makes two calls for an attempt that fails.
		{"flock", "1"}, {"flock", "2"}, {"flock", "1+3"}, {"flock", "2+3"}, {"flock", "3+3"},
		{"linkat", "1"}, {"linkat", "1+2"}, {"linkat", "2+2"},
		// The first ones are the dynamic linker's.
		{"newfstatat", "20+2"}, {"newfstatat", "21+2"}, {"pread64,pwrite64,ftruncate", "20+2"},
	} {
		s := whole.fresh(t)
		if p := s.interrupting(t, c.calls, c.when); p.cmd.ProcessState.ExitCode() != exitDone {
			t.Errorf("with %s %s interrupted it ends with %s:\n%s", c.calls, c.when, p.cmd.ProcessState,
				p.stderr.String())
		} else {
			s.wantSameEnd(t, p.stdout.String())
		}
	}
}

// If every sync is interrupted, from one on, the simulation stops as on any other error of a disk. Later it can resume.
func TestWhereEverySyncIsInterruptedNothingIsReleasedAndLaterItGoesOn(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	// If there were fewer tries, all of them might come too early.
	stopAndResume(t, newSurvivor(t, 30, "98304"), diskFailures/2, func(s *survivor, random *rand.Rand) *process {
		p := s.interrupting(t, "fdatasync", fmt.Sprintf("%d+", 1+random.IntN(60)))
		said := p.stderr.String()
		if p.cmd.ProcessState.ExitCode() != exitDone && !strings.Contains(said, "interrupted system call") {
			t.Errorf("it does not say what has stopped it:\n%s", said)
		}
		return p
	}, func(*survivor) {})
}

// A disk on which no snapshot can be kept stops nothing: the program names each snapshot, and the log is as good
// without it.
func TestSnapshotsThatCannotBeWrittenStopNothing(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	whole := newSurvivor(t, 30, "98304")
	for _, call := range []string{"renameat:error=ENOSPC", "fsync:error=EIO"} { // to its name; of the directory
		s := whole.fresh(t)
		args := []string{"-f", "--seccomp-bpf", "-qq", "-o", os.DevNull, "-e", "inject=" + call}
		for seq := range 2000 { // the names that snapshots could have
			args = append(args, "-P", filepath.Join(s.log, "snapshots", fmt.Sprintf("%020d.snapshot", seq)))
		}
		args = append(args, "-P", filepath.Join(s.log, "snapshots"), "rollcall")
		args = append(append(args, s.args()...), "--snapshot-every", "50")
		p := s.start(t, exec.Command("strace", args...))
		s.ended(t, p)
		if p.cmd.ProcessState.ExitCode() != exitDone ||
			!strings.Contains(p.stderr.String(), "keep the snapshot of entry ") {
			t.Errorf("%s: it ends with %s:\n%s", call, p.cmd.ProcessState, p.stderr.String())
			continue
		}
		s.wantSameEnd(t, p.stdout.String())
		wants(t, exitDone, []string{"\nwhole\n"}, "log", "verify", s.log)
	}
}
