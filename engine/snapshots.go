package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// A writing is a snapshot on its way to its store. The state is copied between two steps. To pack it and write it takes
// about a third of the whole time and no longer needs the Machine. So a goroutine does that, one snapshot at a time.
type writing struct {
	seq     uint64
	scratch []byte // the state's memory, for the next one
	done    chan error
	foreign []uint64 // dropped once there is a good one
}

// A keeper keeps snapshots of a state.
type keeper struct {
	store   snapshot.Store // nil for none
	every   uint64         // entries after which the next one is due; 0 for no limit
	age     time.Duration  // the same by the entries' time
	tell    func(message string)
	shared  bool          // a standby may write them, too
	unkept  bool          // no snapshots are made, because they would lack what a plugin remembers
	at      uint64        // the last entry at which a snapshot was made, or tried
	time    eventlog.Time // that entry's time; without one, the first entry's
	writing *writing      // the snapshot under way
	scratch []byte        // memory for the next one
	foreign []uint64      // snapshots that were refused because they are not of this log
	looking chan uint64   // receives the newest snapshot that others have written; nil unless a search is under way
}

func newKeeper(opts *Options) keeper {
	return keeper{store: opts.Snapshots, every: opts.SnapshotEvery, age: opts.SnapshotAge, tell: opts.report,
		shared: opts.StandbysSnapshot}
}

// see notes the time of an entry. The age of the first snapshot counts from the first entry that is seen.
func (k *keeper) see(t eventlog.Time) {
	if k.time == 0 {
		k.time = t
	}
}

// leave makes snapshots due later, if a standby writes them, too. The engine calls it, so that the standby is first.
func (k *keeper) leave() {
	if k.shared {
		k.every += k.every / 4
		k.age += k.age / 4
	}
}

// keptByOthers reports whether a snapshot that is due need not be made now. That is so if a standby has written one of
// an entry up to last, or if the answer is not known yet. It never waits.
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

// keep begins a snapshot of a state. position is the hash of the record of its last entry, which is durable; err says
// why the hash is not known.
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

// write starts a goroutine that packs a snapshot and puts it into the store.
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

// isDue reports whether it is time for a snapshot: enough entries, or enough of their time, have come since the last.
func (k *keeper) isDue(m *scheduler.Machine) bool {
	if k.store == nil || k.unkept || k.writing != nil {
		return false
	}
	since := m.Seq() - k.at
	return k.every > 0 && since >= k.every || k.age > 0 && since > 0 && m.Now().Sub(k.time) >= k.age
}

// collect handles the end of the snapshot under way. With wait it waits for it; otherwise it returns if there is none.
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
