package app

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/ledger"
)

// TestABucketOfALedgerIsTheLedgerOfItsTime books random worlds in buckets, in one part and in several. Each bucket
// equals a ledger of that time alone, by group and column, and waited time. The buckets add up to the whole.
func TestABucketOfALedgerIsTheLedgerOfItsTime(t *testing.T) {
	several := 0
	for seed := uint64(11); seed <= 16; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			log := logOfWorld(t, seed)
			b := ledgers{t: t, name: log}
			by := []string{"node", "namespace", "gang", "priority"}[seed%4]
			whole := b.make(by, ledger.Span{}, 1)
			var edges []eventlog.Time
			for i := range eventlog.Time(4) {
				edges = append(edges, whole.Start+(i+1)*(whole.End-whole.Start)/7)
			}
			for _, workers := range []int{1, 3} {
				divided := b.divided(by, edges, workers)
				if a, again := asJSON(t, whole), asJSON(t, divided); a != again {
					t.Errorf("by %s, in buckets the whole is\n%s\nand without\n%s", by, again, a)
				}
				b.wantBuckets(divided, edges)
			}
			several += b.several
		})
	}
	if several == 0 {
		t.Error("no ledger was booked in several parts")
	}
}

// divided makes a ledger of the whole log in buckets.
func (b *ledgers) divided(by string, edges []eventlog.Time, workers int) *ledger.Ledger {
	b.t.Helper()
	ctx := b.t.Context()
	log, err := logs.Options{Registry: plugins.NewRegistry()}.Open(ctx, b.name)
	must(b.t, err)
	defer log.Close()
	groups, err := ledger.ParseBy(by)
	must(b.t, err)
	within, err := ledger.Resolve(ctx, history.New(log, history.Options{}), ledger.Span{})
	must(b.t, err)
	l, err := ledger.Make(ctx, log, ledger.Options{Range: within, By: groups, Workers: workers, Edges: edges})
	must(b.t, err)
	if l.Parts > 1 {
		b.several++
	}
	return l
}

// wantBuckets compares each bucket with a ledger of its time, and their sum with the whole.
func (b *ledgers) wantBuckets(l *ledger.Ledger, edges []eventlog.Time) {
	b.t.Helper()
	ends := append(append([]eventlog.Time{l.Start}, edges...), l.End)
	for i := range ends[1:] {
		var span ledger.Span
		if ends[i] > l.Start {
			must(b.t, span.From.Set(ends[i].String()))
		}
		if ends[i+1] < l.End {
			must(b.t, span.To.Set(ends[i+1].String()))
		}
		alone := b.make(l.By.String(), span, 1)
		b.wantSameSums(fmt.Sprintf("bucket %d", i), l.Total.In(i), alone.Total, l)
		for _, g := range l.Groups {
			at := slices.IndexFunc(alone.Groups, func(x *ledger.Group) bool { return x.Name == g.Name })
			other := &ledger.Group{}
			if at >= 0 {
				other = alone.Groups[at]
			}
			b.wantSameSums(fmt.Sprintf("bucket %d of %s", i, g.Name), g.In(i), other, l)
		}
	}
}

func (b *ledgers) wantSameSums(what string, got, want *ledger.Group, l *ledger.Ledger) {
	b.t.Helper()
	for _, name := range l.Resources {
		for c := ledger.Useful; c <= ledger.Capacity; c++ {
			if g, w := got.Sum(name, c), want.Sum(name, c); g != w {
				b.t.Errorf("%s: %s of %s is %s, and in a ledger of that time %s", what, c, name, g.Big(), w.Big())
			}
		}
	}
	gangs, pods := got.Waited()
	if wantGangs, wantPods := want.Waited(); gangs != wantGangs || pods != wantPods {
		b.t.Errorf("%s: gangs waited %s and pods %s, and in a ledger of that time %s and %s", what, gangs.Big(),
			pods.Big(), wantGangs.Big(), wantPods.Big())
	}
}
