package plot

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/events"
	"github.com/rollcall-sched/rollcall/replay/ledger"
)

// The names of series that are not columns of a ledger.
const (
	held      = "held"
	gangsWait = "gangsWaiting"
	podsWait  = "podsWaiting"
	all       = "(all)"
)

// Series is a value over time: one for each step.
type Series struct {
	// Column is held, or the name of a column of "rollcall report", or gangsWaiting or podsWaiting.
	Column string `json:"column"`
	// Resource is the resource of all but the waiting ones. Unit is the unit of Mean.
	Resource v1.ResourceName `json:"resource,omitempty"`
	Unit     string          `json:"unit"`
	// Group is of held and of waiting. Groups that are drawn together are (others), and Groups is their number.
	Group  string `json:"group,omitempty"`
	Groups int    `json:"groups,omitempty"`
	// Exact is the sum over each step, in decimal: units of the resource (thousandths of a core, bytes), gangs or pods,
	// times nanoseconds. Mean is the same divided by the length of the step, rounded.
	Exact []string  `json:"exact"`
	Mean  []float64 `json:"mean"`

	label string
	empty bool
}

// Facts is the JSON form of a Plot.
type Facts struct {
	From ledger.PointFacts `json:"from"`
	To   ledger.PointFacts `json:"to"`
	By   string            `json:"by"`
	// Times are the beginnings of the steps. A step ends where the next one begins, and the last one at the end of the
	// range. So the first and the last one may be shorter than StepSeconds.
	StepSeconds float64         `json:"stepSeconds"`
	Times       []string        `json:"times"`
	Series      []Series        `json:"series"`
	Events      []*events.Event `json:"events"`
}

// MarshalJSON returns the JSON form.
func (p *Plot) MarshalJSON() ([]byte, error) {
	l := p.ledger
	x := Facts{From: ledger.PointFacts{Seq: l.After, Time: l.Start.String()},
		To: ledger.PointFacts{Seq: l.Last, Time: l.End.String()}, By: l.By.String(), StepSeconds: p.step.Seconds(),
		Series: p.series(), Events: p.events}
	for _, at := range p.ends[:len(p.ends)-1] {
		x.Times = append(x.Times, at.String())
	}
	if x.Events == nil {
		x.Events = []*events.Event{}
	}
	return json.Marshal(x)
}

// WriteCSV writes a line for each series and step.
func (p *Plot) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"from", "until", "column", "resource", "group", "unit", "mean", "exact"}); err != nil {
		return err
	}
	for _, s := range p.series() {
		for i, mean := range s.Mean {
			if err := out.Write([]string{p.ends[i].String(), p.ends[i+1].String(), s.Column, string(s.Resource),
				s.Group, s.Unit, strconv.FormatFloat(mean, 'f', -1, 64), s.Exact[i]}); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// series returns all that is drawn.
func (p *Plot) series() (out []Series) {
	for _, name := range p.resources {
		out = append(out, p.heldBy(name)...)
		out = append(out, p.capacity(name))
		out = append(out, p.notHeld(name)...)
	}
	return slices.Concat(out, p.waiting(gangsWait), p.waiting(podsWait))
}

// add adds the sums of groups, by step. Each sum is divided by per.
func (s *Series) add(p *Plot, groups []*ledger.Group, per *big.Rat, of func(*ledger.Group) ledger.Sum) {
	s.empty = true
	for i := range len(p.ends) - 1 {
		sum := new(big.Int)
		for _, g := range groups {
			sum.Add(sum, of(g.In(i)).Big())
		}
		s.empty = s.empty && sum.Sign() == 0
		s.Exact = append(s.Exact, sum.String())
		length := new(big.Rat).SetInt64(int64(p.ends[i+1] - p.ends[i]))
		mean, _ := length.Quo(new(big.Rat).SetInt(sum), length.Mul(length, per)).Float64()
		s.Mean = append(s.Mean, mean)
	}
}

// grouped returns a series for each drawn group, and one for the rest.
func (p *Plot) grouped(like Series, per *big.Rat, of func(*ledger.Group) ledger.Sum) (out []Series) {
	for _, g := range p.groups {
		s := like
		s.Group, s.label = g.Name, eventlog.Plain(g.Name)
		s.add(p, []*ledger.Group{g}, per, of)
		out = append(out, s)
	}
	if len(p.rest) > 0 {
		s := like
		s.Group, s.Groups, s.label = ledger.Others, p.numRest, fmt.Sprintf("%d others", p.numRest)
		s.add(p, p.rest, per, of)
		out = append(out, s)
	}
	return out
}

// unit returns the name of a unit of a resource in the plural, and how much of the resource it is.
func unit(name v1.ResourceName) (string, *big.Rat) {
	one := ledger.UnitOf(name)
	per := big.NewRat(1, 1)
	switch {
	case name == v1.ResourceCPU:
		per.SetInt64(1000)
	case one == "GiB":
		return one, per.SetInt64(1 << 30)
	}
	return one + "s", per
}

func (p *Plot) heldBy(name v1.ResourceName) []Series {
	one, per := unit(name)
	return p.grouped(Series{Column: held, Resource: name, Unit: one}, per,
		func(g *ledger.Group) ledger.Sum { return g.SumOf(name, ledger.Held()...) })
}

func (p *Plot) capacity(name v1.ResourceName) Series { return p.column(name, ledger.Capacity) }

// column returns a column of all groups together.
func (p *Plot) column(name v1.ResourceName, c ledger.Column) Series {
	one, per := unit(name)
	s := Series{Column: c.String(), Resource: name, Unit: one, label: c.Label()}
	s.add(p, []*ledger.Group{p.ledger.Total}, per, func(g *ledger.Group) ledger.Sum { return g.Sum(name, c) })
	return s
}

// notHeld returns the columns of time that no pod held.
func (p *Plot) notHeld(name v1.ResourceName) (out []Series) {
	for _, c := range ledger.NotHeld() {
		if s := p.column(name, c); !s.empty {
			out = append(out, s)
		}
	}
	return out
}

// waiting returns the numbers of gangs or pods that wait. Groups of nodes have none: they are of all.
func (p *Plot) waiting(kind string) (out []Series) {
	like := Series{Column: kind, Unit: "gangs"}
	if kind == podsWait {
		like.Unit = "pods"
	}
	of := func(g *ledger.Group) ledger.Sum {
		gangs, pods := g.Waited()
		if kind == podsWait {
			return pods
		}
		return gangs
	}
	one := big.NewRat(1, 1)
	if p.ledger.By.String() == "node" {
		like.Group, like.label = all, "all"
		like.add(p, []*ledger.Group{p.ledger.Total}, one, of)
		return []Series{like}
	}
	return p.grouped(like, one, of)
}

// chooseGroups finds the groups with a colour: the ones with the largest shares of the held and the waited time. Groups
// of priorities are then ordered by priority.
func (p *Plot) chooseGroups() {
	shares := map[*ledger.Group]float64{}
	for _, g := range p.ledger.Groups {
		shares[g] = p.share(g)
	}
	ranked := slices.Clone(p.ledger.Groups)
	slices.SortStableFunc(ranked, func(a, b *ledger.Group) int { return cmp.Compare(shares[b], shares[a]) })
	ranked = slices.DeleteFunc(ranked, func(g *ledger.Group) bool { return shares[g] == 0 })
	n := min(mostGroups, len(ranked))
	p.groups, p.rest, p.numRest = ranked[:n], ranked[n:], len(ranked)-n
	if p.ledger.By.String() == "priority" {
		slices.SortStableFunc(p.groups, func(a, b *ledger.Group) int {
			x, _ := strconv.Atoi(a.Name)
			y, _ := strconv.Atoi(b.Name)
			return cmp.Compare(y, x)
		})
	}
}

// share adds up the shares of a group in the drawn resources and waits.
func (p *Plot) share(g *ledger.Group) (sum float64) {
	add := func(of func(*ledger.Group) ledger.Sum) {
		if whole := of(p.ledger.Total); !whole.IsZero() {
			share, _ := new(big.Rat).SetFrac(of(g).Big(), whole.Big()).Float64()
			sum += share
		}
	}
	for _, name := range p.resources {
		add(func(g *ledger.Group) ledger.Sum { return g.SumOf(name, ledger.Held()...) })
	}
	add(func(g *ledger.Group) ledger.Sum { gangs, _ := g.Waited(); return gangs })
	add(func(g *ledger.Group) ledger.Sum { _, pods := g.Waited(); return pods })
	return sum
}

// length is a duration without parts that are 0.
func length(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
