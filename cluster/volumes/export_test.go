package volumes

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Held counts the pods that hold overlays.
func (s *State) Held() int { return len(s.held) }

// HeldBy counts the overlays that a pod holds.
func (s *State) HeldBy(pod types.UID) int { return len(s.held[pod]) }

// Check checks that pods and overlays agree about the holders.
func (s *State) Check(fail func(format string, args ...any)) {
	entries := 0
	volumeOf := map[types.UID]string{}
	for k := range s.overlays {
		if pv, ok := s.objects.Get(k.resource, k.Namespace, k.Name).(*v1.PersistentVolume); ok {
			if other, ok := volumeOf[pv.Spec.ClaimRef.UID]; ok {
				fail("volumes %s and %s are both assumed for claim %s", pv.Name, other, pv.Spec.ClaimRef.Name)
			}
			volumeOf[pv.Spec.ClaimRef.UID] = pv.Name
		}
	}
	for k, o := range s.overlays {
		if len(o.holders) == 0 || !slices.IsSorted(o.holders) {
			fail("overlay of %v has holders %v", k, o.holders)
		}
		for _, uid := range o.holders {
			if !slices.Contains(s.held[uid], k) {
				fail("pod %s does not know that it holds %v", uid, k)
			}
			entries++
		}
	}
	for uid, keys := range s.held {
		if entries -= len(keys); len(keys) == 0 {
			fail("pod %s holds nothing and is remembered", uid)
		}
	}
	if entries != 0 {
		fail("holders and holdings differ by %d", entries)
	}
}
