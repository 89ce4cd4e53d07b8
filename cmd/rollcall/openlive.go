package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/localapi"
)

// A liveLog is a log as far as it can be read, beside its writer if it has one.
type liveLog struct {
	records
	live   bool  // a writer has it
	unread error // why it can be read only as far as it is sealed; nil if it goes on
}

const (
	// serveTime is how long a log is waited for that is written to and not served: a scheduler serves it shortly after
	// it has taken it, and lets go of it shortly after it has ceased to serve it.
	serveTime = time.Second
	// serveEvery is how long is waited between two tries.
	serveEvery = 20 * time.Millisecond
)

// openLog opens the log at path, and joins to it what the scheduler tells that is writing to it, if one is.
func (r reading) openLog(path string) (liveLog, error) {
	opts := boltlog.DefaultOptions()
	opts.Archives = r.archives
	for began := time.Now(); ; time.Sleep(serveEvery) {
		log, err := opts.OpenReadOnly(path)
		if err != nil {
			return liveLog{}, explainAbsence(path, err)
		}
		if !log.Live() {
			if err := findLoss(log); err != nil {
				return liveLog{}, errors.Join(err, log.Close())
			}
			return liveLog{records: log}, nil
		}
		joined, err := localapi.Join(r.context(), path, log)
		if err == nil {
			return liveLog{records: joined, live: true}, nil
		}
		if !errors.Is(err, localapi.ErrNotServed) || time.Since(began) > serveTime {
			return liveLog{records: log, live: true, unread: err}, nil
		}
		if err := log.Close(); err != nil {
			return liveLog{}, err
		}
	}
}

// note says on stderr how far a log is read that is being written to.
func (l liveLog) note() error {
	last, err := l.Last()
	switch {
	case err != nil:
		return err
	case !l.live:
	case l.unread == nil:
		noteLive(last)
	default:
		if !errors.Is(l.unread, localapi.ErrNotServed) {
			fmt.Fprintf(os.Stderr, "rollcall: %v\n", l.unread)
		}
		fmt.Fprintf(os.Stderr, "rollcall: the log is being written to: read up to entry %d, which is the last that is sealed\n", last)
	}
	return nil
}

// noteLive says that a log goes on behind what is read of it.
func noteLive(last uint64) {
	fmt.Fprintf(os.Stderr, "rollcall: the log is being written to: read up to entry %d\n", last)
}
