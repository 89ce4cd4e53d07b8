package listing

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// UnknownNameError means that a list does not have a name that was asked for.
type UnknownNameError struct {
	// List is the list, Name the name as it was asked for, and At the point in question.
	List, Name string
	At         answer.Point
	// Other says what has the name instead, and what to ask; "" for nothing.
	Other string
	// Similar are the names of the list's kind that are nearest, at most 5.
	Similar []string
}

// Error implements error.
func (e *UnknownNameError) Error() string {
	if e.Other != "" {
		return e.Other
	}
	text := fmt.Sprintf("%s: there is no %s at %s", e.List, e.Name, e.At)
	if len(e.Similar) > 0 {
		text += "; did you mean " + strings.Join(e.Similar, ", ") + "?"
	}
	return text
}

// missing returns the error for the first name that the list does not have; nil if it has all.
func (q *question) missing(list string) error {
	for _, name := range q.opts.Names {
		if q.found[name] {
			continue
		}
		return &UnknownNameError{List: list, Name: name, At: q.survey.At(), Other: q.other(list, name),
			Similar: q.near(list, name)}
	}
	return nil
}

// matches reports whether an object has a name as it was asked for.
func (q *question) matches(object types.NamespacedName, name string) bool {
	if q.opts.Namespace != "" && object.Namespace != q.opts.Namespace && object.Namespace != "" {
		return false
	}
	return name == object.Name || name == object.Namespace+"/"+object.Name
}

// other says what has a name that a list does not have.
func (q *question) other(list, name string) string {
	at := q.survey.At()
	for _, object := range q.m.Cluster().Gangs().Names() {
		if !q.matches(object, name) || list == "gangs" {
			continue
		}
		switch list {
		case "pods":
			return fmt.Sprintf("%s is a gang and no pod: ask for \"get LOG gangs %s\", or \"explain LOG gang %s\"",
				object, object, object)
		case "pending", "queue":
			return fmt.Sprintf("gang %s is not %s at %s: \"explain LOG gang %s\" tells what it is", object,
				map[string]string{"pending": "pending", "queue": "in the queue"}[list], at, object)
		}
	}
	for _, p := range q.m.Cluster().Pods().All() {
		object := types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}
		if !q.matches(object, name) || list == "pods" {
			continue
		}
		switch {
		case list == "gangs" && p.Group != nil:
			return fmt.Sprintf("%s is a pod of gang %s: ask for \"get LOG gangs %s\"", object, p.Group, p.Group)
		case list == "gangs":
			return fmt.Sprintf("%s is a pod of no gang: ask for \"get LOG pods %s\"", object, object)
		case list != "nodes":
			return fmt.Sprintf("pod %s is not %s at %s: \"explain LOG pod %s\" tells what it is", object,
				map[string]string{"pending": "pending", "queue": "in the queue"}[list], at, object)
		}
	}
	return ""
}

// near returns the names of a list's objects that are similar to one.
func (q *question) near(list, name string) []string {
	var all []string
	if list == "nodes" {
		infos, _ := q.m.Cluster().Nodes().List()
		for _, n := range infos {
			all = append(all, n.Node().Name)
		}
		return explain.Near(name, all)
	}
	if list != "pods" {
		for _, object := range q.m.Cluster().Gangs().Names() {
			all = append(all, object.String())
		}
	}
	if list != "gangs" {
		for _, p := range q.m.Cluster().Pods().All() {
			if list == "pods" || p.Group == nil {
				all = append(all, p.Object.Namespace+"/"+p.Object.Name)
			}
		}
	}
	return explain.Near(name, all)
}
