package scheduler

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// EffectKind says what an Effect asks for.
type EffectKind uint8

const (
	// Bind asks to bind the pod to Node; its result comes back as a BindResult entry.
	Bind EffectKind = 1
	// Evict asks to delete the pod gracefully; its deletion comes back as a Deleted entry.
	Evict EffectKind = 2
)

// Effect is what a decision asks of the outside world. It may be carried out only once the entry Seq is
// durable, and may be asked for again after a restart.
type Effect struct {
	Kind EffectKind
	// Seq is the decision that asks for it.
	Seq uint64
	// Namespace, Name and UID are the pod's; the UID is a precondition of the call.
	Namespace, Name string
	UID             types.UID
	// Node is where Bind puts the pod.
	Node string
	// Volumes are the claims that must be bound or provisioned before the pod is.
	Volumes []eventlog.VolumeClaim
}
