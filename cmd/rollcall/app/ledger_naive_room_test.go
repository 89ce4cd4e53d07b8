package app

// isImpossible reports whether the nodes, all empty, have too few places for the members that a gang lacks. It is also
// so if a claim that it uses is missing.
func (b *naiveBooks) isImpossible(g *bookedGang) bool {
	member := b.membersOf(g)[0].obj
	for _, v := range member.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil && !b.claims[member.Namespace+"/"+c.ClaimName] {
			return true
		}
	}
	places := int64(0)
	for _, n := range b.nodes {
		takes := n.Status.Allocatable.Pods().Value()
		for name, amount := range requests(member) {
			takes = min(takes, numbers(n.Status.Allocatable)[name]/amount)
		}
		for key, value := range member.Spec.NodeSelector {
			if n.Labels[key] != value {
				takes = 0
			}
		}
		places += takes
	}
	return places == 0 || places < int64(g.minimum-g.ended-b.placedOf(g))
}

func (b *naiveBooks) anyWaits() bool {
	for _, g := range b.gangs {
		if !g.since.IsZero() {
			return true
		}
	}
	return false
}
