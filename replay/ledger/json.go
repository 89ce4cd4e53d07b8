package ledger

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Facts is the JSON form of a Ledger.
type Facts struct {
	From   PointFacts       `json:"from"`
	To     PointFacts       `json:"to"`
	Moment bool             `json:"moment,omitempty"`
	By     string           `json:"by"`
	Groups []GroupFacts     `json:"groups"`
	Total  GroupFacts       `json:"total"`
	Gini   map[string]Ratio `json:"gini"`
	// First is, at a moment, the entity for which the room of a resource is idle.
	First map[v1.ResourceName]string `json:"first,omitempty"`
}

// Ratio is a number that is not exact.
type Ratio = float64

// PointFacts is an end of the range: behind an entry, at a time.
type PointFacts struct {
	Seq  uint64 `json:"seq"`
	Time string `json:"time"`
}

// GroupFacts is the JSON form of a Group.
type GroupFacts struct {
	Group string `json:"group"`
	// Resources has the sums by resource and column, except for zeros.
	Resources map[v1.ResourceName]map[string]SumFacts `json:"resources"`
	Evicted   EvictedFacts                            `json:"evictions"`
	Gangs     WaitFacts                               `json:"gangs"`
	Pods      WaitFacts                               `json:"pods"`
}

// SumFacts is a sum. Exact is the number of units (thousandths of a core, bytes) times nanoseconds, in decimal; at a
// moment it is the number of units. Hours and Amount are the same as people count it, rounded.
type SumFacts struct {
	Exact  string `json:"exact"`
	Hours  *Ratio `json:"hours,omitempty"`
	Amount *Ratio `json:"amount,omitempty"`
}

// EvictedFacts counts pods that decisions evicted for others.
type EvictedFacts struct {
	Caused   int `json:"caused"`
	Suffered int `json:"suffered"`
}

// WaitFacts is the JSON form of Waits.
type WaitFacts struct {
	Placed  int           `json:"placed"`
	Pending int           `json:"pending"`
	P50     Ratio         `json:"p50Seconds"`
	P90     Ratio         `json:"p90Seconds"`
	P99     Ratio         `json:"p99Seconds"`
	Max     Ratio         `json:"maxSeconds"`
	Longest *LongestFacts `json:"longest,omitempty"`
}

// LongestFacts is the JSON form of a Longest.
type LongestFacts struct {
	Name    string `json:"name"`
	Seconds Ratio  `json:"seconds"`
	Pending bool   `json:"pending,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (l *Ledger) MarshalJSON() ([]byte, error) { return json.Marshal(l.Facts()) }

// Facts returns the JSON form.
func (l *Ledger) Facts() Facts {
	x := Facts{From: PointFacts{l.After, l.Start.String()}, To: PointFacts{l.Last, l.End.String()}, Moment: l.Moment,
		By: l.By.String(), Groups: []GroupFacts{}, Total: l.facts(l.Total), Gini: map[string]Ratio{}, First: l.First}
	if l.Moment {
		x.To = x.From
	}
	for _, g := range l.Groups {
		x.Groups = append(x.Groups, l.facts(g))
	}
	for _, name := range l.Resources {
		if gini, ok := l.Gini(name); ok {
			x.Gini[string(name)], _ = gini.Float64()
		}
	}
	return x
}

func (l *Ledger) facts(g *Group) GroupFacts {
	x := GroupFacts{Group: g.Name, Resources: map[v1.ResourceName]map[string]SumFacts{},
		Evicted: EvictedFacts{g.Caused, g.Suffered}, Gangs: factsOf(&g.Gangs), Pods: factsOf(&g.Pods)}
	for _, name := range l.Resources {
		for c := range Column(columns) {
			sum := g.Sum(name, c)
			if sum.IsZero() {
				continue
			}
			if x.Resources[name] == nil {
				x.Resources[name] = map[string]SumFacts{}
			}
			number, _ := l.Quantity(name, sum).Float64()
			facts := SumFacts{Exact: sum.Big().String(), Hours: &number}
			if l.Moment {
				facts.Hours, facts.Amount = nil, &number
			}
			x.Resources[name][c.String()] = facts
		}
	}
	return x
}

func factsOf(w *Waits) WaitFacts {
	x := WaitFacts{w.Placed, w.Pending, w.P50.Seconds(), w.P90.Seconds(), w.P99.Seconds(), w.Max.Seconds(), nil}
	if w.Longest != nil {
		x.Longest = &LongestFacts{w.Longest.Name, w.Longest.Wait.Seconds(), w.Longest.Pending}
	}
	return x
}

// WriteCSV writes a line for each group and resource, and one for each resource of the total, whose group is empty.
// The columns of time are in hours, or at a moment in amounts.
func (l *Ledger) WriteCSV(w io.Writer, only []v1.ResourceName) error {
	out := csv.NewWriter(w)
	head := []string{"by", "group", "resource", "held"}
	for c := range Column(columns) {
		head = append(head, c.String())
	}
	for _, kind := range []string{"gangs", "pods"} {
		for _, of := range []string{"Placed", "Pending", "P50Seconds", "P90Seconds", "P99Seconds", "MaxSeconds",
			"Longest", "LongestSeconds"} {
			head = append(head, kind+of)
		}
	}
	if err := out.Write(append(head, "evictionsCaused", "evictionsSuffered")); err != nil {
		return err
	}
	for _, g := range append(slices.Clone(l.Groups), l.Total) {
		by := l.By.String()
		if g == l.Total {
			by = "total"
		}
		for _, name := range l.chosen(only) {
			line := []string{by, g.Name, string(name), l.Quantity(name, g.SumOf(name, Held()...)).FloatString(6)}
			for c := range Column(columns) {
				line = append(line, l.Quantity(name, g.Sum(name, c)).FloatString(6))
			}
			line = append(append(line, g.Gangs.csv()...), g.Pods.csv()...)
			if err := out.Write(append(line, strconv.Itoa(g.Caused), strconv.Itoa(g.Suffered))); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func (w *Waits) csv() []string {
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
	line := []string{strconv.Itoa(w.Placed), strconv.Itoa(w.Pending), seconds(w.P50), seconds(w.P90), seconds(w.P99),
		seconds(w.Max), "", ""}
	if w.Longest != nil {
		line[6], line[7] = w.Longest.Name, seconds(w.Longest.Wait)
	}
	return line
}

// chosen returns the resources to show: the ones asked for, or else all.
func (l *Ledger) chosen(only []v1.ResourceName) []v1.ResourceName {
	if len(only) > 0 {
		return only
	}
	return l.Resources
}
