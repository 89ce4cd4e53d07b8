package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/internal/similar"
)

// Near returns the names that are most similar to one, the nearest first, at most 5. Without a namespace, names of all
// namespaces are compared.
func Near(name string, all []string) []string {
	type near struct {
		name  string
		edits int
	}
	limit := max(1, len(name)/3)
	var found []near
	for _, each := range all {
		compared := each
		if _, last, ok := strings.Cut(each, "/"); ok && !strings.Contains(name, "/") {
			compared = last
		}
		edits := similar.Edits(name, compared, limit+1)
		if strings.HasPrefix(compared, name) {
			edits = min(edits, limit)
		}
		if edits <= limit {
			found = append(found, near{each, edits})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.edits, b.edits), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, n := range found[:min(maxNear, len(found))] {
		names = append(names, n.name)
	}
	return names
}
