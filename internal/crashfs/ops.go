// Package crashfs is test support: it owns the states in which a crash may leave a directory that a program was
// writing.
//
// Record runs a program and notes every system call that changes a directory, and every sync. From such a Recording,
// States derives the states that a crash at any moment may leave. Writes that no sync covers yet may be lost, each
// independently, or torn at sectors of 512 bytes. Names that no sync of their directory covers yet may be lost too.
// Build creates such a state on a real file system, where the program can be tested with it.
//
// It knows nothing about logs, and leaves the judgement of a state to the test. The model is POSIX's, which promises
// less than any one file system does. A file's sync covers the file's bytes and size, and a directory's sync covers
// its names. Nothing else is covered.
//
// Start reading at Op, then State (states.go), then Record (record_linux.go).
package crashfs

import (
	"errors"
	"fmt"
	"strings"
)

// A Kind is the kind of an Op.
type Kind uint8

// The kinds.
const (
	// Create made File, an empty file, with Name in Dir.
	Create Kind = iota + 1
	// Mkdir made File, an empty directory, with Name in Dir.
	Mkdir
	// Write wrote Data to File at Offset.
	Write
	// Truncate made File Offset bytes long.
	Truncate
	// Sync brought to the disk what was done to File before: its bytes, or its names if it is a directory.
	Sync
	// Link gave File another name: Name in Dir.
	Link
	// Rename gave File Name in Dir, replacing any file of that name, and took OldName in OldDir from it.
	Rename
	// Unlink took Name in Dir from File.
	Unlink
	// Note is a message from the program (Notes): Text.
	Note
)

// Root is the number of the recorded directory. Each new file or directory has the next number.
const Root = 0

// An Op is one thing that a program did.
type Op struct {
	Kind    Kind
	File    int
	Dir     int
	Name    string
	OldDir  int
	OldName string
	Offset  int64
	Data    []byte
	Text    string
}

// A Recording is the sequence of operations that a program performed in a directory that was empty.
type Recording []Op

// String describes the operation, for a person who reads about a state that went wrong.
func (o Op) String() string {
	switch o.Kind {
	case Create:
		return fmt.Sprintf("create %s in %d as %d", o.Name, o.Dir, o.File)
	case Mkdir:
		return fmt.Sprintf("mkdir %s in %d as %d", o.Name, o.Dir, o.File)
	case Write:
		return fmt.Sprintf("write %d bytes to %d at %d", len(o.Data), o.File, o.Offset)
	case Truncate:
		return fmt.Sprintf("truncate %d to %d bytes", o.File, o.Offset)
	case Sync:
		return fmt.Sprintf("sync %d", o.File)
	case Link:
		return fmt.Sprintf("link %d as %s in %d", o.File, o.Name, o.Dir)
	case Rename:
		return fmt.Sprintf("rename %s in %d to %s in %d", o.OldName, o.OldDir, o.Name, o.Dir)
	case Unlink:
		return fmt.Sprintf("unlink %s in %d", o.Name, o.Dir)
	}
	return "note " + o.Text
}

// String lists the operations, one per line, each with its number.
func (r Recording) String() string {
	var b strings.Builder
	for i, op := range r {
		fmt.Fprintf(&b, "%5d  %s\n", i, op)
	}
	return b.String()
}

// touches returns the file and the directories whose syncs must all come before o is durable.
func (o Op) touches() []int {
	switch o.Kind {
	case Write, Truncate:
		return []int{o.File}
	case Create, Mkdir, Link, Unlink:
		return []int{o.Dir}
	case Rename:
		if o.OldDir != o.Dir {
			return []int{o.Dir, o.OldDir}
		}
		return []int{o.Dir}
	}
	return nil
}

// ErrUnsupported says that this system does not allow a program to be recorded.
var ErrUnsupported = errors.New("programs cannot be recorded here")
