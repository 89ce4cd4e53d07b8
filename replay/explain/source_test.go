package explain_test

import (
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// wholeLog is a log without index and snapshots, with the plugins of the stories.
func wholeLog(log *eventlog.Memory) *history.Log { return storySource(log).Log() }

func storySource(log *eventlog.Memory) *replaytest.Source {
	return replaytest.NewSource(log, transcripts.Registry())
}

// recorded is a recording with its snapshots behind base, and no index.
func recorded(r *replaytest.Recording, base uint64) *replaytest.Source {
	s := replaytest.NewSource(r.Log, plugins.NewRegistry())
	s.Known = base
	s.Keep(r.Snapshots, plugins.NewRegistry())
	return s
}

// indexed is a log with an index in parts of so many entries, and snapshots.
func indexed(t replaytest.Fataler, p *transcripts.Player, span int, states map[uint64][]byte) *replaytest.Source {
	s := storySource(p.Log())
	s.Lookup = replaytest.NewIndex(t, p.Log(), span)
	s.Keep(states, transcripts.Registry())
	return s
}
