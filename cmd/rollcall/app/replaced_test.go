//go:build linux

package app

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// The test moves the directory of a running simulation away, and puts a copy of it, or an empty directory, in its
// place. The process stops with exit code 1. The effects that it reported are in the moved log, and the directory in
// its place has not changed. With the log back in its place, the simulation comes to the same end as one left alone.
func TestASimulationWhoseDirectoryIsReplacedStops(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	whole := newSurvivor(t, 30, "98304")
	stops, ended := fixedseed.Of(30, 6), 0
	for stopped := 0; stopped < stops; {
		s := whole.fresh(t)
		p := s.start(t, s.command())
		s.acknowledge(t, p, 1+random.IntN(100))
		away := s.log + ".away"
		if err := os.Rename(s.log, away); err != nil {
			t.Fatal(err)
		}
		var err error
		switch random.IntN(3) {
		case 0:
			err = copyLog(away, s.log)
		case 1:
			err = os.Mkdir(s.log, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := contents(t, s.log)
		s.ended(t, p)
		if !maps.Equal(before, contents(t, s.log)) {
			t.Fatalf("seed %d: files were changed in the directory that is in the place of the log's", seed)
		}
		if err := os.RemoveAll(s.log); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(away, s.log); err != nil {
			t.Fatal(err)
		}
		if p.cmd.ProcessState.ExitCode() == exitDone { // it had appended its last entry
			if ended++; ended > 20 {
				t.Fatal("hardly any simulation is at work when its directory is moved")
			}
			continue
		}
		stopped++
		said := p.stderr.String()
		if code := p.cmd.ProcessState.ExitCode(); code != exitFailed || p.stdout.Len() > 0 ||
			!strings.Contains(said, "its directory was moved away") || !strings.Contains(said, "with --resume") {
			t.Fatalf("seed %d: the process ends with %d and says:\n%s%s", seed, code, said, p.stdout.String())
		}
		s.wantBeginning(t)
		p = s.start(t, s.command())
		s.ended(t, p)
		if p.cmd.ProcessState.ExitCode() != exitDone {
			t.Fatalf("seed %d: with its directory it stops again:\n%s", seed, p.stderr.String())
		}
		s.wantSameEnd(t, p.stdout.String())
	}
}

// copyLog copies the files of a log, as far as they are files.
func copyLog(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, e.Name()))
		if os.IsNotExist(err) {
			continue // it is at work
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// contents returns the contents of the files of a directory; nothing if it does not exist.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(content)
	}
	return all
}
