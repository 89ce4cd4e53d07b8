package app

import (
	"encoding/json"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/ledger"
	"github.com/rollcall-sched/rollcall/test/worlds"
)

// TestTheLedgerBooksEachNodesTimeOnce books random worlds, by all groups, in ranges, in one part and in several. For
// each node and resource the columns add up to the capacity. The held amounts equal the ones of a naive reader of log
// cat. The parts of a range add up to the whole, column by column.
func TestTheLedgerBooksEachNodesTimeOnce(t *testing.T) {
	several := 0
	for seed := uint64(1); seed <= 8; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			log := logOfWorld(t, seed)
			b := ledgers{t: t, name: log}
			whole := b.make("node", ledger.Span{}, 1)
			b.wantBalance(whole)
			cat := string(rollcall(t, "log", "cat", log))
			b.wantAsFound(whole, bookNaively(t, cat, "cpu", time.Time{}, time.Time{}))
			others := []string{"namespace", "gang", "priority", "label:app"}
			for _, by := range []string{"node", others[seed%4]} {
				b.wantParts(by, whole)
			}
			several += b.several
		})
	}
	if several == 0 {
		t.Error("no ledger was booked in several parts")
	}
}

// logOfWorld simulates a random world, and returns its log.
func logOfWorld(t *testing.T, seed uint64) string {
	t.Helper()
	dir := t.TempDir()
	world := worlds.Generate(seed)
	args, err := world.Write(dir)
	must(t, err)
	log := filepath.Join(dir, "log.db")
	rollcall(t, slices.Concat([]string{"simulate"}, args, []string{"--log", log, "--snapshot-every", "50"})...)
	return log
}

// ledgers makes ledgers of a log.
type ledgers struct {
	t       *testing.T
	name    string
	several int // how many were booked in several parts
}

func (b *ledgers) make(by string, span ledger.Span, workers int) *ledger.Ledger {
	b.t.Helper()
	ctx := b.t.Context()
	log, err := logs.Options{Registry: plugins.NewRegistry()}.Open(ctx, b.name)
	must(b.t, err)
	defer log.Close()
	groups, err := ledger.ParseBy(by)
	must(b.t, err)
	within, err := ledger.Resolve(ctx, history.New(log, history.Options{}), span)
	must(b.t, err)
	l, err := ledger.Make(ctx, log, ledger.Options{Range: within, By: groups, Workers: workers})
	must(b.t, err)
	if l.Parts > 1 {
		b.several++
	}
	return l
}

func (b *ledgers) wantBalance(l *ledger.Ledger) {
	b.t.Helper()
	groups := []*ledger.Group{l.Total}
	if l.By.String() == "node" {
		groups = append(groups, l.Groups...)
	}
	for _, g := range groups {
		for _, name := range l.Resources {
			if capacity, booked := g.Balance(name); capacity.Cmp(booked) != 0 {
				b.t.Errorf("%s: of %s there were %s, and %s are booked", g.Name, name, capacity, booked)
			}
		}
	}
}

// wantAsFound compares what each node had and held.
func (b *ledgers) wantAsFound(l *ledger.Ledger, naive *naiveBooks) {
	b.t.Helper()
	compared := 0
	for _, g := range l.Groups {
		for _, name := range l.Resources {
			found := func(sums map[string]map[string]*big.Int) *big.Int {
				if sum := sums[g.Name][string(name)]; sum != nil {
					return sum
				}
				return new(big.Int)
			}
			held := g.SumOf(name, ledger.Held()...).Big()
			if want := found(naive.held); held.Cmp(want) != 0 {
				b.t.Errorf("node %s: %s of %s are booked as held, and by log cat it is %s", g.Name, held, name, want)
			}
			if got, want := g.Sum(name, ledger.Capacity).Big(), found(naive.capacity); got.Cmp(want) != 0 {
				b.t.Errorf("node %s: the capacity of %s is booked as %s, and by log cat it is %s",
					g.Name, name, got, want)
			}
			compared++
		}
	}
	if compared == 0 {
		b.t.Error("nothing was booked")
	}
}

// wantParts compares the whole with the sum of its parts, with several parts at a time, and with other groups.
func (b *ledgers) wantParts(by string, other *ledger.Ledger) {
	b.t.Helper()
	whole := b.make(by, ledger.Span{}, 1)
	b.wantBalance(whole)
	for _, name := range whole.Resources {
		for c := ledger.Useful; c <= ledger.Capacity; c++ {
			if a, b2 := whole.Total.Sum(name, c), other.Total.Sum(name, c); a != b2 {
				b.t.Errorf("by %s, %s of %s is %s, and by node %s", by, c, name, a.Big(), b2.Big())
			}
		}
	}
	if a, several := asJSON(b.t, whole), asJSON(b.t, b.make(by, ledger.Span{}, 3)); a != several {
		b.t.Errorf("by %s, booked in several parts it is\n%s\nand in one\n%s", by, several, a)
	}
	cuts := []string{"", fmt.Sprint(1 + whole.Last/3), middle(whole), ""}
	sum := map[string]*big.Int{}
	for i := range cuts[1:] {
		var span ledger.Span
		for m, text := range map[*history.Moment]string{&span.From: cuts[i], &span.To: cuts[i+1]} {
			if text != "" {
				must(b.t, m.Set(text))
			}
		}
		part := b.make(by, span, 1+i)
		b.wantBalance(part)
		addCells(sum, part, +1)
	}
	addCells(sum, whole, -1)
	for cell, rest := range sum {
		if rest.Sign() != 0 {
			b.t.Errorf("by %s, the parts have %s more of %s than the whole (cut at %v)", by, rest, cell, cuts[1:3])
		}
	}
}

// middle is a time between two entries, behind a third of the entries.
func middle(l *ledger.Ledger) string {
	at := l.Start + (l.End-l.Start)*2/3 + eventlog.Time(7*time.Millisecond)
	return min(at, l.End-1).String()
}

func addCells(sum map[string]*big.Int, l *ledger.Ledger, sign int64) {
	for _, g := range append(slices.Clone(l.Groups), l.Total) {
		for _, name := range l.Resources {
			for c := ledger.Useful; c <= ledger.Capacity; c++ {
				cell := fmt.Sprintf("%q %s %s", g.Name, name, c)
				if sum[cell] == nil {
					sum[cell] = new(big.Int)
				}
				sum[cell].Add(sum[cell], new(big.Int).Mul(big.NewInt(sign), g.Sum(name, c).Big()))
			}
		}
		cell := fmt.Sprintf("%q evictions", g.Name)
		if sum[cell] == nil {
			sum[cell] = new(big.Int)
		}
		sum[cell].Add(sum[cell], big.NewInt(sign*int64(g.Suffered)))
	}
}

func asJSON(t *testing.T, l *ledger.Ledger) string {
	t.Helper()
	text, err := json.MarshalIndent(l, "", " ")
	must(t, err)
	return string(text)
}

// toldLedger is the part of the JSON form of a report that is compared.
type toldLedger struct {
	Moment bool
	Groups []toldGroup
	Total  toldGroup
}

type toldGroup struct {
	Group     string
	Resources map[string]map[string]struct{ Exact string }
	Gangs     struct {
		Longest struct {
			Name    string
			Seconds float64
		}
	}
}

// sum adds up columns of the GPUs.
func (g *toldGroup) sum(columns ...string) *big.Int {
	sum := new(big.Int)
	for _, c := range columns {
		if text := g.Resources[gpu][c].Exact; text != "" {
			x, _ := new(big.Int).SetString(text, 10)
			sum.Add(sum, x)
		}
	}
	return sum
}

// ledgered compares a report by namespace with the findings of a naive reader of log cat:
//
//	ledgered CAT FROM TO REPORT.json
//
// FROM and TO are times, - for the log's ends. A moment is the nanosecond behind FROM. It compares the
// GPU time of each team by its fate, the idle time by cause, and, for whole logs, the longest wait of each team.
func ledgered(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: ledgered CAT FROM TO REPORT.json")
	}
	var ends [2]time.Time
	for i, text := range args[1:3] {
		if text != "-" {
			var err error
			ends[i], err = time.Parse(time.RFC3339Nano, text)
			ts.Check(err)
		}
	}
	var told toldLedger
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[3])), &told))
	if told.Moment {
		ends[1] = ends[0].Add(1)
	}
	naive := bookNaively(ts, ts.ReadFile(args[0]), gpu, ends[0], ends[1])
	compared(ts, neg, func() { naive.compare(&told, ends[0].IsZero() && ends[1].IsZero()) })
}

func (b *naiveBooks) compare(told *toldLedger, whole bool) {
	want := func(what string, told, found *big.Int) {
		if found == nil {
			found = new(big.Int)
		}
		if told.Cmp(found) != 0 {
			disagree("%s is %s in the report, and by log cat it is %s", what, told, found)
		}
	}
	held := []string{"useful", "lostPreempted", "lostFailed", "lostWithGang", "incomplete"}
	for team, found := range b.group {
		i := slices.IndexFunc(told.Groups, func(g toldGroup) bool { return g.Group == team })
		if i < 0 {
			disagree("team %s is not in the report", team)
		}
		want(team+" held", told.Groups[i].sum(held...), found["held"])
		for _, c := range held {
			want(team+" "+c, told.Groups[i].sum(c), found[c])
		}
	}
	for _, cause := range []string{"unavailable", "idleNobody", "idleImpossible", "idleCordoned", "idleTainted",
		"idleNotSelected", "idleOtherDomain", "idleReserved", "idleFragmented", "idleLacksOther", "idleUsable"} {
		want(cause, told.Total.sum(cause), b.idle[cause])
	}
	if !whole {
		return
	}
	for name := range b.gangs {
		if g := b.gangs[name]; !g.since.IsZero() {
			b.waited(g) // it still waits at the end
		}
	}
	for team, longest := range b.longest {
		i := slices.IndexFunc(told.Groups, func(g toldGroup) bool { return g.Group == team })
		if l := told.Groups[i].Gangs.Longest; l.Name != b.longestName[team] || l.Seconds != longest.Seconds() {
			disagree("team %s: the longest wait is %s, %vs, in the report, and by log cat it is %s, %s", team, l.Name,
				l.Seconds, b.longestName[team], longest)
		}
	}
}
