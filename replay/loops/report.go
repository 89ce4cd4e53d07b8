package loops

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// The kinds of loops.
const (
	// Circle: each of the entities has evicted the next, and the last one the first.
	Circle = "Circle"
	// Again: an entity was evicted, came again, and was evicted again.
	Again = "Again"
)

// An Eviction tells which pods of one entity one Decision evicted.
type Eviction struct {
	Seq    uint64 `json:"seq"`
	Time   string `json:"time"`
	By     string `json:"by"`
	Victim string `json:"victim"`
	Pods   int    `json:"pods"`
	// Round is the number of times that one of the pods, or one in whose place it came, has been evicted by now.
	Round int `json:"round"`
	// Lost is the amount of each resource that the pods held, times the hours for which they held it since they were
	// bound, within the range.
	Lost Lost `json:"lost"`
}

// A Loop is a circle of evictions, or one entity that is evicted again and again.
type Loop struct {
	Kind string `json:"kind"`
	// Entities are, of a Circle, entities of which each evicted the next, and the last one the first; of an Again the
	// one that was evicted. More are further entities that evict and are evicted in the same circle.
	Entities []string `json:"entities"`
	More     []string `json:"more,omitempty"`
	// Rounds is the largest Round of its evictions.
	Rounds int `json:"rounds"`
	// First and Last are the entries of its first and its last eviction.
	First     uint64     `json:"first"`
	Last      uint64     `json:"last"`
	Since     string     `json:"since"`
	Duration  string     `json:"duration"`
	Pods      int        `json:"pods"`
	Lost      Lost       `json:"lost"`
	Evictions []Eviction `json:"evictions"`
}

// A Report has the loops of a range of a log.
type Report struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Evictions counts the evictions of pods of one entity by one Decision, Pods their pods, and Lost their loss.
	Evictions int  `json:"evictions"`
	Pods      int  `json:"pods"`
	Lost      Lost `json:"lost"`
	// Circles and Again count the loops of each kind.
	Circles int    `json:"circles"`
	Again   int    `json:"again"`
	Loops   []Loop `json:"loops"`
}

// Lost has hours of resources, by the name of the resource: of CPUs, of GiB for memory and storage, and of devices.
type Lost map[string]json.Number

// cost adds up resources times nanoseconds.
type cost map[v1.ResourceName]*big.Int

// add adds what a pod requests, for some time.
func (c *cost) add(pod *v1.Pod, held time.Duration) {
	if *c == nil {
		*c = cost{}
	}
	// any order: sums of each resource
	for name, q := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
		amount := q.Value()
		if name == v1.ResourceCPU {
			amount = q.MilliValue()
		}
		if held > 0 && amount > 0 {
			c.plus(name, new(big.Int).Mul(big.NewInt(amount), big.NewInt(int64(held))))
		}
	}
}

func (c *cost) plus(name v1.ResourceName, amount *big.Int) {
	if *c == nil {
		*c = cost{}
	}
	sum := (*c)[name]
	if sum == nil {
		sum = new(big.Int)
		(*c)[name] = sum
	}
	sum.Add(sum, amount)
}

// all adds other costs.
func (c *cost) all(other cost) {
	for _, name := range slices.Sorted(maps.Keys(other)) {
		c.plus(name, other[name])
	}
}

// lost returns the costs in hours, cut to thousandths.
func (c cost) lost() Lost {
	out := Lost{}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		unit := big.NewInt(int64(time.Hour))
		switch name {
		case v1.ResourceCPU:
			unit.Mul(unit, big.NewInt(1000))
		case v1.ResourceMemory, v1.ResourceEphemeralStorage:
			unit.Mul(unit, big.NewInt(1<<30))
		}
		thousandths := new(big.Int).Mul(c[name], big.NewInt(1000))
		thousandths.Div(thousandths, unit)
		whole, part := new(big.Int).DivMod(thousandths, big.NewInt(1000), new(big.Int))
		out[string(name)] = json.Number(fmt.Sprintf("%s.%03d", whole, part))
	}
	return out
}

// String lists what was lost.
func (l Lost) String() string {
	var said []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		unit := name
		switch v1.ResourceName(name) {
		case v1.ResourceCPU:
			unit = "CPU"
		case v1.ResourceMemory:
			unit = "GiB of memory"
		case v1.ResourceEphemeralStorage:
			unit = "GiB of ephemeral storage"
		}
		said = append(said, fmt.Sprintf("%s hours of %s", l[name], unit))
	}
	if len(said) == 0 {
		return "nothing"
	}
	return strings.Join(said, ", ")
}

// report makes the report of a finished search.
func (s *search) report() *Report {
	r := &Report{First: s.From, Last: s.seq, Loops: []Loop{}}
	all := slices.DeleteFunc(slices.Clone(s.evicted), func(x *eviction) bool { return len(x.pods) == 0 })
	r.Evictions = len(all)
	var lost cost
	for _, x := range all {
		r.Pods += len(x.pods)
		lost.all(x.lost)
	}
	r.Lost = lost.lost()
	g, circled := graphOf(all), map[*eviction]bool{}
	for _, names := range g.circles() {
		var own []*eviction
		for _, x := range all {
			if slices.Contains(names, x.by) && slices.Contains(names, x.victim) {
				own, circled[x] = append(own, x), true
			}
		}
		names[0], names[slices.Index(names, own[0].by)] = own[0].by, names[0]
		loop := loopOf(Circle, g.shortest(names), own)
		for _, name := range names {
			if !slices.Contains(loop.Entities, name) {
				loop.More = append(loop.More, name)
			}
		}
		slices.Sort(loop.More)
		r.Circles, r.Loops = r.Circles+1, append(r.Loops, loop)
	}
	for _, name := range g.names {
		own := slices.DeleteFunc(slices.Clone(all), func(x *eviction) bool { return x.victim != name || circled[x] })
		if slices.ContainsFunc(own, func(x *eviction) bool { return x.round > 1 }) {
			r.Again, r.Loops = r.Again+1, append(r.Loops, loopOf(Again, []string{name}, own))
		}
	}
	slices.SortStableFunc(r.Loops, func(a, b Loop) int {
		if a.Kind != b.Kind {
			return strings.Compare(b.Kind, a.Kind) // circles first
		}
		return b.Rounds - a.Rounds
	})
	return r
}

// loopOf returns a loop of some evictions.
func loopOf(kind string, names []string, own []*eviction) Loop {
	first, last := own[0], own[len(own)-1]
	loop := Loop{Kind: kind, Entities: names, First: first.seq, Last: last.seq, Since: first.time.String(),
		Duration: last.time.Sub(first.time).String()}
	var lost cost
	for _, x := range own {
		loop.Rounds, loop.Pods = max(loop.Rounds, x.round), loop.Pods+len(x.pods)
		lost.all(x.lost)
		loop.Evictions = append(loop.Evictions, Eviction{x.seq, x.time.String(), x.by, x.victim, len(x.pods), x.round,
			x.lost.lost()})
	}
	loop.Lost = lost.lost()
	return loop
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// WriteText writes the loop for people; show limits its evictions.
func (l *Loop) WriteText(w io.Writer, show uint64) error {
	if l.Kind == Circle {
		fmt.Fprintf(w, "circle    %s\n", eventlog.Plain(strings.Join(l.Entities, " evicted ")+", which evicted "+
			l.Entities[0]))
		if len(l.More) > 0 {
			fmt.Fprintf(w, "          with %s\n", eventlog.Plain(strings.Join(l.More, ", ")))
		}
	} else {
		fmt.Fprintf(w, "again     %s was evicted up to %d times, and came again\n", eventlog.Plain(l.Entities[0]),
			l.Rounds)
	}
	fmt.Fprintf(w, "          %s of %s in %s, since %s (entries %d to %d)\n", count(len(l.Evictions), "eviction"),
		count(l.Pods, "pod"), l.Duration, l.Since, l.First, l.Last)
	_, err := fmt.Fprintf(w, "          lost: %s\n", eventlog.Plain(l.Lost.String()))
	for i, x := range l.Evictions {
		if uint64(i) == show {
			_, err = fmt.Fprintf(w, "          … and %s\n", count(len(l.Evictions)-i, "more eviction"))
			break
		}
		pods := fmt.Sprintf("%d pods of ", x.Pods)
		switch {
		case strings.HasPrefix(x.Victim, "pod "):
			pods = ""
		case x.Pods == 1:
			pods = "a pod of "
		}
		_, err = fmt.Fprintf(w, "          entry %d: %s evicted %s%s, time %d\n", x.Seq, eventlog.Plain(x.By), pods,
			eventlog.Plain(x.Victim), x.Round)
	}
	return err
}

// WriteText writes the report for people; show limits the evictions of each loop.
func (r *Report) WriteText(w io.Writer, show uint64) error {
	for i := range r.Loops {
		if err := r.Loops[i].WriteText(w, show); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "entries %d to %d: %s of %s, lost: %s\n", r.First, r.Last, count(r.Evictions, "eviction"),
		count(r.Pods, "pod"), eventlog.Plain(r.Lost.String()))
	verdict := "nobody was evicted and came again to be evicted again"
	if len(r.Loops) > 0 {
		verdict = fmt.Sprintf("%s; %d more came again and were evicted again", count(r.Circles, "circle"), r.Again)
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}
