package app

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// evictMore is the script command "evictmore LOG NEW POD": NEW is made of the entries of LOG up to its first Decision
// that evicts pods. That Decision evicts POD as well.
func evictMore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: evictmore LOG NEW POD")
	}
	from, err := boltlog.OpenReadOnly(ts.MkAbs(args[0]))
	ts.Check(err)
	defer from.Close()
	var more types.UID
	var entries []eventlog.Entry
	for e, err := range from.Read(context.Background(), 1) {
		ts.Check(err)
		if p, ok := e.Payload.(*eventlog.Upserted); ok {
			if pod, ok := p.Object.(*v1.Pod); ok && pod.Namespace+"/"+pod.Name == args[2] {
				more = pod.UID
			}
		}
		d, ok := e.Payload.(*eventlog.Decision)
		if !ok || len(d.Victims) == 0 {
			entries = append(entries, e)
			continue
		}
		changed := *d
		changed.Victims = append(append([]types.UID{}, d.Victims...), more)
		entries = append(entries, eventlog.Entry{Seq: e.Seq, Epoch: e.Epoch, Time: e.Time, Payload: &changed})
		to, err := boltlog.Create(ts.MkAbs(args[1]))
		ts.Check(err)
		ts.Check(errors.Join(to.Append(context.Background(), 0, entries), to.Close()))
		return
	}
	ts.Fatalf("%s has no Decision that evicts pods", args[0])
}
