package audit

import (
	"fmt"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs/bundle"
)

func TestWhatAnotherVersionWroteIsNotComparedAndNotDamaged(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want NotComparedKind
	}{
		{&eventlog.FormatError{Path: "a.log", Seq: 7, Format: eventlog.FormatVersion + 1}, Newer},
		{&boltlog.FormatError{Path: "a.log", Format: boltlog.Format + 1}, Newer},
		{&bundle.FormatError{Path: "a.bundle"}, Newer},
		{&eventlog.FormatError{Path: "a.log", Seq: 7, Format: 9}, Older},
		{&boltlog.FormatError{Path: "a.log", Format: 2}, Older},
	} {
		list := NotComparedWith([]proof.Checkpoint{{}}, fmt.Errorf("reading: %w", tc.err))
		if len(list) != 1 || list[0].Kind != tc.want {
			t.Errorf("of %v it is said %+v: want the kind %s", tc.err, list, tc.want)
		}
	}
}
