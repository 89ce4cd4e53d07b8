package loops

import (
	"slices"
)

// graph says who evicted whom.
type graph struct {
	names []string // in the order of their first evictions
	to    map[string][]string
}

func graphOf(evictions []*eviction) *graph {
	g := &graph{to: map[string][]string{}}
	for _, x := range evictions {
		for _, name := range []string{x.by, x.victim} {
			if _, known := g.to[name]; !known {
				g.names, g.to[name] = append(g.names, name), nil
			}
		}
		if !slices.Contains(g.to[x.by], x.victim) {
			g.to[x.by] = append(g.to[x.by], x.victim)
		}
	}
	return g
}

// circles returns the largest sets of entities of which each has evicted each other one, directly or through others
// (the strongly connected components of two and more), in the order of names. It is Tarjan's algorithm with a stack of
// its own, so that a long chain of evictions does not end the program.
func (g *graph) circles() (out [][]string) {
	index, low, on := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	type frame struct {
		name string
		next int
	}
	for _, root := range g.names {
		if index[root] > 0 {
			continue
		}
		frames := []frame{{name: root}}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if f.next == 0 && index[f.name] == 0 {
				index[f.name] = len(index) + 1
				low[f.name] = index[f.name]
				stack, on[f.name] = append(stack, f.name), true
			}
			if f.next < len(g.to[f.name]) {
				to := g.to[f.name][f.next]
				f.next++
				if index[to] == 0 {
					frames = append(frames, frame{name: to})
				} else if on[to] {
					low[f.name] = min(low[f.name], index[to])
				}
				continue
			}
			name := f.name
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				parent := frames[len(frames)-1].name
				low[parent] = min(low[parent], low[name])
			}
			if low[name] < index[name] {
				continue
			}
			at := slices.Index(stack, name)
			component := slices.Clone(stack[at:])
			stack = stack[:at]
			for _, member := range component {
				on[member] = false
			}
			if len(component) > 1 {
				out = append(out, component)
			}
		}
	}
	return out
}

// shortest returns the shortest circle of evictions within some entities that begins with the first of them.
func (g *graph) shortest(within []string) []string {
	from := map[string]string{}
	start := within[0]
	next := []string{start}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		for _, to := range g.to[name] {
			if to == start {
				path := []string{name}
				for name != start {
					name = from[name]
					path = append(path, name)
				}
				slices.Reverse(path)
				return path
			}
			if _, known := from[to]; !known && slices.Contains(within, to) {
				from[to] = name
				next = append(next, to)
			}
		}
	}
	return within
}
