package app

import (
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/logs"
)

// forgeIndex is the command "forgeindex LOG": it replaces each part of the log's index by one without names and with
// other counts. The hashes of the part itself are right, and the hash of its last entry too.
func forgeIndex(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: forgeindex LOG")
	}
	dir := logs.IndexOf(ts.MkAbs(args[0]))
	ranges, err := dir.List()
	ts.Check(err)
	if len(ranges) == 0 {
		ts.Fatalf("%s has no index", args[0])
	}
	for _, r := range ranges {
		p, err := dir.Get(r)
		ts.Check(err)
		forged := &index.Part{Facts: index.Facts{First: p.First, Last: p.Last, Hash: p.Hash, From: p.From, To: p.To,
			Kinds: map[eventlog.Kind]uint64{eventlog.KindTick: p.Last + 1 - p.First}}}
		ts.Check(dir.Put(forged))
	}
}
