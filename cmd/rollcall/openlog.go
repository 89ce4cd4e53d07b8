package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// openForReading opens an existing log, which no scheduler may be writing to.
func openForReading(path string) (eventlog.Log, error) {
	log, err := boltlog.OpenReadOnly(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no log at %s: make one with rollcall simulate --log %s", path, path)
	}
	return log, err
}

// openForWriting opens the log at path for appending, and makes it if there is none; fresh refuses one that
// is there already.
func openForWriting(path string, fresh bool) (eventlog.Log, error) {
	_, err := os.Stat(path)
	switch {
	case err == nil && fresh:
		return nil, usageError{fmt.Errorf("there is a log at %s already: remove it, or name another file", path)}
	case err == nil:
		return boltlog.Open(path)
	case errors.Is(err, fs.ErrNotExist):
		return boltlog.Create(path)
	}
	return nil, err
}
