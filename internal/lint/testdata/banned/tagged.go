//go:build invariants

package banned

func tagged(m map[string]int) (sum int) {
	for _, v := range m { // want map-order
		sum += v
	}
	return sum
}
