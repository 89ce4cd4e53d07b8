// Package broken does not compile; what can be told of it is still told.
package broken

func count(m map[string]int) (sum int) {
	for _, v := range m { // want map-order
		sum += v
	}
	return sum + missing // want type-check
}
