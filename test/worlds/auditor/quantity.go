package auditor

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// quantity is the exact amount of a resource.
type quantity struct{ *big.Rat }

// suffixes are a quantity's suffixes, with their base and exponent.
var suffixes = map[string][2]int64{
	"n": {10, -9}, "u": {10, -6}, "m": {10, -3}, "": {10, 0}, "k": {10, 3}, "M": {10, 6}, "G": {10, 9}, "T": {10, 12},
	"P": {10, 15}, "E": {10, 18}, "Ki": {2, 10}, "Mi": {2, 20}, "Gi": {2, 30}, "Ti": {2, 40}, "Pi": {2, 50}, "Ei": {2,
		60},
}

// parseQuantity reads a quantity of the Kubernetes API, such as 100m, 1.5Gi or 2e3.
func parseQuantity(text string) (quantity, error) {
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, suffix := text[:end], text[end:]
	scale, known := suffixes[suffix]
	if mantissa, exponent, ok := strings.Cut(strings.ToLower(number), "e"); ok && suffix == "" {
		n, err := strconv.ParseInt(exponent, 10, 16)
		if err != nil {
			return quantity{}, fmt.Errorf("quantity %q: %w", text, err)
		}
		number, scale = mantissa, [2]int64{10, n}
	}
	value, ok := new(big.Rat).SetString(number)
	if !ok || !known {
		return quantity{}, fmt.Errorf("%q is no quantity", text)
	}
	factor := new(big.Int).Exp(big.NewInt(scale[0]), big.NewInt(max(scale[1], -scale[1])), nil)
	if scale[1] < 0 {
		return quantity{value.Quo(value, new(big.Rat).SetInt(factor))}, nil
	}
	return quantity{value.Mul(value, new(big.Rat).SetInt(factor))}, nil
}

// UnmarshalJSON reads a quantity that is written as a string or as a number.
func (q *quantity) UnmarshalJSON(data []byte) error {
	text := string(data)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	parsed, err := parseQuantity(text)
	*q = parsed
	return err
}

// amounts are quantities by resource. A missing one is zero.
type amounts map[string]quantity

// of returns the amount of a resource.
func (a amounts) of(resource string) *big.Rat {
	if q, ok := a[resource]; ok && q.Rat != nil {
		return q.Rat
	}
	return new(big.Rat)
}

// add adds b to a.
func (a amounts) add(b amounts) {
	for resource, q := range b {
		a[resource] = quantity{new(big.Rat).Add(a.of(resource), q.Rat)}
	}
}

// raise makes a at least b, resource by resource.
func (a amounts) raise(b amounts) {
	for resource, q := range b {
		if a.of(resource).Cmp(q.Rat) < 0 {
			a[resource] = q
		}
	}
}

// plus returns the sum of both.
func (a amounts) plus(b amounts) amounts {
	sum := amounts{}
	sum.add(a)
	sum.add(b)
	return sum
}

// requestsOf returns the resources that the scheduler must keep free for a pod. They are the sum of its containers and
// of its sidecars, or, if that is more, the needs of an init container and the sidecars before it; and the pod's
// overhead.
func requestsOf(spec *podSpec) amounts {
	running := amounts{}
	for _, c := range spec.Containers {
		running.add(c.requests())
	}
	sidecars, starting := amounts{}, amounts{}
	for _, c := range spec.InitContainers {
		if c.RestartPolicy == "Always" {
			sidecars.add(c.requests())
			starting.raise(sidecars)
			continue
		}
		starting.raise(sidecars.plus(c.requests()))
	}
	running.add(sidecars)
	running.raise(starting)
	running.add(spec.Overhead)
	return running
}
