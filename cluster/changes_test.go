package cluster

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A caller that asks often gets every changed node, however many change. A caller that does not learns that they are
// not known.
func TestChangesListsEveryChangedNodeOrReportsThatItCannot(t *testing.T) {
	s := New()
	for i := range 40 {
		node := &v1.Node{}
		node.Name = fmt.Sprintf("n%02d", i)
		if _, err := s.UpsertNode(node); err != nil {
			t.Fatal(err)
		}
	}
	_, often, _ := s.nodes.ChangedSince(0)
	began := often
	for i := range 10 * minJournal {
		name := fmt.Sprintf("n%02d", i*7%40)
		node := s.Nodes().Object(name).DeepCopy()
		if _, err := s.UpsertNode(node); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			continue // two at once, now and then
		}
		places, now, ok := s.nodes.ChangedSince(often)
		if at, _ := s.nodes.find(name); !ok || now <= often || !slices.Contains(places, int32(at)) || len(places) > 2 {
			t.Fatalf("change %d, of %s: told of %v, %v", i, name, places, ok)
		}
		often = now
	}
	if _, _, ok := s.nodes.ChangedSince(began); ok {
		t.Error("all of so many changes are known")
	}
	if len(s.nodes.changed.places) > 4*minJournal {
		t.Errorf("%d changes are kept", len(s.nodes.changed.places))
	}
	if _, _, ok := s.nodes.ChangedSince(often + 1); ok {
		t.Error("what is to come is known")
	}
}
