package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxLinePoints bounds the points of a Line, and so the size of its drawing.
const MaxLinePoints = 2000

// The bounds of a Timeline while it is made.
const (
	rawLinePoints  = 1 << 16
	maxReservation = 100_000
)

// Timeline is the course of a simulation: values that hold from one instant to the next, taken after all events of the
// instant.
type Timeline struct {
	// shares are the resources' shares, by their index in usage.
	shares      []line
	names       []corev1.ResourceName
	pods, gangs line
	disruptions [len(disruptionNames)]line
	end         time.Duration

	reservations []Reserved
	standing     map[reservationKey]int // the present ones, by their index in reservations
	unkept       int
}

// disruptionNames are the kinds of disruptions, in the order in which they are drawn.
var disruptionNames = [...]struct {
	outcome Outcome
	name    string
}{{Preempted, "preempted"}, {Lost, "lost with a node"}, {Evicted, "evicted with their gang"}}

// Line is one value over time.
type Line struct {
	// Name is the resource's name, or the name of the counted things.
	Name string
	// Points are the instants at which the value changes. At most MaxLinePoints of them are kept: each part of the
	// time keeps its least, its greatest and its last value.
	Points []LinePoint
}

// LinePoint is a value that holds from an offset on.
type LinePoint struct {
	At    time.Duration
	Value float64
}

// Reservation is room that a scheduler has set aside.
type Reservation struct {
	// Group is the namespace/name of the reservation's owner.
	Group string
	// From is the latest time at which the room will be free, by declared durations. Until is the expected time at
	// which it will be free again; zero if that is unknown.
	From, Until time.Time
	// Amount is the reserved amount: thousandths of cpu, units of everything else.
	Amount map[corev1.ResourceName]int64
}

// Reserved is a Reservation and its span, from the instant at which it was made to the instant at which it was given
// up, used, or changed.
type Reserved struct {
	Reservation
	Made, Gone time.Duration
}

type reservationKey struct {
	group       string
	from, until time.Time
}

func NewTimeline() *Timeline {
	return &Timeline{standing: map[reservationKey]int{}}
}

// Sample records the state at offset now: the account's values, and the present reservations.
func (t *Timeline) Sample(now time.Duration, account *Account, reservations []Reservation) {
	for i := range account.usage.resources {
		r := &account.usage.resources[i]
		if i == len(t.shares) {
			t.shares = append(t.shares, line{})
			t.names = append(t.names, r.name)
		}
		share := 0.0
		if r.offered > 0 {
			share = float64(r.used) / float64(r.offered)
		}
		t.shares[i].add(now, share)
	}
	t.pods.add(now, float64(account.pending))
	t.gangs.add(now, float64(account.gangsWaiting))
	for i, s := range disruptionNames {
		t.disruptions[i].add(now, float64(account.disruptions[s.outcome]))
	}
	t.reserve(now, reservations)
}

// Finish notes where the simulation ended.
func (t *Timeline) Finish(end time.Duration) { t.end = end }

// reserve compares the present reservations with the earlier ones.
func (t *Timeline) reserve(now time.Duration, standing []Reservation) {
	before := t.standing
	t.standing = make(map[reservationKey]int, len(standing))
	for _, r := range standing {
		key := reservationKey{r.Group, r.From, r.Until}
		i, stood := before[key]
		switch {
		case stood:
			delete(before, key)
		case len(t.reservations) == maxReservation:
			t.unkept++
			i = -1
		default:
			i = len(t.reservations)
			t.reservations = append(t.reservations, Reserved{Reservation: r, Made: now, Gone: -1})
		}
		t.standing[key] = i
	}
	// any order: each is recorded separately
	for _, i := range before {
		if i >= 0 {
			t.reservations[i].Gone = now
		}
	}
}

// End is the last instant with an event, as Summary.End.
func (t *Timeline) End() time.Duration { return t.end }

// Shares returns, by name, the share of each resource of the nodes that pods requested: 0 to 1, more if nodes were
// overcommitted.
func (t *Timeline) Shares() []Line {
	var lines []Line
	for i := range t.shares {
		lines = append(lines, Line{string(t.names[i]), t.shares[i].thinned(MaxLinePoints)})
	}
	slices.SortFunc(lines, func(a, b Line) int { return strings.Compare(a.Name, b.Name) })
	return lines
}

// PendingPods returns the number of pods that had arrived and were not bound.
func (t *Timeline) PendingPods() Line { return Line{"pods", t.pods.thinned(MaxLinePoints)} }

// PendingGangs returns the number of gangs with unbound pods and without their minimum bound.
func (t *Timeline) PendingGangs() Line { return Line{"gangs", t.gangs.thinned(MaxLinePoints)} }

// Disruptions returns the numbers of pods preempted, lost with a node and evicted with their gang so far, each time: a
// line for each kind that occurred.
func (t *Timeline) Disruptions() (lines []Line) {
	for i, s := range disruptionNames {
		if n := len(t.disruptions[i].points); n > 0 && t.disruptions[i].points[n-1].Value > 0 {
			lines = append(lines, Line{s.name, t.disruptions[i].thinned(MaxLinePoints)})
		}
	}
	return lines
}

// Reservations returns the reservations in the order in which they were made, and the number of further ones that were
// not kept. A reservation that exists at the end ends there.
func (t *Timeline) Reservations() (reserved []Reserved, more int) {
	reserved = slices.Clone(t.reservations)
	for i := range reserved {
		if reserved[i].Gone < 0 {
			reserved[i].Gone = t.end
		}
	}
	return reserved, t.unkept
}

// line is a value that holds from each of its points to the next. The points' times grow, and neighbours differ.
type line struct{ points []LinePoint }

// add sets the value to v from now on.
func (l *line) add(now time.Duration, v float64) {
	if n := len(l.points); n > 0 && l.points[n-1].At == now {
		l.points = l.points[:n-1]
	}
	if n := len(l.points); n > 0 && l.points[n-1].Value == v {
		return
	}
	if len(l.points) == rawLinePoints {
		l.points = thin(l.points, rawLinePoints/2)
	}
	l.points = append(l.points, LinePoint{now, v})
}

func (l *line) thinned(most int) []LinePoint { return thin(slices.Clone(l.points), most) }

// thin keeps most points, in order. It divides the time into equal parts, as many as that allows, and keeps the least
// value, the greatest and the last one of each.
func thin(points []LinePoint, most int) []LinePoint {
	if len(points) <= most {
		return points
	}
	first := points[0].At
	width := (points[len(points)-1].At-first)/time.Duration(most/3) + 1
	kept := points[:0]
	for from := 0; from < len(points); {
		part := (points[from].At - first) / width
		to, least, greatest := from, from, from
		for ; to < len(points) && (points[to].At-first)/width == part; to++ {
			if points[to].Value < points[least].Value {
				least = to
			}
			if points[to].Value > points[greatest].Value {
				greatest = to
			}
		}
		keep := []int{least, greatest, to - 1}
		slices.SortFunc(keep, cmp.Compare[int])
		for _, i := range slices.Compact(keep) {
			kept = append(kept, points[i]) // never ahead of the unread points
		}
		from = to
	}
	return kept
}
