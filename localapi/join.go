package localapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
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
// and behind them what the scheduler tells. It is safe for concurrent use.
type Joined struct {
	log *boltlog.Log // the sealed segments

	client *client
	sealed uint64 // its last entry, or the one before its first
	prev   [32]byte
	last   uint64
	info   Info
}

var _ eventlog.Log = (*Joined)(nil)

// Join joins what the scheduler tells to sealed, the log that it is writing to (sealed.Live), whose directory is dir.
// Closing the joined log closes sealed; after an error sealed is as it was.
func Join(dir string, sealed *boltlog.Log) (*Joined, error) {
	j := &Joined{log: sealed, client: newClient(dir)}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	err := j.join(ctx)
	if err != nil {
		j.client.close()
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("log %s: %w", dir, ErrNotServed)
		}
		return nil, fmt.Errorf("ask the scheduler that writes to %s: %w", dir, err)
	}
	return j, nil
}

func (j *Joined) join(ctx context.Context) (err error) {
	if j.info, err = j.client.info(ctx); err != nil {
		return err
	}
	last, err := j.log.Last()
	if err != nil {
		return err
	}
	j.sealed, j.last = max(last, j.log.First()-1), max(last, j.info.Last)
	if j.sealed > 0 {
		j.prev, err = j.log.RecordHash(j.sealed)
	}
	return err
}

// Info returns what the scheduler said of itself.
func (j *Joined) Info() Info { return j.info }

// Last implements eventlog.Log: what was last when the log was joined.
func (j *Joined) Last() (uint64, error) {
	if _, err := j.log.Last(); err != nil {
		return 0, err
	}
	return j.last, nil
}

// Append implements eventlog.Log: it is refused.
func (j *Joined) Append(uint64, []eventlog.Entry) error { return boltlog.ErrReadOnly }

// Close implements eventlog.Log.
func (j *Joined) Close() error {
	j.client.close()
	return j.log.Close()
}

// Read implements eventlog.Log.
func (j *Joined) Read(from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		if from <= j.sealed {
			for e, err := range j.log.Read(from) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
		for r, err := range j.told(from) {
			var e eventlog.Entry
			if err == nil {
				if e, _, err = eventlog.DecodeRecord(r.Bytes); err != nil {
					err = &eventlog.DamagedError{Seq: r.Seq, Err: err}
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Records is Read without decoding the entries, as that of boltlog.Log.
func (j *Joined) Records(from uint64) iter.Seq2[boltlog.Record, error] {
	return func(yield func(boltlog.Record, error) bool) {
		if from <= j.sealed {
			for r, err := range j.log.Records(from) {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
		for r, err := range j.told(from) {
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// told yields the records from an entry on, of those that only the scheduler can tell. It asks for all of them, so
// that their chain reaches back to what was read here.
func (j *Joined) told(from uint64) iter.Seq2[boltlog.Record, error] {
	return func(yield func(boltlog.Record, error) bool) {
		if j.last <= j.sealed {
			return
		}
		for r, err := range j.client.records(j.sealed+1, j.last, j.prev) {
			if err == nil && r.Seq < from {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// RecordHash returns the hash of entry seq's record, as that of boltlog.Log.
func (j *Joined) RecordHash(seq uint64) ([32]byte, error) {
	if seq <= j.sealed {
		return j.log.RecordHash(seq)
	}
	for r, err := range j.told(seq) {
		return r.Hash, err
	}
	return [32]byte{}, fmt.Errorf("there is no entry %d: the log was read up to entry %d", seq, j.last)
}

// OriginAt returns the place behind entry seq, as that of boltlog.Log.
func (j *Joined) OriginAt(seq uint64) (boltlog.Origin, error) {
	if seq <= j.sealed {
		return j.log.OriginAt(seq)
	}
	var o boltlog.Origin
	if j.sealed > 0 {
		var err error
		if o, err = j.log.OriginAt(j.sealed); err != nil {
			return o, err
		}
		o.Tree = o.Tree.Clone()
	}
	for r, err := range j.told(j.sealed + 1) {
		if err != nil {
			return boltlog.Origin{}, err
		}
		o.Seq, o.Hash = r.Seq, r.Hash
		o.Tree.Add(r.Hash)
		if r.Seq == seq {
			return o, nil
		}
	}
	return boltlog.Origin{}, fmt.Errorf("there is no entry %d: the log was read up to entry %d", seq, j.last)
}

// First returns the first entry that can be read, as that of boltlog.Log.
func (j *Joined) First() uint64 { return j.log.First() }
