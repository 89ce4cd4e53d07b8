package index

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A part as bytes is
//
//	magic
//	the length of the head, 4 bytes, big endian
//	the head: first, last, hash of last's record, time of first, time of last, counts by kind, by resource and by
//	outcome, the entries that begin epochs
//	SHA-256 of all before
//	the names: for each key, ascending, how much it is above the one before, how many entries name it, and these, each
//	as how far it is behind the one before, the first one behind first
//	SHA-256 of the names
//
// Numbers are uvarints, texts are behind their length. The head can be read alone: it is all that counting needs.
const magic = "rollcall index 2\n"

const (
	// MaxSpan is the largest number of entries of one part.
	MaxSpan = 1 << 15
	// maxHead is the largest size of a head in bytes. One with MaxSpan epochs has about 100 KiB.
	maxHead = 1 << 20
	// MaxFile is the largest size of a part in bytes. A usual one has less than 1 MiB.
	MaxFile = 256 << 20
	// fullPairs is the number of pairs of a name and an entry from which on a part is full. A pair takes at most 11
	// bytes. The names of one more entry, whose record has at most eventlog.MaxRecord bytes, fit into MaxFile too.
	fullPairs = 12 << 20
)

// ErrDamaged says that a file is no part, or is incomplete. The caller makes the part again.
var ErrDamaged = errors.New("it is no whole part of an index")

// ErrWrong says that a part is whole and ends with the right entry, and does not agree with its entries. Readers use
// such a part, and may answer wrongly.
var ErrWrong = errors.New("it does not agree with its entries")

// Facts describe the range of a part.
type Facts struct {
	// First and Last are the first and the last entry.
	First, Last uint64
	// Hash is the hash of Last's record.
	Hash [32]byte
	// From and To are the times of First and Last.
	From, To eventlog.Time
	// Kinds counts entries, Resources the objects that entries brought, Outcomes decisions.
	Kinds     map[eventlog.Kind]uint64
	Resources map[eventlog.Resource]uint64
	Outcomes  map[eventlog.Outcome]uint64
	// Epochs are the entries that begin an epoch, ascending.
	Epochs []uint64
}

// A Part is the index of a range of entries.
type Part struct {
	Facts
	names []byte
	marks []mark // after every markEvery-th key, to find the entries of a key without a scan of all names
}

// markEvery is the number of keys between two marks.
const markEvery = 64

// A mark is a position in names, just after the entries of a key.
type mark struct {
	key uint64
	at  int
}

// Size returns the approximate size of the part in memory, in bytes.
func (p *Part) Size() int { return len(p.names) + 1<<10 }

// A Builder makes a Part of entries that are added one after the other. The zero Builder is ready.
type Builder struct {
	facts Facts
	pairs []uint64 // key<<32 | how far the entry is behind the first
}

// Add adds the next entry.
func (b *Builder) Add(e eventlog.Entry) error {
	f := &b.facts
	if f.First == 0 {
		*f = Facts{First: e.Seq, From: e.Time, Last: e.Seq - 1, Kinds: map[eventlog.Kind]uint64{},
			Resources: map[eventlog.Resource]uint64{}, Outcomes: map[eventlog.Outcome]uint64{}}
	}
	if e.Seq != f.Last+1 || e.Seq-f.First >= MaxSpan {
		return fmt.Errorf("index entry %d: the part has entries %d to %d", e.Seq, f.First, f.Last)
	}
	f.Last, f.To = e.Seq, e.Time
	f.Kinds[e.Kind()]++
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		f.Resources[p.Resource]++
	case *eventlog.Decision:
		f.Outcomes[p.Outcome]++
	case *eventlog.EpochStarted:
		f.Epochs = append(f.Epochs, e.Seq)
	}
	at := e.Seq - f.First
	keys(&e, func(k Key) { b.pairs = append(b.pairs, uint64(k)<<32|at) })
	return nil
}

// Join adds the entries of next, which follow the entries of b. b may be empty. next stays as it is.
func (b *Builder) Join(next *Builder) error {
	if next.Len() == 0 {
		return nil
	}
	f, g := &b.facts, &next.facts
	if f.First == 0 {
		*f = Facts{First: g.First, From: g.From, Last: g.First - 1, Kinds: map[eventlog.Kind]uint64{},
			Resources: map[eventlog.Resource]uint64{}, Outcomes: map[eventlog.Outcome]uint64{}}
	}
	if g.First != f.Last+1 || g.Last-f.First >= MaxSpan {
		return fmt.Errorf("index entries %d to %d: the part has entries %d to %d", g.First, g.Last, f.First, f.Last)
	}
	behind := g.First - f.First
	f.Last, f.To = g.Last, g.To
	addUp(f.Kinds, g.Kinds)
	addUp(f.Resources, g.Resources)
	addUp(f.Outcomes, g.Outcomes)
	f.Epochs = append(f.Epochs, g.Epochs...)
	for _, pair := range next.pairs {
		b.pairs = append(b.pairs, pair+behind)
	}
	return nil
}

func addUp[K comparable](sums, counts map[K]uint64) {
	// any order: sums
	for k, n := range counts {
		sums[k] += n
	}
}

// Full reports whether the part should have no more entries, because those added have very many names.
func (b *Builder) Full() bool { return len(b.pairs) >= fullPairs }

// Range returns the range of the added entries, at least one.
func (b *Builder) Range() Range { return Range{b.facts.First, b.facts.Last} }

// Len returns the number of entries added.
func (b *Builder) Len() int {
	if b.facts.First == 0 {
		return 0
	}
	return int(b.facts.Last - b.facts.First + 1)
}

// Part returns the part of the added entries, at least one. hash is the hash of the last one's record. The Builder is
// empty afterwards.
func (b *Builder) Part(hash [32]byte) *Part {
	p := &Part{Facts: b.facts}
	p.Hash = hash
	slices.Sort(b.pairs)
	pairs := slices.Compact(b.pairs)
	key := uint64(0)
	for i := 0; len(pairs) > 0; i++ {
		n := 1
		for n < len(pairs) && pairs[n]>>32 == pairs[0]>>32 {
			n++
		}
		p.names = binary.AppendUvarint(p.names, pairs[0]>>32-key)
		p.names = binary.AppendUvarint(p.names, uint64(n))
		key = pairs[0] >> 32
		before := uint64(0)
		for _, pair := range pairs[:n] {
			at := pair & math.MaxUint32
			p.names = binary.AppendUvarint(p.names, at-before)
			before = at
		}
		if i%markEvery == markEvery-1 {
			p.marks = append(p.marks, mark{key, len(p.names)})
		}
		pairs = pairs[n:]
	}
	p.names = slices.Clip(p.names)
	b.facts, b.pairs = Facts{}, b.pairs[:0]
	return p
}

// Naming appends to dst the entries that have one of the keys. The keys are sorted, without duplicates. The appended
// entries are in no order, and may include an entry twice.
func (p *Part) Naming(wanted []Key, dst []uint64) []uint64 {
	at, key := 0, uint64(0) // the key before the position
	for _, k := range wanted {
		i := sort.Search(len(p.marks), func(i int) bool { return p.marks[i].key >= uint64(k) }) - 1
		if i >= 0 && p.marks[i].at > at {
			at, key = p.marks[i].at, p.marks[i].key
		}
		dst, at, key = p.naming(uint64(k), at, key, dst)
	}
	return dst
}

// naming appends the entries of k to dst. It starts at a position after a key below k, and returns the position after
// the last key that is not above k.
func (p *Part) naming(k uint64, at int, key uint64, dst []uint64) ([]uint64, int, uint64) {
	r := reader{b: p.names[at:]}
	for len(r.b) > 0 {
		next := key + r.uvarint()
		if next > k {
			break
		}
		seq := p.First
		for range r.uvarint() {
			if seq += r.uvarint(); next == k {
				dst = append(dst, seq)
			}
		}
		at, key = len(p.names)-len(r.b), next
	}
	return dst, at, key
}

// A Digest has hashes of the content of a part. The same entries give the same digest.
type Digest struct {
	Range
	// Hash is the hash of the last entry's record.
	Hash [32]byte
	// Facts is a hash of the facts, Names one of the names and of the entries that have them.
	Facts, Names [32]byte
}

// Digest returns the digest of the part.
func (p *Part) Digest() Digest {
	return Digest{Range: Range{p.First, p.Last}, Hash: p.Hash, Facts: sha256.Sum256(p.head()),
		Names: sha256.Sum256(p.names)}
}

// Compare returns an error if the content of a part is not the content of the part made of the log's entries of the
// same range. It wraps ErrWrong if nothing but the entries shows that.
func (d Digest) Compare(made Digest) error {
	switch {
	case d.Hash != made.Hash:
		return NotOfThisLog(d.Last)
	case d.Facts != made.Facts && d.Names != made.Names:
		return fmt.Errorf("%w: its counts or times, and its names", ErrWrong)
	case d.Facts != made.Facts:
		return fmt.Errorf("%w: its counts or times", ErrWrong)
	case d.Names != made.Names:
		return fmt.Errorf("%w: its names", ErrWrong)
	}
	return nil
}

// NotOfThisLog is the error for a part whose last entry is another one in the log.
func NotOfThisLog(last uint64) error {
	return fmt.Errorf("it is not of this log: entry %d is another one here", last)
}

// Encode returns the part as bytes, the same bytes for the same entries.
func (p *Part) Encode() []byte {
	head := p.head()
	out := binary.BigEndian.AppendUint32([]byte(magic), uint32(len(head)))
	out = append(out, head...)
	sum := sha256.Sum256(out)
	out = append(out, sum[:]...)
	sum = sha256.Sum256(p.names)
	return append(append(out, p.names...), sum[:]...)
}

// head returns the facts as bytes.
func (p *Part) head() []byte {
	head := binary.AppendUvarint(nil, p.First)
	head = binary.AppendUvarint(head, p.Last)
	head = append(head, p.Hash[:]...)
	head = binary.AppendVarint(head, int64(p.From))
	head = binary.AppendVarint(head, int64(p.To))
	head = appendCounts(head, p.Kinds, func(dst []byte, k eventlog.Kind) []byte { return append(dst, byte(k)) })
	head = appendCounts(head, p.Resources, func(dst []byte, r eventlog.Resource) []byte {
		return append(binary.AppendUvarint(dst, uint64(len(r))), r...)
	})
	head = appendCounts(head, p.Outcomes, func(dst []byte, o eventlog.Outcome) []byte { return append(dst, byte(o)) })
	head = binary.AppendUvarint(head, uint64(len(p.Epochs)))
	before := p.First
	for _, seq := range p.Epochs {
		head = binary.AppendUvarint(head, seq-before)
		before = seq
	}
	return head
}

func appendCounts[K eventlog.Kind | eventlog.Resource | eventlog.Outcome](
	dst []byte, counts map[K]uint64, appendKey func([]byte, K) []byte,
) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(counts)))
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		dst = binary.AppendUvarint(appendKey(dst, k), counts[k])
	}
	return dst
}
