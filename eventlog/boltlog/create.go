package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// fileMode lets only the owner read the log: it tells the workloads of a whole cluster.
const fileMode = 0o600

// Create makes a new, empty log at path and opens it for appending. It fails if anything stands there
// (fs.ErrExist). A crash in the middle leaves no file at path, at most one beside it whose name begins
// with path's and ends in ".tmp".
func Create(path string) (*Log, error) {
	if err := create(path); err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	return Open(path)
}

// create follows the rule that bbolt's first write is not crash-safe: a whole file is made under another
// name, brought to the disk, and only then given its name.
func create(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	tmp, err := os.CreateTemp(dir, base+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already if all went well
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := initialise(tmp.Name()); err != nil {
		return err
	}
	if err := syncPath(tmp.Name()); err != nil {
		return err
	}
	if err := publish(tmp.Name(), path); err != nil {
		return err
	}
	return syncPath(dir)
}

// initialise writes the buckets of an empty log into the empty file at path.
func initialise(path string) error {
	db, err := bolt.Open(path, fileMode, options(false))
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketLog, bucketSnap} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		if err := meta.Put(metaType, []byte(fileType)); err != nil {
			return err
		}
		return meta.Put(metaFormat, binary.BigEndian.AppendUint32(nil, Format))
	})
	return errors.Join(err, db.Close())
}

// publish gives the file at tmp the name path. A hard link does not replace what another process may have
// put there meanwhile; only where the file system has none is the file renamed.
func publish(tmp, path string) error {
	err := os.Link(tmp, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(tmp, path)
}

// syncPath brings the file or directory at path to the disk.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
