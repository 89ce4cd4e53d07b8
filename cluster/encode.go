package cluster

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// AppendState appends the whole state in one canonical form: two states that can ever behave differently
// differ in it, and two that were built from the same entries never do. Restore makes the state of it again.
func (s *State) AppendState(dst []byte) ([]byte, error) {
	var err error
	if dst, err = s.volumes.AppendState(s.informers.AppendState(dst)); err != nil {
		return nil, err
	}
	if dst, err = s.devices.AppendState(dst); err != nil {
		return nil, err
	}
	if dst, err = s.nodes.appendState(dst); err != nil {
		return nil, err
	}
	if dst, err = s.pods.appendState(dst, s.nodes.slots(s.pods.Len())); err != nil {
		return nil, err
	}
	return s.gangs.appendState(dst), nil
}

func (ns *Nodes) appendState(dst []byte) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, uint64(len(ns.listed)))
	for _, info := range ns.listed {
		if dst, err = appendObject(dst, info.Node()); err != nil {
			return nil, fmt.Errorf("node %q: %w", info.Node().Name, err)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(ns.images)))
	for _, name := range slices.Sorted(maps.Keys(ns.images)) {
		dst = canonical.AppendString(dst, name)
		dst = binary.AppendVarint(dst, ns.images[name].Size)
	}
	return dst, nil
}

// appendState appends the pods. slots has their places in the lists of their nodes.
func (ps *Pods) appendState(dst []byte, slots map[types.UID]slots) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, uint64(len(ps.byUID)))
	for _, uid := range slices.Sorted(maps.Keys(ps.byUID)) {
		p := ps.byUID[uid]
		if dst, err = appendObject(dst, p.Object); err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", p.Object.Namespace, p.Object.Name, err)
		}
		dst = p.appendPlace(dst, slots[uid])
	}
	return dst, nil
}

// appendPlace appends everything about the pod but its object.
func (p *Pod) appendPlace(dst []byte, at slots) []byte {
	dst = canonical.AppendString(dst, p.groupName()) // what its label says now may be another name
	dst = append(dst, byte(p.Stage), canonical.Flags(p.evicted, p.needed, len(p.Devices) > 0))
	dst = canonical.AppendString(dst, p.Node)
	if p.Node != "" {
		for _, slot := range at {
			dst = binary.AppendUvarint(dst, uint64(slot))
		}
		dst = binary.AppendVarint(dst, int64(p.Since))
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Volumes)))
	for _, v := range p.Volumes {
		dst = canonical.AppendString(dst, v.Claim)
		dst = canonical.AppendString(dst, v.Volume)
	}
	if len(p.Devices) == 0 {
		return dst
	}
	return devices.AppendDevices(dst, p.Devices)
}

// slots are a pod's places in the lists of its NodeInfo: all pods, pods with affinity, and pods with required
// anti-affinity. A place is 0 in a list that does not have the pod. Plugins walk these lists, and their order depends
// on history: upstream fills the gap that a pod leaves with the last one. The list of pods with required anti-affinity
// by more than the host is not here. Its order does not matter, because plugins only sum over it.
type slots [3]int

func slotLists(info *framework.NodeInfo) [len(slots{})][]fwk.PodInfo {
	return [...][]fwk.PodInfo{info.Pods, info.PodsWithAffinity, info.PodsWithRequiredAntiAffinity}
}

// slots returns the slots of all pods that have a node. There are so many pods or fewer.
func (ns *Nodes) slots(pods int) map[types.UID]slots {
	all := make(map[types.UID]slots, pods)
	// any order: every node's pods are its own
	for _, n := range ns.byName {
		for list, infos := range slotLists(n.info) {
			for i, info := range infos {
				uid := info.GetPod().UID
				at := all[uid]
				at[list] = i
				all[uid] = at
			}
		}
	}
	return all
}

// appendObject appends the object behind its length.
func appendObject(dst []byte, obj eventlog.Object) ([]byte, error) {
	start := len(dst)
	dst, err := eventlog.AppendObject(dst, obj)
	if err != nil {
		return nil, err
	}
	// The length is known only now: the object makes way for it.
	size := len(dst) - start
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(size))
	dst = append(dst, length[:n]...)
	copy(dst[start+n:], dst[start:start+size])
	copy(dst[start:], length[:n])
	return dst, nil
}
