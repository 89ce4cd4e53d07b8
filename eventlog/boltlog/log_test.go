package boltlog_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

func TestConforms(t *testing.T) {
	for name, opts := range map[string]boltlog.Options{
		"Default":          boltlog.DefaultOptions(),
		"SegmentsOf64KiB":  {SegmentBytes: 64 << 10},
		"ASegmentAnAppend": {SegmentBytes: 1},
		"SegmentsOf15ns":   {SegmentAge: 15 * time.Nanosecond},
		"OneSegment":       {},
	} {
		t.Run(name, func(t *testing.T) {
			logtest.Run(t, func(t *testing.T) (eventlog.Log, func() eventlog.Log) {
				path := filepath.Join(t.TempDir(), "a.log")
				log, err := opts.Create(path)
				if err != nil {
					t.Fatal(err)
				}
				return log, func() eventlog.Log {
					log, err := opts.Open(path)
					if err != nil {
						t.Fatal(err)
					}
					return log
				}
			})
		})
	}
}
