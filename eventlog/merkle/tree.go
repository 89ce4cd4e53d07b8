package merkle

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// MaxSize is the largest number of entries of a tree, far more than any log will have. The arithmetic of package tlog
// does not terminate for the largest numbers.
const MaxSize = 1 << 48

// A Tree is the part of a hash tree that is needed to extend it: the hashes of its frontier. The zero Tree is empty.
type Tree struct {
	// Size is the number of entries, from entry 1 on.
	Size uint64 `json:"size"`
	// Nodes are the hashes of the maximal complete subtrees from left to right, hence from the largest to the
	// smallest: one for each bit that is set in Size.
	Nodes []tlog.Hash `json:"nodes"`
}

// LeafHash returns the hash of the leaf for an entry whose record has the given hash.
func LeafHash(record [32]byte) tlog.Hash {
	var leaf [1 + len(record)]byte // RFC 6962, section 2.1: a leaf's hash is the hash of a zero byte and its data
	copy(leaf[1:], record[:])
	return sha256.Sum256(leaf[:])
}

// nodeHash returns the hash of the node above two others: tlog.NodeHash, without its allocations, because a log's
// every entry costs one.
func nodeHash(left, right tlog.Hash) tlog.Hash {
	// RFC 6962, section 2.1: a node's hash is the hash of a one byte and its children
	var node [1 + 2*tlog.HashSize]byte
	node[0] = 1
	copy(node[1:], left[:])
	copy(node[1+tlog.HashSize:], right[:])
	return sha256.Sum256(node[:])
}

// Add adds the next entry, whose record has the given hash.
func (t *Tree) Add(record [32]byte) { t.push(0, LeafHash(record), nil) }

// AddSeeing is like Add, and calls seen with every complete subtree that the entry completes. As in package tlog, a
// subtree is named by its level, 0 for leaves, and its number on that level.
func (t *Tree) AddSeeing(record [32]byte, seen func(level int, n uint64, hash tlog.Hash)) {
	t.push(0, LeafHash(record), seen)
}

// AddNode adds the next 2^level entries. hash is the hash of their subtree. The tree's size must be a multiple of
// 2^level.
func (t *Tree) AddNode(level int, hash tlog.Hash) error {
	if level < 0 || level > 48 || t.Size&(1<<level-1) != 0 {
		return fmt.Errorf("no subtree of level %d follows %d entries", level, t.Size)
	}
	t.push(level, hash, nil)
	return nil
}

// push adds a complete subtree, and joins it with the earlier subtrees that it completes.
func (t *Tree) push(level int, hash tlog.Hash, seen func(int, uint64, tlog.Hash)) {
	n := t.Size >> level // its number on its level
	t.Size += 1 << level
	for {
		if seen != nil {
			seen(level, n, hash)
		}
		if n&1 == 0 {
			break
		}
		last := len(t.Nodes) - 1
		hash = nodeHash(t.Nodes[last], hash)
		t.Nodes = t.Nodes[:last]
		level, n = level+1, n>>1
	}
	t.Nodes = append(t.Nodes, hash)
}

// Root returns the hash of the whole tree. The hash of an empty tree is the hash of the empty string.
func (t Tree) Root() tlog.Hash {
	if len(t.Nodes) == 0 {
		return sha256.Sum256(nil)
	}
	hash := t.Nodes[len(t.Nodes)-1]
	for _, left := range slices.Backward(t.Nodes[:len(t.Nodes)-1]) {
		hash = nodeHash(left, hash)
	}
	return hash
}

// Each calls seen with the complete subtrees of the frontier, as AddSeeing does.
func (t Tree) Each(seen func(level int, n uint64, hash tlog.Hash)) {
	rest := t.Size
	for _, hash := range slices.Backward(t.Nodes) {
		level := bits.TrailingZeros64(rest)
		rest &^= 1 << level
		seen(level, rest>>level, hash)
	}
}

// Clone returns a tree that shares nothing with t.
func (t Tree) Clone() Tree { return Tree{Size: t.Size, Nodes: slices.Clone(t.Nodes)} }

// Equal reports whether both are the same tree.
func (t Tree) Equal(u Tree) bool { return t.Size == u.Size && slices.Equal(t.Nodes, u.Nodes) }

// Check returns an error if a tree from elsewhere is invalid: its size, or the number of its nodes.
func (t Tree) Check() error {
	if t.Size > MaxSize {
		return fmt.Errorf("a tree of %d entries, more than %d", t.Size, uint64(MaxSize))
	}
	if want := bits.OnesCount64(t.Size); len(t.Nodes) != want {
		return fmt.Errorf("the tree of %d entries has %d nodes, want %d", t.Size, len(t.Nodes), want)
	}
	return nil
}

// AppendNodes appends the nodes' hashes to dst, 32 bytes each. With the size they are the tree (Parse).
func (t Tree) AppendNodes(dst []byte) []byte {
	for _, hash := range t.Nodes {
		dst = append(dst, hash[:]...)
	}
	return dst
}

// Parse returns the tree of the given size from the nodes that AppendNodes has written.
func Parse(size uint64, nodes []byte) (Tree, error) {
	if len(nodes)%tlog.HashSize != 0 {
		return Tree{}, errors.New("the tree's nodes are cut short")
	}
	if most := 64 * tlog.HashSize; len(nodes) > most {
		return Tree{}, fmt.Errorf("a tree with nodes of %d bytes: no tree has more than %d", len(nodes), most)
	}
	t := Tree{Size: size}
	for hash := range slices.Chunk(nodes, tlog.HashSize) {
		t.Nodes = append(t.Nodes, tlog.Hash(hash))
	}
	return t, t.Check()
}
