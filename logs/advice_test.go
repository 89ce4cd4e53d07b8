package logs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
)

// The good entries of a damaged log can be exported. From a stream that was made again they cannot: it has others.
func TestNoEntryIsSavedFromAStreamThatWasMadeAgain(t *testing.T) {
	damage := func(cause error) error {
		return &eventlog.DamagedError{Path: "nats://host/jobs", Seq: 6, Err: cause}
	}
	advised := logs.AdviseOnDamage("nats://host/jobs", 1, damage(errors.New("another checksum"))).Error()
	if !strings.Contains(advised, "Entries 1 to 5 are good: save them with rollcall log export") {
		t.Errorf("of damage: %s", advised)
	}
	again := &eventlog.MadeAgainError{Opened: time.Unix(0, 0).UTC(), Err: errors.New("it was made on Friday")}
	advised = logs.AdviseOnDamage("nats://host/jobs", 1, damage(again)).Error()
	for _, want := range []string{"made on 1970-01-01", "it was made on Friday",
		"bring the old stream back from a backup", "begin a new log in another stream"} {
		if !strings.Contains(advised, want) {
			t.Errorf("of a stream that was made again: %q is not in %s", want, advised)
		}
	}
	if strings.Contains(advised, "are good") || strings.Contains(advised, "export") {
		t.Errorf("of a stream that was made again: %s", advised)
	}
}
