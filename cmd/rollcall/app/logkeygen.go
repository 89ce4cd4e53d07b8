package app

import (
	"crypto/rand"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs/audit"
)

// keyFacts holds the facts that "rollcall log keygen" prints.
type keyFacts struct {
	Name string `json:"name"`
	// Key is the public key, in words that every verifier of signed notes understands.
	Key string `json:"key"`
	// Private and Public are the files.
	Private string `json:"private"`
	Public  string `json:"public"`
}

func newLogKeygen() *cobra.Command {
	var name, file string
	var out output
	cmd := &cobra.Command{
		Use:   "keygen --name NAME --out FILE",
		Short: "Make the keys that sign and check checkpoints",
		Long: `Makes a pair of Ed25519 keys for the checkpoints of one log. The private key is
written to FILE, which only its owner can read. It belongs where rollcall log
checkpoint runs. The public key is written to FILE.pub, and printed. Give it to
everybody who checks. NAME is in every checkpoint; it should say which log of
which organisation, like a host name. Use one key for one log. Existing files
are not overwritten.`,
		Example: "  rollcall log keygen --name rollcall.example.org/gpu-west --out gpu-west.key",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if name == "" || file == "" {
				return usageError{errors.New("--name and --out are needed: of which log, and where the key goes")}
			}
			key, err := proof.GenerateKey(rand.Reader, name)
			if err != nil {
				return usageError{err}
			}
			if err := audit.WriteKey(file, key); err != nil {
				return err
			}
			facts := keyFacts{Name: name, Key: key.Public, Private: file, Public: audit.PublicFile(file)}
			return out.write(cmd.OutOrStdout(), facts, facts.writeText)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "what the log is called, without spaces and plus signs")
	cmd.Flags().StringVar(&file, "out", "", "the file for the private key; the public one goes to the same with .pub")
	out.register(cmd)
	return cmd
}

func (f keyFacts) writeText(w io.Writer) error {
	_, err := plainf(w, "name     %s\nprivate  %s  (keep it to yourself)\n"+
		"public   %s  (give it to everyone who checks)\n%s\n", f.Name, f.Private, f.Public, strings.TrimSpace(f.Key))
	return err
}
