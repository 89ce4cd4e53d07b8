package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/internal/localapi"
	"github.com/rollcall-sched/rollcall/logs/logstest"
	"github.com/rollcall-sched/rollcall/logs/verify"
)

// verified runs log verify.
func verified(t testing.TB, path string, more ...string) (report verify.Report, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("rollcall", append([]string{"log", "verify", path, "-o", "json"}, more...)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("log verify prints %q, %v\n%s", out, err, complaint.Bytes())
	}
	return report, complaint.String(), cmd.ProcessState.ExitCode()
}

func TestCommandsReadALogThatIsWrittenTo(t *testing.T) {
	path := logstest.Segmented(t, logstest.WellFormed(40), 10)
	log, err := boltlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	const sealed = "rollcall: the log is being written to: read up to entry 30, which is the last that is sealed\n"
	for _, command := range []string{"cat", "info"} {
		cmd := exec.Command("rollcall", "log", command, path)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		if out, err := cmd.Output(); err != nil || len(out) == 0 || complaint.String() != sealed {
			t.Errorf("log %s: error %v, %d bytes, stderr %q", command, err, len(out), complaint.Bytes())
		}
	}
}

// TestLogVerifyPrintsWhatIsTold makes this process write to a log and serve it.
func TestLogVerifyPrintsWhatIsTold(t *testing.T) {
	for _, tc := range []struct{ entries, size int }{{25, 25}, {40, 10}, {20000, 100}, {1, 1}, {0, 1}} {
		path := logstest.Segmented(t, logstest.WellFormed(tc.entries), tc.size)
		log, err := boltlog.Open(path)
		must(t, err)
		server, err := localapi.Serve(path, log, "v1.2.3", func(err error) { t.Error(err) })
		must(t, err)
		cmd := exec.Command("rollcall", "log", "verify", path)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		text, err := cmd.Output()
		if err != nil || !strings.HasSuffix(string(text), fmt.Sprintf("\nwhole up to entry %d\n", tc.entries)) ||
			tc.entries > 0 && !strings.Contains(string(text), fmt.Sprintf("to %d were told by process ", tc.entries)) {
			t.Errorf("%v, as text:\n%s", err, text)
		}
		if want := fmt.Sprintf(
			"rollcall: the log is being written to: read up to entry %d\n",
			tc.entries,
		); stderr.String() != want {
			t.Errorf("stderr %q, want %q", stderr.String(), want)
		}
		must(t, errors.Join(server.Close(path), log.Close()))
	}
}

// TestLogVerifyPrintsThatItCouldNotRead has a writer that does not serve its log.
func TestLogVerifyPrintsThatItCouldNotRead(t *testing.T) {
	for _, size := range []int{10, 40} {
		path := logstest.Segmented(t, logstest.WellFormed(40), size)
		log, err := boltlog.Open(path)
		must(t, err)
		text, err := exec.Command("rollcall", "log", "verify", path).Output()
		if err == nil || strings.Contains(string(text), "whole") || !strings.Contains(string(text), "NOT CHECKED") {
			t.Errorf("%v, as text:\n%s", err, text)
		}
		must(t, log.Close())
	}
}
