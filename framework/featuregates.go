package framework

import (
	"encoding/json"
	"fmt"

	"github.com/rollcall-sched/rollcall/framework/gates"
)

// featureGates is a field of the configuration that kube-scheduler's does not have.
const featureGates = "featureGates"

// cutFeatureGates returns a configuration without the field featureGates, and the gates in it. If there is no such
// field, it returns the configuration unchanged.
func cutFeatureGates(data []byte) ([]byte, map[string]bool, error) {
	named := map[string]bool{}
	data, value, err := cutField(data, featureGates)
	if err != nil || value == nil {
		return data, named, err
	}
	if err := json.Unmarshal(value, &named); err != nil {
		return nil, nil, fmt.Errorf("%s: want names of feature gates with true or false: %w", featureGates, err)
	}
	if named == nil { // null
		named = map[string]bool{}
	}
	return data, named, nil
}

// addFeatureGates writes the gates into a configuration for the log. It adds no field if there are none.
func addFeatureGates(tree any, set gates.Set) {
	if fields, ok := tree.(map[string]any); ok && set != (gates.Set{}) {
		fields[featureGates] = set.Map()
	}
}

// LoggedFeatureGates returns the feature gates that a logged configuration names, whether or not this program has them.
// It returns nil if there are none.
func LoggedFeatureGates(logged []byte) map[string]bool {
	var config struct {
		FeatureGates map[string]bool `json:"featureGates"`
	}
	if err := json.Unmarshal(logged, &config); err != nil {
		return nil
	}
	return config.FeatureGates
}
