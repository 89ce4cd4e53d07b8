package room

import (
	"slices"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Demand is the pods of an entity of which some must find room at once.
type Demand struct {
	// Parts are its gangs, in the order in which an attempt comes to them; a single pod is one part.
	Parts []Part
	// Enough is the number of Parts that must find room.
	Enough int
	// Passing skips pods for which there is no room, and parts that cannot have it, as attempts do. Without it there is
	// one part, all of whose pods must find room.
	Passing bool
}

// Part is the pods of a gang that can be placed, and how many of them must be.
type Part struct {
	Pods   []*cluster.Pod
	Wanted int
}

// DemandOf returns the Demand that all of the pods find room.
func DemandOf(pods ...*cluster.Pod) Demand {
	return Demand{Parts: []Part{{Pods: pods, Wanted: len(pods)}}, Enough: 1}
}

// Pods returns the pods of all parts.
func (d Demand) Pods() (pods []*cluster.Pod) {
	for _, p := range d.Parts {
		pods = append(pods, p.Pods...)
	}
	return pods
}

// First returns the first of its pods, of which there must be one.
func (d Demand) First() *cluster.Pod { return d.Pods()[0] }

// Wanted returns how many pods the first parts that are enough want.
func (d Demand) Wanted() (n int) {
	for _, p := range d.Parts[:min(d.Enough, len(d.Parts))] {
		n += p.Wanted
	}
	return n
}

// Same reports whether two demands are of the same pods, part by part.
func (d Demand) Same(o Demand) bool {
	return d.Enough == o.Enough && d.Passing == o.Passing && slices.EqualFunc(d.Parts, o.Parts, func(a, b Part) bool {
		return a.Wanted == b.Wanted && slices.Equal(a.Pods, b.Pods)
	})
}

// trimmed returns the demand without pods that cannot matter: if more pods are alike than are wanted, it drops the
// surplus.
//
// grows means that if there is room for the demand at one time, there is room at each later one. It is true only if no
// pod that is left can be skipped. If pods were dropped, and some pods restrict their nodes, it is true only with one
// part. With several parts, one can take the room of another at a later time. grows decides which demands are searched
// by halves, and so the result of the search.
func (d Demand) trimmed() (trimmed Demand, grows bool) {
	if !d.Passing {
		return d, true
	}
	d.Parts = slices.Clone(d.Parts)
	left, asking := false, false
	for i, p := range d.Parts {
		if len(p.Pods) <= p.Wanted {
			continue
		}
		if !interchangeable(p.Pods) {
			left = true
			continue
		}
		d.Parts[i].Pods = p.Pods[:p.Wanted]
		asking = asking || slices.ContainsFunc(p.Pods, func(p *cluster.Pod) bool { return !saysNothing(p.Object) })
	}
	return d, !left && len(d.Parts) == d.Enough && (len(d.Parts) == 1 || !asking)
}

// Interchangeable reports whether an Outlook cannot tell the pods apart.
func Interchangeable(pods []*cluster.Pod) bool { return interchangeable(pods) }

// interchangeable reports whether an Outlook cannot tell the pods apart: they request the same, and may run on the same
// nodes, as far as it looks. If one of them finds no room, no other does.
func interchangeable(pods []*cluster.Pod) bool {
	if len(pods) == 0 {
		return true
	}
	names := ResourcesOf(pods)
	for _, p := range pods[1:] {
		if !sameNodes(p.Object, pods[0].Object) {
			return false
		}
		for _, name := range names {
			if p.Amount(name) != pods[0].Amount(name) {
				return false
			}
		}
	}
	return true
}
