package localapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// ErrNotServed is wrapped by Join's error if the process that writes to the log does not serve it.
var ErrNotServed = errors.New("its writer does not serve it")

// dialTime is the time that a reader waits for the scheduler's answer about the range of its log.
const dialTime = 5 * time.Second

// Sealed is a log as a process other than its writer can read it: without the entries that only the writer can read.
type Sealed interface {
	eventlog.Reader
	// Live reports whether a writer had the log when it was opened: then there are, or will be, entries after Last.
	Live() bool
	// Archivable reports whether there are segments to archive, with all entries before the given one.
	Archivable(before uint64) bool
	Close() error
}

// A Joined log is a log that a scheduler is writing to, up to its last entry at the time of joining. It consists of
// the sealed segments and the records that the scheduler sends. If the scheduler ends meanwhile, the rest is read from
// its new place. It is safe for concurrent use.
type Joined struct {
	ctx    context.Context // of Join
	dir    string
	open   func() (Sealed, error)
	client *client
	last   uint64
	info   Info

	mu     sync.Mutex // held during reopening
	now    *part
	before []Sealed // of earlier parts: some goroutine may still be reading in them
	closed bool
}

var (
	_ eventlog.Reader   = (*Joined)(nil)
	_ eventlog.Follower = (*Joined)(nil)
)

// A part is a source for the log's entries while the same process writes to the log, or while none does.
type part struct {
	log  Sealed         // the sealed segments, or all of them if no process writes to the log
	told bool           // a scheduler sends the entries after them
	end  eventlog.Chain // end of log
	pid  int            // the scheduler's process, if told
	by   string         // its Info.Instance
}

// Join appends the records that a scheduler sends to sealed, the log that the scheduler is writing to (sealed.Live).
// dir is the log's directory. open opens the log again after the scheduler has ended. Closing the joined log closes
// sealed; if Join fails, sealed is unchanged. When ctx ends, reading from the scheduler ends with ctx's cause.
func Join(ctx context.Context, dir string, sealed Sealed, open func() (Sealed, error)) (*Joined, error) {
	j := &Joined{ctx: ctx, dir: dir, open: open, client: newClient(dir)}
	var err error
	if j.now, j.info, err = j.join(ctx, sealed); err != nil {
		j.client.close()
		return nil, err
	}
	j.last = max(j.now.end.Seq, j.info.Last)
	return j, nil
}

// join asks the scheduler for its range, and finds the end of log.
func (j *Joined) join(ctx context.Context, log Sealed) (*part, Info, error) {
	info, err := j.client.info(ctx)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, info, fmt.Errorf("log %s: %w", j.dir, ErrNotServed)
	}
	if err != nil {
		return nil, info, fmt.Errorf("ask the scheduler that writes to %s: %w", j.dir, err)
	}
	p, err := newPart(ctx, log)
	if err == nil {
		p.pid, p.by = info.PID, info.Instance
	}
	return p, info, err
}

func newPart(ctx context.Context, log Sealed) (*part, error) {
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	p := &part{log: log, told: log.Live()}
	p.end.Seq = max(last, log.First()-1)
	p.end.Hash, err = log.RecordHash(ctx, p.end.Seq)
	return p, err
}

// part returns the present source of the log.
func (j *Joined) part() *part {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now
}

// Info returns the scheduler's description of itself from the time when the log was joined.
func (j *Joined) Info() Info { return j.info }

// Reopened reports whether the scheduler ended before it had sent all requested records.
func (j *Joined) Reopened() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.before) > 0
}

// Last implements eventlog.Reader: the last entry when the log was joined.
func (j *Joined) Last() (uint64, error) {
	if _, err := j.part().log.Last(); err != nil {
		return 0, err
	}
	return j.last, nil
}

// Close releases the files and the connection to the scheduler.
func (j *Joined) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.client.close()
	err := j.now.log.Close()
	for _, log := range j.before {
		err = errors.Join(err, log.Close())
	}
	j.before, j.closed = nil, true
	return err
}

// First implements eventlog.Reader.
func (j *Joined) First() uint64 { return j.part().log.First() }

// Archivable reports whether there are segments to archive, like Sealed.Archivable.
func (j *Joined) Archivable(before uint64) bool { return j.part().log.Archivable(before) }

// RecordHash implements eventlog.Reader.
func (j *Joined) RecordHash(ctx context.Context, seq uint64) ([32]byte, error) {
	if p := j.part(); seq <= min(p.end.Seq, j.last) {
		return p.log.RecordHash(ctx, seq)
	}
	for r, err := range j.Records(ctx, seq) {
		return r.Hash, err
	}
	return [32]byte{}, fmt.Errorf("there is no entry %d: the log was read up to entry %d", seq, j.last)
}

// KnownTree implements eventlog.Reader.
func (j *Joined) KnownTree(ctx context.Context, size uint64) (merkle.Tree, error) {
	p := j.part()
	return p.log.KnownTree(ctx, min(size, p.end.Seq, j.last))
}
