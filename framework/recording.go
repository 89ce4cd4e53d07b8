package framework

import (
	"encoding/json"
	"fmt"
)

// recording is a field of the configuration that kube-scheduler's does not have.
const recording = "recording"

// cutRecording returns a configuration without the field recording, and the field's value.
func cutRecording(data []byte) ([]byte, bool, error) {
	data, value, err := cutField(data, recording)
	if err != nil || value == nil {
		return data, false, err
	}
	var on bool
	if err := json.Unmarshal(value, &on); err != nil {
		return nil, false, fmt.Errorf("%s: want true or false: %w", recording, err)
	}
	return data, on, nil
}

// addRecording writes the field into a configuration for the log, if it is true.
func addRecording(tree any, on bool) {
	if fields, ok := tree.(map[string]any); ok && on {
		fields[recording] = true
	}
}

// LoggedRecording reports whether the writer of a logged configuration only records: others decide, and the epoch has
// no Decision.
func LoggedRecording(logged []byte) bool {
	var config struct {
		Recording bool `json:"recording"`
	}
	return json.Unmarshal(logged, &config) == nil && config.Recording
}
