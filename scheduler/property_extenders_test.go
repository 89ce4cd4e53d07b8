package scheduler_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Extenders in generated histories answer late, wrongly, and to questions that nobody asked, and refuse nodes at will.
// No pod goes to a node that the answer of its cycle refuses or leaves out. No pod is evicted that an extender did not
// leave.

// extendersProfile has an extender for all pods, and one that may be ignored and is for pods that want a GPU.
const extendersProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {urlPrefix: "http://all", filterVerb: f, prioritizeVerb: p, preemptVerb: v, weight: 2}
- {urlPrefix: "http://gpu", filterVerb: f, ignorable: true, managedResources: [{name: nvidia.com/gpu}]}
`

// bookedQuestion is a question to extenders about a pod, and the answer of the first of them.
type bookedQuestion struct {
	seq        uint64
	nodes      []string
	candidates []eventlog.Candidate

	answered bool
	failed   bool
	refused  []string // by any
	left     []eventlog.Candidate
}

// enterAsked notes the questions of a decision. Each is about pods of the entity, which have no node.
func (h *history) enterAsked(d *eventlog.Decision) {
	for _, q := range d.Questions {
		nodes := slices.Clone(q.Nodes)
		if q.AllBut {
			nodes = slices.DeleteFunc(slices.Sorted(maps.Keys(h.nodes)),
				func(name string) bool { return slices.Contains(q.Nodes, name) })
		}
		for _, uid := range q.UIDs {
			p := h.pods[uid]
			if p == nil || p.stage != cluster.Pending || h.entity(p) != h.entity(h.pods[d.UID]) {
				h.fatalf("cycle %d asks about %s, which is %+v", d.Cycle, uid, p)
			}
			asked := &bookedQuestion{seq: h.m.Seq(), nodes: nodes, candidates: q.Candidates}
			if len(q.Candidates) > 0 {
				h.preemptions[uid] = asked
			} else {
				h.questions[uid] = asked
			}
			h.open = append(h.open, uid)
		}
	}
}

// checkMayAsk: before a decision that asks is applied, its entity does not wait for answers already.
func (h *history) checkMayAsk(d *eventlog.Decision) {
	if e := h.m.Queue().Find(d.UID); d.Outcome == eventlog.Asked && (e == nil || e.State() == queue.Asking) {
		h.fatalf("cycle %d asks about %s, which waits for answers already", d.Cycle, d.UID)
	}
}

// unanswered returns the question about a pod that is open, nil if none is.
func (h *history) unanswered(uid types.UID) *bookedQuestion {
	for _, q := range []*bookedQuestion{h.questions[uid], h.preemptions[uid]} {
		if q != nil && !q.answered {
			return q
		}
	}
	return nil
}

// enterAnswer notes an answer, if it is one.
func (h *history) enterAnswer(r *eventlog.ExtenderResult) {
	q := h.unanswered(r.UID)
	if q == nil || q.seq != r.Decision {
		return
	}
	q.answered = true
	for _, a := range r.Answers {
		q.failed = q.failed || a.Extender == 0 && a.FilterError+a.PreemptError != ""
		for _, refusal := range a.Refused {
			q.refused = append(q.refused, refusal.Nodes...)
		}
		if a.Extender == 0 {
			q.left = a.Candidates
		}
	}
}

// checkAnswered checks a cycle against the answers that it used, which are used up with it. The pod did not wait.
func (h *history) checkAnswered(d *eventlog.Decision) {
	if !h.shape.extenders || d.Outcome == eventlog.Asked || d.Outcome == eventlog.Evicted ||
		d.Outcome == eventlog.Reserved || h.pods[d.UID].stage != cluster.Pending {
		return
	}
	q, about := h.questions[d.UID], h.preemptions[d.UID]
	delete(h.questions, d.UID)
	delete(h.preemptions, d.UID)
	if d.Node != "" && (q == nil || !q.answered || q.failed || !slices.Contains(q.nodes, d.Node) ||
		slices.Contains(q.refused, d.Node)) {
		h.fatalf("cycle %d puts %s on node %s, and the extenders said %+v", d.Cycle, d.UID, d.Node, q)
	}
	if len(d.Victims) == 0 || h.pods[d.UID].group != "" {
		return
	}
	may := func(c eventlog.Candidate) bool { return c.Node == d.Nominated && containsAll(c.Victims, d.Victims) }
	if about == nil || !about.answered || about.failed || !slices.ContainsFunc(about.left, may) {
		h.fatalf("cycle %d evicts %v on node %s for %s, and the extenders said %+v", d.Cycle, d.Victims, d.Nominated,
			d.UID, about)
	}
}

func containsAll(all, some []types.UID) bool {
	return !slices.ContainsFunc(some, func(uid types.UID) bool { return !slices.Contains(all, uid) })
}

// checkAsking: an entity waits for extenders only if a question about a pod of it is open. A question may be open
// without such an entity: a pod that has moved to another entity is asked about again at that entity's turn.
func (h *history) checkAsking() {
	if !h.shape.extenders || h.m.Queue() == nil {
		return
	}
	for _, e := range h.m.Queue().All() {
		open := slices.ContainsFunc(e.Ready(), func(p *v1.Pod) bool { return h.unanswered(p.UID) != nil })
		if !open && e.State() == queue.Asking {
			h.fatalf("%v waits for extenders, and no question about it is open", e.Key())
		}
	}
}

// asked counts the questions that are open, by pod.
func (h *history) asked() map[types.UID]bool {
	asked := map[types.UID]bool{}
	for uid := range h.pods {
		if h.unanswered(uid) != nil {
			asked[uid] = true
		}
	}
	return asked
}

// extendersAnswer brings some answers: to questions that are open, and to others.
func (h *history) extendersAnswer() {
	var inputs []eventlog.Payload
	for range rapid.IntRange(1, 4).Draw(h.t, "answers") {
		if len(h.open) == 0 {
			break
		}
		i := rapid.IntRange(0, len(h.open)-1).Draw(h.t, "question")
		uid := h.open[i]
		if q := h.unanswered(uid); q != nil {
			inputs = append(inputs, h.drawAnswer(uid, q))
		}
		if h.chance(70, "the last word") {
			h.open = slices.Delete(h.open, i, i+1)
		}
	}
	h.step(inputs...)
}

// drawAnswer makes up what the extenders say.
func (h *history) drawAnswer(uid types.UID, q *bookedQuestion) *eventlog.ExtenderResult {
	r := &eventlog.ExtenderResult{UID: uid, Decision: q.seq}
	if h.chance(10, "to another question") {
		r.Decision = max(1, q.seq-uint64(rapid.IntRange(1, 3).Draw(h.t, "before")))
	}
	all := eventlog.ExtenderAnswer{Name: "http://all"}
	switch {
	case h.chance(5, "fails"):
		all.FilterError, all.PreemptError = "away", "away"
	case len(q.candidates) > 0:
		for _, c := range q.candidates {
			if h.chance(70, "leaves it") {
				all.Candidates = append(all.Candidates, c)
			}
		}
	default:
		all.Refused, all.Scores = h.drawRefusals(q.nodes), h.drawScores(q.nodes)
	}
	r.Answers = append(r.Answers, all)
	if len(q.candidates) == 0 && h.chance(30, "the other one has a say") {
		gpus := eventlog.ExtenderAnswer{Extender: 1, Name: "http://gpu"}
		if h.chance(30, "it fails") {
			gpus.FilterError = "away"
		} else {
			gpus.Refused = h.drawRefusals(q.nodes)
		}
		r.Answers = append(r.Answers, gpus)
	}
	return r
}

func (h *history) drawRefusals(nodes []string) (refusals []eventlog.ExtenderRefusal) {
	for _, code := range []string{"Unschedulable", "UnschedulableAndUnresolvable"} {
		refusal := eventlog.ExtenderRefusal{Code: code, Reason: strings.ToLower(code)}
		for _, node := range nodes {
			if h.chance(25, "refuses it") {
				refusal.Nodes = append(refusal.Nodes, node)
			}
		}
		if len(refusal.Nodes) > 0 {
			refusals = append(refusals, refusal)
		}
	}
	return refusals
}

func (h *history) drawScores(nodes []string) (scores []eventlog.ExtenderScore) {
	for _, node := range nodes {
		if score := rapid.Int64Range(-1, 10).Draw(h.t, "score"); score != 0 {
			scores = append(scores, eventlog.ExtenderScore{Node: node, Score: score})
		}
	}
	return scores
}

// extendersAgree answers all questions, and lets every node and every candidate pass. The step answers the questions
// that follow.
func (h *history) extendersAgree() {
	if len(h.asked()) == 0 {
		return
	}
	if h.rounds++; h.rounds > 1000 {
		h.fatalf("extenders are asked without end")
	}
	var inputs []eventlog.Payload
	for _, uid := range slices.Sorted(maps.Keys(h.asked())) {
		q := h.unanswered(uid)
		inputs = append(inputs, &eventlog.ExtenderResult{UID: uid, Decision: q.seq, Answers: []eventlog.ExtenderAnswer{
			{Name: "http://all", Candidates: q.candidates}}})
	}
	h.open = nil
	h.step(inputs...)
}

// forgive has all be tried again that extenders have refused, and has them agree from now on.
func (h *history) forgive() {
	h.resting = true
	h.extendersAgree()
	h.now = h.now.Add(6 * time.Minute)
	h.step(&eventlog.Tick{})
}

// asks are the effects that ask extenders.
func asks(effects []scheduler.Effect) int {
	n := 0
	for _, x := range effects {
		if x.Kind == scheduler.Ask {
			n++
		}
	}
	return n
}
