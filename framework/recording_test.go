package framework

import (
	"strings"
	"testing"
)

// TestTheLogAloneSaysThatAnEpochRecords: the field is in a logged configuration, and is read back from there. A user's
// file with it is refused.
func TestTheLogAloneSaysThatAnEpochRecords(t *testing.T) {
	for _, recording := range []bool{false, true} {
		cfg, err := LiveOptions{Recording: recording, Note: func(string) {}}.DefaultConfig()
		if err != nil {
			t.Fatal(err)
		}
		logged, err := EncodeConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if LoggedRecording(logged) != recording {
			t.Errorf("recording %v is logged as %s", recording, logged)
		}
		again, err := LoadConfig(logged, "the log's configuration")
		if err != nil || again.Recording != recording {
			t.Errorf("recording %v is read as %+v, %v", recording, again, err)
		}
	}
	file := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nrecording: true\n"
	_, err := LiveOptions{Note: func(string) {}}.LoadConfig([]byte(file), "scheduler.yaml")
	if err == nil || !strings.Contains(err.Error(), "scheduler.yaml: recording: the log alone has this field") {
		t.Errorf("a file with the field: %v", err)
	}
}
