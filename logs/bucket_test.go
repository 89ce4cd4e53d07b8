package logs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/simulate/keep"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// demonstrate runs the bundled simulation with a log, which has the same bytes each time that id is the same.
func demonstrate(t *testing.T, name, id string, every uint64) {
	t.Helper()
	nodes, work, err := workload.Demo()
	must(t, err)
	cluster, err := sim.New(nodes, work, sim.Options{})
	must(t, err)
	_, err = keep.Run(t.Context(), cluster, keep.Options{
		Log: name, SnapshotEvery: every, Engine: demoEngine(t, id),
		Report: func(message string) { t.Errorf("reported: %s", message) },
	})
	must(t, err)
}

// spaced makes a writer keep older snapshots that are 99 entries apart.
const spaced = 33

// withSnapshots runs the bundled simulation with a log in a stream, and puts the snapshot of each tenth entry beside
// it. The last three are kept, and older ones by spaced.
func withSnapshots(t *testing.T, stream, id string) {
	t.Helper()
	demonstrate(t, stream, id, 0)
	r := readerOf(t, stream)
	put(t, r, r.Writing(spaced))
}

// put puts the snapshot of each tenth entry of a log into a store.
func put(t *testing.T, r *aReader, store snapshot.Store) {
	t.Helper()
	m := scheduler.New(plugins.NewRegistry())
	for e, err := range r.Read(t.Context(), 1) {
		must(t, err)
		must(t, m.Apply(e))
		if e.Seq%10 > 0 {
			continue
		}
		data, err := r.EncodeSnapshot(m)
		must(t, err)
		must(t, store.Put(e.Seq, data))
	}
}

// demoEngine returns the options of an engine for the bundled simulation.
func demoEngine(t *testing.T, id string) engine.Options {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	must(t, err)
	return engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", NewID: func() string { return id },
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// aReader is a log opened for reading, with its reports and the number of entries that were applied.
type aReader struct {
	*logs.Source
	said    []string
	applied int
}

// readerOf opens a log for reading.
func readerOf(t *testing.T, name string) *aReader {
	t.Helper()
	r := &aReader{}
	source, err := logs.Options{
		Registry: plugins.NewRegistry(),
		Report:   func(message string) { r.said = append(r.said, message) },
		Progress: func(string, uint64, uint64) { r.applied++ },
	}.Open(t.Context(), name)
	must(t, err)
	t.Cleanup(func() { _ = source.Close() })
	r.Source = source
	return r
}

// has reports whether something was reported that has all of some words.
func (r *aReader) has(words ...string) bool {
	return slices.ContainsFunc(r.said, func(message string) bool {
		for _, word := range words {
			if !strings.Contains(message, word) {
				return false
			}
		}
		return true
	})
}

// end returns the log's last entry.
func (r *aReader) end(t *testing.T) uint64 {
	t.Helper()
	last, err := r.Last()
	must(t, err)
	return last
}

// stateOf returns the hash of the state that all entries of a log make.
func stateOf(t *testing.T, log *logs.Source) [32]byte {
	t.Helper()
	m := scheduler.New(plugins.NewRegistry())
	for e, err := range log.Read(t.Context(), 1) {
		must(t, err)
		must(t, m.Apply(e))
	}
	return m.Hash()
}

// A bucketClient is a client of the bucket beside the log jobs on a server, and no part of the program.
type bucketClient struct {
	nc *nats.Conn
	js natsjs.JetStream
}

const bucketOfJobs = "rollcall-snapshots-jobs"

func clientOf(t *testing.T, address string) *bucketClient {
	t.Helper()
	nc, err := nats.Connect("nats://" + address)
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	must(t, err)
	return &bucketClient{nc, js}
}

func (c *bucketClient) store(t *testing.T) natsjs.ObjectStore {
	t.Helper()
	store, err := c.js.ObjectStore(t.Context(), bucketOfJobs)
	must(t, err)
	return store
}

// get returns the object of the snapshot of entry seq, and put replaces its content.
func (c *bucketClient) get(t *testing.T, seq uint64) []byte {
	t.Helper()
	data, err := c.store(t).GetBytes(t.Context(), snapshot.Name(seq))
	must(t, err)
	return data
}

func (c *bucketClient) put(t *testing.T, seq uint64, data []byte) {
	t.Helper()
	meta := natsjs.ObjectMeta{Name: snapshot.Name(seq)}
	if o, err := c.store(t).GetInfo(t.Context(), meta.Name); err == nil {
		meta.Metadata = o.Metadata
	}
	_, err := c.store(t).Put(t.Context(), meta, bytes.NewReader(data))
	must(t, err)
}

// seqs returns the entries of which there are snapshots, by the names of the objects.
func (c *bucketClient) seqs(t *testing.T) (seqs []uint64) {
	t.Helper()
	objects, err := c.store(t).List(t.Context())
	must(t, err)
	for _, o := range objects {
		seq, ok := snapshot.SeqOf(o.Name)
		if !ok {
			t.Errorf("there is an object %s", o.Name)
		}
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

// The same run has the same snapshots in a directory and in a stream: with the same bytes, and the same ones are kept.
func TestSnapshotsBesideAStreamAreThoseOfADirectory(t *testing.T) {
	address := startNATS(t)
	dir, stream := filepath.Join(t.TempDir(), "log"), "nats://"+address+"/jobs?replicas=1"
	demonstrate(t, dir, "the same", 20)
	demonstrate(t, stream, "the same", 20)
	c := clientOf(t, address)
	files, objects := snapshotSeqs(t, dir), c.seqs(t) // which ones depends on how long each took
	r := readerOf(t, dir)
	if len(files) == 0 || len(objects) == 0 {
		t.Errorf("snapshots of entries %d and %d were written", files, objects)
	}
	for _, seq := range slices.Concat(files, objects) {
		m, err := r.StateAfter(t.Context(), seq)
		must(t, err)
		want, err := r.EncodeSnapshot(m)
		must(t, err)
		got, err := logs.SnapshotsOf(dir).Get(seq)
		if slices.Contains(files, seq) && (err != nil || !bytes.Equal(got, want)) {
			t.Errorf("the file of entry %d has other bytes, or error %v", seq, err)
		}
		if slices.Contains(objects, seq) && !bytes.Equal(c.get(t, seq), want) {
			t.Errorf("the object of entry %d has other bytes", seq)
		}
	}
	writer, err := logs.KeepOptions{}.Continue(t.Context(), dir)
	must(t, err)
	defer writer.Close()
	must(t, c.js.DeleteStream(t.Context(), "OBJ_"+bucketOfJobs))
	must(t, os.RemoveAll(filepath.Join(dir, logs.SnapshotDir)))
	put(t, r, writer.Snapshots(spaced))
	other := readerOf(t, stream)
	put(t, other, other.Writing(spaced))
	want := snapshotSeqs(t, dir)
	if got := c.seqs(t); !slices.Equal(got, want) || len(got) < 4 || got[0] != 100 {
		t.Errorf("snapshots of entries %d, want %d", got, want)
	}
}

// A late reader of the log applies the entries after the newest snapshot, and no others.
func TestALateReaderBeginsWithTheNewestSnapshot(t *testing.T) {
	address := startNATS(t)
	stream := "nats://" + address + "/jobs?replicas=1"
	withSnapshots(t, stream, "a")
	r := readerOf(t, stream)
	last, seqs := r.end(t), clientOf(t, address).seqs(t)
	for i, at := range append(seqs, last) {
		r.applied = 0
		m, err := r.StateAfter(t.Context(), at)
		must(t, err)
		want := 0
		if i == len(seqs) {
			want = int(last - seqs[i-1])
		}
		if m.Seq() != at || r.applied != want || len(r.said) > 0 {
			t.Errorf("the state after entry %d is of %d entries applied, want %d; %q", at, r.applied, want, r.said)
		}
		if i == len(seqs) && m.Hash() != stateOf(t, r.Source) {
			t.Error("it is another state than the entries make")
		}
	}
	kept, err := logs.KeepOptions{}.Continue(t.Context(), stream)
	must(t, err)
	defer kept.Close()
	opts := demoEngine(t, "b")
	opts.Snapshots = kept.Snapshots(20)
	e, err := engine.Open(t.Context(), kept, workload.Start, opts)
	must(t, err)
	got := e.Recovery()
	must(t, e.Close())
	if newest := seqs[len(seqs)-1]; got.Snapshot != newest || got.Entries != last-newest {
		t.Errorf("%v, want it from entry %d and %d entries", got, newest, last-newest)
	}
}

// A snapshot that is incomplete, from another log, or about an entry that the log lacks is reported and not used: the
// state comes from an older one.
func TestABadSnapshotBesideAStreamIsNotUsed(t *testing.T) {
	address := startNATS(t)
	c := clientOf(t, address)
	demonstrate(t, "nats://"+address+"/other?replicas=1", "another", 0)
	stream := "nats://" + address + "/jobs?replicas=1&patience=500ms"
	withSnapshots(t, stream, "a")
	seqs := c.seqs(t)
	newest, older := seqs[len(seqs)-1], seqs[len(seqs)-2]
	last := readerOf(t, stream).end(t)
	good := c.get(t, newest)
	other := readerOf(t, "nats://"+address+"/other")
	foreignState, err := other.StateAfter(t.Context(), newest)
	must(t, err)
	foreign, err := other.EncodeSnapshot(foreignState)
	must(t, err)
	for _, tc := range []struct {
		name string
		harm func()
		says []string
	}{
		{"cut", func() { c.put(t, newest, good[:len(good)/2]) }, []string{"checksum"}},
		{"a flipped bit", func() {
			flipped := bytes.Clone(good)
			flipped[len(flipped)/2] ^= 1
			c.put(t, newest, flipped)
		}, []string{"checksum"}},
		{"no snapshot", func() { c.put(t, newest, bytes.Repeat([]byte("text "), 100)) }, []string{"object is wrong"}},
		{"of another entry", func() { c.put(t, newest, c.get(t, older)) },
			[]string{fmt.Sprint("it says that it is of entry ", older)}},
		{"of another log", func() { c.put(t, newest, foreign) }, []string{"is another one here"}},
		{"torn", func() {
			o, err := c.store(t).GetInfo(t.Context(), snapshot.Name(newest))
			must(t, err)
			held, err := c.js.Stream(t.Context(), "OBJ_"+bucketOfJobs)
			must(t, err)
			must(t, held.Purge(t.Context(), natsjs.WithPurgeSubject("$O."+bucketOfJobs+".C."+o.NUID)))
		}, []string{"object is wrong", bucketOfJobs, snapshot.Name(newest), "there are 0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.harm()
			r := readerOf(t, stream)
			m, err := r.StateAfter(t.Context(), last)
			must(t, err)
			if m.Hash() != stateOf(t, r.Source) || r.applied != int(last-older) ||
				!r.has(append(tc.says, fmt.Sprint("not used: snapshot at entry ", newest))...) || len(r.said) != 1 {
				t.Errorf("%d entries were applied, want %d; %q", r.applied, last-older, r.said)
			}
			c.put(t, newest, good)
		})
	}
	t.Run("too far", func(t *testing.T) {
		must(t, c.store(t).Delete(t.Context(), snapshot.Name(newest)))
		for _, seq := range []uint64{last + 1000, math64} {
			c.put(t, seq, good)
		}
		r := readerOf(t, stream)
		m, err := r.StateAfter(t.Context(), last)
		must(t, err)
		if m.Hash() != stateOf(t, r.Source) || r.applied != int(last-older) || len(r.said) != 2 ||
			!r.has(fmt.Sprint("not used: snapshot at entry ", last+1000), "not of this log") {
			t.Errorf("%d entries were applied, want %d; %q", r.applied, last-older, r.said)
		}
	})
}

const math64 = 1<<64 - 1

// A stream that was deleted and made again has another log. The old snapshots in the bucket are reported, used neither
// by readers nor by the writer, and dropped once there is a snapshot of the new log.
func TestSnapshotsOfAStreamThatWasMadeAgainAreNotUsed(t *testing.T) {
	address := startNATS(t)
	c := clientOf(t, address)
	stream := "nats://" + address + "/jobs?replicas=1&patience=500ms"
	withSnapshots(t, stream, "a")
	left := c.seqs(t)
	must(t, c.js.DeleteStream(t.Context(), "jobs"))
	kept, err := logs.KeepOptions{}.Create(t.Context(), stream)
	must(t, err)
	defer kept.Close()
	opts := demoEngine(t, "b")
	var said []string
	opts.Report = func(message string) { said = append(said, message) }
	opts.Snapshots, opts.SnapshotEvery = kept.Snapshots(20), 4
	e, err := engine.Open(t.Context(), kept, workload.Start, opts)
	must(t, err)
	if got := e.Recovery(); got.Snapshot != 0 || len(got.Refused) != len(left) ||
		!strings.Contains(got.String(), "not of this log") {
		t.Errorf("%v, want that %d snapshots are not of this log", got, len(left))
	}
	r := readerOf(t, stream)
	m, err := r.StateAfter(t.Context(), r.end(t))
	must(t, err)
	if m.Hash() != stateOf(t, r.Source) || len(r.said) != len(left) || !r.has("not of this log") || len(left) != 4 {
		t.Errorf("a reader says %q", r.said)
	}
	for range 4 {
		_, err = e.Step(t.Context(), workload.Start, []eventlog.Payload{&eventlog.Tick{}})
		must(t, err)
	}
	must(t, e.Close())
	if got := c.seqs(t); !slices.Equal(got, []uint64{4}) {
		t.Errorf("there are snapshots of entries %d, want one; %q", got, said)
	}
}

// A stream that lacks entries of which there is a snapshot has lost its end, as a directory may have. Readers say so
// and do not use such snapshots; a writer refuses the log, until the lost entries are given up.
func TestAStreamThatHasLostItsEndIsNotWrittenTo(t *testing.T) {
	address := startNATS(t)
	c := clientOf(t, address)
	stream := "nats://" + address + "/jobs?replicas=1&patience=500ms"
	withSnapshots(t, stream, "a")
	seqs := c.seqs(t)
	end := seqs[len(seqs)-2] + 1
	saved := filepath.Join(t.TempDir(), "saved")
	_, err := logs.Options{}.Copy(t.Context(), stream, saved, end, logs.KeepOptions{})
	must(t, err)
	must(t, c.js.DeleteStream(t.Context(), "jobs"))
	_, err = logs.Options{}.Copy(t.Context(), saved, stream, 0, logs.KeepOptions{})
	must(t, err)
	r := readerOf(t, stream)
	m, err := r.StateAfter(t.Context(), end)
	must(t, err)
	if m.Hash() != stateOf(t, r.Source) || r.applied != 1 || len(r.said) != 1 ||
		!r.has("are missing", "nats object rm "+bucketOfJobs) {
		t.Errorf("%d entries were applied, want 1; %q", r.applied, r.said)
	}
	_, err = logs.KeepOptions{}.Continue(t.Context(), stream)
	var damaged *eventlog.DamagedError
	var lost *snapshot.LostError
	if !errors.As(err, &damaged) || damaged.Seq != end+1 || !errors.As(err, &lost) || lost.Seq != seqs[len(seqs)-1] ||
		!strings.Contains(err.Error(), bucketOfJobs) {
		t.Errorf("a writer: error %v", err)
	}
	var request *logs.RequestError
	if _, err := (logs.KeepOptions{GiveUpAfter: end + 5}).Continue(t.Context(), stream); !errors.As(err, &request) {
		t.Errorf("another end is given up: error %v", err)
	}
	kept, err := logs.KeepOptions{GiveUpAfter: end}.Continue(t.Context(), stream)
	must(t, err)
	must(t, kept.GiveUp())
	must(t, kept.Close())
	if got := c.seqs(t); !slices.Equal(got, seqs[:len(seqs)-1]) {
		t.Errorf("snapshots of entries %d are left, want %d", got, seqs[:len(seqs)-1])
	}
	kept, err = logs.KeepOptions{}.Continue(t.Context(), stream)
	must(t, err)
	must(t, kept.Close())
}

// A snapshot of an entry that came when the log had been opened is no loss: the log, asked again, has it.
func TestASnapshotOfAnEntryThatCameMeanwhileIsNoLoss(t *testing.T) {
	address := startNATS(t)
	stream := "nats://" + address + "/jobs?replicas=1"
	dir := filepath.Join(t.TempDir(), "log")
	demonstrate(t, dir, "a", 0)
	_, err := logs.Options{}.Copy(t.Context(), dir, stream, 100, logs.KeepOptions{})
	must(t, err)
	early := readerOf(t, stream)
	writer, err := logs.KeepOptions{}.Continue(t.Context(), stream)
	must(t, err)
	defer writer.Close()
	_, err = logs.Options{}.Copy(t.Context(), dir, stream, 0, logs.KeepOptions{})
	must(t, err)
	late := readerOf(t, stream)
	_, err = late.TakeSnapshot(t.Context(), 150)
	must(t, err)
	m, err := early.StateAfter(t.Context(), 100)
	must(t, err)
	if m.Seq() != 100 || len(early.said) > 0 {
		t.Errorf("the state after entry %d; %q", m.Seq(), early.said)
	}
	opts := demoEngine(t, "b")
	opts.Snapshots = writer.Snapshots(20)
	_, err = engine.Open(t.Context(), writer, workload.Start, opts)
	var lost *snapshot.LostError
	if errors.As(err, &lost) {
		t.Errorf("a writer that is behind: error %v", err)
	}
}

// A bucket that cannot be used harms nobody: the log is read from its first entry, and it is said. A writer writes the
// log, says about each snapshot that there is none, and writes them again once the bucket can be used.
func TestABucketThatCannotBeUsedHarmsNobody(t *testing.T) {
	address := startNATS(t)
	c := clientOf(t, address)
	stream := "nats://" + address + "/jobs?replicas=1"
	config := natsjs.StreamConfig{
		Name: "OBJ_" + bucketOfJobs, Subjects: []string{"$O." + bucketOfJobs + ".C.>", "$O." + bucketOfJobs + ".M.>"},
		AllowRollup: true, MaxAge: time.Hour,
	}
	_, err := c.js.CreateStream(t.Context(), config)
	must(t, err)
	kept, err := logs.KeepOptions{}.Create(t.Context(), stream)
	must(t, err)
	defer kept.Close()
	opts := demoEngine(t, "b")
	var said []string
	opts.Report = func(message string) { said = append(said, message) }
	opts.Snapshots, opts.SnapshotEvery = kept.Snapshots(20), 1
	e, err := engine.Open(t.Context(), kept, workload.Start, opts)
	must(t, err)
	step := func() {
		t.Helper()
		_, err := e.Step(t.Context(), workload.Start, []eventlog.Payload{&eventlog.Tick{}})
		must(t, err)
	}
	for len(said) < 2 { // a snapshot is written beside the steps
		step()
	}
	for _, message := range said {
		if !strings.Contains(message, "max_age of the bucket "+bucketOfJobs) || strings.Contains(message, "\n") {
			t.Errorf("it says %q", message)
		}
	}
	r := readerOf(t, stream)
	last := r.end(t)
	m, err := r.StateAfter(t.Context(), last)
	must(t, err)
	hashes, err := r.StateHashes(1, last)
	must(t, err)
	if m.Hash() != stateOf(t, r.Source) || r.applied != int(last) || !r.has("max_age", "not used") || len(hashes) > 0 ||
		!r.has("max_age", "no snapshots are used") {
		t.Errorf("%d entries were applied, want %d; %q", r.applied, last, r.said)
	}
	config.MaxAge = 0
	_, err = c.js.UpdateStream(t.Context(), config)
	must(t, err)
	until := func(what string, done func() bool) {
		t.Helper()
		for began := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
			if step(); time.Since(began) > 20*time.Second {
				t.Fatalf("%s: %q", what, said[len(said)-1])
			}
		}
	}
	has := func() bool {
		names, err := kept.Snapshots(20).List()
		return err == nil && len(names) > 0
	}
	until("no snapshot is written", has)
	must(t, c.js.DeleteStream(t.Context(), config.Name)) // while the writer runs
	until("the bucket that was deleted is not made again", has)
	must(t, e.Close())
}

// Readers of the log may write snapshots, beside its writer: their snapshots of the same entry are equal.
func TestTwoWriteTheSameSnapshot(t *testing.T) {
	address := startNATS(t)
	c := clientOf(t, address)
	stream := "nats://" + address + "/jobs?replicas=1"
	demonstrate(t, stream, "a", 0)
	writer, err := logs.KeepOptions{}.Continue(t.Context(), stream)
	must(t, err)
	defer writer.Close()
	r := readerOf(t, stream)
	follower := r.Writing(spaced)
	leader := writer.Snapshots(spaced)
	var data []byte
	for seq := uint64(10); seq <= 190; seq += 10 {
		m, err := r.StateAfter(t.Context(), seq)
		must(t, err)
		data, err = r.EncodeSnapshot(m)
		must(t, err)
		done := make(chan error)
		for _, store := range []snapshot.Store{leader, follower} {
			go func() { done <- store.Put(seq, data) }()
		}
		must(t, errors.Join(<-done, <-done))
	}
	if got := c.seqs(t); !slices.Equal(got, []uint64{100, 170, 180, 190}) {
		t.Errorf("there are snapshots of entries %d", got)
	}
	if !bytes.Equal(c.get(t, 190), data) {
		t.Error("it has other bytes")
	}
	held, err := c.js.Stream(t.Context(), "OBJ_"+bucketOfJobs)
	must(t, err)
	if n := held.CachedInfo().State.Msgs; n > 2*5 { // what may be left of entry 190 is swept with the next one
		t.Errorf("four snapshots are in %d messages", n)
	}
	if dir := readerOf(t, copied(t, stream)); dir.Writing(spaced) != nil {
		t.Error("a reader may write snapshots of a log in a directory")
	}
}

// copied returns a directory with a copy of a log.
func copied(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	_, err := logs.Options{}.Copy(t.Context(), name, dir, 0, logs.KeepOptions{})
	must(t, err)
	return dir
}

// A message about an object names the bucket of the log, whatever the stream's name.
func TestTheAdviceNamesTheBucket(t *testing.T) {
	lost := &snapshot.LostError{Last: 3, Seq: 7}
	advice := logs.AdviceOnLoss("nats://h:4222/jobs=west", lost)
	if !strings.Contains(advice, "nats object rm "+jetstream.BucketOf("jobs=west")+" "+snapshot.Name(7)) {
		t.Errorf("it is %q", advice)
	}
	if advice := logs.AdviceOnLoss("jobs.log", lost); strings.Contains(advice, "nats") {
		t.Errorf("it is %q", advice)
	}
}
