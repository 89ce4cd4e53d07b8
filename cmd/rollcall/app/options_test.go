package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/logs/survey"
)

// siteFilter is another author's plugin: it keeps pods off one node. rollcall-site has it, and rollcall has not.
type siteFilter struct {
	Closed string `json:"closed"`
	Words  string `json:"words"`
}

func (*siteFilter) Name() string { return "SiteFilter" }

func (p *siteFilter) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if node.Node().Name == p.Closed {
		return fwk.NewStatus(fwk.Unschedulable, p.Words)
	}
	return nil
}

func newSiteFilter(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	p := &siteFilter{}
	if err := frameworkruntime.DecodeInto(args, p); err != nil {
		return nil, err
	}
	if strings.Contains(p.Words, "!") {
		return nil, errors.New("the words are too loud")
	}
	return p, nil
}

// siteConfig has the plugin keep pods off the first of the nodes of a shape.
const siteConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {filter: {enabled: [{name: SiteFilter}]}}
  pluginConfig: [{name: SiteFilter, args: {words: node(s) are closed by the site, closed: node-00}}]
`

// site is a log of rollcall-site with snapshots and sealed segments, and the files made of it.
type site struct {
	dir, log, config, work, part string
	last                         uint64 // the log's last entry
}

func (s site) file(name string) string { return filepath.Join(s.dir, name) }

// at returns the number of the entry at that percentage of the log.
func (s site) at(percent uint64) string { return strconv.FormatUint(s.last*percent/100, 10) }

// simulation returns the arguments that the log was made with.
func (s site) simulation(log string) []string {
	return []string{"simulate", "--nodes", "3x4cpu", "--workload", s.work, "--config", s.config, "--log", log,
		"--snapshot-every", "50", "--segment-size", "40000"}
}

func newSite(t *testing.T) site {
	t.Helper()
	dir := t.TempDir()
	s := site{dir: dir, log: filepath.Join(dir, "site.log"), config: filepath.Join(dir, "site.yaml"),
		work: filepath.Join(dir, "pods.yaml"), part: filepath.Join(dir, "part.bundle")}
	var pods strings.Builder
	for i := range 25 {
		pods.WriteString(waiting(fmt.Sprintf("pod-%d", i), i%3, fmt.Sprintf("%dm", i)))
	}
	must(t, os.WriteFile(s.work, []byte(pods.String()), 0o600))
	must(t, os.WriteFile(s.config, []byte(siteConfig), 0o600))
	s.run(t, append(s.simulation(s.log), "--effects", s.file("effects.jsonl"))...) // step by step: several segments
	info, _ := factsOf[survey.Report](t, "log", "info", s.log)
	s.last = info.LastSeq
	return s
}

// run runs a command of rollcall-site that must end well.
func (s site) run(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	stdout, complaint, code := asProcess(t, "rollcall-site", args...)
	if code != exitDone || strings.Contains(complaint, "SiteFilter") {
		t.Errorf("rollcall-site %q: exit code %d\n%s%s", args, code, stdout, complaint)
	}
	return stdout
}

// needs says whether a command needs plugins.
type needs int

const (
	nothing needs = iota // it reads no log and no configuration
	reads                // it does not need the plugins of the log that it reads
	decides              // it needs them
)

// A commandRow is a command of the table, with its arguments.
type commandRow struct {
	needs needs
	args  []string
}

// commands returns the table of all commands.
func (s site) commands(moved string) map[string]commandRow {
	return map[string]commandRow{
		"simulate":       {decides, s.simulation(s.file("again.log"))[1:]},
		"replay":         {decides, []string{s.log}},
		"explain":        {decides, []string{s.log, "pod", "default/pod-20"}},
		"audit order":    {decides, []string{s.log, "--from", s.at(85)}},
		"log snapshot":   {decides, []string{s.log, "--at", s.at(87)}},
		"log export":     {decides, []string{s.log, "--from", s.at(90), "--out", s.file("other.bundle")}},
		"log import":     {decides, []string{s.part, "--log", s.file("imported.log")}},
		"log cat":        {reads, []string{s.log}},
		"log info":       {reads, []string{s.log}},
		"log index":      {reads, []string{s.log}},
		"log copy":       {reads, []string{s.log, s.file("copied.log")}},
		"log verify":     {reads, []string{s.log}},
		"log checkpoint": {reads, []string{s.log, "--key", s.file("key")}},
		"log prove":      {reads, []string{s.log, "--seq", "5", "--checkpoint", s.file("signed")}},
		"log archive":    {decides, []string{s.log, "--before", s.at(95), "--to", moved}},
		"record":         {needs: nothing},
		"run":            {needs: nothing}, // TestARunIsGivenThePluginsOfItsProgram
		// TestWhatACopyHasIsTakenOutOfAStream (logs/archive): it needs a stream.
		"log trim":            {needs: nothing},
		"log check":           {needs: nothing},
		"log keygen":          {needs: nothing},
		"log verify-segments": {needs: nothing},
		// TestBindsOfOthersAreCompared has --with rollcall.
		"diff":          {decides, []string{s.log, s.log}},
		"dump":          {needs: nothing},
		"events":        {decides, []string{s.log}},
		"export":        {decides, []string{s.log}},
		"get":           {decides, []string{s.log, "pods"}},
		"plot":          {decides, []string{s.log}},
		"report":        {decides, []string{s.log}},
		"audit loops":   {reads, []string{s.log}},
		"audit victims": {decides, []string{s.log}},
		"demo":          {needs: nothing},
		"bench":         {needs: nothing},
		"bench log":     {needs: nothing},
		"version":       {needs: nothing},
	}
}

// TestEveryCommandKnowsThePluginsOfItsProgram has a row for each command. A command that needs the plugin works in the
// program that has it, from snapshots too. In rollcall, which lacks it, it names the plugin and ends with 1.
func TestEveryCommandKnowsThePluginsOfItsProgram(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	moved := s.file("archive")
	s.run(t, "log", "export", s.log, "--from", s.at(85), "--out", s.part)
	s.run(t, "log", "keygen", "--name", "site.example", "--out", s.file("key"))
	signed := s.run(t, "log", "checkpoint", s.log, "--key", s.file("key"))
	must(t, os.WriteFile(s.file("signed"), []byte(signed), 0o600))
	table := s.commands(moved)
	var names []string
	for _, cmd := range commands(NewCommand()) {
		name := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "rollcall"), " ")
		if _, ok := table[name]; !ok && cmd.Runnable() && (!cmd.HasSubCommands() || name == "bench") {
			t.Errorf("the command %q is not in the table: does it need plugins?", name)
		}
		if name != "log archive" {
			names = append(names, name)
		}
	}
	for _, name := range append(names, "log archive") {
		row, ok := table[name]
		if !ok || row.needs == nothing {
			continue
		}
		args := append(strings.Fields(name), row.args...)
		if row.needs == decides && name != "log export" { // which begins with the first entry then, and says so
			out, complaint, code := asProcess(t, "rollcall", args...)
			if code != exitFailed || !strings.Contains(complaint, `"SiteFilter" is not compiled into this program`) {
				t.Errorf("rollcall %q: exit code %d\n%s%s", args, code, out, complaint)
			}
		}
		s.run(t, args...)
	}
	for _, args := range [][]string{
		{"replay", s.log, "--from", s.at(95), "--classes", "off"},
		{"replay", s.part},
		{"explain", s.part, "pod", "default/pod-24", "-o", "json"},
		append(s.simulation(s.file("again.log")), "--resume"),
		{"replay", s.file("imported.log")},
	} {
		s.run(t, args...)
	}
	// A log names the plugins that it needs, even if the epoch began before its first entry that exists.
	wantsInfoOf := func(log string) {
		t.Helper()
		info, complaint, _ := asProcess(t, "rollcall", "log", "info", log)
		if !strings.Contains(info, "\nepoch 1 began before entry ") ||
			!strings.HasSuffix(info, "\n  added plugins: SiteFilter\n  NOT COMPILED INTO THIS PROGRAM: SiteFilter\n") {
			t.Errorf("log info of %s does not name the plugin:\n%s%s", log, info, complaint)
		}
	}
	wantsInfoOf(s.part)
	// Without the archived segments, the log begins with a snapshot.
	must(t, os.Rename(moved, moved+".away"))
	if out, complaint, code := asProcess(t, "rollcall-site", "replay", s.log); code != exitDone ||
		!strings.Contains(out, "identical\n") {
		t.Errorf("replay behind an archive: exit code %d\n%s%s", code, out, complaint)
	}
	wantsInfoOf(s.log)
}

// TestAnAddedPluginDecidesWithItsArguments finds the plugin's words, which are among its arguments, in the log and in
// the answer of explain.
func TestAnAddedPluginDecidesWithItsArguments(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cat := s.run(t, "log", "cat", s.log)
	if !strings.Contains(cat, `"args":{"closed":"node-00","words":"node(s) are closed by the site"}`) {
		t.Errorf("the arguments are not in the configuration of the log:\n%s", firstLines(cat, 1))
	}
	for line := range strings.Lines(cat) {
		if strings.Contains(line, `"kind":"Decision"`) && strings.Contains(line, `"node":"node-00"`) {
			t.Errorf("a pod was placed on the node that is closed: %s", line)
		}
	}
	if info := s.run(t, "log", "info", s.log); !strings.Contains(info, "\n  added plugins: SiteFilter\n") ||
		strings.Contains(info, "NOT COMPILED") {
		t.Errorf("log info prints\n%s", info)
	}
	why, complaint, _ := asProcess(t, "rollcall-site",
		"explain", s.log, "pod", "default/pod-20", "--at", "2026-01-01T00:25:00Z")
	if !strings.Contains(why, "node(s) are closed by the site") {
		t.Errorf("explain does not have the plugin's words:\n%s%s", why, complaint)
	}
	// Another argument is another configuration.
	must(t, os.WriteFile(s.config, []byte(strings.Replace(siteConfig, "node-00", "node-02", 1)), 0o600))
	_, complaint, code := asProcess(t, "rollcall-site", append(s.simulation(s.log), "--resume")...)
	if code != exitUsage || !strings.Contains(complaint, "another configuration") {
		t.Errorf("resumed with another argument: exit code %d\n%s", code, complaint)
	}
	// The command reports the errors of the plugin's factory before there is a log.
	must(t, os.WriteFile(s.config, []byte(strings.Replace(siteConfig, "closed by", "closed by!", 1)), 0o600))
	_, complaint, code = asProcess(t, "rollcall-site", s.simulation(s.file("none.log"))...)
	if code != exitFailed || !strings.Contains(complaint, `start plugin "SiteFilter": the words are too loud`) {
		t.Errorf("the factory's error: exit code %d\n%s", code, complaint)
	}
	if _, err := os.Stat(s.file("none.log")); err == nil {
		t.Error("there is a log nevertheless")
	}
}

// executed returns the error of a command of a program with these options.
func executed(t *testing.T, options []Option, args ...string) error {
	t.Helper()
	root := NewCommand(options...)
	root.SetArgs(args)
	root.SetOut(&bytes.Buffer{})
	return root.ExecuteContext(t.Context())
}

func TestOptionsThatCannotBeAreRefusedByEveryCommand(t *testing.T) {
	good := WithPlugin("SiteFilter", newSiteFilter)
	broken := func(*additions) error { return errors.New("no licence") }
	for want, options := range map[string][]Option{
		`plugin "SiteFilter" is added twice`:                 {good, good},
		`plugin "NodeAffinity" is added, and`:                {good, WithPlugin("NodeAffinity", newSiteFilter)},
		`plugin "Coscheduling" is added, and`:                {WithPlugin("Coscheduling", newSiteFilter)},
		`a plugin is added without a name`:                   {WithPlugin("", newSiteFilter)},
		`plugin "SiteFilter" is added without a factory`:     {WithPlugin("SiteFilter", nil)},
		`this program cannot work as it was built: no licen`: {broken},
	} {
		for _, args := range [][]string{{}, {"version"}, {"log", "cat", "nowhere.log"}, {"replay"}, {"run", "--no"}} {
			err := executed(t, options, args...)
			if err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != exitFailed {
				t.Errorf("%q: the error is %v, want %q in it and exit code 1", args, err, want)
			}
		}
	}
	if err := executed(t, []Option{good}, "version"); err != nil {
		t.Errorf("a program with a plugin: %v", err)
	}
}

func TestVersionListsTheAddedPlugins(t *testing.T) {
	text, _, _ := asProcess(t, "rollcall-site", "version")
	if !strings.Contains(text, "\nadded plugins: SiteFilter\n") {
		t.Errorf("rollcall-site version prints\n%s", text)
	}
	var facts struct {
		Added []string `json:"addedPlugins"`
	}
	out, _, _ := asProcess(t, "rollcall-site", "version", "-o", "json")
	if err := json.Unmarshal([]byte(out), &facts); err != nil ||
		!slices.Equal(facts.Added, []string{"SiteFilter"}) {
		t.Errorf("rollcall-site version -o json prints %s (%v)", out, err)
	}
	if text, _, _ := asProcess(t, "rollcall", "version"); strings.Contains(text, "added") {
		t.Errorf("rollcall version prints\n%s", text)
	}
}

// TestAVersionNamesTheModuleThatWasBuilt is about the version in each epoch of a log: a plugin's decisions depend on
// its revision.
func TestAVersionNamesTheModuleThatWasBuilt(t *testing.T) {
	revision := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"},
	}
	const ours = "github.com/rollcall-sched/rollcall"
	rollcall := func(version string) *debug.Module {
		return &debug.Module{Path: ours, Version: version}
	}
	replaced := &debug.Module{Path: ours, Version: "v0.0.0", Replace: &debug.Module{Path: "../.."}}
	for _, tc := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{Main: *rollcall("(devel)")}, "devel"},
		{debug.BuildInfo{Main: *rollcall("v0.9.0")}, "v0.9.0"},
		{debug.BuildInfo{Main: *rollcall("(devel)"), Settings: revision}, "devel+0123456789ab-modified"},
		{
			debug.BuildInfo{
				Main: debug.Module{Path: "example.com/racks", Version: "(devel)"}, Settings: revision,
				Deps: []*debug.Module{rollcall("v0.9.0")},
			},
			"v0.9.0 in example.com/racks devel+0123456789ab-modified",
		},
		{
			debug.BuildInfo{
				Main: debug.Module{Path: "example.com/racks", Version: "v1.2.3"}, Deps: []*debug.Module{replaced},
			},
			"devel in example.com/racks v1.2.3",
		},
	} {
		got, _, _ := strings.Cut(versionOf(&tc.info).String(), " a") // the architecture is amd64 or arm64
		if got != tc.want {
			t.Errorf("the version is %q, want %q", got, tc.want)
		}
	}
}
