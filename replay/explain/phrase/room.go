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
	return fmt.Sprintf(" (%s usable, %s)", Amount(u.Resource, u.Usable), Parts(u, 3))
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
		text += fmt.Sprintf(", room for %d of them when empty", *x.Holds)
	}
	return text
}

// textRequirements is the number of requirements of a pod that a sentence has.
const textRequirements = 3

// Unmatched says which requirements of a pod no node meets, and which labels are similar. With named it names the pod.
func Unmatched(x *answer.Unmatched, named bool) string {
	var parts []string
	together := !slices.ContainsFunc(x.Requirements, func(r answer.NodeRequirement) bool { return r.Nodes == 0 })
	for i := range x.Requirements {
		r := &x.Requirements[i]
		if i == textRequirements {
			parts = append(parts, "and more")
			break
		}
		text := Requirement(r)
		if together {
			text += fmt.Sprintf(" (%s)", Count(int64(r.Nodes), "node", "nodes"))
		} else if near := NearMisses(r); near != "" {
			text += " (" + near + ")"
		}
		parts = append(parts, text)
	}
	what := "no node has "
	switch {
	case len(parts) == 0:
		what = "its node affinity has no term that a node can meet"
	case together && len(parts) > 1:
		what = "no node has all of "
	}
	if named {
		what = fmt.Sprintf("for %s ", x.Pod) + what
	}
	return what + strings.Join(parts, ", ")
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
