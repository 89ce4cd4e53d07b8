package framework

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/canonical"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Restore reads what AppendState wrote into w, which must hold nothing. pod returns the pod of a UID as it is
// by now, nil if there is none, which is an error.
func (w *WaitingPods) Restore(r *canonical.Reader, pod func(types.UID) *v1.Pod) error {
	if w.Len() > 0 {
		return errors.New("restore waiting pods: some are there already")
	}
	for range r.Count("waiting pods", 5) {
		held := WaitingPod{Seq: r.Uvarint("decision"), Until: eventlog.Time(r.Varint("deadline"))}
		uid := types.UID(r.String("waiting pod"))
		held.Node = r.String("node")
		for range r.Count("plugins", 1) {
			held.Plugins = append(held.Plugins, r.String("plugin"))
		}
		if r.Err() != nil {
			return r.Err()
		}
		if held.Pod = pod(uid); held.Pod == nil || w.byUID[uid] != nil {
			return fmt.Errorf("waiting pod %s is not there, or there twice", uid)
		}
		w.Hold(held)
	}
	return r.Err()
}
