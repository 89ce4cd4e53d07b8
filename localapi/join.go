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
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// ErrNotServed is wrapped by Join's error if the process that writes to the log does not serve it.
var ErrNotServed = errors.New("its writer does not serve it")

// dialTime is how long a reader waits for the scheduler to say what there is.
const dialTime = 5 * time.Second

// A Joined log is a log that a scheduler is writing to, as far as it went when it was joined: its sealed segments,
// and behind them what the scheduler tells. If that one ends meanwhile, the rest is read where it is then. It is safe
// for concurrent use.
type Joined struct {
	dir    string
	client *client
	last   uint64
	info   Info

	mu     sync.Mutex // held for as long as reopening takes
	now    *part
	before []*boltlog.Log // of earlier parts: someone may still be reading in them
	closed bool
}

var _ eventlog.Log = (*Joined)(nil)

// A part is where a log is read for as long as the same process writes to it, or none.
type part struct {
	log    *boltlog.Log // the sealed segments, or all of them if nobody writes to the log
	told   bool         // a scheduler tells what is behind them
	sealed uint64       // the last entry of log, or the one before its first
	prev   [32]byte     // its hash
	pid    int          // the scheduler's process, if told
}

// Join joins what the scheduler tells to sealed, the log that it is writing to (sealed.Live), whose directory is dir.
// Closing the joined log closes sealed; after an error sealed is as it was. When ctx ends, so does reading what the
// scheduler tells, with ctx's error.
func Join(ctx context.Context, dir string, sealed *boltlog.Log) (*Joined, error) {
	j := &Joined{dir: dir, client: newClient(ctx, dir)}
	var err error
	if j.now, j.info, err = j.join(sealed); err != nil {
		j.client.close()
		return nil, err
	}
	j.last = max(j.now.sealed, j.info.Last)
	return j, nil
}

// join asks the scheduler what there is, and where log ends.
func (j *Joined) join(log *boltlog.Log) (*part, Info, error) {
	info, err := j.client.info()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, info, fmt.Errorf("log %s: %w", j.dir, ErrNotServed)
	}
	if err != nil {
		return nil, info, fmt.Errorf("ask the scheduler that writes to %s: %w", j.dir, err)
	}
	p, err := newPart(log)
	if err == nil {
		p.pid = info.PID
	}
	return p, info, err
}

func newPart(log *boltlog.Log) (*part, error) {
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	p := &part{log: log, told: log.Live(), sealed: max(last, log.First()-1)}
	if p.sealed > 0 {
		p.prev, err = log.RecordHash(p.sealed)
	}
	return p, err
}

// part returns where the log is read now.
func (j *Joined) part() *part {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now
}

// Info returns what the scheduler said of itself when the log was joined.
func (j *Joined) Info() Info { return j.info }

// Reopened says whether the scheduler has ended before it had told all that was asked of it.
func (j *Joined) Reopened() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.before) > 0
}

// Last implements eventlog.Log: what was last when the log was joined.
func (j *Joined) Last() (uint64, error) {
	if _, err := j.part().log.Last(); err != nil {
		return 0, err
	}
	return j.last, nil
}

// Append implements eventlog.Log: it is refused.
func (j *Joined) Append(uint64, []eventlog.Entry) error { return eventlog.ErrReadOnly }

// Close implements eventlog.Log.
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

// First returns the first entry that can be read, as that of boltlog.Log.
func (j *Joined) First() uint64 { return j.part().log.First() }

// Archivable says whether there are segments to archive, as that of boltlog.Log.
func (j *Joined) Archivable(before uint64) bool { return j.part().log.Archivable(before) }

// RecordHash returns the hash of entry seq's record, as that of boltlog.Log.
func (j *Joined) RecordHash(seq uint64) ([32]byte, error) {
	if p := j.part(); seq <= min(p.sealed, j.last) {
		return p.log.RecordHash(seq)
	}
	for r, err := range j.Records(seq) {
		return r.Hash, err
	}
	return [32]byte{}, j.beyond(seq)
}

func (j *Joined) beyond(seq uint64) error {
	return fmt.Errorf("there is no entry %d: the log was read up to entry %d", seq, j.last)
}

// OriginAt returns the place behind entry seq, as that of boltlog.Log.
func (j *Joined) OriginAt(seq uint64) (o eventlog.Origin, err error) {
	p := j.part()
	if seq <= min(p.sealed, j.last) {
		return p.log.OriginAt(seq)
	}
	if p.sealed > 0 {
		if o, err = p.log.OriginAt(p.sealed); err != nil {
			return o, err
		}
		o.Tree = o.Tree.Clone()
	}
	for r, err := range j.Records(p.sealed + 1) {
		if err != nil {
			return eventlog.Origin{}, err
		}
		o.Seq, o.Hash = r.Seq, r.Hash
		o.Tree.Add(r.Hash)
		if r.Seq == seq {
			return o, nil
		}
	}
	return eventlog.Origin{}, j.beyond(seq)
}
