package scheduler

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/canonical"
	"github.com/rollcall-sched/rollcall/queue"
)

// HTTP extenders. Before the attempt of an entity begins, a Decision (Asked) has the questions about its pods: the
// nodes that pass PreFilter and Filter now. That is an effect. The entity waits in the queue's Asking, and others are
// tried. The answer is an input (ExtenderResult). Once all answers for an entity are there, it has its turn again. Then
// the cycles of its pods filter again, and use the answers for the remaining nodes: see framework.Verdict.
//
// An answer is for one cycle. It is dropped with that cycle's Decision, when its pod is gone or bound, and when an
// epoch begins with another configuration. If the turn comes later than maxAnswerAge after the entity's last answer,
// all questions are asked again.

// maxAnswerAge is the age that the youngest of an entity's answers may have when its turn comes.
const maxAnswerAge = time.Minute

// maxExtenderTotal is the most that the extenders' scores of a node come to, and its negative the least.
const maxExtenderTotal = math.MaxInt64 / 4

// extenders are the extenders of the configuration, and the questions to them.
type extenders struct {
	list []extender // in the order in which they are asked
	// questions are the open questions, and the questions whose answers were not used yet, by pod. preemptions are the
	// same for questions about preemption.
	questions, preemptions map[types.UID]*question
	// vain are the nodes, sorted, that they refused to pods for which room had been made there, by pod.
	vain    map[types.UID][]string
	ignored bool     // a trial decides without them where there is no answer
	last    []string // the nodes of the last question: most are about the same ones
	now     func() eventlog.Time
}

// extender is the part of an extender's configuration that decisions depend on.
type extender struct {
	place                uint32 // in the configuration
	name                 string
	filters, prioritizes bool
	preempts             bool
	ignorable            bool
	weight               int64
	managed              map[v1.ResourceName]bool // nil: it is interested in all pods
}

// question is a question to extenders about a pod.
type question struct {
	seq        uint64                   // the decision that asks
	nodes      []string                 // sorted
	candidates []eventlog.Candidate     // of a question about preemption, which has no nodes
	answer     *eventlog.ExtenderResult // nil: it is open
	at         eventlog.Time            // of the answer
}

func newExtenders(cfg []config.Extender, now func() eventlog.Time) *extenders {
	x := &extenders{questions: map[types.UID]*question{}, preemptions: map[types.UID]*question{},
		vain: map[types.UID][]string{}, now: now}
	for _, i := range framework.ExtenderOrder(cfg) {
		c := &cfg[i]
		e := extender{place: uint32(i), name: c.URLPrefix, filters: c.FilterVerb != "",
			prioritizes: c.PrioritizeVerb != "", ignorable: c.Ignorable, weight: c.Weight}
		e.preempts = c.PreemptVerb != ""
		e.managed = framework.ExtenderResources(c)
		if e.filters || e.prioritizes || e.preempts {
			x.list = append(x.list, e)
		}
	}
	return x
}

// concern reports which calls extenders have for a pod: of filters, and of scores.
func (x *extenders) concern(pod *v1.Pod) (filters, prioritizes bool) {
	for i := range x.list {
		if e := &x.list[i]; framework.ExtenderInterested(e.managed, pod) {
			filters, prioritizes = filters || e.filters, prioritizes || e.prioritizes
		}
	}
	return filters, prioritizes
}

// of returns the extender at a place of the configuration, nil if it has none there that says where pods go.
func (x *extenders) of(place uint32) *extender {
	for i := range x.list {
		if x.list[i].place == place {
			return &x.list[i]
		}
	}
	return nil
}

// verdict is the World's Extenders.
func (x *extenders) verdict(pod *v1.Pod) *framework.Verdict {
	if len(x.list) == 0 {
		return nil
	}
	filters, prioritizes := x.concern(pod)
	q := x.questions[pod.UID]
	answered := q != nil && q.answer != nil
	switch {
	case !filters && !prioritizes, !answered && x.ignored:
		return nil
	case !answered && !filters:
		return nil // scores are a preference, and nothing more
	case !answered:
		return &framework.Verdict{}
	}
	v := &framework.Verdict{Asked: make(map[string]bool, len(q.nodes)), Refused: map[string]*fwk.Status{},
		Scores: map[string]int64{}}
	for _, name := range q.nodes {
		v.Asked[name] = true
	}
	for i := range q.answer.Answers {
		x.count(v, &q.answer.Answers[i])
	}
	v.Ratings = func() []framework.Rating { return x.ratings(q.answer) }
	return v
}

// ratings are the scores of an answer, for a trace.
func (x *extenders) ratings(r *eventlog.ExtenderResult) (ratings []framework.Rating) {
	for i := range r.Answers {
		a := &r.Answers[i]
		e := x.of(a.Extender)
		if e == nil || len(a.Scores) == 0 {
			continue
		}
		rating := framework.Rating{Extender: e.name, Weight: e.weight, Nodes: map[string]framework.RatedNode{}}
		for _, s := range a.Scores {
			rating.Nodes[s.Node] = framework.RatedNode{Score: s.Score, Weighted: e.weighted(s.Score)}
		}
		ratings = append(ratings, rating)
	}
	return ratings
}

// count adds one extender's answer to a verdict.
func (x *extenders) count(v *framework.Verdict, a *eventlog.ExtenderAnswer) {
	e := x.of(a.Extender)
	if e == nil {
		return
	}
	if a.FilterError != "" && !e.ignorable && v.Failed == "" {
		v.Failed = e.name
	}
	for i := range a.Refused {
		r := &a.Refused[i]
		code := fwk.Unschedulable
		if r.Code == fwk.UnschedulableAndUnresolvable.String() {
			code = fwk.UnschedulableAndUnresolvable
		}
		status := fwk.NewStatus(code, r.Reason).WithPlugin(framework.ExtenderName)
		for _, node := range r.Nodes {
			if v.Refused[node] == nil {
				v.Refused[node] = status
			}
		}
	}
	for _, s := range a.Scores {
		v.Scores[s.Node] = plus(v.Scores[s.Node], e.weighted(s.Score))
	}
}

// weighted is a score on the scale of the scheduler's own.
func (e *extender) weighted(score int64) int64 {
	return times(score, times(e.weight, fwk.MaxScore/extenderv1.MaxExtenderPriority))
}

// times and plus multiply and add within maxExtenderTotal.
func times(a, b int64) int64 {
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	product := int64(maxExtenderTotal)
	if high == 0 && low < maxExtenderTotal {
		product = int64(low)
	}
	if (a < 0) != (b < 0) {
		return -product
	}
	return product
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

func plus(a, b int64) int64 { return min(max(a+b, -maxExtenderTotal), maxExtenderTotal) }

// ExtendersFilter reports whether HTTP extenders have a say in which nodes the pod may go to.
func (m *Machine) ExtendersFilter(pod *v1.Pod) bool {
	filters, _ := m.extenders.concern(pod)
	return filters
}

// ExtenderQuestion is a question to HTTP extenders about a pod, with their answers, for the cycle that comes.
type ExtenderQuestion struct {
	// Decision is the sequence number of the decision that asked.
	Decision uint64
	// Nodes is the number of nodes that the question is about. A question about preemption has 0 Nodes, and Candidates
	// instead.
	Nodes, Candidates int
	// Answers must not be changed.
	Answers []eventlog.ExtenderAnswer
}

// ExtenderAnswers returns the questions about the pod that are answered.
func (m *Machine) ExtenderAnswers(uid types.UID) (answered []ExtenderQuestion) {
	for _, q := range [...]*question{m.extenders.questions[uid], m.extenders.preemptions[uid]} {
		if q != nil && q.answer != nil {
			answered = append(answered, ExtenderQuestion{Decision: q.seq, Nodes: len(q.nodes),
				Candidates: len(q.candidates), Answers: q.answer.Answers})
		}
	}
	return answered
}

// ExtenderName returns the urlPrefix of the extender at a place of the configuration, "" if there is none that says
// where pods go.
func (m *Machine) ExtenderName(place uint32) string {
	if e := m.extenders.of(place); e != nil {
		return e.name
	}
	return ""
}

// stale reports whether the answers about an entity's pods are too old to be used.
func (x *extenders) stale(pods []*v1.Pod) bool {
	var youngest eventlog.Time
	for _, pod := range pods {
		if q := x.questions[pod.UID]; q != nil {
			youngest = max(youngest, q.at)
		}
		if q := x.preemptions[pod.UID]; q != nil {
			youngest = max(youngest, q.at)
		}
	}
	return x.now().Sub(youngest) > maxAnswerAge
}

// ask returns the decision to ask extenders about the pods of the entity whose turn it is. ok is false if there is
// nothing to ask. Then the entity is being tried, all is answered, no extender is interested, or no node is left for
// one.
func (m *Machine) ask(e *queue.Entity, trace *framework.Trace) (d eventlog.Decision, ok bool) {
	x := m.extenders
	if len(x.list) == 0 || e.State() == queue.InFlight || e.Resize() {
		return d, false
	}
	pods := e.Ready()
	stale := x.stale(pods)
	var first *cycle
	for _, pod := range pods {
		filters, prioritizes := x.concern(pod)
		q := x.questions[pod.UID]
		if !filters && !prioritizes || q != nil && q.answer != nil && !stale {
			continue
		}
		c := newCycle(m, pod, trace.Apart())
		nodes := c.candidates(e.Key().Type != fwk.PodKeyType)
		if len(nodes) == 0 || len(nodes) == 1 && !filters {
			continue
		}
		if first == nil {
			trace.Take(c.trace)
			first, trace = c, nil
			first.d.Outcome, first.d.Feasible = eventlog.Asked, int64(len(nodes))
		}
		slices.Sort(nodes)
		first.addQuestion(pod.UID, nodes)
	}
	if first == nil {
		return d, false
	}
	for i := range first.d.Questions {
		m.shorten(&first.d.Questions[i])
	}
	return first.d, true
}

// candidates returns the nodes that extenders are to be asked about.
func (c *cycle) candidates(member bool) (nodes []string) {
	m, pod := c.m, c.pod
	m.profiles.forgetVolumes(c.profile)
	m.wanted.begin()
	m.recorded.muting(func() {
		m.bindings.quietly(func() {
			nodes = c.profile.Candidates(m.ctx, c.state, pod, m.at.start, member, c.trace)
		})
	})
	m.wanted.end() // the next cycle sets it again
	return nodes
}

// addQuestion adds a pod to the question about these nodes.
func (c *cycle) addQuestion(uid types.UID, nodes []string) {
	for i := range c.d.Questions {
		if q := &c.d.Questions[i]; slices.Equal(q.Nodes, nodes) {
			q.UIDs = append(q.UIDs, uid)
			return
		}
	}
	c.d.Questions = append(c.d.Questions, eventlog.Question{UIDs: []types.UID{uid}, Nodes: nodes})
}

// shorten writes a question with the shorter of two lists: its nodes, or the other nodes.
func (m *Machine) shorten(q *eventlog.Question) {
	all := m.nodeNames()
	if len(q.Nodes) > len(all)/2 {
		q.Nodes, q.AllBut = without(all, q.Nodes), true
	}
}

// nodeNames returns the names of all nodes, sorted.
func (m *Machine) nodeNames() []string {
	nodes, _ := m.cluster.Nodes().List() // by name; it does not fail
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Node().Name
	}
	return names
}

// without returns the names that are not among others; both are sorted.
func without(names, others []string) []string {
	left := make([]string, 0, max(len(names)-len(others), 0))
	for _, name := range names {
		for len(others) > 0 && others[0] < name {
			others = others[1:]
		}
		if len(others) == 0 || others[0] != name {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left
}

// applyAsked applies a decision to ask extenders.
func (m *Machine) applyAsked(seq uint64, p *cluster.Pod, d *eventlog.Decision) error {
	var asked []types.UID
	for i := range d.Questions {
		q := &d.Questions[i]
		if len(q.Candidates) > 0 {
			asked = append(asked, q.UIDs...)
			if err := m.askAboutPreemption(seq, q); err != nil {
				return err
			}
			continue
		}
		nodes := q.Nodes
		if q.AllBut {
			nodes = without(m.nodeNames(), q.Nodes)
		}
		if slices.Equal(nodes, m.extenders.last) {
			nodes = m.extenders.last
		}
		m.extenders.last = nodes
		for _, uid := range q.UIDs {
			pod := m.cluster.Pods().Get(uid)
			if pod == nil {
				return fmt.Errorf("question about pod %s: %w", uid, errUnknownPod)
			}
			m.extenders.questions[uid] = &question{seq: seq, nodes: nodes}
			m.effects.add(Effect{Kind: Ask, Seq: seq, Namespace: pod.Object.Namespace, Name: pod.Object.Name, UID: uid,
				Nodes: nodes})
			asked = append(asked, uid)
		}
	}
	m.queue.Ask(m.entities.keyOf(p), asked)
	return nil
}

// applyExtenderResult takes in an extender's answer. A late answer, to a question that is not open, changes nothing.
func (m *Machine) applyExtenderResult(r *eventlog.ExtenderResult) {
	q := m.extenders.open(r.UID)
	if q == nil || q.seq != r.Decision {
		return
	}
	q.answer, q.at = r, m.at.now
	m.noteVain(q)
	m.effects.done(r.UID, Ask)
	m.queue.Answered(r.UID)
}

// forgetQuestion drops what extenders were asked about a pod, and what they have answered.
func (m *Machine) forgetQuestion(uid types.UID) {
	x := m.extenders
	if x == nil || x.questions[uid] == nil && x.preemptions[uid] == nil {
		return
	}
	delete(x.questions, uid)
	delete(x.preemptions, uid)
	m.effects.done(uid, Ask)
	m.queue.Answered(uid)
}

// forgetQuestions drops all that extenders were asked.
func (m *Machine) forgetQuestions() {
	if m.extenders == nil {
		return
	}
	for _, questions := range [...]map[types.UID]*question{m.extenders.questions, m.extenders.preemptions} {
		for uid := range questions { // any order: all are dropped
			m.effects.done(uid, Ask)
		}
		clear(questions)
	}
}

// appendState appends the questions, by pod.
func (x *extenders) appendState(dst []byte) []byte {
	return appendQuestions(dst, x.questions, func(dst []byte, q *question) []byte { return appendNames(dst, q.nodes) },
		appendAnswer)
}

func appendQuestions(dst []byte, questions map[types.UID]*question, about func(dst []byte, q *question) []byte,
	answer func(dst []byte, a *eventlog.ExtenderAnswer) []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(questions)))
	for _, uid := range slices.Sorted(maps.Keys(questions)) {
		q := questions[uid]
		dst = canonical.AppendString(dst, string(uid))
		dst = binary.AppendUvarint(dst, q.seq)
		dst = about(dst, q)
		dst = append(dst, canonical.Flags(q.answer != nil))
		if q.answer == nil {
			continue
		}
		dst = binary.AppendVarint(dst, int64(q.at))
		dst = binary.AppendUvarint(dst, uint64(len(q.answer.Answers)))
		for i := range q.answer.Answers {
			dst = answer(dst, &q.answer.Answers[i])
		}
	}
	return dst
}

func appendNames(dst []byte, names []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, name := range names {
		dst = canonical.AppendString(dst, name)
	}
	return dst
}

// appendAnswer leaves out what is for people alone.
func appendAnswer(dst []byte, a *eventlog.ExtenderAnswer) []byte {
	dst = binary.AppendUvarint(dst, uint64(a.Extender))
	dst = append(dst, canonical.Flags(a.FilterError != ""))
	dst = binary.AppendUvarint(dst, uint64(len(a.Refused)))
	for i := range a.Refused {
		dst = canonical.AppendString(dst, a.Refused[i].Code)
		dst = canonical.AppendString(dst, a.Refused[i].Reason)
		dst = appendNames(dst, a.Refused[i].Nodes)
	}
	dst = binary.AppendUvarint(dst, uint64(len(a.Scores)))
	for _, s := range a.Scores {
		dst = canonical.AppendString(dst, s.Node)
		dst = binary.AppendVarint(dst, s.Score)
	}
	return dst
}

// restoreQuestions reads what appendState has written, and gives the effects that ask their nodes.
func (m *Machine) restoreQuestions(r *canonical.Reader) {
	x := m.extenders
	m.readQuestions(r, x.questions, readAnswer, func(q *question) {
		q.nodes = readNames(r)
		if slices.Equal(q.nodes, x.last) {
			q.nodes = x.last
		}
		x.last = q.nodes
	})
}

func (m *Machine) readQuestions(r *canonical.Reader, into map[types.UID]*question,
	answer func(r *canonical.Reader) eventlog.ExtenderAnswer, about func(q *question)) {
	for range r.Count("questions", 4) {
		uid := types.UID(r.String("uid"))
		q := &question{seq: r.Uvarint("decision")}
		about(q)
		if r.Flags("answered", 1)[0] {
			q.at = eventlog.Time(r.Varint("answered at"))
			q.answer = &eventlog.ExtenderResult{UID: uid, Decision: q.seq}
			for range r.Count("answers", 2) {
				q.answer.Answers = append(q.answer.Answers, answer(r))
			}
		}
		if r.Err() != nil {
			return
		}
		if into[uid] = q; q.answer == nil {
			m.effects.setQuestion(uid, q)
		}
	}
}

func readNames(r *canonical.Reader) (names []string) {
	for range r.Count("nodes", 1) {
		names = append(names, r.String("node"))
	}
	return names
}

func readAnswer(r *canonical.Reader) eventlog.ExtenderAnswer {
	a := eventlog.ExtenderAnswer{Extender: uint32(min(r.Uvarint("extender"), math.MaxUint32))}
	if r.Flags("failed", 1)[0] {
		a.FilterError = "error"
	}
	for range r.Count("refused", 3) {
		a.Refused = append(a.Refused,
			eventlog.ExtenderRefusal{Code: r.String("code"), Reason: r.String("reason"), Nodes: readNames(r)})
	}
	for range r.Count("scores", 2) {
		a.Scores = append(a.Scores, eventlog.ExtenderScore{Node: r.String("node"), Score: r.Varint("score")})
	}
	return a
}
