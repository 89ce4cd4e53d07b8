package coscheduling

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Args are the plugin's arguments: pluginConfig of "Coscheduling" in a KubeSchedulerConfiguration.
type Args struct {
	// APIVersion and Kind may be given; they must be kubescheduler.config.k8s.io/v1 and CoschedulingArgs.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// PermitWaitingTimeSeconds is the time for which a member may be held on its node if its gang has no such time; at
	// least 0, which means the default, 60. As in kube-scheduler it is never longer than 15 minutes.
	PermitWaitingTimeSeconds *int64 `json:"permitWaitingTimeSeconds,omitempty"`
	// PodGroupBackoffSeconds is the minimum time after a failure before a gang is tried again; at least 0, default 0:
	// its backoff in the queue.
	PodGroupBackoffSeconds *int64 `json:"podGroupBackoffSeconds,omitempty"`
	// PodGroupRejectPercentage is, in scheduler-plugins, the part of its minimum, in percent, that a gang may lack and
	// still hold nodes; 0 to 100, default 10. It has no effect here: a gang that lacks any member holds nothing, and a
	// NonStrict gang holds its nodes until its deadline.
	PodGroupRejectPercentage *int32 `json:"podGroupRejectPercentage,omitempty"`
	// QueuePolicy decides which of the profile's pods and gangs may be attempted before another that comes before it in
	// queue order; BestEffort by default. It may name a policy that the program adds. It is Rollcall's own: a stock
	// kube-scheduler does not start with another policy than BestEffort.
	QueuePolicy QueuePolicy `json:"queuePolicy,omitempty"`
	// QueuePolicyArgs are the arguments of a policy that the program adds.
	QueuePolicyArgs json.RawMessage `json:"queuePolicyArgs,omitempty"`
	// VictimPolicy says which pods may be preempted for which: Priority by default, or the name of a policy that the
	// program adds. VictimPolicyArgs are its arguments. Both are Rollcall's own.
	VictimPolicy     string          `json:"victimPolicy,omitempty"`
	VictimPolicyArgs json.RawMessage `json:"victimPolicyArgs,omitempty"`
	// BackfillHoldSeconds is for the policy Backfill; at least 0, default 300. For that time the first entity lets
	// others pass while it is not known when there will be room for it, because running pods declare no duration.
	BackfillHoldSeconds *int64 `json:"backfillHoldSeconds,omitempty"`

	holdGiven bool // BackfillHoldSeconds is no default
}

// QueuePolicy says who may pass whom in the queue.
type QueuePolicy string

const (
	// BestEffort: an entity that fits may pass entities that do not.
	BestEffort QueuePolicy = "BestEffort"
	// StrictFIFO: nobody passes anybody.
	StrictFIFO QueuePolicy = "StrictFIFO"
	// Backfill: the first entity that does not fit has a reservation at the earliest time at which, by declared
	// durations, there is room for it. Others may pass it if they do not delay that: EASY backfill.
	Backfill QueuePolicy = "Backfill"
)

// QueuePolicies are Rollcall's own policies.
var QueuePolicies = []QueuePolicy{BestEffort, StrictFIFO, Backfill}

// The defaults of scheduler-plugins.
const (
	defaultPermitWaitingTimeSeconds = 60
	defaultPodGroupBackoffSeconds   = 0
	defaultPodGroupRejectPercentage = 10
	defaultBackfillHoldSeconds      = 300
)

// PodGroupBackoff is the minimum time after a failure before a gang is tried again.
func (c *Coscheduling) PodGroupBackoff() time.Duration {
	return time.Duration(*c.args.PodGroupBackoffSeconds) * time.Second
}

// MostSeconds is the greatest of the arguments that are whole seconds and are not limited otherwise.
func (c *Coscheduling) MostSeconds() int64 {
	return max(*c.args.PodGroupBackoffSeconds, *c.args.BackfillHoldSeconds)
}

// QueuePolicy says who of the profile's pods and gangs may pass whom.
func (c *Coscheduling) QueuePolicy() QueuePolicy { return c.args.QueuePolicy }

// QueuePolicyArgs returns the arguments of a policy that the program adds, nil if there are none.
func (c *Coscheduling) QueuePolicyArgs() json.RawMessage { return c.args.QueuePolicyArgs }

// VictimPolicy returns the name of the victim policy, "" for the default, and its arguments.
func (c *Coscheduling) VictimPolicy() (name string, args json.RawMessage) {
	return c.args.VictimPolicy, c.args.VictimPolicyArgs
}

// BackfillHold is the time for which the first entity lets others pass while it is not known when there will be room
// for it.
func (c *Coscheduling) BackfillHold() time.Duration {
	return time.Duration(*c.args.BackfillHoldSeconds) * time.Second
}

// OrdersWithoutArgs implements framework.OrdersWithoutArgs.
func (c *Coscheduling) OrdersWithoutArgs() {}

func (a Args) permitWaitingTime() time.Duration {
	seconds := *a.PermitWaitingTimeSeconds
	if seconds == 0 {
		seconds = defaultPermitWaitingTimeSeconds
	}
	return time.Duration(min(seconds, int64(maxPermitWait/time.Second))) * time.Second
}

// decodeArgs reads the arguments. The configuration's decoder leaves the arguments of a plugin that kube-scheduler does
// not know as raw JSON.
func decodeArgs(obj runtime.Object) (Args, error) {
	var args Args
	switch o := obj.(type) {
	case nil:
	case *runtime.Unknown:
		d := json.NewDecoder(bytes.NewReader(o.Raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&args); err != nil {
			return Args{}, fmt.Errorf("decode CoschedulingArgs: %w", err)
		}
		if d.More() {
			return Args{}, errors.New("decode CoschedulingArgs: more than one JSON value")
		}
	default:
		return Args{}, fmt.Errorf("decode CoschedulingArgs: got a %T", obj)
	}
	if v := args.APIVersion; v != "" && v != "kubescheduler.config.k8s.io/v1" {
		return Args{}, fmt.Errorf("CoschedulingArgs: apiVersion %q: want kubescheduler.config.k8s.io/v1", v)
	}
	if k := args.Kind; k != "" && k != "CoschedulingArgs" {
		return Args{}, fmt.Errorf("CoschedulingArgs: kind is %q", k)
	}
	args.holdGiven = args.BackfillHoldSeconds != nil
	args.setDefaults()
	if err := args.validate(); err != nil {
		return Args{}, err
	}
	return args, nil
}

func (a *Args) setDefaults() {
	if a.PermitWaitingTimeSeconds == nil {
		a.PermitWaitingTimeSeconds = ptr.To[int64](defaultPermitWaitingTimeSeconds)
	}
	if a.PodGroupBackoffSeconds == nil {
		a.PodGroupBackoffSeconds = ptr.To[int64](defaultPodGroupBackoffSeconds)
	}
	if a.QueuePolicy == "" {
		a.QueuePolicy = BestEffort
	}
	if a.BackfillHoldSeconds == nil {
		a.BackfillHoldSeconds = ptr.To[int64](defaultBackfillHoldSeconds)
	}
	if a.PodGroupRejectPercentage == nil {
		a.PodGroupRejectPercentage = ptr.To[int32](defaultPodGroupRejectPercentage)
	}
}

func (a *Args) validate() error {
	if s := *a.PermitWaitingTimeSeconds; s < 0 {
		return fmt.Errorf("CoschedulingArgs: permitWaitingTimeSeconds is %d: want 0 or more", s)
	}
	if s := *a.PodGroupBackoffSeconds; s < 0 {
		return fmt.Errorf("CoschedulingArgs: podGroupBackoffSeconds is %d: want 0 or more", s)
	}
	if s := *a.BackfillHoldSeconds; s < 0 {
		return fmt.Errorf("CoschedulingArgs: backfillHoldSeconds is %d: want 0 or more", s)
	}
	if p := *a.PodGroupRejectPercentage; p < 0 || p > 100 {
		return fmt.Errorf("CoschedulingArgs: podGroupRejectPercentage is %d: want 0 to 100", p)
	}
	return nil
}

// stock refuses what only a scheduler can do that asks the plugin about its whole queue.
func (a *Args) stock() error {
	if a.QueuePolicy != BestEffort {
		return fmt.Errorf(
			"CoschedulingArgs: queuePolicy %s is Rollcall's own: kube-scheduler lets whoever fits pass; leave it out,"+
				" or run Rollcall",
			a.QueuePolicy,
		)
	}
	if a.QueuePolicyArgs != nil || a.VictimPolicy != "" || a.VictimPolicyArgs != nil {
		return errors.New("CoschedulingArgs: queuePolicyArgs, victimPolicy and victimPolicyArgs are Rollcall's own: " +
			"leave them out, or run Rollcall")
	}
	if a.holdGiven {
		return errors.New(
			"CoschedulingArgs: backfillHoldSeconds is Rollcall's own: kube-scheduler has no backfill; leave it out, " +
				"or run Rollcall",
		)
	}
	return nil
}

// maxPermitWait is the longest wait that the scheduling framework grants: maxTimeout in kube-scheduler's
// framework runtime.
const maxPermitWait = 15 * time.Minute

// amount prints a quantity of a resource as people write it.
func amount(name v1.ResourceName, n int64) string {
	switch name {
	case v1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return strconv.FormatInt(n, 10)
}
