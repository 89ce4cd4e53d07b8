package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/survey"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/simulate/keep"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

const withSiteFilter = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {filter: {enabled: [{name: SiteFilter}]}}
`

// TestALogOfAPluginThatThisProgramLacksIsRefusedByItsName tries the commands that need the plugins of a log, and the
// commands that do not.
func TestALogOfAPluginThatThisProgramLacksIsRefusedByItsName(t *testing.T) {
	dir := t.TempDir()
	log, file, config := filepath.Join(dir, "jobs.log"), filepath.Join(dir, "pods.yaml"), filepath.Join(dir, "c.yaml")
	pods := waiting("first", 0, "0s") + waiting("second", 0, "10s")
	must(t, os.WriteFile(file, []byte(pods), 0o600))
	must(t, os.WriteFile(config, []byte(withSiteFilter), 0o600))
	writeLogOfSiteFilter(t, log, file)
	for _, command := range [][]string{
		{"explain", log, "pod", "default/second"},
		{"explain", log, "pod", "default/second", "--at", "7", "-o", "json"},
		{"simulate", "--nodes", "1x4cpu", "--workload", file, "--log", log, "--resume", "--config", config},
		{"replay", log},
		{"replay", log, "--from", "5"},
		{"audit", "order", log},
		{"log", "snapshot", log, "--at", "5"},
	} {
		stdout, stderr, code := ran(t, command...)
		if code != exitFailed || !strings.Contains(stderr, `plugin "SiteFilter" is not compiled into this program`) ||
			!strings.Contains(stderr, "\nA plugin of others is compiled in by its name") {
			t.Errorf("%q: exit code %d\n%s%s", command, code, stdout, stderr)
		}
	}
	info := wants(t, exitDone, nil, "log", "info", log)
	if !strings.HasSuffix(info, "\n  added plugins: SiteFilter\n  NOT COMPILED INTO THIS PROGRAM: SiteFilter\n") {
		t.Errorf("log info does not name the plugin:\n%s", info)
	}
	epoch, _ := factsOf[survey.Report](t, "log", "info", log)
	if e := epoch.Epochs[0]; !slices.Contains(e.Plugins, "SiteFilter") || !slices.Contains(e.Plugins, "NodeName") ||
		!slices.Equal(e.AddedPlugins, []string{"SiteFilter"}) || !slices.Equal(e.MissingPlugins, e.AddedPlugins) {
		t.Errorf("log info -o json has %+v", e)
	}
	// Another configuration makes another simulation, with or without the plugin.
	wants(t, exitUsage, []string{"cannot resume: "}, "simulate", "--nodes", "1x4cpu", "--workload", file, "--log", log,
		"--resume")
	// A bundle begins with the first entry if snapshots cannot be read.
	wants(t, exitDone, []string{"not used: snapshot at entry 4: ", `plugin "SiteFilter" is not compiled`},
		"log", "export", log, "--out", filepath.Join(dir, "part.bundle"), "--from", "6")
	for _, command := range [][]string{
		{"log", "cat", log}, {"log", "info", log}, {"log", "verify", log},
		{"log", "export", log, "--out", filepath.Join(dir, "all.bundle")},
	} {
		if stdout, stderr, code := ran(t, command...); code != exitDone {
			t.Errorf("%q: exit code %d\n%s%s", command, code, stdout, stderr)
		}
	}
}

// writeLogOfSiteFilter writes a log, with snapshots, as a program that has the plugin does.
func writeLogOfSiteFilter(t *testing.T, log, file string) {
	t.Helper()
	nodes, err := workload.ParseNodeSpec("1x4cpu")
	must(t, err)
	work, err := workload.Read(file)
	must(t, err)
	cluster, err := sim.New(nodes, work, sim.Options{})
	must(t, err)
	cfg, err := framework.LoadConfig([]byte(withSiteFilter), "config.yaml")
	must(t, err)
	config, err := framework.EncodeConfig(cfg)
	must(t, err)
	registry := plugins.NewRegistry()
	registry.Factories["SiteFilter"] = newSiteFilter
	_, err = keep.Run(t.Context(), cluster, keep.Options{
		Log: log, SnapshotEvery: 4, Engine: engine.Options{Registry: registry, Config: config, Version: "test"},
	})
	must(t, err)
}
