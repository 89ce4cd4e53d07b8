package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// plantedFaults are faults of which each is shown to be caught: with old, which stands once in file, replaced by
// new, the test must fail and say so. The product's code has no branch for it: the go command is told to compile
// the changed file in the place of the one that is there.
var plantedFaults = []struct {
	name, file, old, new string
	pkg, test, says      string
}{
	{
		"an append's error is passed over, and the effects are released", "engine/engine.go",
		"\tif err := e.commit(); err != nil {\n\t\treturn nil, err\n\t}\n\te.settled = true",
		"\t_ = e.commit()\n\te.settled = true",
		"./cmd/rollcall", "TestAtTheLimitOfAFilesSizeNothingIsReleasedAndWithoutItGoesOn", "was carried out, and entry",
	},
	{
		"effects are released up to 64 entries before they are durable", "engine/engine.go",
		"\tif err := e.commit(); err != nil {\n\t\treturn nil, err\n\t}\n\te.settled = true",
		"\tif len(e.pending) > 64 {\n\t\tif err := e.commit(); err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t}\n\te.settled = true",
		"./cmd/rollcall", "TestKilledAtAnyMomentASimulationLosesNothing", "was carried out, and entry",
	},
	{
		"recovery does not ask again for what has no result", "engine/engine.go",
		"\treturn e, e.commit()\n",
		"\te.released = e.machine.Seq()\n\treturn e, e.commit()\n",
		"./cmd/rollcall", "TestKilledAtAnyMomentASimulationLosesNothing", "kill_test.go",
	},
	{
		"nothing is synced", "eventlog/boltlog/segment.go",
		"&bolt.Options{Timeout: lockTimeout,", "&bolt.Options{NoSync: true, Timeout: lockTimeout,",
		"./cmd/rollcall", "TestAfterAFailedSyncNothingIsReleasedAndLaterItGoesOn", "the disk hardly ever stops it",
	},
	{
		"a full disk stops nothing", "engine/engine.go",
		"\tif err := e.commit(); err != nil {\n\t\treturn nil, err\n\t}\n\te.settled = true",
		"\t_ = e.commit()\n\te.settled = true",
		"./cmd/rollcall", "TestOnAFullDiskNothingIsReleasedAndWithRoomItGoesOn", "was carried out, and entry",
	},
	{
		"time is the clock's, wherever that stands", "engine/engine.go",
		"e.next(max(now, e.machine.Now()), input)", "e.next(now, input)",
		"./engine", "TestWhateverTheClockSaysTimeNeverGoesBackAndTheReplayIsIdentical", "before",
	},
	{
		"a new epoch begins when the clock says", "engine/engine.go",
		"max(eventlog.TimeOf(now), e.machine.Now())", "eventlog.TimeOf(now)",
		"./engine", "TestWhateverTheClockSaysTimeNeverGoesBackAndTheReplayIsIdentical", "before",
	},
	{
		"a resumed simulation does not compare its inputs with the log", "sim/resume.go",
		"if bytes.Equal(got, want) {", "if got != nil || want != nil {",
		"./sim", "TestALogOfAnotherSimulationIsNotResumed", "the error is",
	},
	{
		"a resumed simulation forgets the rest of the step that was cut", "sim/resume.go",
		"return r.live.Step(ctx, now, left)", "return r.live.Step(ctx, now, left[len(left):])",
		"./sim", "TestASimulationResumedAfterAnyEntryEndsAsIfItHadNeverStopped", "differs",
	},
}

// TestSoakPlantedFaults plants each fault and wants its test to fail. It compiles the program anew for each.
func TestSoakPlantedFaults(t *testing.T) {
	if os.Getenv("ROLLCALL_SOAK") != "1" {
		t.Skip("skipped: it takes minutes; set ROLLCALL_SOAK=1, or run make soak")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range plantedFaults {
		t.Run(f.name, func(t *testing.T) {
			file := filepath.Join(root, filepath.FromSlash(f.file))
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), f.old); n != 1 {
				t.Fatalf("what is to be changed stands %d times in %s: plant the fault anew", n, f.file)
			}
			changed := filepath.Join(t.TempDir(), filepath.Base(file))
			overlay := filepath.Join(t.TempDir(), "overlay.json")
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
			if err != nil {
				t.Fatal(err)
			}
			for path, content := range map[string]string{ // any order: two files
				changed: strings.Replace(string(source), f.old, f.new, 1), overlay: string(replace),
			} {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("go", "test", "-tags", "invariants", "-overlay", overlay, "-count", "1", "-run", "^"+f.test+"$", f.pkg)
			if f.pkg != "./cmd/rollcall" {
				cmd.Args = append(cmd.Args, "-rapid.nofailfile") // it is to leave nothing behind
			}
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "ROLLCALL_SOAK=")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+f.test) || !strings.Contains(string(out), f.says) {
				t.Fatalf("%s does not catch it: %v\n%s", f.test, err, out)
			}
			t.Logf("%s:\n%s", f.test, firstLines(string(out), 6))
		})
	}
}

func firstLines(text string, n int) string {
	lines := strings.SplitAfterN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "")
}
