package watch

import (
	"iter"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

// Recorded is the part of a log from which a recorder continues its watches. The zero value is a new log's.
type Recorded struct {
	// Positions are the resourceVersions up to which the log has the changes.
	Positions map[eventlog.Resource]string
	// Until is the time of the log's last entry; zero for a new log.
	Until time.Time
}

// ReadRecorded finds where a recorder's watches continue, behind entry last. read reads the entries from a number on,
// and first is the first one that there is.
func ReadRecorded(first, last uint64, read func(from uint64) iter.Seq2[eventlog.Entry, error]) (Recorded, error) {
	out := Recorded{Positions: map[eventlog.Resource]string{}}
	to, open := last, true
	for size := uint64(256); to >= first && to > 0; size *= 4 {
		from := max(first, to-min(to-1, size-1))
		done, watched, err := out.readPart(from, to, to == last, open, read)
		if done || err != nil {
			return out, err
		}
		to, open = from-1, open && !watched
	}
	return out, nil
}

// readPart adds the positions in a part of the log that is before the parts that were read already. open says that
// those have no Watched. It reports whether the rest of the log adds nothing, and whether the part has a Watched.
func (r *Recorded) readPart(from, to uint64, newest, open bool, read func(uint64) iter.Seq2[eventlog.Entry, error]) (
	done, watched bool, err error) {
	part, torn := map[eventlog.Resource]string{}, map[eventlog.Resource]bool{}
	for e, err := range read(from) {
		if err != nil {
			return false, false, err
		}
		if e.Seq > to {
			break
		}
		if newest {
			r.Until = e.Time.Std()
		}
		switch p := e.Payload.(type) {
		case *eventlog.EpochStarted:
			if !framework.LoggedRecording(p.Config) { // a scheduler merges changes
				clear(part)
				done = true
			}
		case *eventlog.Watched:
			clear(torn)
			watched = true
			if p.Full {
				clear(part)
				done = true
			}
			for _, x := range p.Positions {
				part[x.Resource] = x.Version
			}
		case *eventlog.Upserted:
			torn[p.Resource] = true
		case *eventlog.Deleted:
			torn[p.Resource] = true
		}
	}
	for res, version := range part { // any order: a map is filled
		if _, later := r.Positions[res]; !later {
			r.Positions[res] = version
		}
	}
	for res := range torn { // any order: a map is filled
		// The recorder was killed within a batch: the log has changes behind the position.
		if open {
			r.Positions[res] = ""
		}
	}
	return done, watched, nil
}
