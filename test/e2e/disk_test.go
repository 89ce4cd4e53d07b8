package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/internal/smalldisk"
	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

// used returns how many bytes the files on the disk take.
func used(t testing.TB, d *smalldisk.Disk) int64 {
	t.Helper()
	out, err := exec.Command("du", "-s", "-B1", d.Root).Output()
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
	disk := smalldisk.New(t)
	o := w.options()
	o.Log = filepath.Join(disk.Root, "log")
	w.start(o)
	w.gang("first", 4, "1m")
	w.waitFor("first-", 4, bound)
	amount := rand.New(rand.NewPCG(4, 4))
	all := 1
	for i := range times() {
		disk.Resize(t, used(t, disk)+amount.Int64N(128<<10))
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
		disk.Resize(t, used(t, disk)+room)
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
