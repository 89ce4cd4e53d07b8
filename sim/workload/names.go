package workload

import (
	"fmt"
	"hash/fnv"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// The lengths of generated names: the API server cuts the base so that a random part of five letters makes 63.
const (
	generatedBase   = 58
	validNameLength = 253
)

// generatedLetters are the letters that the API server uses in the random part of a name.
const generatedLetters = "bcdfghjklmnpqrstvwxz2456789"

// generatedName makes the name of the k-th pod of an owner as the API server does, except that the last part is not
// random but follows from the owner's name and k.
func (m *manifest) generatedName(owner, namespace, base string, k int) (string, error) {
	return m.freeName(string(eventlog.Pods), owner, namespace, base, k)
}

// nameFor makes the name of an object of a resource that has metadata.generateName instead of a name. The last part
// follows from the resource, the namespace, and the number of earlier objects in the file with the same generateName.
func (m *manifest) nameFor(resource, namespace, base string) (string, error) {
	key := resource + " " + namespace + "/" + base
	k := m.generated[key]
	m.generated[key]++
	return m.freeName(resource, key, namespace, base, k)
}

// freeName makes a name that no object of the resource in the file has so far.
func (m *manifest) freeName(resource, seed, namespace, base string, k int) (string, error) {
	base = base[:min(len(base), generatedBase)]
	for attempt := range 1000 {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s\x00%d\x00%d", seed, k, attempt)
		n, suffix := h.Sum64(), [5]byte{}
		for i := range suffix {
			suffix[i] = generatedLetters[n%uint64(len(generatedLetters))]
			n /= uint64(len(generatedLetters))
		}
		name := base + string(suffix[:])
		if _, taken := m.places[resource+" "+namespace+"/"+name]; !taken {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s: no name is free for object %d", seed, k)
}
