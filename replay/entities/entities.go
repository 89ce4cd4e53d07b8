// Package entities names pods and gangs as audits of a log report them, and selects the ones that a question is about.
//
// Start reading at Filter.
package entities

import (
	"fmt"
	"strings"
)

// The kinds of entities.
const (
	Pod       = "pod"
	Gang      = "podgroup"
	Composite = "compositepodgroup"
)

// An Entity is a pod, a gang or a CompositePodGroup.
type Entity struct {
	// Kind is one of the kinds above, Name the namespace and the name.
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Priority int32  `json:"priority"`
}

// String returns the entity with its priority, and its kind as people say it.
func (e Entity) String() string { return fmt.Sprintf("%s (priority %d)", e.Label(), e.Priority) }

// Label returns the entity without its priority, such as "gang ml/train".
func (e Entity) Label() string {
	kind := map[string]string{Gang: "gang", Composite: "composite"}[e.Kind]
	if kind == "" {
		kind = e.Kind
	}
	return kind + " " + e.Name
}

// A Filter selects entities. Its zero value selects all.
type Filter struct {
	// Gang is the namespace and the name of a gang or a CompositePodGroup; "" for any.
	Gang string
	// Namespace is the namespace; "" for any.
	Namespace string
	// Priority is the priority; nil for any.
	Priority *int32
}

// Any reports whether the filter selects all entities.
func (f *Filter) Any() bool { return *f == Filter{} }

// Selects reports whether the filter selects the entity.
func (f *Filter) Selects(e Entity) bool {
	namespace, _, _ := strings.Cut(e.Name, "/")
	return (f.Gang == "" || e.Kind != Pod && e.Name == f.Gang) &&
		(f.Namespace == "" || namespace == f.Namespace) &&
		(f.Priority == nil || e.Priority == *f.Priority)
}

// String says what the filter selects, such as "gang ml/train, priority 20".
func (f *Filter) String() string {
	var said []string
	if f.Gang != "" {
		said = append(said, "gang "+f.Gang)
	}
	if f.Namespace != "" {
		said = append(said, "namespace "+f.Namespace)
	}
	if f.Priority != nil {
		said = append(said, fmt.Sprintf("priority %d", *f.Priority))
	}
	return strings.Join(said, ", ")
}
