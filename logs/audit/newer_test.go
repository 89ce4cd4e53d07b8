package audit

import (
	"fmt"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs/bundle"
)

func TestWhatANewerVersionWroteIsNotComparedAndNotDamaged(t *testing.T) {
	for _, err := range []error{
		&eventlog.NewerFormatError{Path: "a.log", Seq: 7, Format: eventlog.FormatVersion + 1},
		&boltlog.FormatError{Path: "a.log", Format: boltlog.Format + 1},
		&bundle.FormatError{Path: "a.bundle"},
	} {
		list := NotComparedWith([]proof.Checkpoint{{}}, fmt.Errorf("reading: %w", err))
		if len(list) != 1 || list[0].Kind != Newer {
			t.Errorf("of %v it is said %+v: want the kind %s", err, list, Newer)
		}
	}
}
