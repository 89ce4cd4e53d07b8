package phrase

import (
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Amount prints an amount of a resource as people write it, with at most three decimals.
func Amount(name v1.ResourceName, n int64) string {
	switch {
	case name == v1.ResourceCPU && n%1000 == 0:
		return strconv.FormatInt(n/1000, 10)
	case name == v1.ResourceCPU:
		return strconv.FormatInt(n, 10) + "m"
	case name == v1.ResourceMemory, name == v1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
		return bytesText(n)
	}
	return strconv.FormatInt(n, 10)
}

func bytesText(n int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	v, unit := float64(n), 0
	for v >= 1024 && unit < len(units)-1 {
		v /= 1024
		unit++
	}
	text := strconv.FormatFloat(v, 'f', 3, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + units[unit]
}
