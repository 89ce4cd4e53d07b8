package histories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A What is the kind of a note.
type What string

// The kinds of the schedulers' notes.
const (
	// Acknowledged: an append of entries First to Last has succeeded; Hash is the hash of Last's record.
	Acknowledged What = "acknowledged"
	// Seen: the log's reader, or its follower, was given entry Last with Hash.
	Seen What = "seen"
	// Released: the effect Effect of the decision at entry Last on pod UID was given out, of a bind to Node.
	Released What = "released"
	// Leads: the scheduler begins to lead.
	Leads What = "leads"
	// Lost: the scheduler does not lead any more, because of Text; it continues, on standby.
	Lost What = "lost"
	// Failed: the scheduler ends because of Text.
	Failed What = "failed"
	// Damaged: the same, because the log was said to be damaged.
	Damaged What = "damaged"
)

// A Note is a fact that a process noted before it acted on it. By then it is in a file, which outlives the process.
type Note struct {
	At          time.Time
	What        What
	First, Last uint64 `json:",omitempty"`
	Hash        string `json:",omitempty"`
	Effect      string `json:",omitempty"`
	UID, Node   string `json:",omitempty"`
	Text        string `json:",omitempty"`
}

// A notebook is the file of a process's notes.
type notebook struct {
	mu   sync.Mutex
	file *os.File
}

func openNotebook(path string) (*notebook, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &notebook{file: file}, nil
}

// note writes notes at once. Without them nothing that the process does would be checked: it ends if they cannot be
// written.
func (b *notebook) note(notes ...Note) {
	var text []byte
	for _, n := range notes {
		n.At = time.Now()
		line, err := json.Marshal(n)
		if err != nil {
			panic(fmt.Sprintf("a note is no JSON: %v", err))
		}
		text = append(append(text, line...), '\n')
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.file.Write(text); err != nil {
		panic(fmt.Sprintf("a note cannot be written: %v", err))
	}
}

// notesEnd ends the names of files of notes.
const notesEnd = ".notes"

// readNotes reads the notes of all processes in a folder, by process. A last line that was not completed is left out.
func readNotes(dir string) (map[string][]Note, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+notesEnd))
	if err != nil {
		return nil, err
	}
	all := map[string][]Note{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(path), notesEnd)
		all[name] = []Note{}
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			var n Note
			if err := json.Unmarshal(line, &n); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			all[name] = append(all[name], n)
		}
	}
	return all, nil
}
