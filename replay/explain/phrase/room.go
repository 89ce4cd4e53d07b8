package phrase

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Parts names the parts of a free amount that pods cannot use, the largest first, at most so many; "" for none.
func Parts(u *answer.ResourceUse, most int) string {
	var parts []string
	rest := u.UnusableOthers
	for i, part := range u.Unusable {
		if i >= most {
			rest += part.Amount
			continue
		}
		parts = append(parts, Amount(u.Resource, part.Amount)+" "+Cause(&part))
	}
	if rest > 0 {
		parts = append(parts, Amount(u.Resource, rest)+" for other causes")
	}
	return strings.Join(parts, ", ")
}

// NotUsable says, to follow what is free, how much of it is usable and why the rest is not; "" if all is.
func NotUsable(u *answer.ResourceUse) string {
	switch {
	case u.Usable == u.Free || len(u.Unusable) == 0:
		return ""
	case u.Usable == 0 && len(u.Unusable) == 1:
		return " (" + Cause(&u.Unusable[0]) + ")"
	}
	return fmt.Sprintf(" (%s usable, %s)", Amount(u.Resource, u.Usable), Parts(u, 5))
}

// Cause says why a part of a free amount is not usable, to follow the amount.
func Cause(part *answer.UnusableRoom) string {
	switch part.Cause {
	case answer.Cordoned:
		return "cordoned"
	case answer.Tainted:
		return strings.TrimSpace("tainted " + part.By)
	case answer.NotSelected:
		return "not selected"
	case answer.NoDomain:
		return "without a " + part.By
	case answer.OtherDomain:
		if part.By == "" {
			return "in other domains"
		}
		return "in another " + part.By
	case answer.RefusedByPlugin:
		return "refused by " + part.By
	case answer.Fragmented:
		return "fragmented"
	case answer.LacksOther:
		if part.By == string(v1.ResourcePods) {
			return "with too few places for pods"
		}
		return "with too little " + part.By
	}
	return string(part.Cause)
}

// DomainLimit says that no domain can ever hold a gang, to follow its name.
func DomainLimit(x *answer.DomainLimit) string {
	return fmt.Sprintf("cannot fit in any %s: it needs %s %s for %s, and %s", strings.Join(x.Labels, ", "),
		Amount(x.Resource, x.Needed), x.Resource, Count(int64(x.Members), "member", "members"), LargestDomain(x))
}

// LargestDomain says what the largest domain holds if nothing else is there.
func LargestDomain(x *answer.DomainLimit) string {
	text := fmt.Sprintf("the largest, %s, has %s on %s", x.Largest, Amount(x.Resource, x.Allocatable),
		Count(int64(x.Nodes), "node", "nodes"))
	if x.Holds != nil {
		text += fmt.Sprintf(", with room for %s when empty", Count(int64(*x.Holds), "member", "members"))
	}
	return text
}

// DomainAwaited says what the next attempt of a gang waits for that no domain can hold.
func DomainAwaited(x *answer.DomainLimit) string {
	text := fmt.Sprintf("not before one %s can hold it: the largest, %s, has ", strings.Join(x.Labels, ", "), x.Largest)
	if x.Holds != nil {
		return text + fmt.Sprintf("room for %d of %s", *x.Holds, Count(int64(x.Members), "member", "members"))
	}
	return text + fmt.Sprintf("%s of %s %s", Amount(x.Resource, x.Allocatable), Amount(x.Resource, x.Needed),
		x.Resource)
}

// textRequirements is the number of requirements of a pod that a sentence has.
const textRequirements = 3

// Unmatched says which requirements of a pod no node meets, and which labels are similar. With named it names the pod.
func Unmatched(x *answer.Unmatched, named bool) string {
	parts := unmet(x)
	what := "no node has "
	if len(parts) == 0 {
		what = "its node affinity has no term that a node can meet"
	}
	if len(parts) > textRequirements {
		parts = append(parts[:textRequirements], "and more")
	}
	if named {
		what = fmt.Sprintf("for %s ", x.Pod) + what
	}
	return what + strings.Join(parts, ", ")
}

// unmet names the requirements that no node meets, each with similar labels, and then, term by term, the ones that some
// node meets but none together.
func unmet(x *answer.Unmatched) (parts []string) {
	var selector []string
	var terms []int
	byTerm := map[int][]string{}
	for i := range x.Requirements {
		r := &x.Requirements[i]
		text := Requirement(r)
		if r.Nodes == 0 {
			if near := NearMisses(r); near != "" {
				text += " (" + near + ")"
			}
			parts = append(parts, text)
			continue
		}
		text += fmt.Sprintf(" (%s)", Count(int64(r.Nodes), "node", "nodes"))
		if r.Term == 0 {
			selector = append(selector, text)
			continue
		}
		if !slices.Contains(terms, r.Term) {
			terms = append(terms, r.Term)
		}
		byTerm[r.Term] = append(byTerm[r.Term], text)
	}
	if len(terms) == 0 && len(selector) > 0 {
		terms = []int{0}
	}
	for _, term := range terms {
		all := "all of "
		if len(parts) > 0 {
			all = "or " + all
		}
		parts = append(parts, all+strings.Join(slices.Concat(selector, byTerm[term]), " and "))
	}
	return parts
}

// Requirement writes a requirement as kubectl writes selectors.
func Requirement(r *answer.NodeRequirement) string {
	values := strings.Join(r.Values, ", ")
	switch r.Operator {
	case "In":
		if len(r.Values) == 1 {
			return r.Key + "=" + values
		}
		return r.Key + " in (" + values + ")"
	case "NotIn":
		if len(r.Values) == 1 {
			return r.Key + "!=" + values
		}
		return r.Key + " notin (" + values + ")"
	case "Exists":
		return "the label " + r.Key
	case "DoesNotExist":
		return "no label " + r.Key
	case "Gt":
		return r.Key + ">" + values
	case "Lt":
		return r.Key + "<" + values
	}
	return strings.TrimSpace(r.Key + " " + r.Operator + " " + values)
}

// NearMisses names the labels that nodes have instead of a required one; "" for none.
func NearMisses(r *answer.NodeRequirement) string {
	var parts []string
	for _, near := range r.NearMisses {
		parts = append(parts, fmt.Sprintf("%s=%s on %s", near.Key, near.Value,
			Count(int64(near.Nodes), "node", "nodes")))
	}
	if r.OtherValues > 0 {
		parts = append(parts, Count(int64(r.OtherValues), "other value", "other values"))
	}
	if len(parts) == 0 {
		return ""
	}
	return "near: " + strings.Join(parts, ", ")
}
