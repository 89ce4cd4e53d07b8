package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/klog/v2"

	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/test/incident"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // as Run does, for commands that run in this process
	if len(os.Args) == 3 && os.Args[1] == "log" && os.Args[2] == checkName {
		os.Exit(Run(NewCommand())) // a log verify in this process has started this one
	}
	testscript.Main(m, map[string]func(){
		"rollcall":      func() { os.Exit(Run(NewCommand())) },
		"rollcall-site": func() { os.Exit(Run(NewCommand(WithPlugin("SiteFilter", newSiteFilter)))) },
		"rollcall-zones": func() {
			os.Exit(Run(NewCommand(WithPlugin("SiteZone", newSiteZone), WithPluginResources("SiteZone", siteZones))))
		},
	})
}

// TestScripts runs the command lines in testdata/script. Each rollcall there is a process of its own.
// Besides testscript's own commands there are:
//
//	exits CODE rollcall ARG...   the command exits with that code
//	samelog FILE FILE            two outputs of log cat are the same but for the epochs' UUIDs
//	evictmore LOG NEW POD        a copy whose first Decision that evicts pods evicts another one too
//	forgeindex LOG               the parts of the log's index are replaced by wrong ones with right hashes
//	incident DIR                 the input files of package test/incident: DIR/nodes.yaml and DIR/workload.yaml
//	explained, placement, jumps, tampered, figures, happened, ledgered
//	                             answers compared with a naive reading of log cat; see their comments
//
// and the condition [queue-policies]: the plugin Coscheduling has them. $CORPUS is the directory of the manifests that
// package sim/workload reads in its tests.
func TestScripts(t *testing.T) {
	corpus, err := filepath.Abs("../../../sim/workload/testdata/corpus")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CORPUS", corpus)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"samelog":    sameLog,
			"forgeindex": forgeIndex,
			"evictmore":  evictMore,
			"incident":   writeIncident,
			// The users' journeys: oncall.txt, auditor.txt, platform.txt.
			"explained": explained,
			"preemptor": preemptor,
			"placement": placement,
			"jumps":     jumps,
			"tampered":  tampered,
			"figures":   figures,
			"differs":   differs,
			// The questions: events.txt.
			"happened": happened,
			// Questions about the incident: get.txt, explain_node.txt.
			"pendings": pendings,
			"died":     died,
			"evicted":  evicted,
			"victimof": victimof,
			"wrong":    wrong,
			"ledgered": ledgered,
			// Dumps: dump.txt, dump_incident.txt.
			"dumpof":      dumpOf,
			"samereasons": sameReasons,
		},
		Condition: func(name string) (bool, error) {
			if name != "queue-policies" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			_, _, err := readConfig(NewCommand(), plugins.NewRegistry(), "", queuePolicy{name: "StrictFIFO"}, nil)
			return err == nil, nil
		},
		RequireExplicitExec: true,
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code is %d, want %d", got, want)
	}
}

// writeIncident writes the input files of the incident that the questions are asked about.
func writeIncident(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: incident DIR")
	}
	ts.Check(incident.Write(ts.MkAbs(args[0])))
}

func sameLog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: samelog FILE FILE")
	}
	a, b := withoutIDs(ts.ReadFile(args[0])), withoutIDs(ts.ReadFile(args[1]))
	if len(a) == 0 || a != b {
		ts.Fatalf("%s and %s differ (%d and %d bytes)", args[0], args[1], len(a), len(b))
	}
}

var epochID = regexp.MustCompile(`("kind":"EpochStarted","id":)"[0-9a-f-]{36}"`)

// withoutIDs takes the epochs' UUIDs out of an output of log cat.
func withoutIDs(cat string) string { return epochID.ReplaceAllString(cat, `$1""`) }

// catLines parses an output of log cat.
func catLines(t testing.TB, cat []byte) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for line := range bytes.Lines(cat) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("log cat printed %q: %v", line, err)
		}
		lines = append(lines, fields)
	}
	return lines
}
