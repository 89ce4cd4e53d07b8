package backfill

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/queue"
)

// KeptRoom is the room that is kept from a pod for an entity that comes before its own in the lane: by a reservation,
// or because that entity lets nothing pass. It is Refusal as amounts: a node is refused if less of a resource is left
// there than the pod needs.
type KeptRoom struct {
	// First is the entity for which the room is kept.
	First queue.Key

	left func(info fwk.NodeInfo, name v1.ResourceName) (amount int64, limited bool)
}

// KeptFrom returns the room that is kept from a pod; nil if there is none.
func (p *Planner) KeptFrom(uid types.UID) *KeptRoom {
	pod := p.view.Pods().Get(uid)
	if first, own := p.overtaken(pod); first != nil {
		return &KeptRoom{first.Key(), func(info fwk.NodeInfo, _ v1.ResourceName) (int64, bool) {
			return 0, info.Node().Name != own
		}}
	}
	r := p.limiting(pod)
	if r == nil {
		return nil
	}
	return &KeptRoom{r.Key, func(info fwk.NodeInfo, name v1.ResourceName) (int64, bool) {
		if len(p.takenBy(r)[info.Node().Name]) == 0 || p.isKept(r, pod, info.Node().Name) {
			return 0, false
		}
		return max(0, p.slack(r, info, name)-p.kept(r, pod, info, name)), true
	}}
}

// On returns how much is kept of an amount that is free of a node's resource.
func (k *KeptRoom) On(info fwk.NodeInfo, name v1.ResourceName, free int64) int64 {
	left, limited := k.left(info, name)
	if !limited {
		return 0
	}
	return max(0, free-left)
}
