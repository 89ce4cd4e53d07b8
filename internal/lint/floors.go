package lint

import (
	"fmt"
	"strings"
)

// The floors. A package imports from lower floors only.
const (
	// lastPureFloor is the highest floor on which the bans hold: everything up to it must be a function of
	// the log's entries.
	lastPureFloor = 5
	edge          = 8
	top           = 9
	side          = 10
)

// room is one package, or one folder of packages, and its floor.
type room struct {
	// dir is the package's directory inside the module, with slashes; "x/..." means every package below x, but not x
	// itself.
	dir   string
	floor int
	// testSupport: only test files and other test support import it, and the bans do not hold in it.
	testSupport bool
	// planned: the room has no files yet.
	planned bool
}

// rooms is the design's table. A package that is missing here fails the test.
var rooms = []room{
	{dir: "apis/...", floor: 0},
	{dir: "internal/canonical", floor: 0},
	{dir: "internal/durable", floor: 0},
	{dir: "eventlog", floor: 0},
	{dir: "eventlog/logtest", floor: 0, testSupport: true},
	{dir: "eventlog/merkle", floor: 0},
	{dir: "internal/gang", floor: 0},
	{dir: "internal/regular", floor: 0},
	{dir: "internal/similar", floor: 0},
	{dir: "eventlog/boltlog", floor: 1},
	{dir: "eventlog/index", floor: 2},
	{dir: "eventlog/jetstream", floor: 1},
	{dir: "eventlog/proof", floor: 1},
	{dir: "cluster", floor: 1},
	{dir: "cluster/devices", floor: 1},
	{dir: "cluster/volumes", floor: 1},
	{dir: "queue", floor: 1},
	{dir: "framework", floor: 2},
	{dir: "framework/gates", floor: 1},
	{dir: "internal/room", floor: 2},
	{dir: "internal/backfill", floor: 3},
	{dir: "internal/gangplan", floor: 3},
	{dir: "plugins", floor: 3},
	{dir: "plugins/...", floor: 3},
	{dir: "plugins/internal/plugintest", floor: side, testSupport: true},
	{dir: "scheduler", floor: 4},
	{dir: "snapshot", floor: 5},
	{dir: "logs/bundle", floor: 6},
	{dir: "engine", floor: 6},
	{dir: "engine/live", floor: 7},
	{dir: "replay", floor: 7},
	{dir: "replay/choices", floor: 7},
	{dir: "replay/compare", floor: 7},
	{dir: "replay/events", floor: 7},
	{dir: "replay/explain", floor: 7},
	{dir: "replay/history", floor: 6},
	{dir: "replay/listing", floor: edge},
	{dir: "replay/plot", floor: edge},
	{dir: "replay/ledger", floor: 7},
	{dir: "replay/perfetto", floor: 7},
	{dir: "replay/entities", floor: 6},
	{dir: "replay/loops", floor: 7},
	{dir: "replay/order", floor: 7},
	{dir: "replay/victims", floor: 7},
	{dir: "replay/explain/answer", floor: 7},
	{dir: "replay/explain/phrase", floor: 7},
	{dir: "replay/explain/render", floor: 7},
	{dir: "replay/replaytest", floor: side, testSupport: true},
	{dir: "internal/localapi", floor: 6},
	{dir: "logs", floor: 7},
	{dir: "logs/archive", floor: edge},
	{dir: "logs/audit", floor: edge},
	{dir: "logs/bundles", floor: edge},
	{dir: "logs/redact", floor: edge},
	{dir: "logs/survey", floor: edge},
	{dir: "logs/verify", floor: edge},
	{dir: "logs/logstest", floor: 2, testSupport: true},
	{dir: "internal/headroom", floor: 6},
	{dir: "internal/svgplot", floor: 6},
	{dir: "internal/svgplot/svgtest", floor: side, testSupport: true},
	{dir: "internal/termwidth", floor: 6},
	{dir: "internal/termwidth/clihelp", floor: 7},
	{dir: "internal/termwidth/pty", floor: side, testSupport: true},
	{dir: "kube/client", floor: 6},
	{dir: "kube/dump", floor: 6},
	{dir: "kube/dump/dumptest", floor: 0, testSupport: true},
	{dir: "kube/extender", floor: 6},
	{dir: "kube/lease", floor: 6},
	{dir: "kube/serving", floor: 6},
	{dir: "kube/remote", floor: 6},
	{dir: "kube/effect", floor: 7},
	{dir: "kube/metrics", floor: edge},
	{dir: "kube/status", floor: 7},
	{dir: "kube/watch", floor: 7},
	{dir: "bench/workload", floor: 0},
	{dir: "bench/yardstick", floor: 1},
	{dir: "bench/lograte", floor: edge},
	{dir: "bench/natsservers", floor: edge},
	{dir: "bench/throughput", floor: edge},
	{dir: "sim", floor: edge},
	{dir: "sim/simulate", floor: edge},
	{dir: "sim/simulate/keep", floor: edge},
	{dir: "sim/workload", floor: 7},
	{dir: "sim/workload/admission", floor: 6},
	{dir: "sim/report", floor: 7},
	{dir: "cmd/rollcall", floor: top},
	{dir: "cmd/rollcall/app", floor: top},
	{dir: "cmd/kubectl-rollcall", floor: top},
	{dir: "test/compat", floor: side, testSupport: true},
	{dir: "test/incident", floor: side, testSupport: true},
	{dir: "test/histories", floor: side, testSupport: true},
	{dir: "test/outside", floor: side, testSupport: true},
	{dir: "internal/alloc", floor: side, testSupport: true},
	{dir: "internal/crashfs", floor: side, testSupport: true},
	{dir: "internal/fixedseed", floor: side, testSupport: true},
	{dir: "internal/kubesched", floor: side, testSupport: true},
	{dir: "internal/lint", floor: side},
	{dir: "internal/restorecheck", floor: side, testSupport: true},
	{dir: "internal/smalldisk", floor: side, testSupport: true},
	{dir: "test/transcripts", floor: side, testSupport: true},
	{dir: "test/worlds", floor: 0, testSupport: true},
	{dir: "test/worlds/auditor", floor: 0, testSupport: true},
	{dir: "test/peer", floor: side},
	{dir: "test/peer/kubescheduler", floor: top},
}

// neighbours are two rooms of one floor, of which one may import the other.
type neighbours struct{ from, to, reason string }

// sideways are the imports allowed on one and the same floor, each with its reason. One that has become needless is
// reported.
var sideways = []neighbours{
	{"eventlog", "apis/...", "apis holds types only and imports nothing of ours; the codec writes them"},
	{"eventlog", "eventlog/merkle", "merkle is arithmetic on hashes and imports nothing of ours; an Origin has a tree"},
	{"internal/regular", "internal/durable", "opening a file repeats what a signal has interrupted"},
	{"eventlog/logtest", "eventlog", "the conformance suite tests eventlog's own interface"},
	{"cluster", "cluster/devices", "devices are a part of the cluster's state, which knows nothing of the rest"},
	{"cluster", "cluster/volumes", "volumes are a part of the cluster's state, which knows nothing of the rest"},
	{"plugins/preemption", "internal/gangplan", "members that differ are searched for without the victims"},
	{"replay/explain/answer", "replay",
		"an answer says where this binary decides otherwise in the words of a verification"},
	{"replay/explain/render", "replay", "the kinds of divergence are put into words"},
	{"replay/explain/render", "replay/explain/answer", "the answers are what is written"},
	{"replay/compare", "replay/explain/answer", "entries and times have the form of explain's answers"},
	{"replay/choices", "replay/explain/answer", "a bind that others made is a part of an answer"},
	{"replay/explain", "replay/choices", "a bind that others made is rated as choices rates those of a whole log"},
	{"replay/explain", "replay", "a cycle that is run again is compared as a verification compares it"},
	{"replay/explain", "replay/explain/answer", "the answers are what the two readings fill in"},
	{"replay/perfetto", "replay/events", "the marks of a trace are the events of its range"},
	{"replay/events", "replay/explain", "an event has the words and the codes of an explanation"},
	{"replay/events", "replay/explain/answer", "an event has parts of an answer"},
	{"replay/events", "replay/explain/phrase", "the message of an event is made of the same phrases"},
	{"replay/explain/phrase", "replay/explain/answer", "parts of an answer are put into words"},
	{"replay/explain/render", "replay/explain/phrase",
		"the text is made of the same phrases as the message of a reason"},
	{"replay/explain", "replay/explain/phrase", "the message of a reason is made of phrases"},
	{"test/compat", "test/transcripts", "the plugins of the stories are those of the transcripts"},
	{"test/transcripts", "internal/restorecheck",
		"every story is also restored from the state after each of its entries"},
	{"test/histories", "internal/smalldisk", "disks of servers become full"},
	{"cmd/kubectl-rollcall", "cmd/rollcall/app", "without a scheduler in the cluster, commands run here, on a dump"},
	{"kube/remote", "kube/dump", "a dump that is taken has the resources and versions that dumps are read in"},
	{"cmd/rollcall", "cmd/rollcall/app", "the program is the commands of app, with no plugins of others"},
	{"sim/simulate", "sim", "simulate runs what sim models: the virtual cluster against an engine over a log"},
	{"sim/simulate/keep", "sim/simulate", "it runs simulations, with a log that is kept"},
	{"sim/simulate/keep", "sim", "the cluster that is run is sim's"},
	{"logs/verify", "logs/audit", "a log is verified against signed checkpoints, which audit reads and compares"},
	{"plugins", "plugins/coscheduling", "package plugins is the registry: it names every plugin of ours"},
	{"plugins", "plugins/preemption", "package plugins is the registry: it names every plugin of ours"},
	{"plugins/quickaffinity", "plugins/internal/topologycount", "it counts pods for both plugins, and knows neither"},
	{"plugins/quickspread", "plugins/internal/topologycount", "it counts pods for both plugins, and knows neither"},
	{"plugins", "plugins/quickaffinity", "package plugins is the registry: it names every plugin of ours"},
	{"plugins", "plugins/quickfit", "package plugins is the registry: it names every plugin of ours"},
	{"plugins", "plugins/quickspread", "package plugins is the registry: it names every plugin of ours"},
}

// apart are imports that no floor allows.
var apart = []neighbours{
	{"engine/live", "kube/...", "the loop hands an engine.Ready on to interfaces of its own"},
	{"engine/live", "scheduler", "the loop asks the state nothing: what it needs is in engine.Ready"},
}

// backendUser is a room that may import a backend of logs.
type backendUser struct{ backend, user, reason string }

// backends are packages that, outside of tests, only the listed packages may import. Any other package that needs a log
// works on the contract of package eventlog, and package logs opens the log for it. The check reports a needless row.
var backends = []backendUser{
	{"eventlog/boltlog", "logs", "it opens a log by its name, whatever keeps it"},
	{"eventlog/boltlog", "logs/...", "segments, archives and the structure of files are boltlog's alone"},
	{"eventlog/jetstream", "logs", "it opens a log by its name, whatever keeps it"},
	{"eventlog/boltlog", "bench/throughput", "it measures this backend"},
	{"eventlog/boltlog", "bench/lograte", "it measures this backend"},
	{"eventlog/jetstream", "bench/throughput", "it measures this backend"},
	{"eventlog/jetstream", "bench/lograte", "it measures this backend"},
}

// mayUse reports whether dir may import target, as far as that is a backend.
func mayUse(dir, target string) bool {
	isBackend := false
	for _, b := range backends {
		if b.backend != target {
			continue
		}
		if matches(b.user, dir) {
			return true
		}
		isBackend = true
	}
	return !isBackend
}

// matches reports whether pattern names dir: dir itself, or, with "x/...", anything below x.
func matches(pattern, dir string) bool {
	if below, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(dir, below)
	}
	return pattern == dir
}

// roomOf returns the room of a directory; an entry of its own wins over one with dots.
func roomOf(dir string) (room, bool) { return roomIn(rooms, dir) }

func roomIn(rooms []room, dir string) (room, bool) {
	var found room
	ok := false
	for _, r := range rooms {
		if r.dir == dir {
			return r, true
		}
		if matches(r.dir, dir) {
			found, ok = r, true
		}
	}
	return found, ok
}

// isPure reports whether the bans hold in a directory.
func isPure(dir string) bool {
	r, ok := roomOf(dir)
	return ok && r.floor <= lastPureFloor && !r.testSupport
}

// checkFloors reports packages without a floor and imports that do not go down.
func checkFloors(t *tree) []finding {
	var out []finding
	for _, p := range t.packages {
		r, ok := roomOf(p.dir)
		if !ok {
			out = append(out, finding{
				file: p.files[0].name, line: 1, rule: "unknown-package",
				advice: fmt.Sprintf("package %s has no floor: give it one in internal/lint/floors.go, "+
					"as the design's table says", p.dir),
			})
			continue
		}
		for _, f := range p.files {
			if !f.test {
				out = append(out, checkImports(t.module, p.dir, r, f)...)
			}
		}
	}
	return out
}

// checkImports reports the imports of one file that do not go down.
func checkImports(module, dir string, from room, f *file) []finding {
	var out []finding
	for _, spec := range f.syntax.Imports {
		target, ok := strings.CutPrefix(importPath(spec), module+"/")
		if !ok {
			continue
		}
		to, known := roomOf(target)
		var rule, advice string
		switch {
		case !known:
			rule, advice = "unknown-package", fmt.Sprintf("%s has no floor: give it one in internal/lint/floors.go",
				target)
		case !from.testSupport && !mayUse(dir, target):
			rule, advice = "backend", fmt.Sprintf("%s is one backend of logs: work on the contract of package "+
				"eventlog, and have package logs open the log", target)
		case reasonApart(dir, target) != "":
			rule, advice = "apart", fmt.Sprintf("%s must not import %s: %s", dir, target, reasonApart(dir, target))
		case to.testSupport && !from.testSupport:
			rule, advice = "floor", fmt.Sprintf("%s is test support: import it from test files only", target)
		case to.floor > from.floor:
			rule, advice = "floor", fmt.Sprintf("%s (floor %d) imports %s (floor %d): imports go down only; "+
				"move the code down, or take an interface here that the upper floor implements", dir, from.floor,
				target, to.floor)
		case to.floor == from.floor && !allowedSideways(dir, target):
			rule, advice = "same-floor",
				fmt.Sprintf("%s imports %s on the same floor %d: let a higher floor connect them, "+
					"or add the pair with its reason to sideways in internal/lint/floors.go", dir, target, to.floor)
		default:
			continue
		}
		out = append(out, f.at(spec, rule, advice))
	}
	return out
}

// reasonApart gives the reason why from must not import to on any floor; "" if there is none.
func reasonApart(from, to string) string {
	for _, a := range apart {
		if matches(a.from, from) && matches(a.to, to) {
			return a.reason
		}
	}
	return ""
}

// allowedSideways reports whether from may import to although both are on one floor.
func allowedSideways(from, to string) bool {
	for _, s := range sideways {
		if matches(s.from, from) && matches(s.to, to) {
			return true
		}
	}
	return false
}
