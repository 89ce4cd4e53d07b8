package explain

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// reason returns the reason why the gang, or a member of it, is pending at the point in question; nil if none is. q is
// its place in the queue, nil if it has none.
func (h *gangHistory) reason(r *rerun, q *answer.QueuePlace) *answer.Reason {
	m := r.machine
	code, f := h.code(m)
	if code == "" {
		return nil
	}
	g := h.gang(m)
	x := &answer.Reason{Code: code, Group: g.String(), Since: h.now.since}
	if e := h.entityIn(m); e != nil {
		x.Attempts = e.Attempts()
	}
	if g.Beyond() {
		_, deleted, _ := m.Cluster().Gangs().KeptBack(g)
		x.BeyondMinimum = g.Pending() + g.Waiting() - deleted
	}
	if x.KeptOut = h.keptOut(m, g, false); code == answer.Gated && len(x.KeptOut) == 0 {
		x.KeptOut = h.keptOut(m, g, true)
	}
	if f != nil && f != failedBeforeItJoined {
		addAttempt(x, &h.rows, f, r)
	}
	if ofAnAttempt(code) {
		addShortfall(x, r, g, f)
	}
	if r.asked(code) || code == answer.WaitsForOthers && f != nil {
		if t := r.trialOf(h.entityIn(m)); t != nil {
			x.Now = t.answer(g)
		}
	}
	x.Reserved = reservedFor(m, h.entityIn(m))
	if x.Reserved == nil {
		x.ReservationEnded = h.unreserved
	}
	x.Blocks = blocksFor(m, h.entityIn(m))
	h.addWait(x, m, g, f, q)
	r.asOthersDecide(x)
	sayIfItNeverFits(x)
	addLimits(x, r, g)
	if x.Now != nil && !x.Now.Fits {
		b := boundsOf(r)
		never := b.gang(g)
		if t := r.trialOf(h.entityIn(m)); never.why == "" {
			never = refusedWhole(&t.fail)
		}
		never.addNever(x, x.Now.Group == "" || x.Now.Group == x.Group)
	}
	h.say(x, r, g, f)
	setCode(x)
	return x
}

// addAttempt adds whom the last attempt found no node for.
func addAttempt(x *answer.Reason, rows *refusedRows, f *failure, r *rerun) {
	x.Failed, x.Member = &f.at, f.pod
	if f.decision != nil {
		refusals := refusalsOf(f.decision.Rejections)
		if d := r.explained(f.recorded); d != nil {
			refusals = d.Refusals // with examples, and the words of errors
		}
		x.Refusals = ownRefusals(refusals)
	}
	x.Members, x.MoreMembers = rows.rows, rows.more
	// A member of a gang that has too few left is not tried: who was refused by others than the gang plugin says more.
	if f.code == answer.Unplaceable && f.gang.String() == x.Group && ofGangOnly(x.Refusals) {
		for _, row := range x.Members {
			if !ofGangOnly(row.Refusals) {
				x.Member, x.Refusals = row.Examples[0], row.Refusals
				break
			}
		}
	}
}

func ofGangOnly(refusals []answer.Refusal) bool {
	return !slices.ContainsFunc(refusals, func(r answer.Refusal) bool { return r.Plugin != gangPlugin })
}

// keptOut lists the members that no attempt can place. Members that the gang plugin keeps out are among them only if
// byGang is set, because the plugin's message is about the gang.
func (h *gangHistory) keptOut(m *scheduler.Machine, g *cluster.Group, byGang bool) []answer.KeptOut {
	var out []answer.KeptOut
	add := func(p *cluster.Pod, plugin, message string) {
		i := slices.IndexFunc(out, func(k answer.KeptOut) bool { return k.Plugin == plugin && k.Message == message })
		if i < 0 {
			if len(out) == maxKeptOutRows {
				return
			}
			i, out = len(out), append(out, answer.KeptOut{Plugin: plugin, Message: message})
		}
		if out[i].Count++; len(out[i].Examples) < answer.MaxExamples {
			out[i].Examples = append(out[i].Examples, nameOf(p.Object))
		}
	}
	for _, p := range g.Members() {
		if p.Stage != cluster.Pending {
			continue
		}
		if p.Object.DeletionTimestamp != nil {
			add(p, "", "is being deleted")
		} else if !p.MayBePlaced() {
			add(p, "", "is being evicted"+h.evictedBy(p.Object.UID))
		} else if plugin, message, gated := gateOf(m, p); gated && (byGang || plugin != gangPlugin) {
			add(p, plugin, message)
		}
	}
	return out
}

// evictedBy returns the preemption that evicts a member, "" if it is not known.
func (h *gangHistory) evictedBy(uid types.UID) string {
	for _, x := range slices.Backward(h.preemptedBy.list) {
		if slices.Contains(x.UIDs, uid) {
			return fmt.Sprintf(": preempted by %s at %s (entry %d)", phrase.Preemptor(&x.By), x.Time,
				x.Seq)
		}
	}
	return ""
}

// addWait says what has to happen, and when the next attempt comes.
func (h *gangHistory) addWait(x *answer.Reason, m *scheduler.Machine, g *cluster.Group, f *failure,
	q *answer.QueuePlace) {
	w := &x.WaitsFor
	switch x.Code {
	case answer.Undeclared:
		w.Kind, w.Groups = "Object", []string{g.String()}
		if c := g.Composite(); g.Declared() && c != nil {
			w.Groups = []string{c.String()}
		}
	case answer.Refused:
		w.Kind = "Agreement"
	case answer.NoProfile:
		w.Kind = "Configuration"
	case answer.InFlight:
		w.Kind = "Cycles"
	case answer.Incomplete, answer.BeingEvicted:
		w.Kind, w.Members = "Members", g.Lacking(gang.Present)
	case answer.Gated:
		w.Kind = "Gates"
		for _, k := range x.KeptOut {
			if k.Plugin != "" && !slices.Contains(w.Plugins, k.Plugin) {
				w.Plugins = append(w.Plugins, k.Plugin)
			}
			if k.Plugin != "" {
				w.Members += k.Count
			}
		}
	case answer.WaitsForOthers:
		w.Kind = "Gangs"
		w.Groups = awaited(g, f)
	case answer.HeldByPermit:
		w.Kind = "Permit"
	default:
		waitInQueue(w, q)
	}
	if g.Waiting() > 0 {
		h.addHolds(w, m, x.Code == answer.HeldByPermit)
	}
	x.NextRetry = nextRetryOf(x, f != nil, q)
}

// addHolds says which plugins hold members on nodes, and how long at the most.
func (h *gangHistory) addHolds(w *answer.WaitsFor, m *scheduler.Machine, plugins bool) {
	m.WaitingPods().Each(func(held *cluster.Wait) bool {
		if !h.isMember(m.Cluster().Pods().Get(held.Pod.Object.UID)) {
			return true
		}
		if w.Until == 0 || answer.Instant(held.Until) < w.Until {
			w.Until = answer.Instant(held.Until)
		}
		for _, plugin := range held.Plugins {
			if plugins && plugin != gangPlugin && !slices.Contains(w.Plugins, plugin) {
				w.Plugins = append(w.Plugins, plugin)
			}
		}
		return true
	})
	slices.Sort(w.Plugins)
}

// awaited returns the gangs that g waits for: the one that failed, or the ones that cannot be complete, or that do not
// have their minimum on nodes.
func awaited(g *cluster.Group, f *failure) (gangs []string) {
	if f != nil && f != failedBeforeItJoined {
		return []string{f.gang.String()}
	}
	c := g.Composite()
	if c == nil {
		return nil
	}
	for _, by := range []gang.Count{gang.Present, gang.OnNodes, gang.Assigned} {
		of := c
		if lacking := lackingAbove(g, by); lacking != nil {
			of = lacking
		}
		if gangs = lackingIn(g, of, by); len(gangs) > 0 {
			return gangs
		}
	}
	return []string{c.String()} // for gangs that nobody has named yet
}

// lackingIn returns the gangs of c other than g that have not their minimum of the members that count.
func lackingIn(g *cluster.Group, c *cluster.Composite, by gang.Count) (gangs []string) {
	for _, name := range c.Named() {
		other := c.Gang(name)
		if other == g || other != nil && other.HasMinimum(by) {
			continue
		}
		if gangs = append(gangs, name.String()); len(gangs) == maxWaitedFor {
			break
		}
	}
	return gangs
}

// nextRetryOf returns the time of the next attempt. tried means that the failure of the last one is the reason.
func nextRetryOf(x *answer.Reason, tried bool, q *answer.QueuePlace) answer.NextRetry {
	w := &x.WaitsFor
	switch x.Code {
	case answer.Undeclared:
		return answer.NextRetry{Words: "when " + w.Groups[0] + " is there"}
	case answer.Refused:
		return answer.NextRetry{Words: "when the contradiction is gone"}
	case answer.NoProfile:
		return answer.NextRetry{Words: "when a configuration has a profile for it"}
	case answer.Incomplete, answer.BeingEvicted:
		return answer.NextRetry{Words: "when " + phrase.Count(int64(w.Members), "member more is", "members more are") +
			" there"}
	case answer.Gated:
		words := "when " + phrase.List(w.Plugins, "a plugin") + " lets members in"
		if q != nil && q.RetryAt != 0 {
			return answer.NextRetry{At: q.RetryAt, Words: words + "; asked again at " + q.RetryAt.String()}
		}
		return answer.NextRetry{Words: words}
	case answer.HeldByPermit:
		return answer.NextRetry{Words: "when " + phrase.List(w.Plugins, "the plugin that holds it") +
			" lets it go, without another attempt; it is released at " + w.Until.String()}
	case answer.WaitsForOthers:
		if !tried {
			return answer.NextRetry{Words: "when " + phrase.List(w.Groups, "the others") + " can be complete"}
		}
	}
	if q == nil {
		return answer.NextRetry{Words: "not as long as it stays out of the queue"}
	}
	return answer.NextRetry{At: q.RetryAt, Words: q.NextRetry}
}
