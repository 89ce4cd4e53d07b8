package app

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// versionFacts holds the facts that "rollcall version" prints.
type versionFacts struct {
	Version    string `json:"version"`
	Revision   string `json:"revision,omitempty"`
	Modified   bool   `json:"modified,omitempty"`
	Format     int    `json:"logFormat"`
	Behaviour  int    `json:"behaviour"`
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
	// BuiltIn is the module that was built, with its version, if that is not Rollcall's; Revision and Modified are its.
	BuiltIn string `json:"builtIn,omitempty"`
	// AddedPlugins, AddedLanePolicies and AddedVictimPolicies are the names that options of NewCommand have added.
	AddedPlugins        []string `json:"addedPlugins,omitempty"`
	AddedLanePolicies   []string `json:"addedLanePolicies,omitempty"`
	AddedVictimPolicies []string `json:"addedVictimPolicies,omitempty"`
}

func newVersion(compiled compiledIn) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of the binary, of the log format and of the plugins",
		Example: "  rollcall version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			v := version()
			v.AddedPlugins = compiled.addedPlugins
			v.AddedLanePolicies = compiled.addedLanePolicies
			v.AddedVictimPolicies = compiled.addedVictimPolicies
			return out.write(cmd.OutOrStdout(), v, func(w io.Writer) error {
				plainf(w, "rollcall %s\nlog format %d, behaviour %d\nkube-scheduler plugins %s\n", v, v.Format,
					v.Behaviour, v.Kubernetes)
				writeAdded(w, "plugins", v.AddedPlugins)
				writeAdded(w, "lane policies", v.AddedLanePolicies)
				writeAdded(w, "victim policies", v.AddedVictimPolicies)
				_, err := fmt.Fprintln(w, v.Go)
				return err
			})
		},
	}
	out.register(cmd)
	return cmd
}

// writeAdded writes a line with the names of the things of a kind that options have added, if there are any.
func writeAdded(w io.Writer, kind string, names []string) {
	if len(names) > 0 {
		plainf(w, "added %s: %s\n", kind, strings.Join(names, ", "))
	}
}

// version reads the build information that the toolchain put into the binary.
func version() versionFacts {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{Main: debug.Module{Path: modulePath}}
	}
	return versionOf(info)
}

// modulePath is the path of Rollcall's module. A program that has plugins of others is built in a module of theirs.
const modulePath = "github.com/rollcall-sched/rollcall"

// versionOf returns the version of a program from its build information.
func versionOf(info *debug.BuildInfo) versionFacts {
	v := versionFacts{
		Version:   versionOfModule(&info.Main),
		Format:    eventlog.FormatVersion,
		Behaviour: scheduler.Behaviour,
		Go:        runtime.Version(),
	}
	if info.Main.Path != modulePath {
		v.Version, v.BuiltIn = develVersion, info.Main.Path+" "+v.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "k8s.io/kubernetes":
			v.Kubernetes = m.Version
		case modulePath:
			v.Version = versionOfModule(m)
		}
	}
	return v
}

// develVersion is the toolchain's name for the version of a module that was built from a directory.
const develVersion = "devel"

func versionOfModule(m *debug.Module) string {
	if m.Replace != nil {
		m = m.Replace
	}
	if m.Version == "" || m.Version == "(devel)" {
		return develVersion
	}
	return m.Version
}

// String is the version as a log's epoch carries it.
func (v versionFacts) String() string {
	s := v.Version
	if v.BuiltIn != "" {
		s += " in " + v.BuiltIn
	}
	if v.Revision != "" {
		s += "+" + v.Revision[:min(12, len(v.Revision))]
	}
	if v.Modified {
		s += "-modified"
	}
	// Scores of some of kube-scheduler's plugins are floats, which processors round in their own ways.
	return s + " " + runtime.GOARCH
}
