package eventlog

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Time is an instant of the log: nanoseconds since the Unix epoch, UTC. The one writer stamps it, and it never goes
// back from one entry to the next. Zero means "no time".
type Time int64

// TimeOf returns t as a Time; the zero time.Time becomes zero.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixNano())
}

// Std returns t in UTC; zero becomes the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// Add returns t+d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// String is RFC 3339 with nanoseconds, UTC, always nine decimals: the form in which log cat prints it.
func (t Time) String() string {
	return time.Unix(0, int64(t)).UTC().Format("2006-01-02T15:04:05.000000000Z07:00")
}

// Entry is one record of the log: a header that every entry has, and a payload.
type Entry struct {
	// Seq is the entry's place in the log, from 1 with no gap.
	Seq uint64
	// Epoch counts the writers: it grows by one with every EpochStarted.
	Epoch uint64
	// Time is the time at which the writer took the entry in. It never goes back.
	Time Time
	// Settled says, on an input, that nothing was left to decide when the writer took it in. Only replay reads it: a
	// decision that a replayed scheduler would still make before a settled input is missing from the log. State does
	// not depend on it.
	Settled bool
	// Payload says what happened. It is never nil in an entry that was read or appended.
	Payload Payload
	// Encoding is the payload's encoding, if it was made ahead of the append. Then the append does not read the
	// payload, because others may be using it. An entry that was read has none.
	Encoding Encoding
}

// Kind returns the payload's kind.
func (e Entry) Kind() Kind { return e.Payload.Kind() }

// Kind names the payload types. The log stores the numbers: they are never reused or renumbered.
type Kind uint8

// The kinds, in the order in which the format gained them.
const (
	KindEpochStarted   Kind = 1
	KindUpserted       Kind = 2
	KindDeleted        Kind = 3
	KindTick           Kind = 4
	KindDecision       Kind = 5
	KindBindResult     Kind = 6
	KindEvictResult    Kind = 7
	KindExtenderResult Kind = 8
	KindWatched        Kind = 9
)

// Payload is the content of an Entry: one of *EpochStarted, *Upserted, *Deleted, *Tick, *Decision, *BindResult,
// *EvictResult, *ExtenderResult and *Watched. All but *Decision are inputs.
type Payload interface {
	Kind() Kind
}

// EpochStarted starts an epoch, the time of one writer. It carries everything besides the entries themselves on which
// decisions depend, so that replay needs nothing else than the log.
type EpochStarted struct {
	// ID is a random UUID in text form, different for every epoch ever started.
	ID string
	// Version is the writing binary's version.
	Version string
	// Format is the highest format version that the writer writes.
	Format uint32
	// Behaviour is the number of the rules with which the writer decides and applies (scheduler.Behaviours).
	Behaviour uint32
	// Seed is the seed for random numbers of plugins; in-tree ones use none.
	Seed uint64
	// Config is the effective KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) as compact JSON;
	// it may be empty. JSON with white space between its tokens cannot be appended.
	Config []byte
}

// Object is an API object as plugins know it.
type Object interface {
	runtime.Object
	metav1.Object
}

// Upserted says that an object was created or changed. Object is its new state, cut down by Trim.
type Upserted struct {
	Resource Resource
	Object   Object
}

// Deleted says that an object is gone.
type Deleted struct {
	Resource  Resource
	Namespace string
	Name      string
	UID       types.UID
}

// Tick says that time passed and nothing else happened.
type Tick struct{}

// BindOutcome is the result of an attempt to bind a pod.
type BindOutcome uint8

// The outcomes. The log stores the numbers.
const (
	// BindBound: the pod is bound to the node.
	BindBound BindOutcome = 1
	// BindConflict: the pod is bound to another node, is another pod (UID), or is gone.
	BindConflict BindOutcome = 2
	// BindFailed: the pod was seen unbound after the attempt.
	BindFailed BindOutcome = 3
	// BindUnknown: the result could not be read yet; capacity stays reserved.
	BindUnknown BindOutcome = 4
)

// BindResult is the result of the bind that a decision asked for.
type BindResult struct {
	UID     types.UID
	Node    string
	Outcome BindOutcome
	// Message is for people; no decision depends on it.
	Message string
	// Decision is the sequence number of the Decision that asked for the bind. Zero means the Decision that is
	// outstanding for the pod: results in logs from before there were numbers have zero. A result of a Decision that is
	// not outstanding is a fact that changes nothing.
	Decision uint64
	// Plugin is, for BindFailed, the PreBind or Bind plugin that did not succeed. It is "" if no plugin was called, or
	// all succeeded. With a Plugin, Decision is not 0.
	Plugin string
	// Code is the framework's name of the plugin's status code: Unschedulable, UnschedulableAndUnresolvable, Pending or
	// Error; "" without a Plugin.
	Code string
}

// check returns the wrong field and the reason.
func (r *BindResult) check() (field string, err error) {
	switch {
	case r.Plugin == "" && r.Code == "":
	case r.Plugin == "":
		return "code", fmt.Errorf("it is %q, and there is no plugin", r.Code)
	case r.Outcome != BindFailed:
		return "plugin", fmt.Errorf("only %s can have one", BindFailed)
	case r.Decision == 0:
		return "plugin", errors.New("it needs a decision")
	case !slices.Contains(bindCodes, r.Code):
		return "code", fmt.Errorf("it is %q: want one of %q", r.Code, bindCodes)
	}
	return "", nil
}

// bindCodes are the framework's names of the codes with which a plugin refuses a bind.
var bindCodes = []string{"Unschedulable", "UnschedulableAndUnresolvable", "Pending", "Error"}

// EvictOutcome is the result of an attempt to evict a pod.
type EvictOutcome uint8

// The outcomes. The log stores the numbers. After EvictRefused another result of the same eviction follows, after the
// others none does.
const (
	// EvictDone: the API server has accepted the deletion. The pod exists until it has ended.
	EvictDone EvictOutcome = 1
	// EvictGone: there was nothing to evict: the pod is gone, is another pod (UID), has finished, or was being deleted.
	EvictGone EvictOutcome = 2
	// EvictRefused: the API server has refused it, and it will be tried again.
	EvictRefused EvictOutcome = 3
	// EvictGivenUp: the API server has refused it, and it will not be tried again. The pod stays.
	EvictGivenUp EvictOutcome = 4
	// EvictWithdrawn: no pod needs the room any longer, and the pod had not been deleted. It stays.
	EvictWithdrawn EvictOutcome = 5
)

// MaxRetryAfter is the largest RetryAfter of an EvictResult.
const MaxRetryAfter = 24 * time.Hour

// EvictResult is the result of an eviction that a decision asked for.
type EvictResult struct {
	UID     types.UID
	Outcome EvictOutcome
	// Message has the text of the API server; it is for people, and no decision depends on it.
	Message string
	// Decision is the sequence number of the Decision that asked for the eviction, never 0. A result of a Decision that
	// is not outstanding is a fact that changes nothing.
	Decision uint64
	// RetryAfter is the time from this entry until the eviction is tried again, at most MaxRetryAfter. EvictRefused
	// always has it, the others never.
	RetryAfter time.Duration
}

// Kind implements Payload.
func (*EpochStarted) Kind() Kind { return KindEpochStarted }

// Kind implements Payload.
func (*Upserted) Kind() Kind { return KindUpserted }

// Kind implements Payload.
func (*Deleted) Kind() Kind { return KindDeleted }

// Kind implements Payload.
func (*Tick) Kind() Kind { return KindTick }

// Kind implements Payload.
func (*Decision) Kind() Kind { return KindDecision }

// Kind implements Payload.
func (*BindResult) Kind() Kind { return KindBindResult }

// Kind implements Payload.
func (*EvictResult) Kind() Kind { return KindEvictResult }
