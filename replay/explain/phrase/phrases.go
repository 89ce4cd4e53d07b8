package phrase

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

const gangPlugin = coscheduling.Name

// Count is n of something, in words.
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Refusals puts refusals into one phrase.
func Refusals(refusals []answer.Refusal) string {
	var parts []string
	merged := MergeRefusals(refusals)
	for i, r := range merged {
		if i == 3 {
			parts = append(parts, "and more")
			break
		}
		reason := plainReason(r)
		if reason == "" {
			reason = "refused by " + r.Plugin
		}
		if r.Nodes > 0 {
			parts = append(parts, fmt.Sprintf("%s (%s)", reason, Count(r.Nodes, "node", "nodes")))
		} else {
			parts = append(parts, fmt.Sprintf("%s: %s", r.Plugin, reason))
		}
	}
	if len(parts) == 0 {
		for _, r := range refusals {
			parts = append(parts, "refused by "+r.Plugin)
		}
	}
	return strings.Join(parts, ", ")
}

// plainReason returns the reason of a refusal for the pod's owner. It replaces kube-scheduler's words for a node
// without devices for the pod.
func plainReason(r answer.Refusal) string {
	if r.Plugin == names.DynamicResources && r.Reason == "cannot allocate all claims" {
		return "too few devices are free there for its ResourceClaims"
	}
	return r.Reason
}

// GangRefusal returns the gang plugin's message, without the name of the gang. Without one it returns all plugins'
// messages.
func GangRefusal(refusals []answer.Refusal, gang string) string {
	for _, r := range refusals {
		if said, ok := strings.CutPrefix(r.Reason, "pod group "+gang+" "); ok && r.Nodes == 0 {
			return said
		}
	}
	return "was refused: " + Refusals(refusals)
}

// Shortfall returns a shortfall in words, to follow the name of the gang or pod that has it.
//
// If it was at another entry than at, the words say so.
func Shortfall(s *answer.Shortfall, at answer.Point) string {
	if s.AsOf != at {
		return "at " + s.AsOf.String() + ": " + Shortfall(s, s.AsOf)
	}
	needed := fmt.Sprintf("%s %s", Amount(s.Resource, s.Needed), s.Resource)
	var text string
	if s.NeverFits() && s.Of != "Pod" {
		text = "cannot fit: it "
	}
	switch s.Of {
	case "MinResources":
		text += "asks for " + needed + " in minResources"
	case "Unit":
		text += "and those that it is admitted together with need " + needed
		if s.Members > 0 {
			text += " for " + Count(int64(s.Members), "member", "members")
		}
	case "Pod":
		return fmt.Sprintf("needs %s on one node for %s; the most on one is %s%s%s", needed, s.Pod,
			Amount(s.Resource, s.LargestFree), KeptRoom(&s.ResourceUse), holdersText(&s.ResourceUse))
	default:
		text += fmt.Sprintf("needs %s for %s", needed, Count(int64(s.Members), "member", "members"))
	}
	if s.NeverFits() {
		text += fmt.Sprintf(", of %s in the cluster", Amount(s.Resource, s.Allocatable))
	}
	text += "; " + Amount(s.Resource, s.Free) + " free" + NotUsable(&s.ResourceUse)
	return text + KeptRoom(&s.ResourceUse) + holdersText(&s.ResourceUse)
}

// holdersText names who has the most.
func holdersText(u *answer.ResourceUse) string {
	return sharesText(u, "held by", "by", u.Holders, u.Others, u.OthersAmount)
}

// KeptRoom says, to follow what is free, how much is kept and for whom; "" if nothing is.
func KeptRoom(u *answer.ResourceUse) string {
	return sharesText(u, "kept for", "for", u.KeptFor, u.KeptForOthers, u.KeptForOthersAmount)
}

// sharesText names the largest holders, each behind its amount; first comes before the first name.
func sharesText(u *answer.ResourceUse, first, then string, holders []answer.Holder, others int, rest int64) string {
	const most = 2
	var text strings.Builder
	for i, h := range holders {
		switch {
		case i >= most:
			others, rest = others+1, rest+h.Amount
		case i == 0:
			fmt.Fprintf(&text, ", %s %s %s", Amount(u.Resource, h.Amount), first, h.Name)
		default:
			fmt.Fprintf(&text, ", %s %s %s", Amount(u.Resource, h.Amount), then, h.Name)
		}
	}
	if others > 0 {
		fmt.Fprintf(&text, ", %s %s %s", Amount(u.Resource, rest), then, Count(int64(others), "other", "others"))
	}
	return text.String()
}

// keptFromPod says, to follow the reason why the pod was refused, how much is kept of resources that no node has enough
// of, and for whom; "" if none is. Room on nodes that refuse the pod for another reason is left out.
func keptFromPod(d *answer.Decision) string {
	var text strings.Builder
	for i := range d.Resources {
		u := &d.Resources[i]
		kept := &u.KeptUsable
		if len(kept.For) == 0 || u.Needed <= u.LargestFree {
			continue
		}
		with, what := ", with ", string(u.Resource)
		if u.Resource == v1.ResourcePods {
			with, what = ", with room for ", Verb(int(kept.For[0].Amount), "pod", "pods")
		}
		shares := sharesText(u, what+" kept for", "for", kept.For, kept.Others, kept.OthersAmount)
		text.WriteString(with + strings.TrimPrefix(shares, ", "))
	}
	return text.String()
}

// List puts names into one phrase; otherwise is the phrase for no names.
func List(names []string, otherwise string) string {
	switch len(names) {
	case 0:
		return otherwise
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// MergeRefusals merges rows with the same text, the most nodes first, and drops rows without a text.
func MergeRefusals(refusals []answer.Refusal) []answer.Refusal {
	var out []answer.Refusal
	for _, r := range refusals {
		if r.Nodes == 0 && r.Reason == "" {
			if r.Code != "Error" {
				continue // a plugin that an event must concern, and that refused no node itself
			}
			r.Reason = "it failed"
		}
		i := slices.IndexFunc(out, func(o answer.Refusal) bool {
			return o.Plugin == r.Plugin && o.Reason == r.Reason && (o.Nodes > 0) == (r.Nodes > 0)
		})
		if i < 0 {
			r.Examples = slices.Clone(r.Examples)
			out = append(out, r)
			continue
		}
		out[i].Nodes += r.Nodes
		examples := append(out[i].Examples, r.Examples...)
		slices.Sort(examples)
		examples = slices.Compact(examples)
		out[i].Examples = examples[:min(answer.MaxExamples, len(examples))]
	}
	slices.SortStableFunc(out, func(a, b answer.Refusal) int { return int(b.Nodes - a.Nodes) })
	return out
}

// NoNode says why the cycle found no node for its pod. If the decision is at another entry than at, it names the entry.
func NoNode(d *answer.Decision, at answer.Point) string {
	if d.Point != at {
		return fmt.Sprintf("at its last attempt, at %s (entry %d): %s%s", d.Time, d.Seq, noNode(d, "took"),
			keptFromPod(d))
	}
	return noNode(d, "takes") + keptFromPod(d)
}

func noNode(d *answer.Decision, takes string) string {
	if d.Nodes == 0 {
		return "there are no nodes"
	}
	var byNode, whole []string
	for _, r := range MergeRefusals(d.Refusals) {
		switch {
		case r.Nodes > 0 && r.Reason == "":
			byNode = append(byNode, fmt.Sprintf("refused by %s (%s)", r.Plugin, Count(r.Nodes, "node", "nodes")))
		case r.Nodes > 0:
			byNode = append(byNode, fmt.Sprintf("%s (%s)", plainReason(r), Count(r.Nodes, "node", "nodes")))
		default:
			whole = append(whole, fmt.Sprintf("%s: %s", r.Plugin, ReasonText(d, r)))
		}
	}
	reasons := whole
	text := ""
	if d.Feasible == 0 && len(byNode) > 0 {
		reasons = byNode
		text = fmt.Sprintf("none of the %d nodes %s it: ", d.Nodes, takes)
		if d.Nodes == 1 {
			text = "the only node refuses it: "
		}
	}
	const most = 3
	if len(reasons) > most {
		reasons = append(reasons[:most:most], "and more")
	}
	return text + strings.Join(reasons, ", ")
}

// ReasonText returns the reason of a refusal. The free amount in the gang plugin's message includes kept room, so the
// kept amount follows.
func ReasonText(d *answer.Decision, r answer.Refusal) string {
	if r.Plugin != gangPlugin || r.Nodes > 0 || d.Gang == nil || !strings.HasSuffix(r.Reason, " free") {
		return r.Reason
	}
	words := strings.Fields(r.Reason)
	for i := range d.Gang.Resources {
		u := &d.Gang.Resources[i]
		if u.Kept > 0 && slices.Contains(words, string(u.Resource)) {
			shares := sharesText(u, string(u.Resource)+" are kept for", "for", u.KeptFor, u.KeptForOthers,
				u.KeptForOthersAmount)
			return r.Reason + ", of which " + strings.TrimPrefix(shares, ", ")
		}
	}
	return r.Reason
}

// gangStopped says, to follow the name of a gang, what made its attempt fail.
func gangStopped(d *answer.Decision, group string, at answer.Point) string {
	if d.Point != at {
		return fmt.Sprintf("failed in its last attempt, at %s (entry %d): %s", d.Time, d.Seq, Refusals(d.Refusals))
	}
	if d.Evaluated == 0 {
		for _, r := range d.Refusals {
			if said, ok := strings.CutPrefix(ReasonText(d, r), "pod group "+group+" "); ok && r.Nodes == 0 {
				return said // the gang plugin's own words
			}
		}
		return fmt.Sprintf("was stopped at member %s: %s", d.Pod, NoNode(d, at))
	}
	return fmt.Sprintf("found no node for member %s: %s", d.Pod, NoNode(d, at))
}

// BindOutcome is the outcome of a bind with its message.
func BindOutcome(b *answer.Bind) string {
	if b.Message == "" {
		return b.Outcome
	}
	return b.Outcome + ": " + b.Message
}
