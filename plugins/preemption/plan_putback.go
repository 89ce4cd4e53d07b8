package preemption

import (
	"slices"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Targets that a plan takes back, because they need not go.

// takeBack puts every target back that need not go, the most important first, until none is left that could stay while
// the members keep their nodes. Where the nodes are chosen first, none could that was not put back at its turn.
func (pl *plan) takeBack() {
	pl.searches = false
	for !pl.inPlace() || !pl.heeding {
		kept := len(pl.victims)
		for _, u := range slices.Backward(slices.Clone(pl.victims)) {
			if pl.putBack(u) {
				pl.victims = slices.DeleteFunc(pl.victims, func(v *target) bool { return v == u })
			}
		}
		if pl.alike || pl.inPlace() {
			return
		}
		if len(pl.victims) == kept {
			break
		}
	}
	// The usual order may find no nodes beside a target that could stay beside the nodes that it has found.
	targets := slices.Clone(pl.victims)
	slices.Reverse(targets)
	pl.putBackTogether(targets)
}

// putBack puts the target back if the members still fit then.
func (pl *plan) putBack(u *target) bool {
	if pl.alike || pl.inPlace() {
		return pl.putBackHere(u)
	}
	if pl.replacements++; pl.replacements > maxReplacements {
		return false
	}
	before := slices.Clone(pl.placed)
	pl.liftAll()
	pl.restore(u)
	if pl.placeAll() {
		return true
	}
	pl.revert(before, u)
	return false
}

func (pl *plan) liftAll() { pl.liftFrom(0) }

// liftFrom takes the placed members from the i-th on off their nodes.
func (pl *plan) liftFrom(i int) {
	for len(pl.placed) > i {
		pl.lift(len(pl.placed) - 1)
	}
}

// putBackTogether puts targets back, in their order, as long as the members still fit where they are. It puts back all
// of them at once if they can stay, or else half of them and then the other half.
func (pl *plan) putBackTogether(targets []*target) {
	if len(targets) == 0 || pl.replacements > maxReplacements {
		return
	}
	if pl.replacements++; pl.putBackInPlace(targets) {
		pl.victims = slices.DeleteFunc(pl.victims, func(u *target) bool { return slices.Contains(targets, u) })
	} else if half := len(targets) / 2; half > 0 {
		pl.putBackTogether(targets[:half])
		pl.putBackTogether(targets[half:])
	}
}

// putBackInPlace puts targets back if the members still fit then where they are, one after the other.
func (pl *plan) putBackInPlace(targets []*target) bool {
	before := slices.Clone(pl.placed)
	pl.liftAll()
	for _, u := range targets {
		pl.restore(u)
	}
	for _, m := range before {
		if !pl.r.Fits(pl.ctx, unplaced(m.pod), m.node) {
			pl.revert(before, targets...)
			return false
		}
		pl.put(m)
	}
	return true
}

// putBackHere is putBack for members that are alike. Only the members on the target's own nodes need another place. If
// there is none for one of them, no other order of placing would have found one. If the nodes are chosen first, none
// has another place.
func (pl *plan) putBackHere(u *target) bool {
	before := slices.Clone(pl.placed)
	var moved []member
	for i := len(pl.placed) - 1; i >= 0; i-- {
		m := pl.placed[i]
		if slices.ContainsFunc(u.pods, func(v *cluster.Pod) bool { return v.Node == m.node }) {
			moved = append(moved, m)
			pl.lift(i)
		}
	}
	pl.restore(u)
	var homeless []member
	for _, m := range slices.Backward(moved) {
		if pl.r.Fits(pl.ctx, unplaced(m.pod), m.node) {
			pl.put(m)
		} else {
			homeless = append(homeless, m)
		}
	}
	for _, m := range homeless {
		if m.node = pl.elsewhere(m); m.node == "" {
			pl.revert(before, u)
			return false
		}
		pl.put(m)
	}
	return true
}

// elsewhere returns another node for a member that must leave its own, "" for none.
func (pl *plan) elsewhere(m member) string {
	if pl.inPlace() {
		return ""
	}
	return pl.search(m.pod, m.within)
}

// revert takes targets out again and puts the members where they were.
func (pl *plan) revert(before []member, targets ...*target) {
	pl.liftAll()
	for _, u := range targets {
		pl.remove(u)
	}
	for _, m := range before {
		pl.put(m)
	}
}
