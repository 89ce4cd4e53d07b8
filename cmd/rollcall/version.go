package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// versionFacts is what "rollcall version" prints.
type versionFacts struct {
	Version    string `json:"version"`
	Revision   string `json:"revision,omitempty"`
	Modified   bool   `json:"modified,omitempty"`
	Format     int    `json:"logFormat"`
	Behaviour  int    `json:"behaviour"`
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
}

func newVersion() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of the binary, of the log format and of kube-scheduler's plugins",
		Example: "  rollcall version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			v := version()
			return out.write(cmd.OutOrStdout(), v, func(w io.Writer) error {
				_, err := fmt.Fprintf(
					w,
					"rollcall %s\nlog format %d, behaviour %d\nkube-scheduler plugins %s\n%s\n",
					v,
					v.Format,
					v.Behaviour,
					v.Kubernetes,
					v.Go,
				)
				return err
			})
		},
	}
	out.register(cmd)
	return cmd
}

// version reads what the toolchain built into the binary.
func version() versionFacts {
	v := versionFacts{
		Version:   "devel",
		Format:    eventlog.FormatVersion,
		Behaviour: scheduler.Behaviour,
		Go:        runtime.Version(),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if m := info.Main.Version; m != "" && m != "(devel)" {
		v.Version = m
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
		if m.Path == "k8s.io/kubernetes" {
			v.Kubernetes = m.Version
		}
	}
	return v
}

// String is the version as a log's epoch carries it.
func (v versionFacts) String() string {
	s := v.Version
	if v.Revision != "" {
		s += "+" + v.Revision[:min(12, len(v.Revision))]
	}
	if v.Modified {
		s += "-modified"
	}
	// Scores of some of kube-scheduler's plugins are floats, which processors round in their own ways.
	return s + " " + runtime.GOARCH
}
