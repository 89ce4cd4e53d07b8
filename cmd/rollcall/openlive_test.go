package main

import (
	"bytes"
	"os/exec"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/localapi"
)

// A scheduler has the log, and does not serve it yet, or not any more.
func TestASchedulerThatBeginsOrEndsIsWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(t *testing.T, path string, log *boltlog.Log)
		note string
	}{
		"begins": {func(t *testing.T, path string, log *boltlog.Log) {
			server, err := localapi.Serve(path, log, "v", func(err error) { t.Error(err) })
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = server.Close(path) })
		}, "rollcall: the log is being written to: read up to entry 40\n"},
		"ends": {func(t *testing.T, _ string, log *boltlog.Log) {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := segmented(t, wellFormed(40), 10)
			log, err := boltlog.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = log.Close() })
			done := make(chan bool)
			go func() {
				defer close(done)
				time.Sleep(300 * time.Millisecond)
				tc.then(t, path, log)
			}()
			cat := exec.Command("rollcall", "log", "cat", path)
			var note bytes.Buffer
			cat.Stderr = &note
			out, err := cat.Output()
			<-done
			if n := bytes.Count(out, []byte("\n")); err != nil || n != 40 || note.String() != tc.note {
				t.Errorf("%v, %d entries, and it says %q, want 40 and %q", err, n, note.String(), tc.note)
			}
		})
	}
}
