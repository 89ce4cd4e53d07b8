package boltlog_test

import (
	"path/filepath"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

func TestConforms(t *testing.T) {
	logtest.Run(t, func(t *testing.T) (eventlog.Log, func() eventlog.Log) {
		path := filepath.Join(t.TempDir(), "log.db")
		log, err := boltlog.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		return log, func() eventlog.Log {
			log, err := boltlog.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			return log
		}
	})
}
