package boltlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/durable"
	"github.com/rollcall-sched/rollcall/internal/regular"
)

// originName is the file that says why a log's first entry is not in its directory. A log without it begins with entry
// 1: if that entry is missing, the log is damaged.
const originName = "ORIGIN"

// originFormat is the version of that file's content that this package writes, and the highest that it reads.
const originFormat = 1

// maxOrigin is the largest size of an ORIGIN in bytes: it has a line for each directory with archived segments.
const maxOrigin = 4 << 20

// A Part is a range of a log's entries that were moved to another directory, whole segments.
type Part struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Dir   string `json:"dir"`
}

// A beginning is the content of ORIGIN: the log's own entries begin after Origin. The earlier ones are in the Archived
// parts, without a gap, as far back as those go.
type beginning struct {
	Format   int             `json:"format"`
	Origin   eventlog.Origin `json:"origin"`
	Archived []Part          `json:"archived"`
}

// base returns the entry after which the first part begins: 0 unless the log was made from a part of another.
func (b *beginning) base() uint64 {
	if len(b.Archived) > 0 {
		return b.Archived[0].First - 1
	}
	return b.Origin.Seq
}

// facts returns the facts of the segment before the log's own ones.
func (b *beginning) facts() Facts {
	return Facts{Last: b.Origin.Seq, Hash: b.Origin.Hash, Sealed: true, SealedTree: &b.Origin.Tree}
}

// dirs returns the directories of the archived parts.
func (b *beginning) dirs() []string {
	var dirs []string
	for _, p := range b.Archived {
		dirs = append(dirs, p.Dir)
	}
	return dirs
}

// check returns an error if a beginning that was read is invalid.
func (b *beginning) check() error {
	next := b.base() + 1
	for _, p := range b.Archived {
		if p.First != next || p.First == 0 || p.Last < p.First || p.Dir == "" {
			return fmt.Errorf(
				"entries %d to %d are archived in %q, want those from %d on",
				p.First,
				p.Last,
				p.Dir,
				next,
			)
		}
		next = p.Last + 1
	}
	if b.Origin.Seq == 0 || next != b.Origin.Seq+1 {
		return fmt.Errorf("entries up to %d are archived, want those up to %d", next-1, b.Origin.Seq)
	}
	return nil
}

// encode returns the file's content: a line of JSON and a line with its checksum.
func (b *beginning) encode() ([]byte, error) {
	line, err := json.Marshal(
		beginning{Format: originFormat, Origin: b.Origin, Archived: append([]Part{}, b.Archived...)},
	)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(append(line, '\n'), "crc32c %08x\n", crc32.Checksum(line, castagnoli)), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decodeBeginning is the inverse of encode, and accepts nothing else.
func decodeBeginning(content []byte) (*beginning, error) {
	line, sum, _ := bytes.Cut(content, []byte("\n"))
	if want := fmt.Sprintf("crc32c %08x\n", crc32.Checksum(line, castagnoli)); string(sum) != want {
		return nil, fmt.Errorf("its checksum is %q, want %q", sum, want)
	}
	b := &beginning{}
	var version struct{ Format int }
	if err := json.Unmarshal(line, &version); err != nil {
		return nil, err
	}
	if version.Format != originFormat {
		return nil, fmt.Errorf(
			"it has format %d, of another version of Rollcall: this one reads %d",
			version.Format,
			originFormat,
		)
	}
	in := struct { // repeated fields are decoded once
		Origin   json.RawMessage `json:"origin"`
		Archived []Part          `json:"archived"`
	}{}
	if err := json.Unmarshal(line, &in); err != nil {
		return nil, err
	}
	b.Format, b.Archived = version.Format, in.Archived
	if err := json.Unmarshal(in.Origin, &b.Origin); err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	again, err := b.encode()
	if err == nil && !bytes.Equal(content, again) {
		err = errors.New("it is not written as this program writes it")
	}
	return b, err
}

// readBeginning reads ORIGIN in dir; nil if there is none.
func readBeginning(dir string) (*beginning, error) {
	path := filepath.Join(dir, originName)
	content, err := regular.ReadFile(path, maxOrigin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &eventlog.UnreadableError{Path: path, Err: err}
	}
	b, err := decodeBeginning(content)
	if err != nil {
		return nil, &eventlog.DamagedError{
			Path: path,
			Seq:  1,
			Err:  fmt.Errorf("where the log begins cannot be read: %w", err),
		}
	}
	return b, nil
}

// write makes b ORIGIN in dir, durably: after a crash, the file is the old one or the new one.
func (b *beginning) write(dir string) error {
	content, err := b.encode()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, originName+".*"+tmpSuffix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already if all went well
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, originName)); err != nil {
		return err
	}
	return durable.Sync(dir)
}
