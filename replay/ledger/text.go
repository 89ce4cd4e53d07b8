package ledger

import (
	"fmt"
	"io"
	"math/big"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// WriteText writes the ledger for people: for each resource a table of the groups and one of the rest, then the waits.
// Without a choice of resources these are cpu and the extended ones.
func (l *Ledger) WriteText(w io.Writer, only []v1.ResourceName) error {
	if len(only) == 0 {
		for _, name := range l.Resources {
			if classOf(name) < 2 {
				only = append(only, name)
			}
		}
	}
	if l.Moment {
		fmt.Fprintf(w, "at        %s, behind entry %d\n", short(l.Start), l.After)
	} else {
		fmt.Fprintf(w, "range     %s to %s (%s), entries %d to %d\n", short(l.Start), short(l.End),
			brief(l.End.Sub(l.Start)), l.After+1, l.Last)
	}
	for _, name := range only {
		if err := l.writeResource(w, name); err != nil {
			return err
		}
	}
	if err := l.writeWaits(w); err != nil {
		return err
	}
	return l.writeEvictions(w)
}

// writeResource writes the tables of a resource.
func (l *Ledger) writeResource(w io.Writer, name v1.ResourceName) error {
	unit, in := unitOf(name).name+"-hours", ""
	if l.Moment {
		unit = unitOf(name).name + "s"
	}
	if first, ok := l.First[name]; ok {
		in = "; idle room is judged for " + eventlog.Plain(first)
	}
	fmt.Fprintf(w, "\n%s, in %s%s\n\n", eventlog.Plain(string(name)), unit, in)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\tHELD\tUSEFUL\tPREEMPTED\tFAILED\tWITH GANG\tINCOMPLETE\n", strings.ToUpper(l.By.head()))
	for _, g := range append(append([]*Group{}, l.Groups...), l.Total) {
		held := g.SumOf(name, Held()...)
		if held.IsZero() && g != l.Total {
			continue
		}
		label := eventlog.Plain(g.Name)
		if g == l.Total {
			label = "all"
		}
		fmt.Fprintf(t, "%s\t%s", label, l.number(name, held))
		for _, c := range Held() {
			fmt.Fprintf(t, "\t%s", l.number(name, g.Sum(name, c)))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if gini, ok := l.Gini(name); ok && len(l.Groups) > 1 {
		fmt.Fprintf(w, "\nGini coefficient of what the groups held: %s\n", gini.FloatString(2))
	}
	fmt.Fprintln(w)
	return l.writeRest(w, name)
}

// writeRest says what became of the capacity.
func (l *Ledger) writeRest(w io.Writer, name v1.ResourceName) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "OF THE CAPACITY\t%s\tSHARE\n", l.number(name, l.Total.Sum(name, Capacity)))
	lines := []struct {
		label string
		sum   Sum
	}{{"held", l.Total.SumOf(name, Held()...)}, {"held beyond it", l.Total.Sum(name, Overcommitted)}}
	for _, c := range NotHeld() {
		lines = append(lines, struct {
			label string
			sum   Sum
		}{c.Label(), l.Total.Sum(name, c)})
	}
	capacity := l.Total.Sum(name, Capacity)
	for _, line := range lines {
		if line.sum.IsZero() {
			continue
		}
		share := "-"
		if !capacity.IsZero() {
			share = new(big.Rat).Mul(new(big.Rat).SetFrac(line.sum.Big(), capacity.Big()), big.NewRat(100, 1)).
				FloatString(1) + "%"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", line.label, l.number(name, line.sum), share)
	}
	return t.Flush()
}

// Label is the name of a column of NotHeld, for people.
func (c Column) Label() string { return labels[c] }

var labels = map[Column]string{
	Unavailable: "on nodes that were not ready",
	IdleNobody:  "idle, nobody waited for it", IdleImpossible: "idle, what waited fits no node",
	IdleCordoned: "idle, cordoned", IdleTainted: "idle, tainted",
	IdleNotSelected: "idle, not selected", IdleOtherDomain: "idle, in another domain",
	IdleReserved: "idle, reserved for others", IdleFragmented: "idle, fragmented",
	IdleLacksOther: "idle, node lacks another resource", IdleUsable: "idle, usable",
}

// writeWaits writes the waits of the groups.
func (l *Ledger) writeWaits(w io.Writer) error {
	for _, kind := range []struct {
		name string
		of   func(*Group) *Waits
	}{{"gangs", func(g *Group) *Waits { return &g.Gangs }}, {"pods without a gang",
		func(g *Group) *Waits { return &g.Pods }}} {
		if of := kind.of(l.Total); of.Placed+of.Pending == 0 {
			continue
		}
		fmt.Fprintf(w, "\nwaits of %s\n\n", kind.name)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "%s\tPLACED\tPENDING\tP50\tP90\tP99\tMAX\tLONGEST\n", strings.ToUpper(l.By.head()))
		for _, g := range append(append([]*Group{}, l.Groups...), l.Total) {
			x := kind.of(g)
			if x.Placed+x.Pending == 0 {
				continue
			}
			label := eventlog.Plain(g.Name)
			if g == l.Total {
				label = "all"
			}
			longest := eventlog.Plain(x.Longest.Name)
			if x.Longest.Pending {
				longest += " (" + brief(x.Longest.Wait) + ", pending)"
			}
			times := "-\t-\t-\t-"
			if x.Placed > 0 {
				times = strings.Join([]string{brief(x.P50), brief(x.P90), brief(x.P99), brief(x.Max)}, "\t")
			}
			fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\n", label, x.Placed, x.Pending, times, longest)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// writeEvictions writes how many pods the groups had evicted, and lost so.
func (l *Ledger) writeEvictions(w io.Writer) error {
	if l.Total.Suffered == 0 {
		return nil
	}
	fmt.Fprint(w, "\npods evicted for others\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\tCAUSED\tSUFFERED\n", strings.ToUpper(l.By.head()))
	for _, g := range l.Groups {
		if g.Caused+g.Suffered > 0 {
			fmt.Fprintf(t, "%s\t%d\t%d\n", eventlog.Plain(g.Name), g.Caused, g.Suffered)
		}
	}
	return t.Flush()
}

// number is a sum for people.
func (l *Ledger) number(name v1.ResourceName, s Sum) string {
	digits := 1
	if l.Moment && unitOf(name).size == 1 {
		digits = 0
	}
	return l.Quantity(name, s).FloatString(digits)
}

// head is the head of the column of groups.
func (b By) head() string {
	switch b.kind {
	case "":
		return byNamespace
	case byLabel:
		return byLabel
	}
	return b.kind
}

// short is a time without decimals that are 0.
func short(t eventlog.Time) string { return t.Std().Format(time.RFC3339Nano) }

// brief is a duration for people, in at most two units.
func brief(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}
