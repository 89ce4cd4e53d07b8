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
)

// Args are the plugin's arguments: pluginConfig of "Coscheduling" in a KubeSchedulerConfiguration.
type Args struct {
	// APIVersion and Kind may be given; they must be kubescheduler.config.k8s.io/v1 and CoschedulingArgs.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// PermitWaitingTimeSeconds is how long a member may be held on its node when its PodGroup does not say;
	// at least 1, default 60.
	PermitWaitingTimeSeconds *int64 `json:"permitWaitingTimeSeconds,omitempty"`
}

const defaultPermitWaitingTimeSeconds = 60

func (a Args) permitWaitingTime() time.Duration {
	return time.Duration(*a.PermitWaitingTimeSeconds) * time.Second
}

// decodeArgs reads the arguments as the configuration's decoder leaves those of a plugin that
// kube-scheduler does not know: raw JSON.
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
	if args.PermitWaitingTimeSeconds == nil {
		seconds := int64(defaultPermitWaitingTimeSeconds)
		args.PermitWaitingTimeSeconds = &seconds
	}
	if s := *args.PermitWaitingTimeSeconds; s < 1 || s > int64(maxPermitWait/time.Second) {
		return Args{}, fmt.Errorf("CoschedulingArgs: permitWaitingTimeSeconds is %d: want 1 to %d", s, maxPermitWait/time.Second)
	}
	return args, nil
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
