package render

import (
	"fmt"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Resize says how far the resize of a pod has come that the kubelet has put off, to follow the words "its resize".
func Resize(p *answer.Pod) string {
	x := p.Resize
	d := x.Decision
	switch {
	case d == nil && x.Attempts > 0:
		return fmt.Sprintf("is put off by the kubelet; room on %s was looked for before entry %d, with which what is "+
			"known begins", p.Node, p.KnownFrom)
	case d == nil:
		return "is put off by the kubelet; room for it is looked for " + x.Queue.NextRetry
	case x.Fits:
		return fmt.Sprintf("waits for the kubelet: %s has room for it, as of %s (entry %d)", p.Node, d.Time, d.Seq)
	}
	text := fmt.Sprintf("is put off by the kubelet; at %s (entry %d) %s did not have room for it: %s", d.Time, d.Seq,
		p.Node, Refusals(d.Refusals)) + keptFromPod(d)
	if n := len(p.Preempted); n > 0 && p.Preempted[n-1].By.Resize {
		text += roomAwaited(true, p.Preempted)
	}
	return text
}

// resize says where the resize of a pod stands.
func (f *facts) resize(x *answer.Resize) {
	if x == nil {
		return
	}
	f.add("resize", "%s; %s", x.Queue.State, Count(int64(x.Attempts), "attempt", "attempts"))
	f.add("next try", "%s", x.Queue.NextRetry)
	f.decision("decision", x.Decision)
}
