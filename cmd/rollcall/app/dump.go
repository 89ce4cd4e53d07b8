package app

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/termwidth"
	"github.com/rollcall-sched/rollcall/kube/dump"
)

// dumped has the contents of a dump in numbers, for people and programs.
type dumped struct {
	// Time is the time of the dump: of its last entry.
	Time string `json:"time"`
	// Sentence says what the dump does not know.
	Sentence string `json:"undecided"`
	// Entries is the number of entries that it makes. Objects are the objects that it has in the end, by resource.
	Entries uint64        `json:"entries"`
	Objects []dumpedCount `json:"objects"`
}

type dumpedCount struct {
	Resource eventlog.Resource `json:"resource"`
	Count    int               `json:"count"`
}

func newDump(registry framework.Registry) *cobra.Command {
	needed, optional := dump.Resources()
	var out output
	open := reading{registry: registry}
	cmd := &cobra.Command{
		Use:   "dump [DUMP]",
		Short: "Print the kubectl command for a dump, or what a dump has",
		Long: `Every command that reads a log also reads a dump of a cluster that anybody
schedules. Nothing needs to be installed in the cluster. A dump is one of these:

  objects     the output of kubectl get -o json or -o yaml: a file, a folder of
              files, or - for the standard input; a must-gather folder; an
              export of kube-scheduler-simulator
  audit log   the log of a kube-apiserver (audit.k8s.io/v1) with the level
              RequestResponse: a file, or a folder with the rotated ones

Files may be compressed by gzip. Without an argument the command for a dump is
printed:

` + kubectlGet(needed) + `
Older API servers do not serve these, and kubectl gets nothing if one of the
names is unknown. Add the ones that your cluster has:

` + folded(optional) + `
Objects are one instant: they tell nothing of what was before, and no decision.
What waits is tried on them with kube-scheduler's default plugins and gang
scheduling, or with the configuration of --config. An audit log has every write
with its time, and who has bound a pod. In both, kinds and versions that are not
read are counted and named.`,
		Example: `  kubectl get nodes,pods -A -o json | rollcall explain - pod default/web-0
  sh -c "$(rollcall dump)" | gzip > cluster.json.gz
  rollcall get cluster.json.gz pending
  rollcall dump must-gather.local.42
  rollcall events /var/log/kubernetes/audit --kind Placed,Evicted`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if len(args) == 0 {
			_, err := fmt.Fprint(cmd.OutOrStdout(), kubectlGet(needed))
			return err
		}
		log, err := open.open(cmd, args[0])
		if err != nil {
			return err
		}
		defer log.Close()
		if log.Dumped == nil {
			return usageError{fmt.Errorf("%s is a log and no dump: see rollcall log info", args[0])}
		}
		facts, err := countDump(cmd, log)
		if err != nil {
			return err
		}
		return out.write(cmd.OutOrStdout(), facts, facts.write)
	}
	out.register(cmd)
	open.registerConfig(cmd)
	return cmd
}

// kubectlGet is the command that makes a dump, in lines of 80 columns.
func kubectlGet(resources []string) string {
	return "  kubectl get -A -o json \\\n" + strings.ReplaceAll(folded(resources), ",\n  ", ",\\\n")
}

// folded is a list with commas, in lines of 80 columns.
func folded(names []string) string {
	var b strings.Builder
	line := " "
	for i, name := range names {
		if i < len(names)-1 {
			name += ","
		}
		if len(line)+len(name) > termwidth.Usual-2 {
			b.WriteString(line + "\n")
			line = " "
		}
		if line == " " {
			line += " "
		}
		line += name
	}
	b.WriteString(line + "\n")
	return b.String()
}

// countDump reads the entries of a dump.
func countDump(cmd *cobra.Command, log *source) (*dumped, error) {
	facts := &dumped{Sentence: log.undecided(), Objects: []dumpedCount{}}
	there := map[eventlog.Resource]map[string]bool{}
	for e, err := range log.Read(cmd.Context(), 1) {
		if err != nil {
			return nil, err
		}
		facts.Entries, facts.Time = e.Seq, e.Time.String()
		switch p := e.Payload.(type) {
		case *eventlog.Upserted:
			if there[p.Resource] == nil {
				there[p.Resource] = map[string]bool{}
			}
			there[p.Resource][p.Object.GetNamespace()+"/"+p.Object.GetName()] = true
		case *eventlog.Deleted:
			delete(there[p.Resource], p.Namespace+"/"+p.Name)
		}
	}
	for _, res := range eventlog.Resources() {
		if n := len(there[res]); n > 0 {
			facts.Objects = append(facts.Objects, dumpedCount{res, n})
		}
	}
	return facts, nil
}

func (d *dumped) write(w io.Writer) error {
	var b strings.Builder
	plainf(&b, "%s\n\n", d.Sentence)
	plainf(&b, "time     %s\nentries  %d\n", d.Time, d.Entries)
	for _, c := range d.Objects {
		plainf(&b, "%7d  %s\n", c.Count, c.Resource)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
