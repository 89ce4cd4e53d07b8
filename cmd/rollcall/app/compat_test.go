package app

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/test/compat"
)

// oldLogs are the logs of package compat.
const oldLogs = "../../../test/compat/testdata"

// TestCommandsOnLogsOfBefore runs commands on logs and bundles of earlier versions, and expects those versions'
// answers.
func TestCommandsOnLogsOfBefore(t *testing.T) {
	for _, file := range compat.Folders(t, oldLogs, "*/states.txt") {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			log, archive := unpackedLog(t, dir)
			if out, complaint, code := ran(
				t,
				append([]string{"log", "verify", log}, archive...)...); code != exitDone ||
				!strings.Contains(out, "\nwhole\n") {
				t.Errorf("log verify: exit code %d\n%s%s", code, out, complaint)
			}
			if out, complaint, code := ran(
				t,
				append([]string{"replay", log}, archive...)...); code != exitDone ||
				!strings.Contains(out, "identical\n") {
				t.Errorf("replay: exit code %d\n%s%s", code, out, complaint)
			}
			out, complaint, code := ran(t, append([]string{"log", "cat", log}, archive...)...)
			if want := unzipped(t, filepath.Join(dir, "cat.jsonl.gz")); code != exitDone || out != want {
				t.Errorf("log cat: exit code %d, and another output than the recorded one\n%s", code, complaint)
			}
			questions, err := os.ReadFile(filepath.Join(dir, "questions.txt"))
			if err != nil {
				return // none were asked
			}
			n := 0
			for question := range strings.Lines(string(questions)) {
				n++
				args := append([]string{"explain", log, "-o", "json"}, strings.Fields(question)...)
				wantAnswer(t, filepath.Join(dir, fmt.Sprintf("answer%d.json", n)), append(args, archive...))
			}
		})
	}
}

// wantAnswer compares the JSON output of a command with the answer in the file: every field of that answer must still
// have the same value, and the output may have more fields.
func wantAnswer(t *testing.T, file string, args []string) {
	t.Helper()
	out, complaint, code := ran(t, args...)
	recorded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("rollcall %s: exit code %d, %v\n%s", strings.Join(args, " "), code, err, complaint)
	}
	if err := json.Unmarshal(recorded, &want); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if at, ok := contains(got, want); !ok {
		t.Errorf("rollcall %s: the answer differs from %s at %s\n%s", strings.Join(args, " "), file, at, out)
	}
}

// contains reports whether got has everything that want has, and where it differs.
func contains(got, want any) (at string, ok bool) {
	switch want := want.(type) {
	case map[string]any:
		got, isMap := got.(map[string]any)
		if !isMap {
			return "", false
		}
		for key := range want {
			if at, ok := contains(got[key], want[key]); !ok {
				return "." + key + at, false
			}
		}
		return "", true
	case []any:
		got, isList := got.([]any)
		if !isList || len(got) != len(want) {
			return "", false
		}
		for i := range want {
			if at, ok := contains(got[i], want[i]); !ok {
				return fmt.Sprintf("[%d]%s", i, at), false
			}
		}
		return "", true
	}
	return "", reflect.DeepEqual(got, want)
}

// TestASimulationOfBeforeGoesOn resumes the simulation that a process of an earlier version was killed in.
func TestASimulationOfBeforeGoesOn(t *testing.T) {
	for _, dir := range compat.Folders(t, oldLogs, "killed") {
		t.Run(filepath.Base(filepath.Dir(dir)), func(t *testing.T) {
			log, _ := unpackedLog(t, dir)
			out, complaint, code := ran(
				t,
				"simulate",
				"--nodes",
				"6x4cpu",
				"--workload",
				filepath.Join(oldLogs, "workloads", "backfill.swf"),
				"--queue-policy",
				"Backfill",
				"--log",
				log,
				"--resume",
			)
			if code != exitDone || !strings.Contains(out, "286 completed, 0 pending") {
				t.Fatalf("simulate --resume: exit code %d\n%s%s", code, out, complaint)
			}
			if out, complaint, code := ran(
				t,
				"replay",
				log,
			); code != exitDone ||
				!strings.Contains(out, "identical\n") {
				t.Errorf("replay: exit code %d\n%s%s", code, out, complaint)
			}
		})
	}
}

// TestWhatWasWrittenBeforeTheFirstReleaseIsRefused gives commands a log and a bundle of behaviour 9: they say which
// program reads them, and leave them as they are.
func TestWhatWasWrittenBeforeTheFirstReleaseIsRefused(t *testing.T) {
	log, dir := filepath.Join(t.TempDir(), "jobs.log"), filepath.Join(oldLogs, "unreleased")
	if err := os.Mkdir(log, 0o700); err != nil {
		t.Fatal(err)
	}
	unpackInto(t, filepath.Join(dir, "log.tar.gz"), log)
	segment := filepath.Join(log, "00000000000000000001.seg")
	before, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	bundle, made, cluster := filepath.Join(dir, "bundle"), filepath.Join(t.TempDir(), "made"), kubeconfigOfNobody(t)
	for _, args := range [][]string{
		{"log", "info", log}, {"log", "cat", log}, {"log", "verify", log}, {"replay", log},
		{"explain", log, "pod", "default/a"}, {"log", "export", log, "--out", made},
		{"log", "copy", log, made + ".copy"},
		{"simulate", "--workload", threePods(t), "--nodes", "4x2cpu", "--log", log, "--resume"},
		{"run", "--kubeconfig", cluster, "--log", log, "--leader-elect=false", "--secure-port=0"},
		{"log", "info", bundle}, {"replay", bundle}, {"explain", bundle, "pod", "default/a"},
		{"log", "import", bundle, "--log", made},
	} {
		_, complaint, code := ran(t, args...)
		if code != exitFailed || !strings.Contains(complaint, (&eventlog.FormatError{Seq: 1, Format: 3}).Error()) {
			t.Errorf("rollcall %s: exit code %d\n%s", strings.Join(args, " "), code, complaint)
		}
	}
	if after, err := os.ReadFile(segment); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the log is not what it was: %v", err)
	}
}

// kubeconfigOfNobody returns the path of a kubeconfig file that names an address where no API server is.
func kubeconfigOfNobody(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{"apiVersion":"v1","kind":"Config","current-context":"c","users":[{"name":"u"}],
"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// unpackedLog returns the path of a log of before, and the flags that name its archive.
func unpackedLog(t *testing.T, dir string) (log string, archive []string) {
	t.Helper()
	if path := filepath.Join(dir, "bundle"); fileExists(path) {
		return path, nil
	}
	log = t.TempDir()
	unpackInto(t, filepath.Join(dir, "log.tar.gz"), log)
	if path := filepath.Join(dir, "archive.tar.gz"); fileExists(path) {
		to := t.TempDir()
		unpackInto(t, path, to)
		archive = []string{"--archive", to}
	}
	return log, archive
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func unpackInto(t *testing.T, archive, dir string) {
	t.Helper()
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func unzipped(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return string(text)
}
