package dump

import "testing"

// TestEventsThatWriteNothingAreLeftOut has events of an audit log whose requests changed no object that is read.
func TestEventsThatWriteNothingAreLeftOut(t *testing.T) {
	const head = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse",` +
		`"stage":"ResponseComplete","stageTimestamp":"2026-11-28T07:00:00.000000Z","objectRef":{"resource":"pods","namespace":"d","name":"a"`
	for _, test := range []struct{ event, skipped string }{
		{head + `},"verb":"delete","requestURI":"/api/v1/namespaces/d/pods/a?dryRun=All"}`, "dry run"},
		{head + `},"verb":"delete","requestURI":"/api/v1/namespaces/d/pods/a","requestObject":{"dryRun":["All"]}}`,
			"dry run"},
		{head + `,"subresource":"eviction"},"verb":"create","requestObject":{"deleteOptions":{"dryRun":["All"]}}}`,
			"dry run"},
		{head + `,"subresource":"proxy"},"verb":"delete"}`, "of a resource that scheduling does not read"},
		{head + `,"subresource":"exec"},"verb":"create"}`, "of a resource that scheduling does not read"},
		{head + `},"verb":"delete","responseObject":null}`, ""},
	} {
		f, err := new(decoder).event([]byte(test.event))
		if err != nil {
			t.Errorf("%s: %v", test.event, err)
			continue
		}
		if f.event.skipped != test.skipped || f.event.skipped == "" && f.event.did != deleted {
			t.Errorf("%s: skipped %q, want %q", test.event, f.event.skipped, test.skipped)
		}
		if f.event.id != "" {
			t.Errorf("an event without an audit ID has the ID %q", f.event.id)
		}
	}
}
