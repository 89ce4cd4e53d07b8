package listing

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// pending lists the pending gangs, and the pending pods of no gang.
func pending(q *question) (*List, error) {
	rows, err := q.survey.Pending(q.wantsEntity)
	if err != nil {
		return nil, err
	}
	clear(q.found) // gangs and pods that are not pending were found as well
	for i := range rows {
		q.wantsEntity(rows[i].Kind, nameOf(rows[i].Name))
	}
	at, turns := q.survey.At(), len(q.survey.Turns())
	type row = answer.Pending
	list := newList(rows, "entity is pending", "entities are pending", []column[row]{
		{title: "NAME", text: func(x *row) string { return x.Name }},
		{title: "KIND", text: func(x *row) string { return x.Kind }},
		{title: "SINCE", text: func(x *row) string { return clock(x.Since, at) },
			value: func(x *row) string { return stamp(x.Since) }},
		{title: "REASON", text: func(x *row) string { return string(x.Code) }},
		{title: "NEEDS", text: func(x *row) string { return needs(&x.Needs) },
			value: func(x *row) string { return allNeeds(&x.Needs) }},
		{title: "PLACE", text: func(x *row) string { return placeOf(x.Position, turns) },
			value: func(x *row) string { return number(x.Position) }},
		{title: "AHEAD", wide: true, text: func(x *row) string { return aheadOf(x.Ahead) }},
		{title: "STATE", wide: true, text: func(x *row) string { return x.State }},
		{title: "PRIORITY", wide: true, text: func(x *row) string { return fmt.Sprint(x.Priority) }},
		{title: "ATTEMPTS", wide: true, text: func(x *row) string { return fmt.Sprint(x.Attempts) }},
		{title: "EVICTS", wide: true, text: func(x *row) string { return number(x.Evicts) }},
		{title: "WHY", wide: true, text: func(x *row) string { return x.Why }},
		{title: "NEXT TRY", wide: true, text: func(x *row) string { return x.NextRetry.Words }},
	})
	list.notes = neverNotes(rows)
	return list, nil
}

// neverNotes says which entities no end of other pods helps, and why.
func neverNotes(rows []answer.Pending) (notes []string) {
	for i := range rows {
		if x := &rows[i]; x.Never != "" {
			notes = append(notes, fmt.Sprintf("%s %s cannot be placed as it is: %s", x.Kind, x.Name, x.Never))
		}
	}
	if more := len(notes) - maxNever; more > 0 {
		notes = append(notes[:maxNever], fmt.Sprintf("and %d more: -o json has all", more))
	}
	return notes
}

const maxNever = 10

// wantsEntity reports whether an entity is to be listed. A gang is also found by the name of a member.
func (q *question) wantsEntity(kind string, name types.NamespacedName) bool {
	var also []types.NamespacedName
	g := q.m.Cluster().Gangs().Named(name.Namespace, name.Name)
	if kind == "gang" && g != nil && len(q.opts.Names) > 0 {
		for _, p := range g.Members() {
			also = append(also, types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name})
		}
	}
	return q.wants(name, also...)
}

// placeOf is the place of an entity in the queue, of so many.
func placeOf(position, turns int) string {
	if position == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", position, turns)
}

func aheadOf(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// needs says in short what an entity needs: the number of pods, and of each the extended resources, or else cpu and
// memory.
func needs(x *answer.PodsNeed) string {
	amounts, of := x.Each, fmt.Sprintf("%d x ", x.Members)
	if len(amounts) == 0 {
		amounts, of = x.Total, fmt.Sprintf("%d: ", x.Members)
	}
	if len(amounts) == 0 {
		return fmt.Sprint(x.Members)
	}
	extended := slices.DeleteFunc(slices.Clone(amounts), func(a answer.Amount) bool { return isUsual(a.Resource) })
	if len(extended) > 0 {
		amounts = extended
	}
	return of + texts(amounts)
}

// allNeeds says what an entity needs: the number of pods, and all resources of each, or of all if they differ.
func allNeeds(x *answer.PodsNeed) string {
	if len(x.Each) > 0 {
		return fmt.Sprintf("%d x ", x.Members) + texts(x.Each)
	}
	return fmt.Sprintf("%d: ", x.Members) + texts(x.Total)
}

func texts(amounts []answer.Amount) string {
	var parts []string
	for _, a := range amounts {
		parts = append(parts, phrase.Amount(a.Resource, a.Amount)+" "+string(a.Resource))
	}
	return strings.Join(parts, " + ")
}

// isUsual reports whether every node has a resource.
func isUsual(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage ||
		name == v1.ResourcePods
}
