package archive_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/archive"
	"github.com/rollcall-sched/rollcall/plugins"
)

// A log in a stream is copied and trimmed, grows, and the copy is continued: together they have all entries. The log is
// recovered from its snapshot.
func TestWhatACopyHasIsTakenOutOfAStream(t *testing.T) {
	w := newTrimmed(t)
	w.grow(t, 5100)
	w.snapshot(t)
	w.grow(t, 300)
	if _, err := w.trim("5300"); err == nil || !strings.Contains(err.Error(), "rollcall log copy") {
		t.Errorf("without a copy: %v, want how to make one", err)
	}
	w.copy(t)
	done, err := w.trim("5300")
	must(t, err)
	if done.From != 1 || done.First < 4000 || done.First > done.Snapshot+1 || done.Messages == 0 {
		t.Fatalf("trimmed %+v, want a beginning up to the snapshot", done)
	}
	eng := w.open(t)
	if r := eng.Recovery(); r.Snapshot != done.Snapshot || len(r.Refused) > 0 {
		t.Errorf("recovery is %v, want from the snapshot of entry %d", r, done.Snapshot)
	}
	must(t, eng.Close())
	w.grow(t, 9000)
	w.snapshot(t)
	last := w.copy(t)
	if again, err := w.trim(fmt.Sprint(last)); err != nil || again.From != done.First || again.First <= done.First {
		t.Errorf("trimmed again: %+v, error %v", again, err)
	}
	source, err := logs.Options{}.Open(t.Context(), w.dir)
	must(t, err)
	defer source.Close()
	n := uint64(0)
	for _, err := range source.Records(t.Context(), 1) {
		must(t, err)
		n++
	}
	if n != last {
		t.Errorf("the copy has %d entries, want %d", n, last)
	}
	_, err = logs.Options{}.Copy(t.Context(), w.name, filepath.Join(t.TempDir(), "new"), 0, logs.KeepOptions{})
	if err == nil || !strings.Contains(err.Error(), "begins with entry") {
		t.Errorf("a new copy of what is left: %v, want that it begins late", err)
	}
}

// Nothing is taken out for which there is no snapshot, or of which the copy has other entries, or too few.
func TestNothingIsTakenOutThatIsNotElsewhere(t *testing.T) {
	w := newTrimmed(t)
	w.grow(t, 300)
	w.copy(t)
	w.grow(t, 5100)
	other := newTrimmed(t)
	other.grow(t, 5400)
	other.copy(t)
	for _, c := range []struct {
		name, copy string
		snap       bool
		want       string
	}{
		{"no snapshot", w.dir, false, "rollcall log snapshot"},
		{"a short copy", w.dir, true, "rollcall log copy"},
		{"another log", other.dir, true, "another"},
		{"no copy at all", filepath.Join(w.dir, "none"), true, "the copy"},
	} {
		if c.snap {
			w.snapshot(t)
		}
		before, err := archive.ParsePoint("5402")
		must(t, err)
		_, err = archive.Trim(t.Context(), w.name, archive.TrimOptions{
			Options: logs.Options{Registry: plugins.NewRegistry()}, Before: before, Copy: c.copy,
		})
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "nothing is taken out") {
			t.Errorf("%s: %v, want that nothing is taken out: %s", c.name, err, c.want)
		}
	}
	if source, err := (logs.Options{}).Open(t.Context(), w.name); err != nil || source.First() != 1 {
		t.Errorf("the log begins with entry %d, error %v", source.First(), err)
	}
	if _, err := archive.Trim(t.Context(), w.dir, archive.TrimOptions{}); err == nil ||
		!strings.Contains(err.Error(), "log archive") {
		t.Errorf("a directory is trimmed: %v", err)
	}
}

// trimmed is a log in a stream and its copy.
type trimmed struct {
	name, dir string
	seq       uint64
}

func newTrimmed(t *testing.T) *trimmed {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
	})
	must(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return &trimmed{
		name: fmt.Sprintf("nats://%s/jobs?replicas=1", s.Addr()), dir: filepath.Join(t.TempDir(), "copy"),
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// grow appends ticks, three an append, and an epoch at first.
func (w *trimmed) grow(t *testing.T, entries int) {
	t.Helper()
	if w.seq == 0 {
		eng := w.open(t)
		w.seq = eng.Machine().Seq()
		must(t, eng.Close())
	}
	kept, err := logs.KeepOptions{}.Continue(t.Context(), w.name)
	must(t, err)
	defer kept.Close()
	last, err := kept.Last()
	must(t, err)
	var end eventlog.Entry
	for e, err := range kept.Read(t.Context(), last) {
		must(t, err)
		end = e
	}
	for range entries / 3 {
		var batch []eventlog.Entry
		for i := range uint64(3) {
			batch = append(batch, eventlog.Entry{
				Seq: last + i + 1, Epoch: end.Epoch, Time: end.Time, Payload: &eventlog.Tick{},
			})
		}
		must(t, kept.Append(t.Context(), last, batch))
		last += 3
	}
}

// open begins an epoch.
func (w *trimmed) open(t *testing.T) *engine.Engine {
	t.Helper()
	kept, err := logs.KeepOptions{}.Continue(t.Context(), w.name)
	if err != nil {
		kept, err = logs.KeepOptions{}.Create(t.Context(), w.name)
	}
	must(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	must(t, err)
	eng, err := engine.Open(t.Context(), kept, time.Unix(1, 0), engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", Snapshots: kept.Snapshots(1000),
	})
	must(t, err)
	return eng
}

// snapshot writes a snapshot of the log's last entry.
func (w *trimmed) snapshot(t *testing.T) {
	t.Helper()
	source, err := logs.Options{Registry: plugins.NewRegistry()}.Open(t.Context(), w.name)
	must(t, err)
	defer source.Close()
	last, err := source.Last()
	must(t, err)
	_, err = source.TakeSnapshot(t.Context(), last)
	must(t, err)
}

// copy copies the log, and returns its last entry.
func (w *trimmed) copy(t *testing.T) uint64 {
	t.Helper()
	done, err := logs.Options{}.Copy(t.Context(), w.name, w.dir, 0, logs.KeepOptions{})
	must(t, err)
	return done.Entries
}

func (w *trimmed) trim(before string) (*archive.Trimmed, error) {
	point, err := archive.ParsePoint(before)
	if err != nil {
		return nil, err
	}
	return archive.Trim(context.Background(), w.name, archive.TrimOptions{
		Options: logs.Options{Registry: plugins.NewRegistry()}, Before: point, Copy: w.dir,
	})
}
