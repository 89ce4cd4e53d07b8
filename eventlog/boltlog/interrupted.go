package boltlog

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// maxInterrupted is the number of times that one and the same step is tried that signals interrupt.
const maxInterrupted = 100

// update runs f in a transaction of db that is durable when update returns without an error. reading keeps all
// transactions that only read out, and is not held when update is called.
//
// A signal may interrupt a sync (EINTR): on some file systems fsync(2) says so, and package os tries again, but bbolt
// does not. The transaction has then failed, though what it wrote is neither lost nor durable, and the next one may
// continue from it. So the sync is made up for, and then the transaction either is there, or is made once more. Any
// other error of a sync is final: nobody knows what the disk has dropped.
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

// settle makes up for a sync that was interrupted in transaction id, and reports whether it is in the file, durably.
func settle(db *bolt.DB, reading sync.Locker, id int) (there bool, err error) {
	// Who reads now may do so in pages that the transaction has given up. bbolt forgets that where it has failed.
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
