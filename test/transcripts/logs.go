package transcripts

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/logs/bundle"
)

// storyLogs is the directory for the logs of the stories that package compat keeps. See test/compat/generate.sh.
var storyLogs = flag.String("story-logs", "",
	"write the log of every story as a bundle, and the hashes of its states, to this folder")

// writeLog writes FOLDER-STORY.bundle, the story's entries, and FOLDER-STORY.states: for each entry a line with the
// first eight bytes of the state's hash after it, and for the last one the whole hash. It does nothing without
// -story-logs.
func (p *Player) writeLog(t *testing.T, path string, entries []eventlog.Entry) {
	t.Helper()
	if *storyLogs == "" {
		return
	}
	log, err := boltlog.DefaultOptions().Create(filepath.Join(t.TempDir(), "log"))
	p.must(err)
	defer log.Close()
	p.must(log.Append(context.Background(), 0, entries))
	folder := filepath.Base(filepath.Dir(path))
	name := filepath.Join(*storyLogs, folder+"-"+strings.TrimSuffix(filepath.Base(path), ".txt"))
	file, err := os.Create(name + ".bundle")
	p.must(err)
	_, _, err = bundle.Write(
		context.Background(),
		file,
		log,
		bundle.Plan{First: 1, Last: uint64(len(entries)), Version: "test"},
	)
	p.must(err)
	p.must(file.Close())
	var states strings.Builder
	for i, hash := range p.hashes {
		if i < len(p.hashes)-1 {
			fmt.Fprintf(&states, "%x\n", hash[:8])
		} else {
			fmt.Fprintf(&states, "%x\n", hash)
		}
	}
	p.must(os.WriteFile(name+".states", []byte(states.String()), 0o644))
}
