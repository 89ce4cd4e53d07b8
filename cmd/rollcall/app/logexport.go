package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/termwidth"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/bundles"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// export holds the arguments of the export command.
type export struct {
	reading
	file           string
	into           io.Writer // instead of a file; nil where there is one
	from, to, upTo history.Moment
	redact         redaction
	out            output
}

func newLogExport(registry framework.Registry) *cobra.Command {
	x := export{reading: reading{registry: registry}}
	cmd := &cobra.Command{
		Use:   "export LOG --out FILE",
		Short: "Write a range of a log to one file, the incident bundle",
		Long: `Writes the entries of a range, the state that they begin from, the
configuration, and the place of both in the log's chain and hash tree to one
compressed file. replay, explain, log cat and log info read the file as it is,
and log import makes a log of it.

The file begins with --from and the state before it, and has nothing of the
history before. The state is made from the newest snapshot that is old enough.
The snapshot is compared with the state that the entries make, from the log's
first entry on, with archived ones, or from the first snapshot on if earlier
entries are not found. This takes most of the time for a large log. If the state
differs, the snapshot is named, and the exit code is 4. If entries are damaged,
export says that it has not compared.

With --out - the bundle is written to standard output, and what is said of it to
standard error: the way out of a container. If the command fails, what came is
no bundle, and no command takes it for one.

With --to the whole range must be there. With --up-to the file ends before the
damage if the log is damaged before that entry: it carries what is good, and
says why it ends there.

With --redact the file has pseudonyms instead of names: of namespaces, pods,
gangs, nodes and all other objects, values of labels and annotations, images,
UIDs. Messages are dropped. Pseudonyms sort as the names do, so that replay
decides the same. Export makes every decision again with pseudonyms and compares
it: if one differs, it names the entry and the field, and the exit code is 1.
Keys of labels and taints, names of resources and drivers, amounts, times, CEL
expressions and the settings of the scheduler are kept. docs/PRIVACY.md has the
list, and what the order reveals.

The pseudonyms follow from a key. Without --key it is a random one that is
thrown away. With the same key the same log gets the same pseudonyms. --map
writes them for you, with the names: keep that file to yourself.`,
		Example: `  rollcall log export jobs.db --out incident.bundle \
    --from 2026-01-03T13:30:00Z --to 2026-01-03T14:30:00Z
  rollcall log export damaged.db --up-to 4710 --out good.bundle
  rollcall log export jobs.db --from 13:30 --out vendor.bundle --redact \
    --map names.json
  kubectl exec rollcall-0 -- rollcall log export /var/lib/rollcall/log \
    --from -2h --out - > incident.bundle`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := x.check(); err != nil {
				return err
			}
			said := cmd.OutOrStdout()
			if x.file == "-" {
				x.into, said = cmd.OutOrStdout(), cmd.ErrOrStderr()
			}
			made, err := x.run(cmd, args[0])
			if err != nil {
				return err
			}
			return x.out.write(said, made, func(w io.Writer) error {
				return errors.Join(writeExported(w, made.Exported), made.Redaction.write(w))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&x.file, "out", "", "the new file to write; \"-\" is standard output")
	f.Var(&x.from, "from", "the first `entry`, or a time such as 2026-01-03T14:03:00Z or 14:03 (UTC); "+
		"default: the first there is")
	f.Var(&x.to, "to", "the last `entry`, or a time; default: the log's last")
	f.Var(&x.upTo, "up-to", "as --to, but end before damage if there is any")
	x.redact.register(cmd)
	x.reading.register(cmd)
	x.out.register(cmd)
	return cmd
}

func (x *export) check() error {
	switch {
	case x.file == "":
		return usageError{errors.New("--out is needed: the file to write")}
	case x.to.Given() && x.upTo.Given():
		return usageError{errors.New("--to and --up-to exclude each other")}
	}
	if err := x.redact.check(); err != nil {
		return err
	}
	if x.file == "-" {
		if termwidth.IsTerminal(os.Stdout) {
			return usageError{errors.New("--out - writes a compressed file, and standard output is a terminal: " +
				"name a file, or redirect the output")}
		}
		return x.out.check()
	}
	if x.redact.mapping != "" && filepath.Clean(x.redact.mapping) == filepath.Clean(x.file) {
		return usageError{errors.New("--map and --out name the same file")}
	}
	if _, err := os.Lstat(x.file); err == nil {
		return usageError{fmt.Errorf("%s is there already: remove it, or name another file", x.file)}
	}
	return x.out.check()
}

func (x *export) run(cmd *cobra.Command, name string) (made exported, err error) {
	ctx := cmd.Context()
	log, err := x.open(cmd, name)
	if err != nil {
		return made, err
	}
	defer log.Close()
	opts := bundles.ExportOptions{File: x.file, Into: x.into, Version: version().String()}
	if opts.From, err = placeIn(ctx, log.Source, x.from); err != nil {
		return made, err
	}
	if opts.UntilDamage = x.upTo.Given(); opts.UntilDamage {
		x.to = x.upTo
	}
	if opts.To, err = placeIn(ctx, log.Source, x.to); err != nil {
		return made, err
	}
	if x.redact.wanted {
		defer func() { err = errors.Join(err, x.redact.end()) }()
		opts.Redact = x.redact.start(x.file)
	}
	if made.Exported, err = bundles.Export(ctx, log.Source, opts); err != nil {
		return made, err
	}
	made.Redaction = x.redact.facts()
	return made, log.ReportRange(ctx, &x.from, &x.to, made.From, made.Last)
}

// exported has the facts that "rollcall log export" prints.
type exported struct {
	*bundles.Exported
	Redaction *redactionFacts `json:"redaction,omitempty"`
}

// placeIn returns where a moment is in a log.
func placeIn(ctx context.Context, log *logs.Source, m history.Moment) (p bundles.Place, err error) {
	p.Seq, p.Time, err = m.In(ctx, log)
	return p, err
}

func writeExported(w io.Writer, x *bundles.Exported) error {
	path := x.Path
	if path == "" {
		path = "standard output"
	}
	plainf(w, "file      %s, %d bytes\nentries   %d to %d", path, x.Bytes, x.First, x.Last)
	if x.From > x.First {
		plainf(w, "; asked for from %d on, and the state is that of entry %d", x.From, x.First-1)
	}
	_, err := plainf(w, "\ntimes     %s to %s\nchain     %x to %s\ntree      %s\n",
		x.FirstTime, x.LastTime, x.Origin.Hash, x.LastHash, x.Root)
	return err
}
