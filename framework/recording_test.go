package framework

import "testing"

// TestALoggedConfigurationSaysThatItsEpochRecords logs the field and reads it back.
func TestALoggedConfigurationSaysThatItsEpochRecords(t *testing.T) {
	for _, recording := range []bool{false, true} {
		cfg := DefaultConfig()
		cfg.Recording = recording
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
}
