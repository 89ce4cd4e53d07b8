package scheduler

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/canonical"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
)

// HTTP extenders in preemption. A cycle ends as Asked if its PostFilter finds pods that could be evicted and an
// extender with preemptVerb is interested. The question is about these candidates. After the answer the pod has its
// turn again, and the next cycle applies the answer to the candidates that are unchanged (package preemption). As in
// kube-scheduler, extenders are not asked about the preemption for a gang or for a resize.
//
// An extender that filters may refuse a node after pods were evicted from it. The pod would then evict others, on that
// node too once it is full again. So the node is remembered (vain): it is not a candidate for the pod until an answer
// allows it. After maxVain such nodes nothing is evicted for the pod.

// maxVain is the number of nodes that may be made free for a pod without success.
const maxVain = 8

// open returns the question about a pod that has no answer yet, nil if there is none. There is at most one.
func (x *extenders) open(uid types.UID) *question {
	for _, q := range [...]*question{x.questions[uid], x.preemptions[uid]} {
		if q != nil && q.answer == nil {
			return q
		}
	}
	return nil
}

// ask turns the decision into a question to extenders about candidates.
func (c *cycle) ask(candidates []eventlog.Candidate) {
	c.d.Outcome, c.d.Feasible, c.d.Evaluated, c.d.Rejections = eventlog.Asked, 0, 0, nil
	c.d.Questions = []eventlog.Question{{UIDs: []types.UID{c.pod.UID}, Candidates: candidates}}
}

// askAboutPreemption applies a question about candidates.
func (m *Machine) askAboutPreemption(seq uint64, q *eventlog.Question) error {
	for _, uid := range q.UIDs {
		pod := m.cluster.Pods().Get(uid)
		if pod == nil {
			return fmt.Errorf("question about preemption for pod %s: %w", uid, errUnknownPod)
		}
		m.extenders.preemptions[uid] = &question{seq: seq, candidates: q.Candidates}
		m.effects.add(Effect{Kind: Ask, Seq: seq, Namespace: pod.Object.Namespace, Name: pod.Object.Name, UID: uid,
			Candidates: q.Candidates})
	}
	return nil
}

// preemptVerdict returns the extenders' answers about preemption for a pod, nil if they are not interested.
func (m *Machine) preemptVerdict(pod *v1.Pod) *framework.PreemptVerdict {
	x := m.extenders
	p := m.cluster.Pods().Get(pod.UID)
	if p == nil || p.Stage != cluster.Pending || m.entities.keyOf(p).Type != fwk.PodKeyType {
		return nil
	}
	v := &framework.PreemptVerdict{}
	q := x.preemptions[pod.UID]
	if q != nil && (q.answer == nil || x.now().Sub(q.at) > maxAnswerAge) {
		q = nil
	}
	concerned := false
	for i := range x.list {
		e := &x.list[i]
		if !e.preempts || !framework.ExtenderInterested(e.managed, pod) {
			continue
		}
		concerned = true
		if q != nil {
			v.Answers = append(v.Answers, e.preemptAnswer(q.answer))
		}
	}
	switch {
	case !concerned, q == nil && x.ignored:
		return nil
	case q != nil:
		v.Asked = q.candidates
	}
	return v
}

// preemptAnswer returns the extender's answer. An extender that the result does not mention has failed.
func (e *extender) preemptAnswer(r *eventlog.ExtenderResult) framework.PreemptAnswer {
	answer := framework.PreemptAnswer{Extender: e.name, Ignorable: e.ignorable, Failed: true}
	i := slices.IndexFunc(r.Answers, func(a eventlog.ExtenderAnswer) bool { return a.Extender == e.place })
	if i >= 0 {
		answer.Failed, answer.Candidates = r.Answers[i].PreemptError != "", r.Answers[i].Candidates
	}
	return answer
}

// triesAgain reports whether extenders are to be asked about other candidates, once the backoff of the pod has ended.
func triesAgain(d *eventlog.Decision) bool {
	return slices.ContainsFunc(d.Rejections, func(r eventlog.Rejection) bool {
		return framework.IsNotAsked(r) || preemption.IsOthersByNow(r)
	})
}

// noteVain notes whether the node that a pod is nominated to was refused, now that there is room. It also forgets nodes
// that are not refused any more.
func (m *Machine) noteVain(q *question) {
	x, uid := m.extenders, q.answer.UID
	if len(q.nodes) == 0 {
		return
	}
	var refused []string
	for i := range q.answer.Answers {
		a := &q.answer.Answers[i]
		if e := x.of(a.Extender); e == nil || a.FilterError != "" && !e.ignorable {
			return // it does not mention nodes
		}
		for k := range a.Refused {
			refused = append(refused, a.Refused[k].Nodes...)
		}
	}
	left := slices.DeleteFunc(slices.Clone(x.vain[uid]), func(node string) bool {
		return slices.Contains(q.nodes, node) && !slices.Contains(refused, node)
	})
	node := m.nominated.nodeOf(uid)
	if m.nominated.own[uid] && slices.Contains(refused, node) && !slices.Contains(left, node) && len(left) < maxVain &&
		!m.isEmptying(node) {
		left = append(left, node)
		slices.Sort(left)
	}
	if delete(x.vain, uid); len(left) > 0 {
		x.vain[uid] = left
	}
}

// isEmptying reports whether pods of a node are ending or were asked to go: there may be more room soon. Members of
// gangs are asked about nodes where they do not fit yet.
func (m *Machine) isEmptying(node string) bool {
	info, err := m.cluster.Nodes().Get(node)
	if err != nil {
		return false // it is gone
	}
	return slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool {
		return p.GetPod().DeletionTimestamp != nil || m.effects.has(p.GetPod().UID, Evict)
	})
}

// appendPreemptions appends the questions about preemption, and the nodes that were made free without success, by pod.
func (x *extenders) appendPreemptions(dst []byte) []byte {
	dst = appendQuestions(dst, x.preemptions, func(dst []byte, q *question) []byte {
		return appendCandidates(dst, q.candidates)
	}, appendPreemptAnswer)
	dst = binary.AppendUvarint(dst, uint64(len(x.vain)))
	for _, uid := range slices.Sorted(maps.Keys(x.vain)) {
		dst = canonical.AppendString(dst, string(uid))
		dst = appendNames(dst, x.vain[uid])
	}
	return dst
}

func appendCandidates(dst []byte, list []eventlog.Candidate) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for i := range list {
		dst = canonical.AppendString(dst, list[i].Node)
		dst = binary.AppendUvarint(dst, uint64(len(list[i].Victims)))
		for _, uid := range list[i].Victims {
			dst = canonical.AppendString(dst, string(uid))
		}
		dst = binary.AppendVarint(dst, list[i].Violations)
	}
	return dst
}

// appendPreemptAnswer leaves out what is for people alone.
func appendPreemptAnswer(dst []byte, a *eventlog.ExtenderAnswer) []byte {
	dst = binary.AppendUvarint(dst, uint64(a.Extender))
	dst = append(dst, canonical.Flags(a.PreemptError != ""))
	return appendCandidates(dst, a.Candidates)
}

// restorePreemptions reads what appendPreemptions has written.
func (m *Machine) restorePreemptions(r *canonical.Reader) {
	m.readQuestions(r, m.extenders.preemptions, readPreemptAnswer,
		func(q *question) { q.candidates = readCandidates(r) })
	for range r.Count("pods with room in vain", 2) {
		uid := types.UID(r.String("uid"))
		if nodes := readNames(r); r.Err() == nil {
			m.extenders.vain[uid] = nodes
		}
	}
}

func readCandidates(r *canonical.Reader) (list []eventlog.Candidate) {
	for range r.Count("candidates", 3) {
		c := eventlog.Candidate{Node: r.String("node")}
		for range r.Count("victims", 1) {
			c.Victims = append(c.Victims, types.UID(r.String("uid")))
		}
		c.Violations = r.Varint("violations")
		list = append(list, c)
	}
	return list
}

func readPreemptAnswer(r *canonical.Reader) eventlog.ExtenderAnswer {
	a := eventlog.ExtenderAnswer{Extender: uint32(min(r.Uvarint("extender"), math.MaxUint32))}
	if r.Flags("failed", 1)[0] {
		a.PreemptError = "error"
	}
	a.Candidates = readCandidates(r)
	return a
}

// PodsAt returns, by node, the pods that an extender may name as victims: the pods on the node, and the candidate's
// victims on other nodes. The caller must not change them.
//
// lists is a memo that all questions share, so that the pods on a node are listed once. It is empty at first, and is
// valid until the next entry is applied. A question keeps its lists until it is answered.
func (m *Machine) PodsAt(candidates []eventlog.Candidate, lists map[string][]*v1.Pod) map[string][]*v1.Pod {
	pods := make(map[string][]*v1.Pod, len(candidates))
	for _, c := range candidates {
		on, listed := lists[c.Node]
		if !listed {
			node, err := m.cluster.Nodes().Get(c.Node)
			if err != nil {
				continue // it is gone
			}
			for _, info := range node.GetPods() {
				on = append(on, info.GetPod())
			}
			lists[c.Node] = on
		}
		pods[c.Node] = slices.Clip(on)
		for _, uid := range c.Victims {
			if p := m.cluster.Pods().Get(uid); p != nil && p.Node != c.Node {
				pods[c.Node] = append(pods[c.Node], p.Placed())
			}
		}
	}
	return pods
}
