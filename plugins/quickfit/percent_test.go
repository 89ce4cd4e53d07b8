package quickfit

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPercentDividesExactly compares with a division, also where the quotient is a whole number or nearly so, and for
// amounts that a float64 cannot hold.
func TestPercentDividesExactly(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	multiplied := 0
	for range 200_000 {
		has := 1 + g.Int64()>>g.IntN(63)
		if has <= 0 {
			has = math.MaxInt64
		}
		for _, part := range []int64{
			0, has, has / 100, has / 100 * (1 + g.Int64N(99)), g.Int64N(has), -g.Int64N(1000),
		} {
			for _, part := range []int64{part - 1, part, part + 1} {
				if part > math.MaxInt64/100 || part < math.MinInt64/100 {
					continue
				}
				if got, want := percent(part, has, inverse(has)), part*100/has; got != want {
					t.Fatalf("%d of %d are %d %%, want %d", part, has, got, want)
				}
				if inverse(has) != 0 && part >= 0 && part <= has {
					multiplied++
				}
			}
		}
	}
	if multiplied < 1_000_000 {
		t.Errorf("only %d times there was no division", multiplied)
	}
}
