package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// textChanges is the number of changes of a node that its text shows.
const textChanges = 12

// fateWords are the words for the fates of pods.
var fateWords = map[string]string{
	"Stays": "stays", "Leaving": "is ending", "LostWithNode": "lost with the node", "Preempted": "preempted",
	"EvictedWithGang": "evicted with its gang", "Drained": "drained", "Evicted": "evicted by the API",
	"Succeeded": "succeeded", "Failed": "failed", "Released": "released by Permit", "Deleted": "deleted",
}

// Node writes the explanation of a node for people.
func Node(w io.Writer, x *answer.Node) error {
	out := page{at: x.At}
	out.printf("%s.\n\n", x.Message)
	var f facts
	f.add("at", "%s", x.At)
	f.knownFrom(x.KnownFrom)
	f.add("status", "%s", strings.Join(x.Status, ", "))
	f.add("taints", "%s", strings.Join(x.Taints, ", "))
	out.columns(f)
	var rows [][]string
	shown := x.Changes[max(0, len(x.Changes)-textChanges):]
	if before := x.Omitted + len(x.Changes) - len(shown); before > 0 {
		rows = append(rows, []string{fmt.Sprintf("%d before", before)})
	}
	for _, c := range shown {
		rows = append(rows, []string{c.Time.String(), fmt.Sprint(c.Seq), c.What})
	}
	out.table([]string{"CHANGE", "ENTRY", "STATUS"}, rows)
	for i := range x.Episodes {
		out.episode(&x.Episodes[i])
	}
	if n := x.OmittedEpisodes; n > 0 {
		out.printf("\n%s before: ask with --at an earlier point.\n",
			phrase.Count(int64(n), "time it was down or cordoned", "times it was down or cordoned"))
	}
	rows = nil
	for i, p := range x.Pods {
		if i == textMembers && len(x.Pods) > textMembers+1 {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(x.Pods)-i)})
			break
		}
		rows = append(rows, []string{p.Pod, p.Group, p.Stage, p.Since.String(), fateWords[p.Fate]})
	}
	out.table([]string{"ON IT NOW", "GANG", "STAGE", "SINCE", "FATE"}, rows)
	return out.writeTo(w)
}

// episode shows what became of the pods that were on a node when it went down.
func (p *page) episode(x *answer.NodeEpisode) {
	until := "and still is"
	if x.Until != nil {
		until = fmt.Sprintf("until %s (entry %d)", x.Until.Time, x.Until.Seq)
	}
	p.printf("\nFrom %s (entry %d) it was %s, %s; %s on it then.\n", x.From.Time, x.From.Seq,
		strings.ToLower(x.Worst), until, phrase.Count(int64(len(x.Pods)), "pod was", "pods were"))
	var rows [][]string
	for _, pod := range x.Pods {
		at, next, node := "", "", ""
		if pod.FateAt != nil {
			at = fmt.Sprintf("%s (entry %d)", pod.FateAt.Time, pod.FateAt.Seq)
		}
		if n := pod.Next; n != nil {
			if next = n.Pod; n.Pod == pod.Pod {
				next = "the same name"
			}
			if node = "not placed"; n.Node != "" {
				node = fmt.Sprintf("%s at %s", n.Node, n.Placed.Time)
			}
		}
		rows = append(rows, []string{pod.Pod, fateWords[pod.Fate], at, next, node})
	}
	p.table([]string{"WAS ON IT", "WHAT BECAME OF IT", "AT", "IN ITS PLACE", "PLACED ON"}, rows)
}
