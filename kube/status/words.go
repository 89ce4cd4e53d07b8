package status

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// reason says why a pod has no node: a reason of the API, and words for people.
type reason struct {
	reason, message string
}

// reasonOf returns why a pod was refused, in the form of kube-scheduler's FitError, which tools look for:
//
//	0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).
func reasonOf(d *eventlog.Decision, nodes int) reason {
	why := reason{reason: corev1.PodReasonUnschedulable}
	if d.Outcome == eventlog.Error {
		why.reason = corev1.PodReasonSchedulerError
	}
	var whole, each []string
	count := map[string]int64{}
	for _, r := range d.Rejections {
		words := r.Reason
		if words == "" {
			words = r.Plugin + " failed"
		}
		if r.Nodes == 0 {
			whole = append(whole, strings.TrimSuffix(words, "."))
		} else {
			count[words] += r.Nodes
		}
	}
	for words, n := range count { // any order: sorted below
		each = append(each, fmt.Sprintf("%d %s", n, words))
	}
	slices.Sort(each)
	message := fmt.Sprintf("0/%d nodes are available:", nodes)
	for _, words := range whole {
		message += " " + words + "."
	}
	if len(each) > 0 {
		message += " " + strings.Join(each, ", ") + "."
	}
	why.message = message
	return why
}

// groupMessage is the message of a PodGroup's condition for a refusal: with the words of kube-scheduler for a minimum
// that is not met, and for pods that are preempted to meet it.
func groupMessage(g *cluster.Group, why string, victims int) string {
	declared, _ := g.ObjectOf(eventlog.PodGroups).(*schedulingv1beta1.PodGroup)
	if declared != nil && declared.Spec.SchedulingPolicy.Gang != nil {
		placed, members := 0, g.Members()
		for _, member := range members {
			if member.Stage != cluster.Pending {
				placed++
			}
		}
		why = fmt.Sprintf("minCount (%d) cannot be satisfied: %d scheduled, %d remaining: %s",
			declared.Spec.SchedulingPolicy.Gang.MinCount, placed, len(members)-placed, why)
	}
	if victims > 0 {
		why += fmt.Sprintf(" pod group preemption: found a placement for podgroup, preempting %d victims", victims)
	}
	return why
}

// maxNote is the largest number of bytes of an event's note: the API server refuses longer ones.
const maxNote = 1024

// cutNote returns a note that the API server takes.
func cutNote(note string) string {
	const more = " ..."
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-len(more)], "") + more
}
