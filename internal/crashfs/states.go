package crashfs

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
)

// sectorSize is the unit that a disk writes as a whole.
const sectorSize = 512

// A State is one possible result of a crash.
type State struct {
	// Ops is the number of operations that had happened.
	Ops int
	// Lost are the numbers of operations that did not reach the disk at all.
	Lost []int
	// Torn are writes that reached the disk in part: the sectors whose bit is set. A sector's bit is its number modulo
	// 64.
	Torn map[int]uint64
}

// Describe describes a state for a person.
func (r Recording) Describe(s State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a crash after operation %d", s.Ops-1)
	if s.Ops > 0 {
		fmt.Fprintf(&b, " (%s)", r[s.Ops-1])
	}
	for _, i := range s.Lost {
		fmt.Fprintf(&b, "\n  lost: %d (%s)", i, r[i])
	}
	for i, mask := range s.Torn {
		fmt.Fprintf(&b, "\n  torn: %d (%s), sectors %#x kept", i, r[i], mask)
	}
	return b.String()
}

// Pending returns the numbers of the operations, among the first ops, that a crash then may lose: their files and
// directories were not all synced afterwards.
func (r Recording) Pending(ops int) []int {
	var pending []int
	for i := range ops {
		if open := r[i].touches(); open != nil && !r.covered(i, ops, open) {
			pending = append(pending, i)
		}
	}
	return pending
}

// covered reports whether each of touched is synced after operation i and before ops.
func (r Recording) covered(i, ops int, touched []int) bool {
	for _, n := range touched {
		if !slices.ContainsFunc(r[i+1:ops], func(o Op) bool { return o.Kind == Sync && o.File == n }) {
			return false
		}
	}
	return true
}

// Without returns the recording without one operation: a sync that a faulty program forgot.
func (r Recording) Without(op int) Recording {
	return slices.Concat(r[:op], r[op+1:])
}

// An Effort is the number of states of each kind that States yields at one moment.
type Effort struct {
	// Subsets is the number of random subsets of the pending operations that are lost.
	Subsets int
	// LastWrites is the number of last writes that are torn, Tears the number of random tears of each.
	Tears, LastWrites int
}

// Moment yields the states of one moment, after ops operations. Pending operations are lost in several ways: none,
// all, each alone, all except each, and random subsets. In addition the last writes are torn, with no other pending
// operation lost and with all others lost.
func (r Recording) Moment(ops int, e Effort, chance *rand.Rand) iter.Seq[State] {
	return func(yield func(State) bool) {
		pending := r.Pending(ops)
		states := []State{{Ops: ops}}
		if len(pending) > 0 {
			states = append(states, State{Ops: ops, Lost: pending})
		}
		for i := range pending {
			states = append(states,
				State{Ops: ops, Lost: pending[i : i+1]},
				State{Ops: ops, Lost: slices.Concat(pending[:i], pending[i+1:])})
		}
		if len(pending) > 2 {
			for range e.Subsets {
				states = append(states, State{Ops: ops, Lost: choose(pending, chance)})
			}
		}
		states = append(states, r.tears(ops, pending, e, chance)...)
		for _, s := range states {
			if !yield(s) {
				return
			}
		}
	}
}

// choose returns a random subset.
func choose(from []int, chance *rand.Rand) []int {
	var some []int
	odds := 1 + chance.IntN(9)
	for _, n := range from {
		if chance.IntN(10) < odds {
			some = append(some, n)
		}
	}
	return some
}

// tears returns states in which the last pending writes are torn.
func (r Recording) tears(ops int, pending []int, e Effort, chance *rand.Rand) []State {
	var states []State
	left := e.LastWrites
	for at := len(pending) - 1; at >= 0 && left > 0; at-- {
		i := pending[at]
		if r[i].Kind != Write || len(r[i].Data) <= sectorSize {
			continue
		}
		left--
		for n := range e.Tears {
			// Keep the first sectors, the last, or any.
			mask := chance.Uint64()
			cut := uint(1 + chance.IntN(min(63, (len(r[i].Data)+sectorSize-1)/sectorSize)))
			switch n % 3 {
			case 0:
				mask = 1<<cut - 1
			case 1:
				mask = ^uint64(0) << cut
			}
			s := State{Ops: ops, Torn: map[int]uint64{i: mask}}
			if n%2 == 1 {
				s.Lost = choose(slices.Concat(pending[:at], pending[at+1:]), chance)
			}
			states = append(states, s)
		}
	}
	return states
}

// A Disk makes states of one recording. It is fast for states whose Ops do not decrease.
type Disk struct {
	r    Recording
	base *image // has the applied operations: no crash after ops loses them
	// applied is by operation, up to ops; an operation is applied only if all those before it on the same
	// files are.
	applied []bool
	ops     int
}

// NewDisk returns the Disk of a recording.
func NewDisk(r Recording) *Disk {
	d := &Disk{r: r}
	d.reset()
	return d
}

// reset begins with an empty disk. A directory stays a directory, whether or not its first name reached the disk.
func (d *Disk) reset() {
	d.base, d.applied = newImage(), nil
	for _, o := range d.r {
		if o.Kind == Mkdir {
			d.base.dirs[o.File] = true
		}
	}
}

// applyUntil applies the operations that a crash after ops operations cannot lose.
func (d *Disk) applyUntil(ops int) {
	if ops == d.ops {
		return
	}
	if ops < d.ops {
		d.reset()
	}
	d.ops = ops
	d.applied = append(d.applied, make([]bool, ops-len(d.applied))...)
	pending := d.r.Pending(ops)
	blocked := map[int]bool{}
	for i, done := range d.applied {
		touched := d.r[i].touches()
		if done || touched == nil {
			continue
		}
		_, lose := slices.BinarySearch(pending, i)
		if lose || slices.ContainsFunc(touched, func(n int) bool { return blocked[n] }) {
			for _, n := range touched {
				blocked[n] = true
			}
			continue
		}
		d.base.apply(d.r[i], nil)
		d.applied[i] = true
	}
}

// Content returns the content of the disk in state s.
func (d *Disk) Content(s State) Content {
	d.applyUntil(s.Ops)
	m := d.base.clone()
	for i := range s.Ops {
		if d.applied[i] || slices.Contains(s.Lost, i) {
			continue
		}
		var keep func(int) bool
		if mask, torn := s.Torn[i]; torn {
			keep = func(sector int) bool { return mask>>(sector%64)&1 == 1 }
		}
		m.apply(d.r[i], keep)
	}
	return Content{m}
}

// A Content is the content of the disk in some state.
type Content struct{ image *image }

// Sum is the same for equal contents.
func (c Content) Sum() uint64 { return c.image.sum() }

// Build makes the files in dir, which is an empty directory.
func (c Content) Build(dir string) error { return c.image.build(dir) }
