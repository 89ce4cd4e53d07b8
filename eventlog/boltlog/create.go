package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/durable"
)

// tmpSuffix ends the names of files and directories that are not complete yet. A crash leaves them behind.
const tmpSuffix = ".tmp"

// Create makes a new, empty log at path, a directory, and opens it for appending. It fails if path exists
// (fs.ErrExist). A crash in the middle leaves nothing at path, at most a directory beside it whose name begins with
// path's and ends in ".tmp".
func (o Options) Create(path string) (*Log, error) { return o.CreateFrom(path, eventlog.Origin{}) }

// CreateFrom is Create for a log that is a part of another one and begins after its entry origin.Seq: it continues
// that log's numbers, its chain of hashes and its tree. Append expects origin.Seq as the last entry of the empty log,
// and Read of that entry or an earlier one returns an *ArchivedError.
func (o Options) CreateFrom(path string, origin eventlog.Origin) (*Log, error) {
	if err := origin.Check(); err != nil {
		return nil, fmt.Errorf("create log %s: %w", path, err)
	}
	if err := create(filepath.Clean(path), origin); err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	return o.Open(path)
}

// Create is DefaultOptions().Create.
func Create(path string) (*Log, error) { return DefaultOptions().Create(path) }

// create makes the whole directory under another name, brings it to the disk, and only then gives it its name.
func create(path string, origin eventlog.Origin) error {
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	tmp, err := os.MkdirTemp(parent, filepath.Base(path)+".*"+tmpSuffix)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer os.RemoveAll(tmp) // gone already if all went well
	if err := os.WriteFile(filepath.Join(tmp, lockName), nil, fileMode); err != nil {
		return err
	}
	if origin.Seq > 0 {
		if err := (&beginning{Origin: origin}).write(tmp); err != nil {
			return err
		}
	}
	dir, err := holdDir(tmp)
	if err != nil {
		return err
	}
	if err := errors.Join(dir.createSegment(origin), dir.close()); err != nil {
		return err
	}
	// A file that appeared at path meanwhile is not replaced, unless it is an empty directory.
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return durable.Sync(parent)
}

// createSegment makes an empty segment after origin, durable with its name. bbolt's first write is not crash-safe, so
// the whole file is made under another name, brought to the disk, and only then given its own.
func (d *heldDir) createSegment(origin eventlog.Origin) error {
	name := segmentName(origin.Seq + 1)
	tmp, err := d.initialise(name, origin)
	for try := 1; errors.Is(err, syscall.EINTR) && try < maxInterrupted; try++ { // in bbolt's first sync
		tmp, err = d.initialise(name, origin)
	}
	if err != nil {
		return err
	}
	defer d.root.Remove(tmp)
	f, err := d.openFile(tmp, os.O_RDWR)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := durable.PublishIn(d.root, tmp, name); err != nil {
		return err
	}
	return d.sync()
}

// initialise makes an empty segment after origin under another name. It will be called name.
func (d *heldDir) initialise(name string, origin eventlog.Origin) (tmp string, err error) {
	tmp, f, err := d.createTemp(name)
	if err != nil {
		return "", err
	}
	if err := initialise(filepath.Join(d.path, tmp), f, origin); err != nil {
		return "", errors.Join(err, d.root.Remove(tmp))
	}
	return tmp, nil
}

// initialise writes the buckets of an empty segment after origin into the empty file f at path, and closes it.
func initialise(path string, f *os.File, origin eventlog.Origin) error {
	o := options(false)
	o.InitialMmapSize = 0 // the file would grow with it
	o.OpenFile = func(string, int, os.FileMode) (*os.File, error) { return f, nil }
	db, err := bolt.Open(path, fileMode, o)
	if err != nil {
		return err
	}
	err = update(db, new(sync.Mutex), func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketLog, bucketSnap} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		return errors.Join(
			meta.Put(metaType, []byte(fileType)),
			meta.Put(metaFormat, binary.BigEndian.AppendUint32(nil, Format)),
			meta.Put(metaFirst, key(origin.Seq+1)),
			meta.Put(metaPrevious, origin.Hash[:]),
			meta.Put(metaTree, origin.Tree.AppendNodes(nil)),
		)
	})
	return errors.Join(err, closeDB(db))
}
