package logs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/internal/localapi"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// A scheduler has the log, and does not serve it yet, or no longer does.
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
		}, "the log is being written to: read up to entry 40\n"},
		"ends": {func(t *testing.T, _ string, log *boltlog.Log) {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := logstest.Segmented(t, logstest.WellFormed(40), 10)
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
			var notes strings.Builder
			source, err := logs.Options{
				Report: func(message string) { fmt.Fprintln(&notes, message) },
			}.Open(t.Context(), path)
			<-done
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			n := 0
			for _, err := range source.Read(context.Background(), 1) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != 40 || notes.String() != tc.note {
				t.Errorf("%d entries, and it says %q, want 40 and %q", n, notes.String(), tc.note)
			}
		})
	}
}
