package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/internal/similar"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// ErrNotFound matches every *NotFoundError.
var ErrNotFound = errors.New("not found in the log")

// NotFoundError means that no entry up to the point in question has the name.
type NotFoundError struct {
	// Kind is pod or group, Name its namespace/name.
	Kind, Name string
	// At is the point in question: the last entry read.
	At answer.Point
	// First is the point where it first appears after that; nil if it never does.
	First *answer.Point
	// Similar are the names nearest to it, sorted, at most 5.
	Similar []string
	// Composite says that there is a CompositePodGroup of that name, or gangs that name one: see func Composite.
	Composite bool
	// KnownFrom is the first entry of which the log tells, 0 if that is the first there was.
	KnownFrom uint64
}

// Error implements error.
func (e *NotFoundError) Error() string {
	if e.Composite {
		return fmt.Sprintf("%s is a CompositePodGroup, and no gang itself", e.Name)
	}
	if e.First != nil {
		return fmt.Sprintf("%s %s did not exist yet at %s: it first appears at %s", e.Kind, e.Name, e.At, e.First)
	}
	msg := fmt.Sprintf("%s %s is not in the log up to %s", e.Kind, e.Name, e.At)
	if e.KnownFrom > 0 {
		msg += fmt.Sprintf("; what is known of it begins with entry %d", e.KnownFrom)
	}
	if len(e.Similar) > 0 {
		msg += "; did you mean " + strings.Join(e.Similar, ", ") + "?"
	}
	return msg
}

// Unwrap returns ErrNotFound.
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// nearNames collects the names that someone who got one wrong may have meant.
type nearNames struct {
	wanted types.NamespacedName
	// elsewhere have the same name in another namespace. akin have the same namespace, and one name begins with the
	// other, or both with the same part up to the last dash. misspelt have the same namespace, and differ by two
	// letters at most. Sorted, each at most maxNear.
	elsewhere, akin, misspelt []string
}

const maxNear = 5

func (n *nearNames) add(name types.NamespacedName) {
	switch {
	case name.Name == n.wanted.Name:
		n.elsewhere = insertNear(n.elsewhere, name.String())
	case name.Namespace == n.wanted.Namespace && n.isAkin(name.Name):
		n.akin = insertNear(n.akin, name.String())
	case name.Namespace == n.wanted.Namespace && similar.Edits(name.Name, n.wanted.Name, 3) <= 2:
		n.misspelt = insertNear(n.misspelt, name.String())
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

// list returns the nearest names: the same one elsewhere before akin ones. Misspelt ones count if there are no others.
func (n *nearNames) list() []string {
	all := slices.Concat(n.elsewhere, n.akin)
	if len(all) == 0 {
		all = slices.Clone(n.misspelt)
	}
	all = all[:min(maxNear, len(all))]
	slices.Sort(all)
	return all
}
