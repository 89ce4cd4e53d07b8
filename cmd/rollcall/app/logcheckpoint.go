package app

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/audit"
	"github.com/rollcall-sched/rollcall/replay/history"
)

func newLogCheckpoint(registry framework.Registry) *cobra.Command {
	open := reading{registry: registry}
	var key string
	var at history.Moment
	cmd := &cobra.Command{
		Use:   "checkpoint LOG|BUNDLE --key FILE",
		Short: "Sign the present state of a log",
		Long: `Prints a checkpoint: which log, how many entries it has, the root of the hash
tree over them, and the hash of the last one, signed. Somebody who keeps it can
tell later whether any of these entries was changed, removed or added. It is a
signed note as defined by C2SP's tlog-checkpoint. Entries before the live
segment are not read; rollcall log verify reads them. A log that is known to be
damaged, or to have lost its end, is signed only up to an entry before that,
given with --at. A log that is being written to is signed as far as it goes now,
or as far as it is sealed if its writer does not serve it.`,
		Example: "  rollcall log checkpoint jobs.log --key gpu-west.key > gpu-west.2026-03-01",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if key == "" {
				return usageError{errors.New("--key is needed: the private key that rollcall log keygen has made")}
			}
			return checkpoint(cmd, open, args[0], key, at)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the file with the private key")
	cmd.Flags().Var(&at, "at",
		"the last `entry` of the checkpoint, or a time, which is the last entry not after it; default: the log's last")
	open.register(cmd)
	return cmd
}

func checkpoint(cmd *cobra.Command, open reading, name, key string, asked history.Moment) error {
	signer, err := audit.ReadSigner(key)
	if err != nil {
		return err
	}
	log, err := open.open(cmd, name)
	if err != nil {
		return err
	}
	defer log.Close()
	at, err := log.EntryAt(cmd.Context(), &asked)
	if err != nil {
		return err
	}
	msg, err := audit.Checkpoint(log.Source, signer, at)
	if err != nil {
		return err
	}
	log.shown.done()
	_, err = cmd.OutOrStdout().Write(msg)
	return err
}
