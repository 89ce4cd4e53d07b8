package boltlog

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/internal/durable"
)

// maxInterrupted is the largest number of attempts at a step that signals interrupt.
const maxInterrupted = 100

// update runs f in a transaction of db that is durable when update returns without an error. reading is held by
// read-only transactions, and not when update is called.
//
// A signal may interrupt a sync (EINTR). Some file systems report that from fsync(2). Package os tries again, but
// bbolt does not. The transaction has then failed, though its writes are neither lost nor durable, and the next one
// may continue from it. So update repeats the sync, and then the transaction either exists, or is run once more. Any
// other error of a sync is final: the disk may have dropped anything.
func update(db *bolt.DB, reading sync.Locker, f func(tx *bolt.Tx) error) error {
	for try := 1; ; try++ {
		id := 0
		err := guard(func() error {
			return db.Update(func(tx *bolt.Tx) error {
				id = tx.ID()
				return f(tx)
			})
		})
		if !errors.Is(err, syscall.EINTR) || try == maxInterrupted {
			return err
		}
		there, failed := settle(db, reading, id)
		if there || failed != nil {
			return failed
		}
	}
}

// settle repeats the sync that a signal interrupted, and reports whether transaction id is durably in the file.
func settle(db *bolt.DB, reading sync.Locker, id int) (there bool, err error) {
	// Present readers may read pages that the transaction has freed. bbolt forgets that after a failure.
	reading.Lock()
	defer reading.Unlock()
	if err := syncAgain(db.Sync); err != nil {
		return false, fmt.Errorf("sync again what was interrupted: %w", err)
	}
	err = guard(func() error {
		return db.View(func(tx *bolt.Tx) error {
			there = tx.ID() >= id
			return nil
		})
	})
	return there, err
}

// syncAgain calls sync until no signal interrupts it.
func syncAgain(sync func() error) (err error) {
	for range maxInterrupted {
		if err = sync(); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	return err
}

// openSegment opens the file at path, also if signals interrupt that. Some file systems let one interrupt flock(2),
// which bbolt does not repeat. It closes the file then, so each attempt opens it again.
func openSegment(path string, readOnly bool) (*Segment, error) {
	return durable.Uninterrupted(func() (*Segment, error) { return openSegmentFile(path, readOnly, nil) })
}

// closeDB closes db. bbolt gives back its lock first. It reports a signal that interrupts that, and closes the file all
// the same. So nothing is left to repeat.
func closeDB(db *bolt.DB) error {
	if err := db.Close(); !errors.Is(err, syscall.EINTR) {
		return err
	}
	return nil
}
