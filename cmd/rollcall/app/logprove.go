package app

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/audit"
)

const proveHelp = `Prints a proof for rollcall log check, which needs neither the log nor trust in
the sender.

With --pod, it proves the pod's last placement, in one file. The file has the
Decision that chose the node. If the pod waited in Permit for its gang, it also
has the Decision that released the pod, and it has the result of the bind if the
log has one. If several pods had the name, --uid says which one.

With --seq, it proves that the entry is in the log of a checkpoint. The proof
contains the entry: give it only to those who may see it.

With --from and --to, it proves that the log only grew: the first A entries of
the log of B entries are the entries of the log when it had A. Nothing was
changed, removed or inserted. A and B are the sizes of checkpoints.

With --checkpoint, the numbers come from the checkpoints, the log is compared
with them, and the proof contains them. Give the earlier checkpoint first.

Without a number, proofs are against the last entry of the log. If the log is
known to be damaged, or to have lost its end, give the number of entries.`

func newLogProve(registry framework.Registry) *cobra.Command {
	open := reading{registry: registry}
	var c audit.Claim
	var pod, uid string
	cmd := &cobra.Command{
		Use: "prove LOG|BUNDLE (--pod NS/NAME | --seq N | --from A --to B)",

		DisableFlagsInUseLine: true, // the line would be too long

		Short: "Prove placements, entries or growth to somebody without the log",
		Long:  proveHelp,
		Example: `  rollcall log prove jobs.log --pod default/job-17-0 \
    --checkpoint gpu-west.2026-03-01 > placement.proof
  rollcall log prove jobs.log --seq 4711 \
    --checkpoint gpu-west.2026-03-01 > entry.proof
  rollcall log prove jobs.log \
    --checkpoint gpu-west.2026-02-01 --checkpoint gpu-west.2026-03-01 \
    > february.proof`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"seq", "size", "from", "to"} {
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "0" {
					return usageError{fmt.Errorf("--%s is 0: entries are numbered from 1", name)}
				}
			}
			if pod != "" {
				var err error
				if c.Namespace, c.Name, err = parseTarget(pod); err != nil {
					return err
				}
			}
			c.UID = types.UID(uid)
			if err := c.Complete(); err != nil {
				return err
			}
			log, err := open.open(cmd, args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			p, err := c.Prove(cmd.Context(), log.Source)
			if err != nil {
				return err
			}
			content, err := p.Encode()
			if err != nil {
				return err
			}
			log.shown.done()
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&pod, "pod", "", "the pod to prove the placement of, as `NAMESPACE/NAME`")
	f.StringVar(&uid, "uid", "", "with --pod, the UID of the pod, if the log has several of that name")
	f.Uint64Var(&c.Seq, "seq", 0, "the entry to prove")
	f.Uint64Var(&c.Size, "size", 0, "how many entries the checkpoint has that the entries are proven against; "+
		"default: the log's last")
	f.Uint64Var(&c.From, "from", 0, "how many entries the earlier checkpoint has")
	f.Uint64Var(&c.To, "to", 0, "how many entries the later checkpoint has; default: the log's last")
	f.StringArrayVar(&c.Checkpoints, "checkpoint", nil, "a file with a signed checkpoint, for the proof to carry; "+
		"may be given twice for the log's growth, the earlier one first")
	open.register(cmd)
	return cmd
}
