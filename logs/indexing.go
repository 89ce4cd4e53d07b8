package logs

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Indexed describes an index that MakeIndex has written.
type Indexed struct {
	Path string `json:"path"`
	// Dir is the directory of the index.
	Dir string `json:"dir"`
	// First and Last are the first and the last entry of the log.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Parts is the number of written parts, Bytes their total size, and Kept the number of good parts that existed
	// before.
	Parts int   `json:"parts"`
	Bytes int64 `json:"bytes"`
	Kept  int   `json:"kept"`
	// Removed are the parts that existed before and were removed. The written parts have their entries.
	Removed []RemovedPart `json:"removed,omitempty"`
	// Snapshots are the entries of the written snapshots.
	Snapshots []uint64 `json:"snapshots,omitempty"`
}

// A RemovedPart is a part of an index that was removed.
type RemovedPart struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Reason says what was wrong with it.
	Reason string `json:"reason"`
}

// Indexing says what MakeIndex does beside writing missing parts.
type Indexing struct {
	// Check says that all entries are read, and each part is compared with them.
	Check bool
	// SnapshotEvery is the number of entries between two snapshots; 0: no snapshots are written.
	SnapshotEvery uint64
}

// MakeIndex writes the missing parts of the index of a log in a directory, up to the last entry. It replaces parts that
// are damaged, of another log, or superfluous. It replaces a part that does not agree with its entries if how.Check
// says so. The log may have a writer. If how.SnapshotEvery is not 0, MakeIndex also writes a snapshot every so many
// entries, as TakeSnapshot does, unless there is one near by: then the log may not have a writer.
func (s *Source) MakeIndex(ctx context.Context, how Indexing) (*Indexed, error) {
	if s.stored == nil {
		return nil, Refuse("%s has no index: that is for logs in directories", s.path)
	}
	last, err := s.Last()
	if err != nil {
		return nil, err
	}
	if damage := s.DamageBehind(last); damage != nil {
		return nil, s.Advise(damage)
	}
	done := &Indexed{Path: s.path, Dir: IndexOf(s.path).Path(), First: s.First(), Last: last}
	if err := s.keepIndex(ctx, how.Check, done); err != nil || how.SnapshotEvery == 0 {
		return done, err
	}
	return done, s.addSnapshots(ctx, how.SnapshotEvery, done)
}

// keepIndex removes the parts that are not good, and writes the parts that are missing.
func (s *Source) keepIndex(ctx context.Context, check bool, done *Indexed) error {
	dir := IndexOf(s.path)
	x := &Index{log: s, dir: dir}
	good, err := x.keepGood(ctx, check, done)
	if err != nil {
		return err
	}
	put := func(p *index.Part) error {
		if err := dir.Put(p); err != nil {
			return err
		}
		done.Parts, done.Bytes = done.Parts+1, done.Bytes+int64(p.Size())
		return nil
	}
	next := done.First
	for _, f := range append(good, index.Facts{First: done.Last + 1, Last: done.Last}) {
		if next < f.First {
			if err := s.indexed(ctx, next, f.First-1, bySpan, put); err != nil {
				return err
			}
		}
		next = f.Last + 1
	}
	done.Kept = len(good)
	s.index = nil // it was made without these parts
	return nil
}

// keepGood returns the facts of the good parts, and removes the others.
func (x *Index) keepGood(ctx context.Context, check bool, done *Indexed) ([]index.Facts, error) {
	ranges, err := x.dir.List()
	if err != nil {
		return nil, err
	}
	var failed error
	bad := map[index.Range]bool{}
	remove := func(r index.Range, reason error) {
		if bad[r] = true; failed != nil || errors.Is(reason, fs.ErrNotExist) { // it was dropped meanwhile
			return
		}
		failed = x.dir.Remove(r)
		done.Removed = append(done.Removed, RemovedPart{First: r.First, Last: r.Last, Reason: reason.Error()})
	}
	whole := func(r index.Range) (f index.Facts, err error) {
		p, err := x.dir.Get(r)
		if err == nil {
			f = p.Facts
		}
		return f, err
	}
	good, err := x.trusted(ctx, index.Cover(ranges, done.First, done.Last), whole, remove)
	if err == nil && check {
		good, err = x.compared(ctx, good, remove)
	}
	if err != nil {
		return nil, err
	}
	kept := map[index.Range]bool{}
	for _, f := range good {
		kept[index.Range{First: f.First, Last: f.Last}] = true
	}
	for _, r := range ranges {
		if r.First >= done.First && r.Last <= done.Last && !kept[r] && !bad[r] {
			remove(r, errors.New("other parts have its entries"))
		}
	}
	return good, failed
}

// compared returns the parts that agree with the entries, which it reads. It calls distrust for each of the others.
func (x *Index) compared(
	ctx context.Context, parts []index.Facts, distrust func(index.Range, error),
) (good []index.Facts, err error) {
	for _, f := range parts {
		r := index.Range{First: f.First, Last: f.Last}
		made, err := makePart(ctx, x.log, r)
		if err != nil {
			return nil, err
		}
		kept, err := x.dir.Get(r)
		if err == nil {
			err = kept.Digest().Compare(made.Digest())
		}
		if err != nil {
			distrust(r, err)
			continue
		}
		good = append(good, f)
	}
	return good, nil
}

// addSnapshots writes a snapshot of every entry that is every entries after the one before.
func (s *Source) addSnapshots(ctx context.Context, every uint64, done *Indexed) error {
	if err := s.MayTakeSnapshots(); err != nil {
		return err
	}
	base, err := s.Base()
	if err != nil {
		return err
	}
	seqs, err := s.SnapshotSeqs()
	if err != nil {
		return err
	}
	seqs = append(seqs, done.Last)
	before := base
	for _, seq := range seqs {
		if seq > before+every && seq <= done.Last {
			if err := s.fillUp(ctx, before, seq, every, done); err != nil {
				return err
			}
		}
		before = max(before, seq)
	}
	return nil
}

// fillUp writes snapshots of entries between two others, every entries apart.
func (s *Source) fillUp(ctx context.Context, after, before, every uint64, done *Indexed) error {
	m, err := s.Restore(after)
	if err != nil {
		return err
	}
	if m == nil {
		m = scheduler.New(s.opts.Registry)
	}
	for at := after + every; at < before; at += every {
		if err := s.apply(ctx, m, at); err != nil {
			return err
		}
		data, err := s.EncodeSnapshot(m)
		if err == nil {
			err = s.addSnapshot(at, data)
		}
		if err != nil {
			return err
		}
		done.Snapshots = append(done.Snapshots, at)
	}
	return nil
}

const (
	// indexEvery is the pause of the indexer when no part is due.
	indexEvery = time.Second
	// lastParts is the largest number of parts written when the log is closed: the rest is left to log index.
	lastParts = 4
)

// An indexer writes the index of a log beside its writer. It delays an append no longer than any other reader does,
// which is until 256 KiB are copied.
type indexer struct {
	log    eventlog.Reader
	dir    *index.Dir
	next   uint64 // the first entry that is in no part yet
	report func(format string, args ...any)
	stop   chan struct{}
	ended  chan struct{}
}

// startIndexing starts a goroutine that writes the index of a log from now on.
func startIndexing(log eventlog.Reader, dir *index.Dir, report func(format string, args ...any)) *indexer {
	x := &indexer{log: log, dir: dir, report: report, stop: make(chan struct{}), ended: make(chan struct{})}
	go x.run()
	return x
}

// close ends the writing of the index. It must be called before the log is closed.
func (x *indexer) close() {
	close(x.stop)
	<-x.ended
}

func (x *indexer) run() {
	defer close(x.ended)
	rest := time.NewTicker(indexEvery)
	defer rest.Stop()
	for {
		select {
		case <-x.stop:
			x.told(x.keepUp(lastParts, nil))
			return
		case <-rest.C:
			if err := x.keepUp(math.MaxInt, x.stop); err != nil {
				x.told(err)
				return
			}
		}
	}
}

// told reports the reason why the indexer stopped. A log that was closed, or is opened again, is not worth a report.
func (x *indexer) told(err error) {
	if err != nil && !errors.Is(err, eventlog.ErrClosed) {
		x.report("the log's index is not written any more, rollcall log index does it later: %v", err)
	}
}

// keepUp writes the parts that are due, at most parts, until stop is closed.
func (x *indexer) keepUp(parts int, stop chan struct{}) error {
	last, err := x.log.Last()
	if err != nil {
		return err
	}
	if last < IndexSpan {
		return nil
	}
	if x.next == 0 {
		if err := x.begin(last); err != nil {
			return err
		}
	}
	for range parts {
		end := (x.next-1)/IndexSpan*IndexSpan + IndexSpan
		select {
		case <-stop:
			return nil
		default:
		}
		if end > last {
			return nil
		}
		if err := x.write(end); err != nil {
			return err
		}
	}
	return nil
}

// write writes the part from the next entry to end, or several if these entries have very many names.
func (x *indexer) write(end uint64) error {
	var b index.Builder
	for e, err := range x.log.Read(context.Background(), x.next) {
		if err == nil {
			err = b.Add(e)
		}
		if err != nil {
			return err
		}
		if e.Seq != end && !b.Full() {
			continue
		}
		hash, err := x.log.RecordHash(context.Background(), e.Seq)
		if err == nil {
			err = x.dir.Put(b.Part(hash))
		}
		if x.next = e.Seq + 1; err != nil || e.Seq == end {
			return err
		}
	}
	return nil
}

// begin finds the first entry that is in no part, as far as the parts follow each other without a gap.
func (x *indexer) begin(last uint64) error {
	ranges, err := x.dir.List()
	if err != nil {
		return err
	}
	x.next = x.log.First()
	for _, r := range index.Cover(ranges, x.next, last) {
		f, err := x.dir.Facts(r)
		if err != nil || r.First != x.next {
			break
		}
		if hash, err := x.log.RecordHash(context.Background(), f.Last); err != nil || hash != f.Hash {
			break
		}
		x.next = r.Last + 1
	}
	return nil
}
