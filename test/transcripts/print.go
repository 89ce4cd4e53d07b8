package transcripts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// clock writes the time of day, which is all that a story needs of a time.
func clock(t eventlog.Time) string { return t.Std().Format("15:04:05") }

func (p *Player) print(e eventlog.Entry) string {
	switch payload := e.Payload.(type) {
	case *eventlog.Decision:
		return fmt.Sprintf("%d %s %s\n", e.Seq, clock(e.Time), p.printDecision(payload))
	case *eventlog.BindResult:
		if payload.Plugin != "" {
			return fmt.Sprintf("%d %s %s %s by %s %s: %s", e.Seq, clock(e.Time), e.Kind(), payload.Outcome,
				payload.Plugin, payload.Code, payload.Message)
		}
		return fmt.Sprintf("%d %s %s %s", e.Seq, clock(e.Time), e.Kind(), payload.Outcome)
	case *eventlog.EvictResult:
		return fmt.Sprintf("%d %s %s %s", e.Seq, clock(e.Time), e.Kind(), payload.Outcome)
	}
	return fmt.Sprintf("%d %s %s", e.Seq, clock(e.Time), e.Kind())
}

// writeEffect writes an effect of a decision on the cluster.
func writeEffect(b *strings.Builder, x scheduler.Effect) {
	verb := map[scheduler.EffectKind]string{
		scheduler.Bind: "bind", scheduler.Evict: "evict", scheduler.Ask: "ask",
		scheduler.GiveBack: "give back what is reserved for",
	}[x.Kind]
	fmt.Fprintf(b, "   -> %s %s/%s", verb, x.Namespace, x.Name)
	if x.Kind == scheduler.Bind {
		fmt.Fprintf(b, " to %s", x.Node)
	}
	for _, c := range x.Candidates {
		fmt.Fprintf(b, ", evicting from %s", c.Node)
	}
	for _, v := range x.Volumes {
		fmt.Fprintf(b, ", claim %s", v.Claim)
	}
	for _, c := range x.Devices {
		fmt.Fprintf(b, ", devices of claim %s", c.Claim)
	}
	b.WriteByte('\n')
}

func (p *Player) printDecision(d *eventlog.Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cycle %d: %s/%s %s", d.Cycle, d.Namespace, d.Name, d.Outcome)
	if d.Node != "" {
		fmt.Fprintf(&b, " on %s (score %d, %d of %d nodes feasible)", d.Node, d.Score, d.Feasible, d.Evaluated)
	}
	if d.Outcome == eventlog.Reserved {
		fmt.Fprintf(&b, " at %s:", clock(d.WaitUntil))
		for _, place := range d.Places {
			fmt.Fprintf(&b, " %s on %s", p.names([]types.UID{place.UID}), place.Node)
		}
	} else if d.WaitUntil != 0 {
		fmt.Fprintf(&b, ", waits for %s until %s", strings.Join(d.WaitFor, ","), clock(d.WaitUntil))
	}
	for _, r := range d.Rejections {
		fmt.Fprintf(&b, "\n     %s %s", r.Plugin, r.Code)
		if r.Reason != "" {
			fmt.Fprintf(&b, ": %s", r.Reason)
		}
		if r.Nodes > 0 {
			fmt.Fprintf(&b, " (%d nodes)", r.Nodes)
		}
	}
	for _, v := range d.Volumes {
		fmt.Fprintf(&b, "\n     claim %s gets %s", v.Claim, cmp.Or(v.Volume, "a new volume"))
	}
	for _, c := range d.Devices {
		result, err := c.Result()
		p.must(err)
		fmt.Fprintf(&b, "\n     claim %s gets", c.Claim)
		for _, r := range result.Devices.Results {
			fmt.Fprintf(&b, " %s/%s", r.Pool, r.Device)
		}
	}
	for _, pods := range []struct {
		verb string
		uids []types.UID
	}{{"allows", d.Allowed}, {"releases", d.Rejected}, {"evicts", d.Victims}} {
		if len(pods.uids) > 0 {
			fmt.Fprintf(&b, "\n     %s %s", pods.verb, p.names(pods.uids))
		}
	}
	if d.Nominated != "" {
		fmt.Fprintf(&b, "\n     is nominated to %s", d.Nominated)
	}
	if len(d.Activated) > 0 {
		fmt.Fprintf(&b, "\n     activates %s", p.names(d.Activated))
	}
	if d.Ended != 0 {
		fmt.Fprintf(&b, "\n     the reservation ends: %s", d.Ended)
	}
	if d.Domain != "" {
		fmt.Fprintf(&b, "\n     limited to %s", d.Domain)
	}
	if d.Elsewhere {
		b.WriteString(", tried elsewhere next")
	}
	b.WriteString(planText(d.Plan, p.names))
	for _, n := range d.Nominations {
		if n.Node == "" {
			fmt.Fprintf(&b, "\n     %s is not nominated any more", p.names([]types.UID{n.UID}))
		} else {
			fmt.Fprintf(&b, "\n     %s is nominated to %s", p.names([]types.UID{n.UID}), n.Node)
		}
	}
	return b.String()
}

func planText(plan eventlog.Plan, names func([]types.UID) string) string {
	switch {
	case plan.Result == 0:
		return ""
	case len(plan.Order) == 0:
		return fmt.Sprintf("\n     a search for nodes for all members: %s", plan.Result)
	}
	return fmt.Sprintf("\n     a search for nodes for all members: %s, in the order %s", plan.Result,
		names(plan.Order))
}

func (p *Player) names(uids []types.UID) string {
	var names []string
	for _, uid := range uids {
		names = append(names, p.machine.Cluster().Pods().Get(uid).Object.Name)
	}
	return strings.Join(names, " ")
}

// show lists the entities of the queue, and the pods that have nodes.
func (p *Player) show() string {
	var b strings.Builder
	for _, e := range p.machine.Queue().All() {
		writeEntity(&b, e)
	}
	var placed []string
	for _, pod := range p.machine.Cluster().Pods().All() {
		if pod.Stage != cluster.Pending {
			name := pod.Object.Namespace + "/" + pod.Object.Name
			placed = append(placed, fmt.Sprintf("%s is %s on %s\n", name, pod.Stage, pod.Node))
		}
	}
	slices.Sort(placed)
	for _, line := range placed {
		b.WriteString(line)
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

func writeEntity(b *strings.Builder, e *queue.Entity) {
	name := e.Key().Name
	if e.Key().Namespace != "" {
		name = e.Key().Namespace + "/" + name
	}
	fmt.Fprintf(b, "%-9s %s: %s", e.Type(), name, e.State())
	if e.Retryable() {
		b.WriteString(" (owed a retry)")
	}
	if n := e.Attempts(); n > 0 {
		fmt.Fprintf(b, ", attempts %d", n)
	}
	if e.State() == queue.Backoff {
		fmt.Fprintf(b, ", backs off until %s", clock(e.BackoffUntil()))
	}
	if gate := e.GatingPlugin(); gate != "" {
		fmt.Fprintf(b, ", gated by %s: %s", gate, e.GatingMessage())
	}
	if refused, _ := e.RejectedBy(); len(refused) > 0 {
		fmt.Fprintf(b, ", rejected by %s", strings.Join(refused, ","))
	}
	b.WriteByte('\n')
}
