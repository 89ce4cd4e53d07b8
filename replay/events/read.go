package events

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A Reading reads ranges of a log, one after the other, and hands their events to a List.
type Reading struct {
	list  *List
	watch watcher
	m     *scheduler.Machine // the state after the last range
}

// NewReading returns a Reading for a List.
func NewReading(list *List) *Reading {
	return &Reading{list: list, watch: watcher{add: list.add}}
}

// Last returns the last entry that was read, 0 before the first range.
func (r *Reading) Last() uint64 {
	if r.m == nil {
		return 0
	}
	return r.m.Seq()
}

// Range hands out the events of the entries from first to last. Both are in the log, and first is not before the first
// entry about which the log tells.
func (r *Reading) Range(ctx context.Context, log *history.Log, first, last uint64) error {
	r.watch.from = first
	sel, err := r.selection(ctx, log, last)
	if err != nil {
		return err
	}
	if sel != nil && !sel.Whole() {
		if r.m, err = log.Nearest(first - 1); err == nil {
			r.m, err = sel.Visit(ctx, r.m, visitor{&r.watch, r.list})
		}
	} else if r.m, err = log.At(ctx, first-1); err == nil {
		err = r.through(ctx, log, last)
	}
	if err != nil {
		return err
	}
	r.watch.settle(r.m)
	r.list.Flush()
	return r.list.err
}

// through continues up to an entry, without handing out what may be folded with later events.
func (r *Reading) through(ctx context.Context, log *history.Log, last uint64) error {
	if r.m.Seq() >= last {
		return nil
	}
	for e, err := range log.Entries(ctx, history.Query{From: r.m.Seq() + 1, To: history.Bound{Seq: last}}) {
		if err != nil {
			return err
		}
		r.watch.Before(r.m, e)
		if err := r.m.Apply(e); err != nil {
			return err
		}
		r.watch.After(r.m, e)
		if r.list.err != nil {
			return r.list.err
		}
	}
	return nil
}

// Follow hands out the events of the entries behind the last range, up to an entry. log may be another reading of the
// same log.
func (r *Reading) Follow(ctx context.Context, log *history.Log, last uint64) error {
	if err := r.through(ctx, log, last); err != nil {
		return err
	}
	r.list.Flush()
	return r.list.err
}

// selection returns the entries that concern the gang or the pod that is asked for; nil if every entry may.
func (r *Reading) selection(ctx context.Context, log *history.Log, last uint64) (*history.Selection, error) {
	f := &r.list.filter
	var names *history.Names
	var of func(*v1.Pod) bool
	switch {
	case f.Pod != "":
		names = history.NewNames(index.Pod(named(f.Pod)))
		of = func(p *v1.Pod) bool { return nameOf(p) == f.Pod }
	case f.Gang != "":
		names = history.NewNames(index.Group(named(f.Gang)))
		of = func(p *v1.Pod) bool {
			key, ok := cluster.GroupName(p)
			return ok && key == named(f.Gang)
		}
	default:
		return nil, nil
	}
	base, err := log.Base()
	if err != nil {
		return nil, err
	}
	if base > 0 {
		if err := r.namesAt(log, base, of, names); err != nil {
			return nil, err
		}
	}
	return log.Select(ctx, history.Bound{Seq: last}, names, func(e eventlog.Entry, names *history.Names) error {
		if p, ok := e.Payload.(*eventlog.Upserted); ok {
			if _, composite := cluster.ParentName(p.Object); composite {
				return history.ErrTooNarrow // the gangs that it is admitted with count as well
			}
		}
		explain.Learn(e, names, of)
		return nil
	})
}

// namesAt adds the names of the pods in the first state of a log.
func (r *Reading) namesAt(log *history.Log, base uint64, of func(*v1.Pod) bool, names *history.Names) error {
	m, err := log.Nearest(base)
	if err != nil {
		return err
	}
	for obj := range m.Cluster().ObjectsOf(eventlog.Pods) {
		if p, ok := obj.(*v1.Pod); ok && of(p) {
			names.Add(index.UID(p.UID))
			if pod := m.Cluster().Pods().Get(p.UID); pod != nil && pod.Node != "" {
				names.Add(index.Node(pod.Node))
			}
		}
	}
	return nil
}

func named(name string) types.NamespacedName {
	namespace, name, _ := strings.Cut(name, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// visitor is a watcher that needs the selected entries.
type visitor struct {
	*watcher
	list *List
}

var _ history.Visitor = visitor{}

// Needs implements history.Visitor.
func (v visitor) Needs(_ *scheduler.Machine, ahead []uint64) history.Need {
	if len(ahead) == 0 || v.list.err != nil {
		return history.NothingMore
	}
	return history.SelectedEntries
}
