package workload

import (
	"math"

	yamlv3 "go.yaml.in/yaml/v3"
)

// The pods and bytes that a small file would make are counted before they are made.

// checkRoom refuses an object that makes more pods than one can, or than fit into the workload. It is called before
// the pods are made. field is the path of their number.
func (m *manifest) checkRoom(d *document, field, object string, pods int64) error {
	if pods > MaxObjectPods {
		return d.errorf(field, "%s: %s makes %d pods: one object can make %d", field, object, pods, MaxObjectPods)
	}
	if there := len(m.in.workload.Pods); pods > MaxPods-int64(there) {
		return d.errorf(field, "%s: %s makes %d pods, and there are %d before: a workload can have %d", field, object,
			pods, there, MaxPods)
	}
	return nil
}

// checkTotal refuses the object with which the file makes more pods than a workload can have, before any are made.
// Objects that are refused for themselves do not count.
func (m *manifest) checkTotal() error {
	total := int64(0)
	for _, s := range m.pods {
		pods, field := int64(1), ""
		switch {
		case s.job != nil:
			count, _, err := jobSize(s.doc, s.job)
			if pods, field = int64(count), "spec"; err != nil {
				pods = 0
			}
		case s.replicated != nil:
			// Some of its pods may be in the file.
			pods, field = max(0, int64(s.replicated.size())-int64(len(m.pods))), "spec.replicas"
			if s.replicated.size() > MaxObjectPods {
				pods = 0
			}
		case s.owner != nil:
			pods = s.owner.pods
		}
		if total += pods; total > MaxPods {
			return s.doc.errorf(field, "%d pods with the objects before: a workload can have %d", total, MaxPods)
		}
	}
	return nil
}

// maxExpanded is the size that a document may have once its aliases are replaced by the values, as a multiple of its
// own size, beside a kilobyte.
const maxExpanded = 20

// expandedSize returns about how many bytes the text of a node takes with every alias replaced by its value. sizes has
// the sizes that are known. A node that is within itself, which no parser accepts, counts once.
func expandedSize(n *yamlv3.Node, sizes map[*yamlv3.Node]int64) (size int64) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	if known, ok := sizes[n]; ok {
		return known
	}
	size = int64(len(n.Value)) + 1
	sizes[n] = size
	for _, each := range n.Content {
		if size += expandedSize(each, sizes); size > math.MaxInt64/4 {
			size = math.MaxInt64 / 4
		}
	}
	sizes[n] = size
	return size
}
