package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/e2e/accountant"
	"github.com/rollcall-sched/rollcall/e2e/cluster"
)

// smallDisk is a file system in memory, of a size that can be changed, in a mount namespace that goes with the process
// that holds it.
type smallDisk struct {
	root    string // where it is seen from here
	sizes   io.Writer
	answers *bufio.Reader
}

func newSmallDisk(t *testing.T) *smallDisk {
	t.Helper()
	const hold = `mount -t tmpfs -o size=64m tmpfs "$1" && echo mounted &&
while read size; do mount -o "remount,size=$size" "$1" && echo resized; done`
	at := t.TempDir()
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hold, "sh", at)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Skipf("skipped: a full disk takes unshare(1) of util-linux: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	d := &smallDisk{
		root:    filepath.Join(fmt.Sprintf("/proc/%d/root", cmd.Process.Pid), at),
		sizes:   in,
		answers: bufio.NewReader(out),
	}
	if said, _ := d.answers.ReadString('\n'); said != "mounted\n" {
		t.Skip("skipped: a full disk takes the right to mount a tmpfs in a namespace of one's own")
	}
	return d
}

func (d *smallDisk) resize(t testing.TB, size int64) {
	t.Helper()
	fmt.Fprintln(d.sizes, size)
	if said, _ := d.answers.ReadString('\n'); said != "resized\n" {
		t.Fatalf("the small disk does not take the size %d", size)
	}
}

// used is how many bytes the files on the disk take.
func (d *smallDisk) used(t testing.TB) int64 {
	t.Helper()
	out, err := exec.Command("du", "-s", "-B1", d.root).Output()
	if err != nil {
		t.Fatal(err)
	}
	var bytes int64
	if _, err := fmt.Sscan(string(out), &bytes); err != nil {
		t.Fatalf("du says %q: %v", out, err)
	}
	return bytes
}

// TestOnAFullDiskTheSchedulerStopsAndWithRoomItGoesOn has the disk of the log become full while gangs come. The
// scheduler ends with exit code 1 and says why; started again with room, it binds them.
func TestOnAFullDiskTheSchedulerStopsAndWithRoomItGoesOn(t *testing.T) {
	needsRollcall(t, "kube-scheduler has no log")
	const room = 32 << 20 // more than the log grows by in one round
	w := newWorld(t, false, cluster.Options{})
	disk := newSmallDisk(t)
	o := w.options()
	o.Log = filepath.Join(disk.root, "log")
	w.start(o)
	w.gang("first", 4, "1m")
	w.waitFor("first-", 4, bound)
	amount := rand.New(rand.NewPCG(4, 4))
	all := 1
	for i := range times() {
		disk.resize(t, disk.used(t)+amount.Int64N(128<<10))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		prefix, gangs := fmt.Sprintf("g%03d-", i), 0
		for ; w.scheduler.Running() && ctx.Err() == nil; gangs++ {
			w.gang(fmt.Sprintf("%s%03d", prefix, gangs), 4, "1m")
		}
		ended := w.scheduler.Wait(ctx)
		cancel()
		var exit *exec.ExitError
		said := w.scheduler.Tail(20)
		if !errors.As(ended, &exit) || exit.ExitCode() != 1 || !strings.Contains(said, "has room") {
			t.Fatalf("on a full disk the scheduler ended with %v, wanted exit code 1; its output:\n%s", ended, said)
		}
		disk.resize(t, disk.used(t)+room)
		if err := w.scheduler.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.waitFor(prefix, 4*gangs, bound)
		if err := accountant.Look(t.Context(), w.c); err != nil {
			t.Fatal(err)
		}
		all += gangs
		for gang := range gangs { // so that a soak does not list more with every round
			for member := range 4 {
				w.remove(fmt.Sprintf("%s%03d-%d", prefix, gang, member))
			}
		}
	}
	w.audit(4 * all)
}
