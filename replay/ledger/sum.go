package ledger

import (
	"math/big"
	"math/bits"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Sum is an exact sum of amounts times durations: units of a resource times nanoseconds, in 128 bits.
type Sum struct{ hi, lo uint64 }

// add adds an amount for a duration. Neither is negative.
func (s *Sum) add(amount int64, d eventlog.Time) {
	hi, lo := bits.Mul64(uint64(amount), uint64(d))
	s.plus(Sum{hi, lo})
}

// plus adds another sum.
func (s *Sum) plus(o Sum) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, o.lo, 0)
	s.hi, _ = bits.Add64(s.hi, o.hi, carry)
}

// Big returns the sum as a big integer.
func (s Sum) Big() *big.Int {
	v := new(big.Int).SetUint64(s.hi)
	return v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(s.lo))
}

// IsZero reports whether the sum is 0.
func (s Sum) IsZero() bool { return s == Sum{} }
