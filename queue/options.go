package queue

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// The defaults of Options, which are kube-scheduler's.
const (
	DefaultInitialBackoff = time.Second
	DefaultMaxBackoff     = 10 * time.Second
	DefaultFlushAfter     = 5 * time.Minute
	DefaultFlushPeriod    = 30 * time.Second
)

// Profile has the functions of one profile's plugins that the queue calls.
type Profile struct {
	// GroupBackoff is the shortest backoff of a gang that was found unschedulable; 0 for the backoff of a pod.
	GroupBackoff time.Duration
	// Lanes is the policy of the profile's entities; nil for BestEffort. Profiles with the same policy share its lanes.
	Lanes LanePolicy
	// PreEnqueue are the plugins that may gate a pod, in the order in which they are asked.
	PreEnqueue []fwk.PreEnqueuePlugin
	// Hints are the events that each plugin registered with EventsToRegister, by plugin name. A plugin with
	// no events (an empty list) is moved by none; a plugin that is not in the map is moved by every event,
	// as upstream does for plugins without EnqueueExtensions. A QueueingHintFn of nil means Queue. A
	// PreQueueingHintFn, where it is set, is used (upstream has it behind the feature gate
	// SchedulerPreQueueingHints): what it reads must be up to date when Move is called.
	Hints map[string][]fwk.ClusterEventWithHint
}

// Options is everything that a Queue depends on besides the calls made to it. All functions in it must be
// functions of the state at the time of the call: neither they nor the plugins may change the queue.
type Options struct {
	// InitialBackoff is the backoff after the first failure; it doubles with each further one. 0 means
	// DefaultInitialBackoff.
	InitialBackoff time.Duration
	// MaxBackoff is the longest backoff, at least InitialBackoff. 0 means DefaultMaxBackoff, or
	// InitialBackoff if that is longer.
	MaxBackoff time.Duration
	// FlushAfter is the time for which an entity may stay unschedulable or gated before it is tried again without an
	// event. 0 means DefaultFlushAfter.
	FlushAfter time.Duration
	// FlushPeriod is the interval of that check, which happens at multiples of it since the Unix epoch. 0 means
	// DefaultFlushPeriod.
	FlushPeriod time.Duration

	// Less is the order of activeQ: the QueueSort plugin's. Required. Where it finds two entities equal, the
	// lower Key goes first, so that the order is total. It may read what the entity shows; when something
	// else that it reads changes, Recheck must be called before any other method.
	Less fwk.LessFunc

	// Priority returns the priority that an entity was given as a whole. ok is false for an entity that has the highest
	// priority of its members, as all entities have without Priority. When its answer changes, Recheck must be called
	// before any other method.
	Priority func(key Key) (p int32, ok bool)

	// Part returns which of a composite's gangs the pod is a member of, for as long as it is there. An attempt goes
	// through the members gang by gang. nil means that no composite comes.
	Part func(pod *v1.Pod) string

	// Outside are the plugins whose answers do not follow from the state alone: HTTP extenders, and plugins that go by
	// time. An entity that one of them refused is flushed also if nothing has changed.
	Outside []string
	// GatesByTime has gated entities flushed also if nothing has changed: a PreEnqueue plugin goes by time.
	GatesByTime bool

	// Profiles are the profiles by scheduler name. A pod of another scheduler name is gated by nothing and
	// moved by every event.
	Profiles map[string]Profile

	// PopEarly lets entities be attempted before their backoff ends when nothing else is worth an attempt, see
	// early.go: the feature gate SchedulerPopFromBackoffQ.
	PopEarly bool

	// Room is a cheap necessary condition for an attempt to succeed: false means that it would certainly
	// fail now. It is asked, by ChooseHead, only for entities whose last attempt failed, whether they are due or to be
	// attempted early. nil means always true.
	Room func(e *Entity) bool

	// Need returns the least amounts that a retryable entity needs. MayHaveRoom reports whether there may be room for a
	// Need of entities in a lane, or of entities in no lane if lane is "". If an entity has room (Room), there is room
	// for its Need, and for every smaller Need. When an answer of Need may change for a reason outside the queue, Renew
	// must be called before ChooseHead. They save calls of Room, and are memos only: the answers are the same without
	// them. nil means that no needs are known.
	Need        func(e *Entity) Need
	MayHaveRoom func(lane string, n *Need) bool

	// RoomVersion returns a number that changes whenever an answer of Room may have turned from false to true for a
	// reason outside the entity, for example because capacity was freed. It also changes with the answers of a
	// LanePolicy. It saves calls of Room. nil means that answers may have changed with every Add, Update, Delete, Move,
	// Recheck, Activate and MarkPending. It is a memo only: the answers are the same with and without it.
	RoomVersion func() uint64
}

// withDefaults fills in the zeros and checks the rest.
func (o Options) withDefaults() (Options, error) {
	for _, f := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"InitialBackoff", &o.InitialBackoff, DefaultInitialBackoff},
		{"MaxBackoff", &o.MaxBackoff, max(DefaultMaxBackoff, o.InitialBackoff)},
		{"FlushAfter", &o.FlushAfter, DefaultFlushAfter},
		{"FlushPeriod", &o.FlushPeriod, DefaultFlushPeriod},
	} {
		if *f.value < 0 {
			return o, fmt.Errorf("queue: %s is negative: %v", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.zero
		}
	}
	if o.MaxBackoff < o.InitialBackoff {
		return o, fmt.Errorf("queue: MaxBackoff %v is below InitialBackoff %v", o.MaxBackoff, o.InitialBackoff)
	}
	if o.Less == nil {
		return o, errors.New("queue: Less is missing")
	}
	return o, nil
}
