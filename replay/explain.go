package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Reader reads a log from an entry on, as eventlog.Log does. An explanation calls it more than once.
type Reader = func(from uint64) iter.Seq2[eventlog.Entry, error]

// ExplainOptions says what to explain and in which detail.
type ExplainOptions struct {
	// Registry holds the plugins that the log's configuration may name.
	Registry runtime.Registry
	// AtSeq and AtTime are the point in question: nothing behind the last entry that is not after either of them
	// takes part in the answer. 0 is the end of the log.
	AtSeq  uint64
	AtTime eventlog.Time
	// RunnersUp is how many of the nodes that came next after the chosen one are shown; 0 means 5, and a
	// negative number none.
	RunnersUp int
	// Progress is called now and then with the last entry read; nil is not called. The log is read twice.
	Progress func(seq uint64)
	// Base is the entry behind which the log is known, 0 for a log that has its first entry. What was before is
	// answered by the state after it as far as that can tell.
	Base uint64
	// Restore returns the state after the newest entry from Base to last of which there is one, such as a
	// snapshot's, so that the second reading can begin there; nil if there is none, which may be only if Base
	// is 0. A nil Restore has none. Each call returns a Machine of its own.
	Restore func(last uint64) (*scheduler.Machine, error)
}

// state returns the newest state that is known after an entry up to last; the empty one if there is no other.
func (o *ExplainOptions) state(last uint64) (*scheduler.Machine, error) {
	if o.Restore == nil && o.Base > 0 {
		return nil, fmt.Errorf("the log is known behind entry %d only, and there is no state to begin with", o.Base)
	}
	if o.Restore != nil {
		m, err := o.Restore(max(last, o.Base))
		if err != nil || m != nil {
			return m, err
		}
	}
	return scheduler.New(o.Registry), nil
}

// knownFrom is the first entry of which the log tells, 0 if that is the first there was.
func (o *ExplainOptions) knownFrom() uint64 {
	if o.Base == 0 {
		return 0
	}
	return o.Base + 1
}

func (o *ExplainOptions) runnersUp() int {
	if o.RunnersUp == 0 {
		return 5
	}
	return max(0, o.RunnersUp)
}

func (o *ExplainOptions) progress(seq uint64) {
	if o.Progress != nil && seq%1000 == 0 {
		o.Progress(seq)
	}
}

// reaches says whether e is not after the point in question.
func (o *ExplainOptions) reaches(e eventlog.Entry) bool {
	return (o.AtSeq == 0 || e.Seq <= o.AtSeq) && (o.AtTime == 0 || e.Time <= o.AtTime)
}

// ErrNotFound is what a *NotFoundError is.
var ErrNotFound = errors.New("not found in the log")

// NotFoundError says that no entry up to the point in question has what was asked for.
type NotFoundError struct {
	// Kind is pod or group, Name its namespace/name.
	Kind, Name string
	// At is the point in question: the last entry read.
	At Point
	// First is where it first appears after that point; nil if it never does.
	First *Point
	// Similar are the names nearest to it, sorted, at most 5.
	Similar []string
	// Composite says that there is a CompositePodGroup of that name, or gangs that name one: see ExplainComposite.
	Composite bool
	// KnownFrom is the first entry of which the log tells, 0 if that is the first there was.
	KnownFrom uint64
}

// Error implements error.
func (e *NotFoundError) Error() string {
	if e.Composite {
		return fmt.Sprintf("%s is a CompositePodGroup, and no gang itself", e.Name)
	}
	if e.First != nil {
		return fmt.Sprintf("%s %s did not exist yet at %s: it first appears at %s", e.Kind, e.Name, e.At, e.First)
	}
	msg := fmt.Sprintf("%s %s is not in the log up to %s", e.Kind, e.Name, e.At)
	if e.KnownFrom > 0 {
		msg += fmt.Sprintf("; what is known of it begins with entry %d", e.KnownFrom)
	}
	if len(e.Similar) > 0 {
		msg += "; did you mean " + strings.Join(e.Similar, ", ") + "?"
	}
	return msg
}

// Unwrap returns ErrNotFound.
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// Instant is a time of the log; in JSON it looks as log cat prints it.
type Instant eventlog.Time

// MarshalText implements encoding.TextMarshaler.
func (t Instant) MarshalText() ([]byte, error) { return []byte(eventlog.Time(t).String()), nil }

// String is RFC 3339 in UTC, with no more decimals than the time has.
func (t Instant) String() string {
	return eventlog.Time(t).Std().Format("2006-01-02T15:04:05.999999999Z07:00")
}

// Point is an entry's place in the log.
type Point struct {
	Seq  uint64  `json:"seq"`
	Time Instant `json:"time,omitzero"`
}

// String names the entry and its time.
func (p Point) String() string {
	if p.Seq == 0 {
		return "the log's beginning"
	}
	return fmt.Sprintf("entry %d, %s", p.Seq, p.Time)
}

func pointOf(e eventlog.Entry) Point { return Point{Seq: e.Seq, Time: Instant(e.Time)} }

// PodExplanation is where a pod stood at one point of the log, and why. Amounts of resources are in their
// base unit, cpu in thousandths of a core.
type PodExplanation struct {
	// Pod and Group are namespace/name; Group is the gang that the pod names, "" for none.
	Pod   string    `json:"pod"`
	UID   types.UID `json:"uid"`
	Group string    `json:"group,omitempty"`
	// At is the last entry that takes part in the answer.
	At Point `json:"at"`
	// KnownFrom is the first entry of which the log tells, if earlier ones are not there: a place before it is
	// given as entry 0, and a decision before it is not explained. 0: the log has its first entry.
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Stage is Pending, Waiting, Binding, Bound, or Gone: deleted or finished.
	Stage string `json:"stage"`
	// Node is where the pod holds room, or held some before it was gone.
	Node string `json:"node,omitempty"`
	// SchedulerName is the pod's; Ignored says that the configuration has no profile of that name.
	SchedulerName string `json:"schedulerName,omitempty"`
	Ignored       bool   `json:"ignored,omitempty"`
	// Terminating says that the pod is being deleted.
	Terminating bool `json:"terminating,omitempty"`
	// Created is where the log first has the pod. Earlier counts the pods of the same name before it.
	Created Point `json:"created"`
	Earlier int   `json:"earlier,omitempty"`
	// Gone is where the pod was deleted or finished, and GoneHow how: Deleted, Succeeded or Failed.
	Gone    *Point `json:"gone,omitempty"`
	GoneHow string `json:"goneHow,omitempty"`
	// Queue is where the pod, or its gang, stands in the queue; nil if it does not: it is bound or gone, or
	// another scheduler's.
	Queue *QueueStanding `json:"queue,omitempty"`
	// Attempts counts the attempts to place the pod, or its gang; FirstQueued is when it first had its turn
	// to come. Both are kept when the pod leaves the queue.
	Attempts    int     `json:"attempts"`
	FirstQueued Instant `json:"firstQueued,omitzero"`
	// GatingPlugin keeps the pod itself out of the queue, and GatingMessage is what it says.
	GatingPlugin  string `json:"gatingPlugin,omitempty"`
	GatingMessage string `json:"gatingMessage,omitempty"`
	// Decision is the pod's own: of a pod that was given a node the one that gave it, of another the last
	// one; nil if there is none.
	Decision *DecisionExplanation `json:"decision,omitempty"`
	// StoppedBy is the decision on another member that made the gang's last attempt fail, if that is what keeps
	// the pod from its node.
	StoppedBy *DecisionExplanation `json:"stoppedBy,omitempty"`
	// Allowed is the decision that let a pod go which had waited for its gang, Released the last one
	// that took a waiting pod off its node.
	Allowed  *Point `json:"allowed,omitempty"`
	Released *Point `json:"released,omitempty"`
	// Bind is what was last heard of binding the pod.
	Bind *BindExplanation `json:"bind,omitempty"`
	// Reason is why it is pending, or why its gang is; nil if it is not.
	Reason *Reason `json:"reason,omitempty"`

	gang *gangNumbers // for the text; nil for a pod of no gang
}

// gangNumbers are how far a gang has come.
type gangNumbers struct {
	declared                      bool
	min, ready, waiting, assigned int
}

// BindExplanation is what came of a bind.
type BindExplanation struct {
	Point
	Node string `json:"node"`
	// Outcome is Bound, Conflict, Failed or Unknown.
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
}

// QueueStanding is where a pod or a gang stands in the queue.
type QueueStanding struct {
	// Entity is pod or podgroup: what has its turn as one.
	Entity string `json:"entity"`
	// State is Gated, Active, Backoff, Unschedulable, InFlight or Placed.
	State string `json:"state"`
	// Owed says, of an Unschedulable entity, that it is due for a retry as soon as the nodes together have room.
	Owed bool `json:"owed,omitempty"`
	// Since is when it came to rest as Unschedulable or Gated; it stays what it was while a retry is owed.
	Since Instant `json:"since,omitzero"`
	// Ahead is how many others have their turn first, if it is Active.
	Ahead int `json:"ahead,omitempty"`
	// BackoffUntil is when its backoff ends or ended.
	BackoffUntil Instant `json:"backoffUntil,omitzero"`
	// RejectedBy are the plugins that refused its last attempt: a change that concerns one of them brings the next.
	RejectedBy []string `json:"rejectedBy,omitempty"`
	// GatingPlugin gated a member last, and GatingMessage is what it said.
	GatingPlugin  string `json:"gatingPlugin,omitempty"`
	GatingMessage string `json:"gatingMessage,omitempty"`
	// RetryAt is when it is tried (or, if gated, looked at) again though nothing but time passes; zero if
	// something else has to happen. NextRetry says it in words.
	RetryAt   Instant `json:"retryAt,omitzero"`
	NextRetry string  `json:"nextRetry"`
}

// DecisionExplanation is a recorded decision with what the log does not record: which nodes, how every
// plugin scored, and who held the room. The cycle was run again for that, on the state of that moment.
type DecisionExplanation struct {
	Point
	Cycle   uint64 `json:"cycle"`
	Pod     string `json:"pod"`
	Outcome string `json:"outcome"`
	Node    string `json:"node,omitempty"`
	Score   int64  `json:"score"`
	// Nodes is how many nodes there were; Evaluated of them were filtered, and Feasible passed.
	Nodes     int   `json:"nodes"`
	Evaluated int64 `json:"evaluated"`
	Feasible  int64 `json:"feasible"`
	// WaitUntil is when a Waiting pod is released if it is not allowed before.
	WaitUntil Instant `json:"waitUntil,omitzero"`
	// Refusals are the decision's rejections: by node, and of the pod as a whole (Nodes 0).
	Refusals []Refusal `json:"refusals,omitempty"`
	// Winner is the chosen node; it has no plugins if it was the only feasible one. RunnersUp came next.
	Winner    *NodeScore  `json:"winner,omitempty"`
	RunnersUp []NodeScore `json:"runnersUp,omitempty"`
	// Allowed and Released count the waiting pods that the decision let go, and took off their nodes.
	Allowed  int `json:"allowed,omitempty"`
	Released int `json:"released,omitempty"`
	// Resources are who held what of the resources that the pod requests, if it was refused; members of its own
	// gang that were held count as holders. The resource pods is there only if the nodes ran out of it.
	Resources []ResourceUse `json:"resources,omitempty"`
	// Gang is the same for all members that the pod's gang still lacked; nil if it had its minimum.
	Gang *GangNeeds `json:"gang,omitempty"`
	// Diverged says that this program decides otherwise; what was recorded is explained.
	Diverged *Divergence `json:"diverged,omitempty"`
}

// Refusal is one reason for which nodes, or the pod as a whole, were refused.
type Refusal struct {
	Plugin string `json:"plugin"`
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
	// Nodes is how many nodes were refused for it; 0 for a refusal of the pod as a whole.
	Nodes int64 `json:"nodes"`
	// Examples are the first of them by name, at most 3.
	Examples []string `json:"examples,omitempty"`
}

// NodeScore is a feasible node and how it was rated.
type NodeScore struct {
	Node string `json:"node"`
	// Total is the sum of the plugins' weighted scores.
	Total   int64         `json:"total"`
	Plugins []PluginScore `json:"plugins,omitempty"`
}

// PluginScore is one plugin's rating of a node: Raw is the plugin's own number, Normalized lies in
// [0,100], Weighted is that times Weight.
type PluginScore struct {
	Plugin     string `json:"plugin"`
	Raw        int64  `json:"raw"`
	Normalized int64  `json:"normalized"`
	Weight     int64  `json:"weight"`
	Weighted   int64  `json:"weighted"`
}

// GangNeeds is what a gang lacks to be complete and who has it. Members of the gang that are held on nodes
// count as missing and their room as free: they give it back if the rest find none.
type GangNeeds struct {
	// Members is how many members are missing. What they need is the sum of the smallest requests.
	Members   int           `json:"members"`
	Resources []ResourceUse `json:"resources,omitempty"`
}

// ResourceUse is one resource: what is needed, what there is, and who has it, summed over all nodes.
type ResourceUse struct {
	Resource v1.ResourceName `json:"resource"`
	Needed   int64           `json:"needed"`
	// Free is what no pod has requested of Allocatable, which is what there is. Usable is the part of Free on
	// nodes that no plugin other than NodeResourcesFit refused.
	Free        int64 `json:"free"`
	Usable      int64 `json:"usable"`
	Allocatable int64 `json:"allocatable"`
	// LargestFree is the most that is usable on one node, LargestFreeNode the first such node by name.
	LargestFree     int64  `json:"largestFree"`
	LargestFreeNode string `json:"largestFreeNode,omitempty"`
	// Holders have the most, at most 5; Others is how many more there are, and OthersAmount what they have.
	Holders      []Holder `json:"holders,omitempty"`
	Others       int      `json:"others,omitempty"`
	OthersAmount int64    `json:"othersAmount,omitempty"`
}

// Holder is a gang, or a pod of no gang, that has requested some of a resource on a node.
type Holder struct {
	// Kind is group or pod, Name its namespace/name.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Pods is how many pods hold Amount between them.
	Pods   int   `json:"pods"`
	Amount int64 `json:"amount"`
}

// ExplainPod says where the pod stood at the point in question, and why. Of several pods that had the name
// one after the other it is the last one up to that point. The error is a *NotFoundError if the log has
// none, or else about reading the log.
func ExplainPod(ctx context.Context, read Reader, namespace, name string, opts ExplainOptions) (*PodExplanation, error) {
	scan := newPodScan(namespace, name)
	at, err := scanPrefix(ctx, read, &opts, scan)
	if err != nil {
		return nil, err
	}
	rerun := newRerun(opts, at)
	rerun.explain(scan.placed, scan.last)
	if stop, ok := scan.stops[scan.group]; ok && scan.group.Name != "" {
		rerun.explain(stop)
	}
	if scan.gone != nil {
		rerun.beginBefore(scan.gone.Seq)
	}
	gang := scan.history(opts.knownFrom())
	if gang != nil {
		rerun.beginBefore(gang.first.Seq)
		rerun.alsoWanted = func(e eventlog.Entry) bool {
			return gang.stopped(rerun.machine, e, func(name types.NamespacedName) uint64 { return scan.stops[name].at.Seq })
		}
	}
	if err := rerun.start(); err != nil {
		return nil, err
	}
	scan.noteStanding(rerun.machine)
	var w watcher = scan
	if gang != nil {
		gang.begun(rerun.machine)
		w = podOfGang{scan, gang}
	}
	if err := rerun.run(ctx, read, w); err != nil {
		return nil, err
	}
	return podExplanation(scan, rerun, gang), nil
}

// ExplainGroup says where the gang stood at the point in question, and how it came there. The error is a
// *NotFoundError if the log has neither its PodGroup nor a member, or else about reading the log. The name may be that of a
// CompositePodGroup, as the error then says.
func ExplainGroup(ctx context.Context, read Reader, namespace, name string, opts ExplainOptions) (*GroupExplanation, error) {
	scan := newGroupScan(namespace, name)
	at, err := scanPrefix(ctx, read, &opts, scan)
	if err != nil {
		return nil, err
	}
	rerun := newRerun(opts, at)
	rerun.explain(scan.stop)
	rerun.beginBefore(scan.first.Seq)
	if err := rerun.start(); err != nil {
		return nil, err
	}
	history := &groupHistory{group: scan.name, first: scan.first}
	rerun.alsoWanted = func(e eventlog.Entry) bool {
		return history.stopped(rerun.machine, e, func(name types.NamespacedName) uint64 { return scan.stops[name] })
	}
	history.begun(rerun.machine)
	if err := rerun.run(ctx, read, history); err != nil {
		return nil, err
	}
	return groupExplanation(scan, rerun, history), nil
}
