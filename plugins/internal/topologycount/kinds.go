package topologycount

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
)

// kinds numbers the kinds of pods. Pods of one kind are the same to every term. They have the same namespace, the same
// values of the labels that any selector names, and the same affinity terms. All or none of them are being deleted.
// Example: the pods of a StatefulSet differ in the label apps.kubernetes.io/pod-index; while no selector names it they
// are of one kind. Kind 0 is the node itself.
type kinds struct {
	list   []kind
	of     map[string]int32 // by the bytes of appendPod
	unused int              // how many kinds have no pod
	labels labelNames
	key    []byte // memory of the next key
}

// nodeKind is the node itself: it comes and goes as its pods do.
const nodeKind = 0

// kind has one of its pods as an example, and how many pods it has.
type kind struct {
	info fwk.PodInfo // nil for nodeKind
	pods int
}

const (
	// maxNames bounds the labels that count. When selectors name more, all labels of a pod count.
	maxNames = 64
	// slack unused kinds, and domains of a topology, may have a number besides as many as are in use.
	slack = 1024
)

// clear forgets all kinds, and keeps the names of labels.
func (s *kinds) clear() { s.list, s.of, s.unused = []kind{{}}, map[string]int32{}, 1 }

// outgrown reports whether the kinds have to be numbered again: selectors name more labels, or too many are unused.
func (s *kinds) outgrown() bool { return s.labels.grown || s.unused > len(s.list)-s.unused+slack }

// number returns the pod's kind.
func (s *kinds) number(info fwk.PodInfo) (int32, error) {
	key, err := s.appendPod(s.key[:0], info.GetPod())
	if err != nil {
		return 0, err
	}
	s.key = key
	k, ok := s.of[string(key)]
	if !ok {
		s.labels.addTerms(info)
		k = int32(len(s.list))
		s.of[string(key)] = k
		s.list = append(s.list, kind{info: info})
		s.unused++
	}
	return k, nil
}

// count notes that a pod of the kind has come (+1) or gone (-1).
func (s *kinds) count(number, by int32) {
	k := &s.list[number]
	if k.pods == 0 {
		s.unused--
	}
	if k.pods += int(by); k.pods == 0 {
		s.unused++
	}
}

// appendPod appends everything about the pod that terms may ask for, and its own affinity terms.
func (s *kinds) appendPod(b []byte, pod *v1.Pod) ([]byte, error) {
	b = s.labels.appendTo(appendString(b, pod.Namespace), pod.Labels)
	if pod.DeletionTimestamp != nil {
		b = append(b, 'd')
	}
	if !HasTerms(pod) {
		return b, nil
	}
	terms := v1.Affinity{PodAffinity: pod.Spec.Affinity.PodAffinity, PodAntiAffinity: pod.Spec.Affinity.PodAntiAffinity}
	b = append(b, 'a')
	at, size := len(b), terms.Size()
	b = slices.Grow(b, size)[:at+size]
	if _, err := terms.MarshalToSizedBuffer(b[at:]); err != nil {
		return nil, fmt.Errorf("encode affinity: %w", err)
	}
	return b, nil
}

// HasTerms reports whether the pod may have affinity or anti-affinity to pods.
func HasTerms(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// labelNames are the names of the labels that selectors name.
type labelNames struct {
	known map[string]bool
	list  []string // sorted
	all   bool     // they are too many: every label of a pod counts
	grown bool     // since the kinds were numbered
}

// addTerms adds the labels that the pod's terms name.
func (n *labelNames) addTerms(info fwk.PodInfo) {
	for _, terms := range [][]fwk.AffinityTerm{info.GetRequiredAffinityTerms(), info.GetRequiredAntiAffinityTerms()} {
		for i := range terms {
			n.addSelector(terms[i].Selector)
		}
	}
	for _, terms := range [][]fwk.WeightedAffinityTerm{info.GetPreferredAffinityTerms(),
		info.GetPreferredAntiAffinityTerms()} {
		for i := range terms {
			n.addSelector(terms[i].Selector)
		}
	}
}

func (n *labelNames) addSelector(selector labels.Selector) {
	requirements, _ := selector.Requirements()
	for i := range requirements {
		n.add(requirements[i].Key())
	}
}

func (n *labelNames) add(name string) {
	if n.all || n.known[name] {
		return
	}
	n.grown = true
	if len(n.list) == maxNames {
		n.all, n.known, n.list = true, nil, nil
		return
	}
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[name] = true
	n.list = append(n.list, name)
	slices.Sort(n.list)
}

// appendTo appends the labels that count. Different ones never give the same bytes.
func (n *labelNames) appendTo(b []byte, set map[string]string) []byte {
	names := n.list
	if n.all {
		names = slices.Sorted(maps.Keys(set))
	}
	for _, name := range names {
		if value, ok := set[name]; ok {
			b = appendString(appendString(append(b, 'l'), name), value)
		}
	}
	return b
}

// appendString appends the string's length and the string.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
