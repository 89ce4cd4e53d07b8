package eventlog

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// An Origin is a place in a log, behind an entry. It has everything about the entries before it that is needed to
// continue there. The zero Origin is the place before entry 1.
//
// For example, the place behind entry 7 has the number 7, the hash of record 7, and the tree over entries 1 to 7. Entry
// 8 carries that hash.
type Origin struct {
	// Seq is the entry's number.
	Seq uint64
	// Hash is the hash of its record (HashRecord), all zeros before entry 1.
	Hash [32]byte
	// Tree is the hash tree over the entries up to it.
	Tree merkle.Tree
}

// Clone returns an Origin that shares nothing with o.
func (o Origin) Clone() Origin {
	o.Tree = o.Tree.Clone()
	return o
}

// Check returns an error if an origin from elsewhere is wrong, as far as that can be seen without the log.
func (o Origin) Check() error {
	switch {
	case o.Tree.Size != o.Seq:
		return fmt.Errorf("origin at entry %d: its tree is over %d entries", o.Seq, o.Tree.Size)
	case o.Seq == 0 && o.Hash != [32]byte{}:
		return errors.New("origin before entry 1: there is no record to have a hash")
	}
	if err := o.Tree.Check(); err != nil {
		return fmt.Errorf("origin at entry %d: %w", o.Seq, err)
	}
	return nil
}

// originJSON is an Origin in JSON.
type originJSON struct {
	Seq  uint64      `json:"seq"`
	Hash string      `json:"hash"` // hexadecimal
	Tree []tlog.Hash `json:"tree"`
}

// MarshalJSON implements json.Marshaler.
func (o Origin) MarshalJSON() ([]byte, error) {
	return json.Marshal(originJSON{o.Seq, hex.EncodeToString(o.Hash[:]), append([]tlog.Hash{}, o.Tree.Nodes...)})
}

// UnmarshalJSON implements json.Unmarshaler. It returns the errors of Check.
func (o *Origin) UnmarshalJSON(data []byte) error {
	var in originJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return err
	}
	hash, err := hex.DecodeString(in.Hash)
	if err != nil || len(hash) != 32 {
		return fmt.Errorf("origin at entry %d: its hash is not 64 hexadecimal digits", in.Seq)
	}
	*o = Origin{Seq: in.Seq, Hash: [32]byte(hash), Tree: merkle.Tree{Size: in.Seq, Nodes: in.Tree}}
	return o.Check()
}
