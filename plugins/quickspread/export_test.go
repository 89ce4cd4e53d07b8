package quickspread

import (
	v1 "k8s.io/api/core/v1"
)

// Counted returns how many times the plugin has counted a node.
func (s *Spread) Counted() int { return s.memos.counted }

// Memos returns how many memos there are.
func (s *Spread) Memos() int { return len(s.memos.byQuestion) }

// Touch makes the pod's memo, or uses it, as if there were so many nodes.
func (s *Spread) Touch(pod *v1.Pod, nodes int) error {
	_, err := s.memos.of(question{pod: pod, gates: s.gates, constraints: pod.Spec.TopologySpreadConstraints}, nodes)
	return err
}

// Numbered returns how many domains any constraint of any memo has a number for, at most.
func (s *Spread) Numbered() (most int) {
	// any order: the most is the same
	for _, m := range s.memos.byQuestion {
		for _, d := range m.domains {
			most = max(most, len(d.ids))
		}
	}
	return most
}

// Bytes returns what the memos are thought to take, in bytes.
func (s *Spread) Bytes() int { return s.memos.bytes }

// MaxMemory bounds it.
const MaxMemory = maxMemory

// LeastMemos is so many memos there may be however many nodes there are.
const LeastMemos = leastMemos
