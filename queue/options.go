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

// Profile is what the queue asks of the plugins of one profile.
type Profile struct {
	// GroupBackoff is the shortest backoff of a gang that was found unschedulable; 0 for that of a pod.
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
	// FlushAfter is how long an entity may stay unschedulable or gated before it is tried again even though
	// no event asked for it. 0 means DefaultFlushAfter.
	FlushAfter time.Duration
	// FlushPeriod is how often that is looked at: at multiples of it since the Unix epoch. 0 means
	// DefaultFlushPeriod.
	FlushPeriod time.Duration

	// Less is the order of activeQ: the QueueSort plugin's. Required. Where it finds two entities equal, the
	// lower Key goes first, so that the order is total. It may read what the entity shows; when something
	// else that it reads changes, Recheck must be called before any other method.
	Less fwk.LessFunc

	// Priority returns the priority that an entity was given as a whole; ok is false for one that has that of its
	// members, the highest, as all have without Priority. When its answer changes, Recheck must be called before any
	// other method.
	Priority func(key Key) (p int32, ok bool)

	// Part returns which of a composite's gangs the pod is a member of, for as long as it is there. An attempt goes
	// through the members gang by gang. nil means that no composite comes.
	Part func(pod *v1.Pod) string

	// Outside are the plugins whose answers are no function of the state alone, because others are asked (HTTP
	// extenders) or they go by time: an entity that one of them refused is flushed also if nothing has changed.
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

	// Need returns what an entity that is owed a retry needs at the least, and MayHaveRoom whether there may be room
	// for a Need of entities in a lane, or with "" of those in none. If an entity has room (Room), there is room for
	// its Need, and for every Need that asks for no more. When what Need returns may change for a reason outside the
	// queue, Renew must be called before ChooseHead. They spare asking Room of each entity, and are memos only: the
	// answers are the same with and without them. nil means that nothing is known.
	Need        func(e *Entity) Need
	MayHaveRoom func(lane string, n *Need) bool

	// RoomVersion returns a number that differs from the one before whenever an answer of Room may have turned from
	// false to true, or the answer of a LanePolicy has changed, for a reason outside the entity (capacity was freed
	// or added). It saves asking again. nil means: it may have changed with every Add, Update, Delete, Move, Recheck,
	// Activate and MarkPending. It is a memo only: the answers are the same with and without it.
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
