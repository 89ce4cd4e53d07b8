package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// A writing is a snapshot on its way to its store. The state was copied between two steps; packing it and
// bringing it to the disk takes about a third of the whole, and needs the Machine no more: it is done beside
// the engine's own work, one at a time.
type writing struct {
	seq     uint64
	scratch []byte // the state's memory, for the next one
	done    chan error
	foreign []uint64 // dropped once there is a good one
}

// A keeper keeps snapshots of a state.
type keeper struct {
	store   snapshot.Store // nil for none
	every   uint64         // entries after which the next one is due; 0: that alone makes none due
	age     time.Duration  // the same by the entries' time
	tell    func(message string)
	shared  bool          // a standby may write them, too
	unkept  bool          // no snapshots are made: a plugin has a memory that they do not hold
	at      uint64        // the last entry of which a snapshot was made, or tried
	time    eventlog.Time // that entry's; without one, the first entry's
	writing *writing      // the snapshot under way
	scratch []byte        // memory for the next one
	foreign []uint64      // snapshots that were refused because they are not of this log
	looking chan uint64   // what others have written is looked for: receives the newest; nil if nothing is
}

func newKeeper(opts *Options) keeper {
	return keeper{store: opts.Snapshots, every: opts.SnapshotEvery, age: opts.SnapshotAge, tell: opts.report,
		shared: opts.StandbysSnapshot}
}

// see notes the time of an entry: the first one is that from which the age of the first snapshot counts.
func (k *keeper) see(t eventlog.Time) {
	if k.time == 0 {
		k.time = t
	}
}

// leave, for an engine, has snapshots that a standby writes, too, be due later here: they are written by then.
func (k *keeper) leave() {
	if k.shared {
		k.every += k.every / 4
		k.age += k.age / 4
	}
}

// keptByOthers reports whether no snapshot is to be begun now that is due: because a standby has written one meanwhile,
// of an entry up to last, or because that is not known yet. It never waits.
func (k *keeper) keptByOthers(last uint64) bool {
	if !k.shared {
		return false
	}
	if k.looking == nil {
		found, store, foreign := make(chan uint64, 1), k.store, slices.Clone(k.foreign)
		k.looking = found
		go func() {
			newest := uint64(0)
			seqs, _ := store.List() // writing one will say what is wrong
			for _, seq := range seqs {
				if seq <= last && !slices.Contains(foreign, seq) {
					newest = max(newest, seq)
				}
			}
			found <- newest
		}()
	}
	if len(k.looking) == 0 {
		return true
	}
	newest := <-k.looking
	k.looking = nil
	if newest <= k.at {
		return false
	}
	k.at, k.time = newest, 0 // the age counts from the next entry on
	return true
}

// keep begins a snapshot of a state whose last entry is durable and has a hash, or err if that is not known.
func (k *keeper) keep(m *scheduler.Machine, position [32]byte, err error) {
	k.at, k.time = m.Seq(), m.Now()
	if err != nil {
		k.tell(noSnapshot(k.at, err))
		return
	}
	s, err := snapshot.Capture(m, position, k.scratch)
	if err != nil {
		k.tell(noSnapshot(k.at, err))
		return
	}
	k.write(s, k.at)
}

// write packs a snapshot and brings it to its store, beside the work on the state.
func (k *keeper) write(s *snapshot.Snapshot, seq uint64) {
	k.scratch = nil
	w, store := &writing{seq: seq, done: make(chan error, 1), foreign: k.foreign}, k.store
	k.writing = w
	go func() {
		data, err := s.Encode()
		if err == nil {
			err = store.Put(seq, data)
		}
		for _, other := range w.foreign {
			if err == nil && other != seq {
				err = store.Drop(other)
			}
		}
		w.scratch = s.Release()
		w.done <- err
	}()
}

// isDue reports whether a snapshot is to be begun: enough entries, or enough of their time, have come since the last.
func (k *keeper) isDue(m *scheduler.Machine) bool {
	if k.store == nil || k.unkept || k.writing != nil {
		return false
	}
	since := m.Seq() - k.at
	return k.every > 0 && since >= k.every || k.age > 0 && since > 0 && m.Now().Sub(k.time) >= k.age
}

// collect takes in what became of the snapshot under way, if it has ended or the caller waits for that.
func (k *keeper) collect(wait bool) {
	if wait && k.looking != nil {
		<-k.looking
		k.looking = nil
	}
	w := k.writing
	if w == nil || !wait && len(w.done) == 0 {
		return
	}
	if err := <-w.done; err != nil {
		k.tell(noSnapshot(w.seq, err))
	} else if len(w.foreign) > 0 {
		k.tell(fmt.Sprintf("dropped what is kept as snapshots of entries %d: they are not of this log", w.foreign))
		k.foreign = nil
	}
	k.writing, k.scratch = nil, w.scratch
}

func noSnapshot(seq uint64, err error) string {
	return fmt.Sprintf("no snapshot at entry %d: %v", seq, err)
}
