package gangplan

import (
	"slices"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// Unit is a gang, or the gangs that are admitted with it, as an attempt on them begins: waiting members have given
// their nodes back, except in a NonStrict gang.
type Unit struct {
	// Pods are the members that are to be placed, gang by gang, each by name.
	Pods []*cluster.Pod

	state   *cluster.State
	gangs   []*cluster.Group
	parts   []int // by pod: the index of its gang
	sizes   []int // by gang: how many of its members are to be placed
	counted gang.Unit
}

// NewUnit returns the unit of g. Members of a gang whose conditions are not known are left out: their pods are gated.
func NewUnit(state *cluster.State, g *cluster.Group) *Unit {
	u := &Unit{state: state, gangs: g.Unit(), counted: g.Tally(nil)}
	u.sizes = make([]int, len(u.gangs))
	for i, each := range u.gangs {
		if !u.counted.Gangs[i].Known() {
			continue
		}
		keeps := each.NonStrict()
		for _, p := range state.Gangs().Placeable(each) {
			if p.Stage == cluster.Waiting && keeps {
				continue
			}
			u.Pods, u.parts = append(u.Pods, p), append(u.parts, i)
			u.sizes[i]++
		}
		if !keeps {
			u.counted.Gangs[i].Waiting = 0
		}
	}
	return u
}

// Searchable reports whether a rehearsal knows all that matters to the members. It does not know devices that pods may
// use on several nodes, nor devices that earlier members would take as extended resources.
func (u *Unit) Searchable() bool {
	devices := u.state.Devices()
	return !slices.ContainsFunc(u.Pods, func(p *cluster.Pod) bool {
		return len(p.Object.Spec.ResourceClaims) > 0 && !devices.Freeable() || devices.RequestsExtended(p.Object)
	})
}

// Together reports whether the unit has several gangs.
func (u *Unit) Together() bool { return len(u.gangs) > 1 || u.counted.Together }

// NonStrict reports whether a gang of the unit keeps the nodes that it finds.
func (u *Unit) NonStrict() bool { return slices.ContainsFunc(u.gangs, (*cluster.Group).NonStrict) }

// KeepsNodes reports whether a member of the unit keeps its node when an attempt begins.
func (u *Unit) KeepsNodes() bool {
	return slices.ContainsFunc(u.counted.Gangs, func(g gang.Gang) bool { return g.KeepsNodes() })
}

// Returning returns the waiting members that give their nodes back.
func (u *Unit) Returning() (pods []*cluster.Pod) {
	for _, p := range u.Pods {
		if p.Stage == cluster.Waiting {
			pods = append(pods, p)
		}
	}
	return pods
}

// Elastic reports whether an admitted unit may leave members without a node.
func (u *Unit) Elastic() bool {
	if u.NonStrict() {
		return true
	}
	counts, none := slices.Clone(u.sizes), make([]int, len(u.sizes))
	for i := range counts {
		if counts[i]--; counts[i] >= 0 && u.reachable(none, counts) {
			return true
		}
		counts[i]++
	}
	return false
}

// Enough reports whether gangs may be admitted with the placed members.
func (u *Unit) Enough(placed []Place) bool {
	counts := make([]int, len(u.sizes))
	for _, each := range placed {
		counts[u.parts[slices.Index(u.Pods, each.Pod)]]++
	}
	return u.enough(placed, counts)
}

// enough reports whether gangs may be admitted with the placed members. Every gang with one of them must have its
// minimum, so that the attempt keeps them all.
func (u *Unit) enough(placed []Place, counts []int) bool {
	any := false
	return u.with(counts, func() bool {
		for i, n := range counts {
			if n == 0 {
				continue
			}
			if !u.counted.Suffices(i, gang.OnNodes) {
				if !u.gangs[i].NonStrict() {
					return false
				}
				continue
			}
			any = true
		}
		return any && !slices.ContainsFunc(u.gangs, func(g *cluster.Group) bool {
			return u.state.WantsMoreThan(g, podsOf(placed))
		})
	})
}

// reachable reports whether a gang may be admitted with at most these numbers of further members, and with it every
// gang of which members are placed.
func (u *Unit) reachable(placed, counts []int) bool {
	return u.with(counts, func() bool {
		some := false
		for i, n := range counts {
			if n > 0 && u.counted.Suffices(i, gang.OnNodes) {
				some = true
			} else if placed[i] > 0 && !u.gangs[i].NonStrict() {
				return false
			}
		}
		return some
	})
}

// with calls ask while the unit counts so many further members of each gang as on nodes.
func (u *Unit) with(counts []int, ask func() bool) bool {
	for i, n := range counts {
		u.counted.Gangs[i].Waiting += n
	}
	defer func() {
		for i, n := range counts {
			u.counted.Gangs[i].Waiting -= n
		}
	}()
	return ask()
}

func podsOf(placed []Place) []*cluster.Pod {
	pods := make([]*cluster.Pod, len(placed))
	for i, each := range placed {
		pods[i] = each.Pod
	}
	return pods
}
