package listing

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Options say what is listed.
type Options struct {
	// At is the point in question; the zero Bound is the end of the log.
	At history.Bound
	// Namespace limits the list to the objects of a namespace; "" is all. Nodes have none.
	Namespace string
	// Names limit the list to these objects: NAME, or NAMESPACE/NAME. nil is all.
	Names []string
}

// A kind is one of the lists.
type kind struct {
	name    string
	aliases []string
	list    func(q *question) (*List, error)
}

// kinds are the lists, in the order in which help names them.
func kinds() []kind {
	return []kind{
		{"pending", []string{"pend"}, pending},
		{"queue", []string{"q"}, queued},
		{"gangs", []string{"gang", "group", "groups", "podgroups"}, gangs},
		{"nodes", []string{"node", "no"}, nodes},
		{"pods", []string{"pod", "po"}, pods},
	}
}

// Kinds returns the names of the lists.
func Kinds() (names []string) {
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

// kindNamed returns the list of that name or alias.
func kindNamed(name string) (kind, error) {
	for _, k := range kinds() {
		if k.name == name {
			return k, nil
		}
		for _, alias := range k.aliases {
			if alias == name {
				return k, nil
			}
		}
	}
	return kind{}, &UnknownListError{Name: name}
}

// UnknownListError means that there is no list of that name.
type UnknownListError struct{ Name string }

// Error implements error.
func (e *UnknownListError) Error() string {
	return fmt.Sprintf("get %q: want one of %s", e.Name, strings.Join(Kinds(), ", "))
}

// Check returns an *UnknownListError if there is no list of that name or alias.
func Check(name string) error {
	_, err := kindNamed(name)
	return err
}

// Get makes a list of the state at one entry. The error is an *UnknownListError for another list, and an
// *UnknownNameError if one of the names is not there. Other errors are about reading the log.
func Get(ctx context.Context, log *history.Log, name string, opts Options) (*List, error) {
	k, err := kindNamed(name)
	if err != nil {
		return nil, err
	}
	at, err := log.Locate(ctx, opts.At)
	if err != nil {
		return nil, err
	}
	m, err := log.At(ctx, at.Seq)
	if err != nil {
		return nil, err
	}
	q := &question{ctx: ctx, log: log, opts: opts, m: m, survey: explain.NewSurveyOf(log, m), found: map[string]bool{}}
	list, err := k.list(q)
	if err != nil {
		return nil, err
	}
	list.Name, list.At = k.name, q.survey.At()
	if list.Undecided = log.Undecided(m); list.Undecided != "" {
		list.notes = append(list.notes, list.Undecided)
	}
	return list, q.missing(k.name)
}

// A question is one list under way.
type question struct {
	ctx    context.Context
	log    *history.Log
	opts   Options
	m      *scheduler.Machine
	survey *explain.Survey
	found  map[string]bool // the names of the options that have been found
}

// wants reports whether an object is to be listed. also are other names of the object.
func (q *question) wants(name types.NamespacedName, also ...types.NamespacedName) bool {
	if q.opts.Namespace != "" && name.Namespace != q.opts.Namespace {
		return false
	}
	if len(q.opts.Names) == 0 {
		return true
	}
	wanted := false
	for _, text := range q.opts.Names {
		for _, each := range append(also, name) {
			if text == each.Name || text == each.Namespace+"/"+each.Name {
				q.found[text], wanted = true, true
			}
		}
	}
	return wanted
}

func nameOf(namespaced string) types.NamespacedName {
	namespace, name, _ := strings.Cut(namespaced, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}
