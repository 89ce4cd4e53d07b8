package accountant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options say what is held against whom.
type Options struct {
	// Schedulers are the users whose binds are checked; nil: all users.
	Schedulers []string
	// Delay is the time that after another user's request a scheduler may not know about it yet; 1 s if it is 0.
	Delay time.Duration
}

func (o Options) blamed(user string) bool {
	return o.Schedulers == nil && user != "" || slices.Contains(o.Schedulers, user)
}

func (o Options) delay() time.Duration {
	if o.Delay == 0 {
		return time.Second
	}
	return o.Delay
}

// Check returns everything that must not have happened, in words, by pod, node and gang.
func (a *Account) Check(o Options) []string {
	var found []string
	found = append(found, a.boundOnce(o)...)
	found = append(found, a.withinAllocatable(o)...)
	found = append(found, a.wholeGangs()...)
	return found
}

// Bound counts the pods that a user has bound.
func (a *Account) Bound(user string) int {
	n := 0
	for _, p := range a.order {
		if p.by == user {
			n++
		}
	}
	return n
}

// Moments counts the quiescent points.
func (a *Account) Moments() int { return len(a.quiescent) }

// boundOnce finds pods that were bound more than once, or that were to be bound to another node after that.
func (a *Account) boundOnce(o Options) (found []string) {
	for _, p := range a.order {
		done := 0
		for _, b := range p.binds {
			if !o.blamed(b.user) {
				continue
			}
			if b.code/100 == 2 {
				done++
			}
			if p.by == b.user && b.node != "" && b.node != p.node && b.begun.After(p.bound.ended) {
				found = append(found, fmt.Sprintf("pod %s: %s bound it to node %s at %s, and asked for node %s at %s",
					p.name, b.user, p.node, clock(p.bound.ended), b.node, clock(b.begun)))
			}
		}
		if done > 1 {
			found = append(found, fmt.Sprintf("pod %s was bound %d times", p.name, done))
		}
		for _, m := range a.quiescent {
			if s, ok := m.pods[p.uid]; ok && s.node != "" && p.by != "" && s.node != p.node {
				found = append(found, fmt.Sprintf("pod %s was bound to node %s, and stands on node %s at %s",
					p.name, p.node, s.node, clock(m.begun)))
			}
		}
	}
	return found
}

// withinAllocatable finds each bind that put more on a node than its allocatable resources. It counts all pods that
// the scheduler had to know about, including the ones that others bound.
func (a *Account) withinAllocatable(o Options) (found []string) {
	byNode := map[string][]*pod{}
	for _, p := range a.order {
		if p.node != "" {
			byNode[p.node] = append(byNode[p.node], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		n := a.nodes[name]
		for _, p := range byNode[name] {
			if !o.blamed(p.by) {
				continue
			}
			if n == nil {
				found = append(found, fmt.Sprintf("pod %s was bound to node %s, which nothing shows", p.name, name))
				continue
			}
			if text := n.exceeded(p, byNode[name], o); text != "" {
				found = append(found,
					fmt.Sprintf("node %s at %s, with pod %s: %s", name, clock(p.bound.ended), p.name, text))
			}
		}
	}
	return found
}

// exceeded says what is too much on the node once p was bound, empty if nothing is.
func (n *node) exceeded(p *pod, all []*pod, o Options) string {
	sum, names := map[string]int64{}, []string{}
	for _, q := range all {
		there := !q.bound.ended.After(p.bound.ended)
		if q.by != p.by {
			there = q.bound.ended.Add(o.delay()).Before(p.bound.begun)
		}
		if q != p && (!there || !q.ended.IsZero() && !q.ended.After(p.bound.ended)) {
			continue
		}
		for r, k := range q.requests {
			sum[r] += k
		}
		names = append(names, q.name)
	}
	room := n.room(p.bound, o.delay())
	for _, r := range slices.Sorted(maps.Keys(sum)) {
		if sum[r] > room[r] {
			return fmt.Sprintf("%s %d of %d, by %s", r, sum[r], room[r], strings.Join(names, ", "))
		}
	}
	return ""
}

// room is the most that the node could be given about a time.
func (n *node) room(at span, delay time.Duration) map[string]int64 {
	most := map[string]int64{}
	for i, x := range n.allocatable {
		if i > 0 && x.begun.After(at.ended) {
			break
		}
		if i+1 < len(n.allocatable) && n.allocatable[i+1].ended.Add(delay).Before(at.begun) {
			continue
		}
		for r, k := range x.of {
			most[r] = max(most[r], k)
		}
	}
	return most
}

// wholeGangs finds each gang with fewer members bound than its minimum at a quiescent point. It counts the members
// that were bound since the last time that none was, including the ones that have ended and the ones being deleted.
func (a *Account) wholeGangs() (found []string) {
	members := map[string][]*pod{}
	for _, p := range a.order {
		if p.group != "" {
			members[p.group] = append(members[p.group], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		for _, m := range a.quiescent {
			placed, missing := gangAt(members[name], m)
			least := a.groups[name].at(m.begun)
			if placed > 0 && placed < least {
				found = append(found, fmt.Sprintf("gang %s at %s: %d bound of a minimum of %d; not bound: %s",
					name, clock(m.begun), placed, least, strings.Join(missing, ", ")))
			}
		}
	}
	return found
}

// gangAt counts the members of a gang that hold a node at a quiescent point. It also counts members that ended or were
// being deleted before, if they existed together with one that holds a node.
func gangAt(members []*pod, m *moment) (placed int, missing []string) {
	var since time.Time
	for _, p := range members {
		if s, ok := m.pods[p.uid]; ok && s.node != "" && !s.ended && (since.IsZero() || p.bound.begun.Before(since)) {
			since = p.bound.begun
		}
	}
	if since.IsZero() {
		return 0, nil
	}
	for _, p := range members {
		s, there := m.pods[p.uid]
		switch {
		case there && s.node != "" && !s.ended:
			placed++
		case !p.leaving.IsZero() && p.leaving.Before(m.ended):
			if p.leaving.After(since) {
				placed++
			}
		case there:
			missing = append(missing, p.name)
		}
	}
	return placed, missing
}

// at is the minimum of a group at a time, 0 if it has no PodGroup.
func (g *group) at(t time.Time) int {
	if g == nil {
		return 0
	}
	least := 0
	for i, m := range g.minimums {
		if i == 0 || !m.begun.After(t) {
			least = m.of
		}
	}
	return least
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000000") }
