package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// openForReading opens an existing log. If a scheduler is writing to it, what is sealed can be read, and this
// says on stderr how far that goes.
func openForReading(path string) (eventlog.Log, error) {
	log, err := boltlog.OpenReadOnly(path)
	if err != nil {
		return nil, explainAbsence(path, err)
	}
	if log.Live() {
		last, err := log.Last()
		if err != nil {
			return nil, errors.Join(err, log.Close())
		}
		noteLive(last)
	}
	return log, nil
}

// explainAbsence says of a log that is not there how to make one.
func explainAbsence(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no log at %s: make one with rollcall simulate --log %s", path, path)
	}
	return err
}

// noteLive says that a log goes on behind what is read of it.
func noteLive(last uint64) {
	fmt.Fprintf(os.Stderr, "rollcall: the log is being written to: read up to entry %d\n", last)
}

// createLog makes a new log at path; what stands there already is refused.
func createLog(path string) (eventlog.Log, error) {
	log, err := boltlog.Create(path)
	if errors.Is(err, fs.ErrExist) {
		return nil, usageError{fmt.Errorf("%s is there already: remove it, or name another directory", path)}
	}
	return log, err
}
