package merkle

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// A Span is the tree's view of a range of entries that was hashed separately: the maximal complete subtrees within the
// range. Spans of one log can be made at the same time and joined in order.
type Span struct {
	// Begin is the number of entries before the range, and End the number up to its end.
	Begin uint64 `json:"begin"`
	End   uint64 `json:"end"`
	// Nodes are the subtrees from left to right.
	Nodes []Node `json:"nodes"`
}

// A Node is a complete subtree of 2^Level entries.
type Node struct {
	Level int       `json:"level"`
	Hash  tlog.Hash `json:"hash"`
}

// NewSpan returns the empty span behind the first begin entries.
func NewSpan(begin uint64) Span { return Span{Begin: begin, End: begin} }

// Add adds the next entry, whose record has the given hash.
func (s *Span) Add(record [32]byte) {
	node := Node{Hash: LeafHash(record)}
	n := s.End // the node's number on its level
	s.End++
	for n&1 == 1 && len(s.Nodes) > 0 {
		last := len(s.Nodes) - 1
		if s.Nodes[last].Level != node.Level {
			break // its sibling began before the range
		}
		node = Node{Level: node.Level + 1, Hash: nodeHash(s.Nodes[last].Hash, node.Hash)}
		s.Nodes, n = s.Nodes[:last], n>>1
	}
	s.Nodes = append(s.Nodes, node)
}

// Join adds the entries of a span, which must begin where the tree ends. On error the tree is of no use.
func (t *Tree) Join(s Span) error {
	if s.Begin != t.Size {
		return fmt.Errorf("the entries behind %d do not follow the tree of %d", s.Begin, t.Size)
	}
	for _, node := range s.Nodes {
		if err := t.AddNode(node.Level, node.Hash); err != nil {
			return err
		}
	}
	if t.Size != s.End {
		return fmt.Errorf("the subtrees end at entry %d, want %d", t.Size, s.End)
	}
	return nil
}
