package engine_test

import (
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// A log that takes little at once is not asked to take more: what a step decides is split.
func TestNoAppendExceedsTheLimitOfTheLog(t *testing.T) {
	for name, limit := range map[string]eventlog.Limit{
		"three entries": {Entries: 3, Bytes: eventlog.MaxRecord, Record: eventlog.MaxRecord},
		"a few records": {Entries: 1000, Bytes: 4 << 10, Record: 4 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			whole, split := newWorld(t), newWorld(t)
			split.log = &faultyLog{kept: eventlog.NewMemoryFrom(eventlog.Origin{}, limit)}
			split.engine = openReleasing(t, split.log, engine.WhenDurable, nil)
			var all moment // what comes in in the story, at once
			for _, m := range gangStory() {
				for _, input := range m.inputs {
					if input.Kind() == eventlog.KindUpserted {
						all.inputs = append(all.inputs, input)
					}
				}
			}
			whole.mustStep(all)
			split.mustStep(all)
			if got, want := len(split.entries()), len(whole.entries()); got != want {
				t.Errorf("%d entries, want %d", got, want)
			}
			if got, want := len(split.log.appends), len(whole.log.appends); got <= want {
				t.Errorf("%d appends, want more than the %d of a log that takes much at once", got, want)
			}
			if split.engine.Machine().Hash() != whole.engine.Machine().Hash() {
				t.Error("the state is another one")
			}
		})
	}
}
