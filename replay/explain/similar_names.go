package explain

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// nearNames collects the names that someone who got one wrong may have meant.
type nearNames struct {
	wanted types.NamespacedName
	// elsewhere have the same name in another namespace; akin have the same namespace, and one name begins
	// with the other, or both with the same part up to the last dash. Sorted, each at most maxNear.
	elsewhere, akin []string
}

const maxNear = 5

func (n *nearNames) add(name types.NamespacedName) {
	switch {
	case name.Name == n.wanted.Name:
		n.elsewhere = insertNear(n.elsewhere, name.String())
	case name.Namespace == n.wanted.Namespace && n.isAkin(name.Name):
		n.akin = insertNear(n.akin, name.String())
	}
}

func (n *nearNames) isAkin(name string) bool {
	wanted := n.wanted.Name
	if strings.HasPrefix(name, wanted) || strings.HasPrefix(wanted, name) {
		return true
	}
	dash := strings.LastIndexByte(wanted, '-')
	return dash > 0 && strings.HasPrefix(name, wanted[:dash+1])
}

func insertNear(list []string, name string) []string {
	i, known := slices.BinarySearch(list, name)
	if known || i == maxNear {
		return list
	}
	list = slices.Insert(list, i, name)
	return list[:min(maxNear, len(list))]
}

// list returns the nearest names: the same one elsewhere before akin ones.
func (n *nearNames) list() []string {
	all := slices.Concat(n.elsewhere, n.akin)
	all = all[:min(maxNear, len(all))]
	slices.Sort(all)
	return all
}
