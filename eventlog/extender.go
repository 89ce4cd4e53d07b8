package eventlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Question is a question to HTTP extenders. It asks which of some nodes suit each of these pods, and how good they are.
// With Candidates it asks about the pods that preemption would evict for a pod.
type Question struct {
	// UIDs are the pods.
	UIDs []types.UID
	// Nodes are the nodes, by name. If AllBut is set, the question is about all other nodes of that time: the shorter
	// list is written.
	Nodes  []string
	AllBut bool
	// Candidates are, in a question about preemption, the nodes where evictions would make room for the pod, by name.
	// Such a question is about one pod and has no Nodes.
	Candidates []Candidate
}

// Candidate is a node where a pod would fit if others were evicted.
type Candidate struct {
	// Node is the node's name.
	Node string
	// Victims are the pods that would be evicted, the most important first.
	Victims []types.UID
	// Violations is the number of them that a PodDisruptionBudget protects; at least 0. In an answer it is the number
	// that the extender gives.
	Violations int64
}

// ExtenderResult has the answers of HTTP extenders, or says that one did not answer.
type ExtenderResult struct {
	// UID is the pod's.
	UID types.UID
	// Decision is the sequence number of the Decision that asked, never 0. A result of a Decision whose question is not
	// open is a fact that changes nothing.
	Decision uint64
	// Answers has the extenders' answers, in the order in which they were asked.
	Answers []ExtenderAnswer
}

// ExtenderAnswer is the answer of one extender about one pod.
type ExtenderAnswer struct {
	// Extender is its index among the extenders of the configuration, from 0.
	Extender uint32
	// Name is its urlPrefix. It is for people; no decision depends on it.
	Name string
	// Refused are the nodes that its filter removed from the list that the filters before it had left.
	Refused []ExtenderRefusal
	// Scores are the scores that it gave to nodes, by node, without zeros. They are not weighted.
	Scores []ExtenderScore
	// FilterError and PrioritizeError say, for people, why a call failed; "" if it did not. With a FilterError nothing
	// is Refused. With a PrioritizeError there are no Scores.
	FilterError, PrioritizeError string
	// Candidates are, in an answer about preemption, the nodes that the extender leaves, by name, and the victims that
	// it wants there. A node may have no victims.
	Candidates []Candidate
	// PreemptError says, for people, why such a call failed; then there are no Candidates.
	PreemptError string
}

// aboutPreemption reports whether the answer has a field of an answer about preemption.
func (a *ExtenderAnswer) aboutPreemption() bool { return len(a.Candidates) > 0 || a.PreemptError != "" }

// hasCandidates reports whether a question is about preemption.
func hasCandidates(questions []Question) bool {
	return slices.ContainsFunc(questions, func(q Question) bool { return len(q.Candidates) > 0 })
}

// aboutPreemption reports whether an answer is about preemption.
func (p *ExtenderResult) aboutPreemption() bool {
	return slices.ContainsFunc(p.Answers, func(a ExtenderAnswer) bool { return a.aboutPreemption() })
}

// ExtenderRefusal is one reason for which an extender removed nodes.
type ExtenderRefusal struct {
	// Code is Unschedulable, or UnschedulableAndUnresolvable where no preemption would help.
	Code string
	// Reason is in the extender's words.
	Reason string
	// Nodes are the nodes' names, at least one.
	Nodes []string
}

// ExtenderScore is an extender's score of a node.
type ExtenderScore struct {
	Node  string
	Score int64
}

// MaxExtenderScore is the highest score of an extender that is accepted, and its negative the lowest. The scores in
// kube-scheduler's documentation are between 0 and 10.
const MaxExtenderScore = 1 << 31

// Kind implements Payload.
func (*ExtenderResult) Kind() Kind { return KindExtenderResult }

// extenderCodes are the framework's names of the codes with which an extender refuses nodes.
var extenderCodes = []string{"Unschedulable", "UnschedulableAndUnresolvable"}

// check returns the wrong field and the reason; nil if every field is right.
func (p *ExtenderResult) check() (field string, err error) {
	if p.Decision == 0 {
		return "decision", errors.New("0: extenders are asked by a decision")
	}
	for i := range p.Answers {
		if field, err := p.Answers[i].check(); err != nil {
			return fmt.Sprintf("answers[%d].%s", i, field), err
		}
	}
	return "", nil
}

func (a *ExtenderAnswer) check() (field string, err error) {
	if a.FilterError != "" && len(a.Refused) > 0 {
		return "refused", errors.New("there is a filterError, so there can be none")
	}
	if a.PrioritizeError != "" && len(a.Scores) > 0 {
		return "scores", errors.New("there is a prioritizeError, so there can be none")
	}
	for i := range a.Refused {
		r := &a.Refused[i]
		if !slices.Contains(extenderCodes, r.Code) {
			return fmt.Sprintf("refused[%d].code", i), fmt.Errorf("it is %q: want one of %q", r.Code, extenderCodes)
		}
		if len(r.Nodes) == 0 {
			return fmt.Sprintf("refused[%d].nodes", i), errors.New("there are none")
		}
	}
	if a.PreemptError != "" && len(a.Candidates) > 0 {
		return "candidates", errors.New("there is a preemptError, so there can be none")
	}
	if field, err := checkCandidates(a.Candidates); err != nil {
		return field, err
	}
	for i, s := range a.Scores {
		if s.Score == 0 || s.Score > MaxExtenderScore || s.Score < -MaxExtenderScore {
			return fmt.Sprintf("scores[%d].score", i), fmt.Errorf("%d is 0 or beyond %d", s.Score, MaxExtenderScore)
		}
	}
	return "", nil
}

func checkCandidates(list []Candidate) (field string, err error) {
	for i, c := range list {
		if c.Violations < 0 {
			return fmt.Sprintf("candidates[%d].violations", i), fmt.Errorf("%d is negative", c.Violations)
		}
	}
	return "", nil
}

// WithoutCredentials returns the result without the credentials in URLs and keys of the extenders' texts.
func (p *ExtenderResult) WithoutCredentials() *ExtenderResult {
	clean := &ExtenderResult{UID: p.UID, Decision: p.Decision, Answers: slices.Clone(p.Answers)}
	for i := range clean.Answers {
		a := &clean.Answers[i]
		a.Name = MessageWithoutCredentials(a.Name)
		a.FilterError = keepSet(a.FilterError)
		a.PrioritizeError = keepSet(a.PrioritizeError)
		a.PreemptError = keepSet(a.PreemptError)
		a.Refused = slices.Clone(a.Refused)
		for k := range a.Refused {
			a.Refused[k].Reason = MessageWithoutCredentials(a.Refused[k].Reason)
		}
	}
	return clean
}

// keepSet returns an error's message without credentials. If nothing is left of it, it still says that there was an
// error.
func keepSet(message string) string {
	if clean := MessageWithoutCredentials(message); clean != "" || message == "" {
		return clean
	}
	return "error"
}

func (w *payloadWriter) questions(questions []Question) {
	w.uvarint(uint64(len(questions)))
	for i := range questions {
		q := &questions[i]
		w.uids("question's uids", q.UIDs)
		var allBut byte
		if q.AllBut {
			allBut = 1
		}
		w.b = append(w.b, allBut)
		w.strs("question's nodes", q.Nodes)
	}
	if !hasCandidates(questions) {
		return
	}
	for i := range questions {
		w.candidates(questions[i].Candidates)
	}
}

func (r *payloadReader) questions() (questions []Question) {
	n := r.length("questions", 3)
	if r.err == nil && n == 0 {
		r.fail("questions", errors.New("an empty list is left out"))
	}
	for i := 0; i < n && r.err == nil; i++ {
		q := Question{UIDs: r.uids("question's uids")}
		allBut := r.byte("question's allBut")
		if allBut > 1 {
			r.fail("question's allBut", fmt.Errorf("%d is neither 0 nor 1", allBut))
		}
		q.AllBut, q.Nodes = allBut == 1, r.strs("question's nodes")
		questions = append(questions, q)
	}
	if r.err != nil || r.at == len(r.text) {
		return questions
	}
	for i := range questions {
		questions[i].Candidates = r.candidates()
	}
	if r.err == nil && !hasCandidates(questions) {
		r.fail("question's candidates", errors.New("where no question has any, they are left out"))
	}
	return questions
}

func (w *payloadWriter) candidates(list []Candidate) {
	w.fail(checkCandidates(list))
	w.uvarint(uint64(len(list)))
	for i := range list {
		w.str("candidate's node", list[i].Node)
		w.uids("candidate's victims", list[i].Victims)
		w.varint(list[i].Violations)
	}
}

func (r *payloadReader) candidates() (list []Candidate) {
	n := r.length("candidates", 3)
	for i := 0; i < n && r.err == nil; i++ {
		list = append(list, Candidate{Node: r.str("candidate's node"), Victims: r.uids("candidate's victims"),
			Violations: r.varint("candidate's violations")})
	}
	if r.err == nil {
		r.fail(checkCandidates(list))
	}
	return list
}

func (w *payloadWriter) strs(field string, list []string) {
	w.uvarint(uint64(len(list)))
	for _, s := range list {
		w.str(field, s)
	}
}

func (r *payloadReader) strs(field string) []string {
	return readList(r, field, 1, func() string { return r.str("") })
}

// words writes a text from outside as valid UTF-8: invalid bytes are replaced.
func (w *payloadWriter) words(field, s string) { w.str(field, strings.ToValidUTF8(s, "\uFFFD")) }

func (w *payloadWriter) extenderResult(p *ExtenderResult) {
	w.fail(p.check())
	w.str("uid", string(p.UID))
	w.uvarint(p.Decision)
	w.uvarint(uint64(len(p.Answers)))
	for i := range p.Answers {
		a := &p.Answers[i]
		w.uvarint(uint64(a.Extender))
		w.words("name", a.Name)
		w.uvarint(uint64(len(a.Refused)))
		for k := range a.Refused {
			w.str("code", a.Refused[k].Code)
			w.words("reason", a.Refused[k].Reason)
			w.strs("nodes", a.Refused[k].Nodes)
		}
		w.uvarint(uint64(len(a.Scores)))
		for _, s := range a.Scores {
			w.str("node", s.Node)
			w.varint(s.Score)
		}
		w.words("filterError", a.FilterError)
		w.words("prioritizeError", a.PrioritizeError)
	}
	if !p.aboutPreemption() {
		return
	}
	for i := range p.Answers {
		w.candidates(p.Answers[i].Candidates)
		w.words("preemptError", p.Answers[i].PreemptError)
	}
}

func (r *payloadReader) extenderResult() *ExtenderResult {
	p := &ExtenderResult{UID: r.uid("uid"), Decision: r.uvarint("decision")}
	n := r.length("answers", 6)
	for i := 0; i < n && r.err == nil; i++ {
		p.Answers = append(p.Answers, r.extenderAnswer())
	}
	if r.err == nil && r.at < len(r.text) {
		for i := range p.Answers {
			p.Answers[i].Candidates, p.Answers[i].PreemptError = r.candidates(), r.str("preemptError")
		}
		if r.err == nil && !p.aboutPreemption() {
			r.fail("candidates", errors.New("where no answer is about preemption, they are left out"))
		}
	}
	if r.err == nil {
		r.fail(p.check())
	}
	return p
}

func (r *payloadReader) extenderAnswer() (a ExtenderAnswer) {
	extender := r.uvarint("extender")
	if r.err == nil && extender > 1<<32-1 {
		r.fail("extender", fmt.Errorf("%d exceeds 32 bits", extender))
	}
	a.Extender, a.Name = uint32(extender), r.str("name")
	n := r.length("refused", 3)
	for i := 0; i < n && r.err == nil; i++ {
		a.Refused = append(a.Refused,
			ExtenderRefusal{Code: r.str("code"), Reason: r.str("reason"), Nodes: r.strs("nodes")})
	}
	a.Scores = readList(r, "scores", 2, func() ExtenderScore {
		return ExtenderScore{Node: r.str("node"), Score: r.varint("score")}
	})
	a.FilterError, a.PrioritizeError = r.str("filterError"), r.str("prioritizeError")
	return a
}

func (w *jsonWriter) questions(questions []Question) {
	writeList(w, "questions", questions, func(q Question) {
		w.open('{')
		w.uids("uids", q.UIDs)
		w.pods("pods", q.UIDs)
		writeList(w, "nodes", q.Nodes, func(name string) { w.value("nodes", name) })
		if q.AllBut {
			w.name("allBut")
			w.b = append(w.b, "true"...)
		}
		w.candidates(q.Candidates)
		w.close('}')
	})
}

func (w *jsonWriter) candidates(list []Candidate) {
	w.fail(checkCandidates(list))
	writeList(w, "candidates", list, func(c Candidate) {
		w.open('{')
		w.str("node", c.Node)
		w.uids("victims", c.Victims)
		w.pods("victimPods", c.Victims)
		if c.Violations != 0 {
			w.int("violations", c.Violations)
		}
		w.close('}')
	})
}

func (w *jsonWriter) extenderResult(p *ExtenderResult) {
	w.fail(p.check())
	w.str("uid", string(p.UID))
	w.uint("decisionSeq", p.Decision)
	words := func(name, s string) { w.strIfSet(name, strings.ToValidUTF8(s, "\uFFFD")) }
	writeList(w, "answers", p.Answers, func(a ExtenderAnswer) {
		w.open('{')
		w.uint("extender", uint64(a.Extender))
		words("name", a.Name)
		writeList(w, "refused", a.Refused, func(r ExtenderRefusal) {
			w.open('{')
			w.str("code", r.Code)
			words("reason", r.Reason)
			writeList(w, "nodes", r.Nodes, func(name string) { w.value("nodes", name) })
			w.close('}')
		})
		writeList(w, "scores", a.Scores, func(s ExtenderScore) {
			w.open('{')
			w.str("node", s.Node)
			w.int("score", s.Score)
			w.close('}')
		})
		words("filterError", a.FilterError)
		words("prioritizeError", a.PrioritizeError)
		w.candidates(a.Candidates)
		words("preemptError", a.PreemptError)
		w.close('}')
	})
	w.pod(p.UID)
}

type jsonQuestion struct {
	UIDs   []types.UID `json:"uids"`
	Pods   []string    `json:"pods"` // not part of the entry
	Nodes  []string    `json:"nodes"`
	AllBut bool        `json:"allBut"`

	Candidates []jsonCandidate `json:"candidates"`
}

type jsonCandidate struct {
	Node       string      `json:"node"`
	Victims    []types.UID `json:"victims"`
	VictimPods []string    `json:"victimPods"` // not part of the entry
	Violations int64       `json:"violations"`
}

func (j *jsonQuestion) question() Question {
	return Question{UIDs: j.UIDs, Nodes: j.Nodes, AllBut: j.AllBut, Candidates: candidatesOf(j.Candidates)}
}

func candidatesOf(list []jsonCandidate) (out []Candidate) {
	for _, c := range list {
		out = append(out, Candidate{Node: c.Node, Victims: c.Victims, Violations: c.Violations})
	}
	return out
}

type jsonExtenderResult struct {
	jsonHeader
	UID      types.UID            `json:"uid"`
	Decision uint64               `json:"decisionSeq"`
	Answers  []jsonExtenderAnswer `json:"answers"`
	Pod      string               `json:"pod"` // not part of the entry
}

type jsonExtenderAnswer struct {
	Extender        uint32                `json:"extender"`
	Name            string                `json:"name"`
	Refused         []jsonExtenderRefusal `json:"refused"`
	Scores          []jsonExtenderScore   `json:"scores"`
	FilterError     string                `json:"filterError"`
	PrioritizeError string                `json:"prioritizeError"`
	Candidates      []jsonCandidate       `json:"candidates"`
	PreemptError    string                `json:"preemptError"`
}

type jsonExtenderRefusal struct {
	Code   string   `json:"code"`
	Reason string   `json:"reason"`
	Nodes  []string `json:"nodes"`
}

type jsonExtenderScore struct {
	Node  string `json:"node"`
	Score int64  `json:"score"`
}

func (j *jsonExtenderResult) payload() (Payload, error) {
	p := &ExtenderResult{UID: j.UID, Decision: j.Decision}
	for _, a := range j.Answers {
		answer := ExtenderAnswer{Extender: a.Extender, Name: a.Name, FilterError: a.FilterError,
			PrioritizeError: a.PrioritizeError, Candidates: candidatesOf(a.Candidates), PreemptError: a.PreemptError}
		for _, r := range a.Refused {
			answer.Refused = append(answer.Refused, ExtenderRefusal(r))
		}
		for _, s := range a.Scores {
			answer.Scores = append(answer.Scores, ExtenderScore(s))
		}
		p.Answers = append(p.Answers, answer)
	}
	if field, err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return p, nil
}
