package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/internal/similar"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/scheduler"
)

const (
	maxRequirements = 10
	maxNearMisses   = 3
	// maxEdits is the limit of the edits that are counted between two values: values of labels have at most 63 letters.
	maxEdits = 64
)

// addUnmatched adds the requirements of a pod by itself that no node meets.
func addUnmatched(x *answer.Reason, r *rerun, p *cluster.Pod) {
	if x.Now.Fits {
		return
	}
	if x.Unmatched = unmatchedPod(r, p); x.Unmatched != nil {
		x.Unmatched.Pods = 1
		x.Now.Message += ": " + phrase.Unmatched(x.Unmatched, false)
	}
}

// unmatchedOf returns which requirements of a member no node meets, nil if enough members have a node that does. It is
// the member that is explained, or else the first one by name.
func unmatchedOf(r *rerun, g *cluster.Group) *answer.Unmatched {
	pods := missingOf(g)
	a := asking(r.machine, len(pods), refusal{}, pods...)
	nodes, _ := r.machine.Cluster().Nodes().List()
	var first *asker
	matched := 0
	for _, k := range a.kinds {
		found := false
		for _, n := range nodes {
			if found = selects(k, n.Node()); found {
				break
			}
		}
		switch {
		case found:
			matched += k.pods
		case first == nil || r.isOwn(k.pod):
			first = k
		}
	}
	if first == nil || matched >= max(1, g.Lacking(gang.Assigned)) {
		return nil
	}
	x := unmatchedPod(r, first.pod)
	if x != nil {
		x.Pods = first.pods
		for _, p := range pods {
			if r.isOwn(p) && sameKind(p, first.pod) {
				x.Pod = nameOf(p.Object)
			}
		}
	}
	return x
}

// unmatchedPod returns which requirements of a pod no node meets, nil if some node meets all of them, or if there are
// no nodes.
func unmatchedPod(r *rerun, p *cluster.Pod) *answer.Unmatched {
	list, _ := r.machine.Cluster().Nodes().List()
	if len(list) == 0 || !scheduler.FiltersBy(r.machine, p.Object, names.NodeAffinity) {
		return nil
	}
	nodes := make([]*v1.Node, len(list))
	requires := nodeaffinity.GetRequiredNodeAffinity(p.Object)
	for i, n := range list {
		nodes[i] = n.Node()
		if match, err := requires.Match(nodes[i]); err == nil && match {
			return nil
		}
	}
	x := &answer.Unmatched{AsOf: r.at, Pod: nameOf(p.Object), Nodes: len(nodes),
		Requirements: []answer.NodeRequirement{}}
	for _, q := range unmetOf(p.Object, nodes) {
		if len(x.Requirements) == maxRequirements {
			x.Others++
			continue
		}
		if q.Nodes == 0 {
			addNearMisses(&q, nodes)
		}
		x.Requirements = append(x.Requirements, q)
	}
	return x
}

// unmetOf returns the requirements that no node meets. If a term has none such, but no node meets all of them, these
// are all of the term and of the node selector.
func unmetOf(pod *v1.Pod, nodes []*v1.Node) (out []answer.NodeRequirement) {
	add := func(all []answer.NodeRequirement) {
		for _, q := range all {
			same := func(o answer.NodeRequirement) bool {
				return o.From == q.From && o.Term == q.Term && o.Key == q.Key && o.Operator == q.Operator &&
					slices.Equal(o.Values, q.Values)
			}
			if !slices.ContainsFunc(out, same) {
				out = append(out, q)
			}
		}
	}
	selector := selectorOf(pod, nodes)
	terms := termsOf(pod, nodes)
	if len(terms) == 0 {
		terms = [][]answer.NodeRequirement{nil}
	}
	for _, term := range terms {
		all := slices.Concat(selector, term)
		none := slices.DeleteFunc(slices.Clone(all), func(q answer.NodeRequirement) bool { return q.Nodes > 0 })
		if len(none) > 0 {
			all = none
		}
		add(all)
	}
	return out
}

// selectorOf returns the requirements of a pod's node selector, sorted by key.
func selectorOf(pod *v1.Pod, nodes []*v1.Node) (all []answer.NodeRequirement) {
	// any order: sorted right below
	for key, value := range pod.Spec.NodeSelector {
		q := answer.NodeRequirement{From: "NodeSelector", Key: key, Operator: string(v1.NodeSelectorOpIn),
			Values: []string{value}}
		for _, n := range nodes {
			if has, ok := n.Labels[key]; ok && has == value {
				q.Nodes++
			}
		}
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b answer.NodeRequirement) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// termsOf returns the requirements of the terms of a pod's required node affinity. A term without requirements is met
// by no node, and is left out.
func termsOf(pod *v1.Pod, nodes []*v1.Node) (terms [][]answer.NodeRequirement) {
	required := requiredAffinity(pod)
	if required == nil {
		return nil
	}
	for i, term := range required.NodeSelectorTerms {
		var all []answer.NodeRequirement
		for _, e := range term.MatchExpressions {
			all = append(all, requirementOf(i+1, e, v1.NodeSelectorTerm{
				MatchExpressions: []v1.NodeSelectorRequirement{e}}, nodes))
		}
		for _, e := range term.MatchFields {
			all = append(all, requirementOf(i+1, e, v1.NodeSelectorTerm{
				MatchFields: []v1.NodeSelectorRequirement{e}}, nodes))
		}
		if len(all) > 0 {
			terms = append(terms, all)
		}
	}
	return terms
}

// requirementOf counts the nodes that meet one requirement, which term has alone.
func requirementOf(number int, e v1.NodeSelectorRequirement, term v1.NodeSelectorTerm,
	nodes []*v1.Node) answer.NodeRequirement {
	q := answer.NodeRequirement{From: "NodeAffinity", Term: number, Key: e.Key, Operator: string(e.Operator),
		Values: e.Values}
	selector, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}})
	if err != nil {
		return q // no node meets it
	}
	for _, n := range nodes {
		if selector.Match(n) {
			q.Nodes++
		}
	}
	return q
}

// near is a label of nodes with its distance from a required one: the smaller, the more similar.
type near struct {
	answer.NearMiss
	distance int
}

// addNearMisses adds the labels that nodes have instead of a required one.
func addNearMisses(q *answer.NodeRequirement, nodes []*v1.Node) {
	switch v1.NodeSelectorOperator(q.Operator) {
	case v1.NodeSelectorOpNotIn, v1.NodeSelectorOpDoesNotExist:
		return // every node has it
	}
	values := labelled(nodes, q.Key)
	var found []near
	for _, miss := range values {
		found = append(found, near{miss, valueDistance(q, miss.Value)})
	}
	sortNear(found)
	if len(found) > maxNearMisses {
		q.OtherValues = len(found) - maxNearMisses
		found = found[:maxNearMisses]
	}
	if len(values) == 0 {
		found = nearKeys(q, nodes)
	}
	for _, n := range found {
		q.NearMisses = append(q.NearMisses, n.NearMiss)
	}
}

// nearKeys returns the labels with a key that is similar to the required one, each with its most similar value.
func nearKeys(q *answer.NodeRequirement, nodes []*v1.Node) (found []near) {
	keys := map[string]bool{}
	for _, n := range nodes {
		// any order: fills a set
		for key := range n.Labels {
			keys[key] = true
		}
	}
	// any order: sorted below
	for key := range keys {
		distance, alike := keyDistance(q.Key, key)
		if !alike {
			continue
		}
		var of []near
		for _, miss := range labelled(nodes, key) {
			of = append(of, near{miss, distance*1000 + min(valueDistance(q, miss.Value), 999)})
		}
		sortNear(of)
		found = append(found, of[0])
	}
	sortNear(found)
	return found[:min(maxNearMisses, len(found))]
}

func sortNear(all []near) {
	slices.SortFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.Value, b.Value))
	})
}

// labelled returns the values of a label that nodes have, in no order. The name of a node is one of metadata.name.
func labelled(nodes []*v1.Node, key string) (misses []answer.NearMiss) {
	at := map[string]int{}
	for _, n := range nodes {
		value, ok := n.Labels[key]
		if key == metav1.ObjectNameField {
			value, ok = n.Name, true
		}
		if !ok {
			continue
		}
		i, known := at[value]
		if !known {
			i, at[value] = len(misses), len(misses)
			misses = append(misses, answer.NearMiss{Key: key, Value: value})
		}
		if misses[i].Nodes++; len(misses[i].Examples) < answer.MaxExamples {
			misses[i].Examples = append(misses[i].Examples, n.Name)
		}
	}
	return misses
}

// valueDistance returns the distance of a value from the nearest required one: 0 if they differ in upper and lower case
// alone, otherwise the least number of edits, up to maxEdits. For a comparison of numbers it is their difference.
func valueDistance(q *answer.NodeRequirement, value string) int {
	best := -1
	for _, want := range q.Values {
		d := similar.Edits(strings.ToLower(want), strings.ToLower(value), maxEdits)
		if a, err := strconv.Atoi(want); err == nil && (q.Operator == "Gt" || q.Operator == "Lt") {
			if b, err := strconv.Atoi(value); err == nil {
				d = max(a-b, b-a)
			}
		}
		if best < 0 || d < best {
			best = d
		}
	}
	return max(0, best)
}

// keyDistance says how far a label is from the required one. They are similar if they differ in upper and lower case,
// in their prefix, in separators, or in a few letters.
func keyDistance(want, key string) (distance int, alike bool) {
	plain := func(key string) string {
		return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(key))
	}
	if strings.EqualFold(want, key) {
		return 0, true
	}
	name := func(key string) string { return plain(key[strings.LastIndexByte(key, '/')+1:]) }
	if name(want) == name(key) {
		return 1, true
	}
	if d := similar.Edits(plain(want), plain(key), 4); d <= min(3, max(1, len(want)/4)) {
		return 1 + d, true
	}
	d := similar.Edits(name(want), name(key), 3)
	if d <= min(2, max(1, len(name(want))/4)) && len(name(want)) > 3 {
		return 2 + d, true
	}
	return 0, false
}
