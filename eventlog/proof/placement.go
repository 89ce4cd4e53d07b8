package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// FormatPlacement is the version of proofs of placements. It has no part of Format.
const FormatPlacement = 2

// maxEntries is the largest number of entries of a placement: decided, released, and bound.
const maxEntries = 3

// A Placement proves how a pod came to its node: it has the entries about it, in the log of Size entries. The first is
// the Decision that chose the node. If the pod then waited in Permit, the next is the Decision that released it. The
// last may be the result of the bind.
type Placement struct {
	Size uint64    `json:"size"`
	Root tlog.Hash `json:"root"`
	// Entries are in the log's order.
	Entries []Included `json:"entries"`
}

// Included is one entry of a proof, with the hashes that lead from it to the root.
type Included struct {
	Seq    uint64      `json:"seq"`
	Hashes []tlog.Hash `json:"hashes"`
	// Record is the entry as the log has it (eventlog.DecodeRecord).
	Record []byte `json:"record"`
}

// Placed is the placement that a proof has shown. All of it is in the entries.
type Placed struct {
	// Namespace, Name and UID are the pod's, Group its gang's; "" for a pod of no gang.
	Namespace, Name string
	UID             types.UID
	Group           string
	// Node is the pod's node.
	Node string
	// Decided is the entry of the Decision that chose the node.
	Decided eventlog.Entry
	// Released is the entry of the Decision that released the pod from Permit; nil if Decided did not make it wait.
	Released *eventlog.Entry
	// Bound is the entry of the bind's result; nil if the proof has none.
	Bound *eventlog.Entry
}

// Placement proves the entries seqs, which have to form a placement, in the log of the first size entries.
func (p *Prover) Placement(ctx context.Context, seqs []uint64, size uint64) (*Proof, error) {
	out, err := p.placement(ctx, seqs, size)
	if err != nil {
		return nil, fmt.Errorf("prove the placement in entries %d: %w", seqs, err)
	}
	return &Proof{Format: FormatPlacement, Placement: out}, nil
}

func (p *Prover) placement(ctx context.Context, seqs []uint64, size uint64) (*Placement, error) {
	out := &Placement{Size: size}
	for _, seq := range seqs {
		out.Entries = append(out.Entries, Included{Seq: seq, Hashes: []tlog.Hash{}})
	}
	if err := out.checkForm(); err != nil {
		return nil, err
	}
	var entries []eventlog.Entry
	for i := range out.Entries {
		included := &out.Entries[i]
		var err error
		if included.Record, err = p.record(ctx, included.Seq); err != nil {
			return nil, err
		}
		e, _, err := eventlog.DecodeRecord(included.Record)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if _, err := placedBy(entries); err != nil {
		return nil, err
	}
	var err error
	out.Root, err = p.prove(ctx, seqs[0]-1, size, func(r tlog.HashReader) (err error) {
		for i := range out.Entries {
			included := &out.Entries[i]
			if included.Hashes, err = tlog.ProveRecord(int64(size), int64(included.Seq)-1, r); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// checkForm checks everything that package tlog relies on.
func (p *Placement) checkForm() error {
	if n := len(p.Entries); n < 1 || n > maxEntries || p.Size > merkle.MaxSize {
		return fmt.Errorf("%d entries of a log of %d entries, want 1 to %d", n, p.Size, maxEntries)
	}
	before := uint64(0)
	for i := range p.Entries {
		e := &p.Entries[i]
		if e.Seq <= before || e.Seq > p.Size {
			return fmt.Errorf("entry %d of a log of %d entries, behind entry %d", e.Seq, p.Size, before)
		}
		if err := checkHashes(e.Hashes); err != nil {
			return err
		}
		before = e.Seq
	}
	return nil
}

// check checks a placement against the root of checkpoint c. It decodes no entry before it is proven.
func (p *Placement) check(c Checkpoint) (*Placed, error) {
	for i := range p.Entries {
		in := &p.Entries[i]
		hash := eventlog.HashRecord(in.Record)
		if tlog.CheckRecord(in.Hashes, int64(p.Size), p.Root, int64(in.Seq)-1, merkle.LeafHash(hash)) != nil {
			return nil, fmt.Errorf("entry %d: %w", in.Seq, errProof)
		}
		if in.Seq == p.Size && hash != c.Chain {
			return nil, fmt.Errorf("entry %d has the hash %x, but the checkpoint says %x", in.Seq, hash, c.Chain)
		}
	}
	var entries []eventlog.Entry
	for i := range p.Entries {
		e, _, err := eventlog.DecodeRecord(p.Entries[i].Record)
		if err != nil {
			return nil, fmt.Errorf("entry %d of the proof cannot be read: %w", p.Entries[i].Seq, err)
		}
		if e.Seq != p.Entries[i].Seq {
			return nil, fmt.Errorf("the proof is of entry %d, but what it shows is entry %d", p.Entries[i].Seq, e.Seq)
		}
		entries = append(entries, e)
	}
	return placedBy(entries)
}

// placedBy returns the placement that the entries form, in the log's order. It returns an error if they form none: if
// one is about another pod or node, or if the release is missing.
func placedBy(entries []eventlog.Entry) (*Placed, error) {
	first := entries[0]
	d, ok := first.Payload.(*eventlog.Decision)
	if !ok || d.Node == "" || d.Outcome != eventlog.Scheduled && d.Outcome != eventlog.Waiting {
		return nil, fmt.Errorf("entry %d is no Decision that places a pod", first.Seq)
	}
	p := &Placed{Namespace: d.Namespace, Name: d.Name, UID: d.UID, Group: d.Group, Node: d.Node, Decided: first}
	rest := entries[1:]
	if d.Outcome == eventlog.Waiting {
		if len(rest) == 0 || !Releases(rest[0].Payload, d) {
			return nil, fmt.Errorf("entry %d has pod %s/%s wait in Permit, and the entry behind it does not release it",
				first.Seq, d.Namespace, d.Name)
		}
		p.Released, rest = &rest[0], rest[1:]
	}
	if len(rest) > 0 {
		b, ok := rest[0].Payload.(*eventlog.BindResult)
		if !ok || b.UID != d.UID || b.Node != d.Node {
			return nil, fmt.Errorf("entry %d is not the result of binding pod %s/%s to node %s",
				rest[0].Seq, d.Namespace, d.Name, d.Node)
		}
		asked := first.Seq
		if p.Released != nil {
			asked = p.Released.Seq
		}
		if b.Decision != 0 && b.Decision != asked {
			return nil, fmt.Errorf("entry %d is the result of the bind that entry %d asked for, not entry %d",
				rest[0].Seq, b.Decision, asked)
		}
		p.Bound, rest = &rest[0], rest[1:]
	}
	if len(rest) > 0 {
		return nil, errors.New("there are more entries than a placement has")
	}
	return p, nil
}

// Releases reports whether a payload releases the pod of waiting from Permit, for its bind: a Decision that allows it,
// or one on the waiting pod itself.
func Releases(payload eventlog.Payload, waiting *eventlog.Decision) bool {
	d, ok := payload.(*eventlog.Decision)
	if !ok {
		return false
	}
	if d.UID == waiting.UID {
		return d.Outcome == eventlog.Scheduled && d.Node == waiting.Node
	}
	return slices.Contains(d.Allowed, waiting.UID)
}
