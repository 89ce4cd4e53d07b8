package racklimit

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Args are the plugin's arguments, in pluginConfig of a KubeSchedulerConfiguration. All are needed, so that none is
// skipped because it is misspelt.
type Args struct {
	// RackLabel is the label of nodes that names their rack.
	RackLabel string `json:"rackLabel"`
	// AppLabel is the label of pods that names their app. Pods without it are not limited.
	AppLabel string `json:"appLabel"`
	// Limit is the largest number of pods of one app, in one namespace, that a rack may have; at least 1.
	Limit int `json:"limit"`
}

// decodeArgs returns the arguments that a factory was given: a *runtime.Unknown, or nil if the configuration has none.
func decodeArgs(obj runtime.Object) (Args, error) {
	var args Args
	if err := frameworkruntime.DecodeInto(obj, &args); err != nil {
		return args, fmt.Errorf("arguments: %w", err)
	}
	switch {
	case args.RackLabel == "":
		return args, errors.New("arguments: rackLabel is needed: the label of nodes that names their rack")
	case args.AppLabel == "":
		return args, errors.New("arguments: appLabel is needed: the label of pods that names their app")
	case args.Limit < 1:
		return args, fmt.Errorf("arguments: limit is %d: want at least 1", args.Limit)
	}
	return args, nil
}
