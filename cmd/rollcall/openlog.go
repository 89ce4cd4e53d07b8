package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bundle"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// reading is how a log is opened for reading.
type reading struct {
	archives []string       // directories with archived segments, beside those that the log names
	cmd      *cobra.Command // who reads, nil for nobody: when its context ends, so does reading beside a writer
}

func (r *reading) register(cmd *cobra.Command) {
	r.cmd = cmd
	cmd.Flags().StringArrayVar(&r.archives, "archive", nil, "a directory with archived segments of the log, to be searched before those where they were archived; may be given more than once")
	_ = cmd.MarkFlagDirname("archive")
}

// context returns that of the command.
func (r reading) context() context.Context {
	if r.cmd == nil {
		return context.Background()
	}
	return r.cmd.Context()
}

// A source is a log to read, or a bundle, with its snapshots.
type source struct {
	records
	path      string
	snapshots snapshot.Series
	known     uint64 // the entry behind which it is known, once base was asked
}

// records is what logs and bundles have in common.
type records interface {
	eventlog.Log
	bundle.Source
	First() uint64
	RecordHash(seq uint64) ([32]byte, error)
}

// openForReading opens an existing log or a bundle. If a scheduler is writing to the log it is read as far as it goes
// by now, or as far as it is sealed if that scheduler does not answer; how far that is, this says on stderr.
func openForReading(path string) (*source, error) { return reading{}.open(path) }

func (r reading) open(path string) (*source, error) {
	if bundle.Is(path) {
		return openBundle(path)
	}
	log, err := r.openLog(path)
	if err != nil {
		return nil, err
	}
	s := &source{records: log.records, path: path}
	if err := errors.Join(damagedArchive(s), log.note()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.snapshots = snapshot.Series{Store: snapshotsOf(path), Position: s.RecordHash, Registry: plugins.NewRegistry()}
	return s, nil
}

// openBundle opens a bundle, which is checked from end to end.
func openBundle(path string) (*source, error) {
	p := newProgress()
	b, err := bundle.Open(path, func(seq uint64) { p.show("checking the bundle: entry %d", seq) })
	p.done()
	if err != nil {
		return nil, err
	}
	s := &source{records: b, path: path}
	s.snapshots = snapshot.Series{Store: bundled{b}, Position: b.RecordHash, Registry: plugins.NewRegistry()}
	return s, nil
}

// bundled is the one snapshot of a bundle, if it has one.
type bundled struct{ *bundle.Bundle }

// Put implements snapshot.Store: nothing can be put into a bundle.
func (b bundled) Put(uint64, []byte) error { return eventlog.ErrReadOnly }

// Drop implements snapshot.Store.
func (b bundled) Drop(uint64) error { return eventlog.ErrReadOnly }

// List implements snapshot.Store.
func (b bundled) List() ([]uint64, error) {
	if first := b.First(); first > 1 {
		return []uint64{first - 1}, nil
	}
	return nil, nil
}

// Get implements snapshot.Store.
func (b bundled) Get(uint64) ([]byte, error) { return b.Snapshot() }

// Read implements eventlog.Log; its errors say what to do.
func (s *source) Read(from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range s.records.Read(from) {
			if !yield(e, s.advise(err)) {
				return
			}
		}
	}
}

// findLoss lets reading end with damage if the log, which no writer has, ends before an entry of which there is a
// snapshot, and with another error if that cannot be told.
func findLoss(log *boltlog.Log) error {
	last, err := log.Last()
	if err != nil {
		return err
	}
	series := snapshot.Series{Store: snapshotsOf(log.Path())}
	lost, _, err := series.Beyond(last)
	if lost != nil {
		log.Lacks(lost)
	}
	log.Doubt(adviseOnDoubt(log.Path(), err))
	return nil
}

// adviceOnLoss says what to do about a log at path that has lost its end.
func adviceOnLoss(path string, lost *snapshot.LostError) string {
	return fmt.Sprintf("Bring the missing segments, the newest of %s, back from where they are. If entries %d to %d are lost for good, save what is there with "+
		"rollcall log export %s --up-to %d --out FILE, and make a new log of that with rollcall log import; a simulation goes on behind entry %d with --resume --give-up-after %d",
		path, lost.Last+1, lost.Seq, path, lost.Last, lost.Last, lost.Last)
}

// adviseOnDoubt adds to an error of Series.Beyond, nil for none, what to do about it.
func adviseOnDoubt(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w\nSee that everything in %s can be read, and run the command again", path, err, snapshotsOf(path).Path())
}

// advise adds to an error of reading what can be done about it.
func (s *source) advise(err error) error {
	var damaged *eventlog.DamagedError
	var archived *eventlog.ArchivedError
	var lost *snapshot.LostError
	switch {
	case errors.As(err, &lost):
		return fmt.Errorf("%w\n%s", err, adviceOnLoss(s.path, lost))
	case errors.As(err, &damaged) && damaged.Seq > s.First():
		return fmt.Errorf("%w\n%s", err, adviceOnDamage(s.path, s.First(), damaged.Seq))
	case errors.As(err, &archived) && len(archived.Dirs) > 0:
		return fmt.Errorf("%w; say with --archive where they are now", err)
	}
	return err
}

// adviceOnDamage says how to save what is good before entry seq.
func adviceOnDamage(path string, first, seq uint64) string {
	return fmt.Sprintf("Entries %d to %d are good: save them with rollcall log export %s --up-to %d --out FILE", first, seq-1, path, seq-1)
}

// base returns the entry behind which the log is known: 0 if it has its first entry, or else that of its first
// snapshot.
func (s *source) base() (uint64, error) {
	first := s.First()
	if first == 1 || s.known > 0 {
		return s.known, nil
	}
	last, err := s.Last()
	if err != nil {
		return 0, err
	}
	m, refused := s.snapshots.Oldest(first-1, last)
	noteRefused(refused)
	if m == nil {
		return 0, fmt.Errorf("%w; nor is there a snapshot of entry %d or a later one to begin with", s.whyLater(), first-1)
	}
	s.known = m.Seq()
	if _, ok := s.records.(*bundle.Bundle); !ok {
		noteLater(s)
		fmt.Fprintf(os.Stderr, "rollcall: beginning with the snapshot of entry %d\n", s.known)
	}
	return s.known, nil
}

// whyLater says why the log begins with a later entry than 1.
func (s *source) whyLater() error {
	for _, err := range s.Read(1) {
		if err != nil {
			return err
		}
		break
	}
	return fmt.Errorf("%s begins with entry %d", s.path, s.First())
}

// noteLater says on stderr why what is read of a log begins with a later entry than 1; of a bundle that is so by
// its nature.
func noteLater(log *source) {
	if _, ok := log.records.(*bundle.Bundle); !ok {
		fmt.Fprintf(os.Stderr, "rollcall: %v\n", log.whyLater())
	}
}

// restore returns the newest state from the log's first to entry last that a snapshot has; nil for none.
func (s *source) restore(last uint64) (*scheduler.Machine, error) {
	base, err := s.base()
	if err != nil {
		return nil, err
	}
	end, err := s.Last()
	if err != nil {
		return nil, err
	}
	m, refused := s.snapshots.Newest(base, min(last, end))
	noteRefused(refused)
	return m, nil
}

// noteRefused says which snapshots are not used: an older one, or the whole log, says the same.
func noteRefused(refused []error) {
	for _, err := range refused {
		fmt.Fprintf(os.Stderr, "rollcall: not used: %v\n", err)
	}
}

// snapshotDir is the directory of snapshots in that of a log.
const snapshotDir = "snapshots"

// storeOf returns the snapshots of a log or a bundle at path, to be read.
func storeOf(path string, log records) snapshot.Store {
	if b, ok := log.(*bundle.Bundle); ok {
		return bundled{b}
	}
	return snapshotsOf(path)
}

// snapshotsOf returns the snapshots of the log at path, to be read.
func snapshotsOf(path string) *snapshot.Dir {
	return snapshot.NewDir(filepath.Join(path, snapshotDir), 1)
}

// explainAbsence says of a log that is not there how to make one.
func explainAbsence(path string, err error) error {
	if _, serr := os.Stat(path); errors.Is(err, fs.ErrNotExist) && serr != nil { // or it is of an archive
		return fmt.Errorf("no log at %s: make one with rollcall simulate --log %s", path, path)
	}
	return emptied(path, err)
}

// emptied says of a directory without segments that has snapshots of some that its entries are missing.
func emptied(path string, err error) error {
	if !errors.Is(err, boltlog.ErrNoSegments) {
		return err
	}
	if seqs, _ := snapshotsOf(path).List(); len(seqs) > 0 {
		return &eventlog.DamagedError{Path: path, Seq: 1,
			Err: fmt.Errorf("there are snapshots, the last of entry %d, and no segment: all its entries are missing; bring its .seg files back from where they are", seqs[len(seqs)-1])}
	}
	return err
}

// damagedArchive says what is wrong with the archived part of a log, if it is there and damaged. That it is not there is
// no damage.
func damagedArchive(log records) error {
	if log.First() == 1 {
		return nil
	}
	for _, err := range log.Read(1) {
		var damaged *eventlog.DamagedError
		if errors.As(err, &damaged) {
			return err
		}
		break
	}
	return nil
}
