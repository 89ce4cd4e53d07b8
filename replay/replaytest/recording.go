package replaytest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Recording is a simulated log with a snapshot every few entries.
type Recording struct {
	Log  *eventlog.Memory
	Last uint64
	// Snapshots are by the entry that they are after.
	Snapshots map[uint64][]byte
	// Pods and Groups are the names (namespace/name) that the log has.
	Pods, Groups []string
}

// Record runs the demo of package sim and keeps a snapshot after every so many entries.
func Record(t testing.TB, every uint64) *Recording {
	t.Helper()
	nodes, work, err := workload.Demo()
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	r := &Recording{Log: eventlog.NewMemory(), Snapshots: map[uint64][]byte{}}
	cluster, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.Open(context.Background(), r.Log, workload.Start,
		engine.Options{Registry: plugins.NewRegistry(), Config: config, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Run(context.Background(), sim.Stepping(eng), func(sim.Progress) {}); err != nil {
		t.Fatal(err)
	}
	m := scheduler.New(plugins.NewRegistry())
	for e, err := range r.Log.Read(context.Background(), 1) {
		if err == nil {
			err = m.Apply(e)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.see(e)
		if e.Seq%every == 0 {
			if r.Snapshots[e.Seq], err = snapshot.Encode(m, [32]byte{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

// see notes the names in an entry.
func (r *Recording) see(e eventlog.Entry) {
	r.Last = e.Seq
	up, ok := e.Payload.(*eventlog.Upserted)
	if !ok {
		return
	}
	name := up.Object.GetNamespace() + "/" + up.Object.GetName()
	if _, ok := up.Object.(*v1.Pod); ok && !slices.Contains(r.Pods, name) {
		r.Pods = append(r.Pods, name)
	}
	if strings.HasPrefix(string(up.Resource), "podgroups") && !slices.Contains(r.Groups, name) {
		r.Groups = append(r.Groups, name)
	}
}

// Restore returns the newest state from first to last of which there is a snapshot.
func (r *Recording) Restore(t testing.TB, first, last uint64) *scheduler.Machine {
	t.Helper()
	for seq := last; seq >= max(first, 1); seq-- {
		data, ok := r.Snapshots[seq]
		if !ok {
			continue
		}
		s, err := snapshot.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Restore(plugins.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	return nil
}

// From returns a Reader of the entries behind base; it is an error to ask for others.
func (r *Recording) From(base uint64) func(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
		if from <= base {
			return func(yield func(eventlog.Entry, error) bool) {
				yield(eventlog.Entry{}, fmt.Errorf("entry %d is not there", from))
			}
		}
		return r.Log.Read(ctx, from)
	}
}
