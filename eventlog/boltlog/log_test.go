package boltlog

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

func TestConforms(t *testing.T) {
	for name, opts := range map[string]Options{
		"Default":          DefaultOptions(),
		"SegmentsOf64KiB":  {SegmentBytes: 64 << 10},
		"ASegmentAnAppend": {SegmentBytes: 1},
		"SegmentsOf15ns":   {SegmentAge: 15 * time.Nanosecond},
		"OneSegment":       {},
	} {
		t.Run(name, func(t *testing.T) {
			logtest.Run(t, logtest.Backend{
				Create: func(t *testing.T, origin eventlog.Origin) eventlog.Log {
					log, err := opts.CreateFrom(filepath.Join(t.TempDir(), "a.log"), origin)
					must(t, err)
					return log
				},
				ReadOnly: func(t *testing.T, log eventlog.Log) eventlog.Log {
					readOnly, err := opts.OpenReadOnly(log.(*Log).Path())
					must(t, err)
					return readOnly
				},
				TakeOver: func(t *testing.T, log eventlog.Log) eventlog.Log {
					loseLocks(t, log.(*Log))
					other, err := opts.Open(log.(*Log).Path())
					must(t, err)
					return other
				},
			})
		})
	}
}

// loseLocks takes from l the locks that keep other writers out, as some network file systems do.
func loseLocks(t *testing.T, l *Log) {
	t.Helper()
	must(t, l.lock.release())
	l.lock = nil
	must(t, unlock(l.tail.file))
}
