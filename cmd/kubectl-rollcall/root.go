package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rollcall-sched/rollcall/internal/termwidth"
	"github.com/rollcall-sched/rollcall/internal/termwidth/clihelp"
	"github.com/rollcall-sched/rollcall/kube/remote"
)

// plugin has the flags before the command: they select a cluster, and a scheduler in it.
type plugin struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	wanted    remote.Wanted
}

func newRoot() *cobra.Command {
	p := &plugin{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
	root := &cobra.Command{
		Use:   "kubectl-rollcall",
		Short: "Ask the Rollcall that runs in the cluster, or a dump of it",
		Long: `Finds the Rollcall scheduler or recorder that runs in the cluster, and runs a
command of rollcall in its container, on its log. Output and exit code are that
command's.

If there is none in the cluster, the command runs here, on a dump of the
cluster's objects that is taken for it: "kubectl rollcall explain pod NS/NAME"
needs no installation. That takes the verb list on nodes, pods and the other
objects that scheduling reads. A dump has no history.

The account needs the verbs list on pods, and create (with older API servers
also get) on pods/exec, in the scheduler's namespace.

Flags about the cluster and the scheduler come before the command. All that
follows the command is handed on as it is; the log is not named, for it is the
scheduler's.

Commands in the container share the scheduler's memory limit. Write a range of a
large log to a file with "log export", and run rollcall on that file.`,
		Example: `  kubectl rollcall explain pod default/trainer-0
  kubectl rollcall explain gang default/trainer --at 14:03
  kubectl rollcall events --from 14:03 --until 14:05
  kubectl rollcall get pending
  kubectl rollcall --namespace rollcall-system \
    log export --from 14:00 --out incident.bundle
  rollcall replay incident.bundle`,
		Annotations:      map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl rollcall"},
		SilenceErrors:    true,
		SilenceUsage:     true,
		TraverseChildren: true,
		Args:             cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q: want explain, events, get, report or log", args[0])}
			}
			return cmd.Help()
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	f := root.Flags()
	f.SortFlags = false
	f.StringVarP(&p.wanted.Namespace, "namespace", "n", "", "the scheduler's namespace; default: any, "+
		"and what was found is said on standard error")
	f.StringVarP(&p.wanted.Selector, "selector", "l", remote.Selector, "the labels of the scheduler's pod")
	f.StringVar(&p.wanted.Pod, "pod", "", "the name of the scheduler's pod; needs --namespace")
	f.StringVar(&p.rules.ExplicitPath, "kubeconfig", "", "the kubeconfig `file`; default: as kubectl")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // the flag above
	clientcmd.BindOverrideFlags(&p.overrides, f, names)

	log := &cobra.Command{Use: "log", Short: "Read, check and export the scheduler's log", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf(
					"unknown command %q of log: want cat, info, verify or export; others work on what export writes",
					args[0])}
			}
			return cmd.Help()
		}}
	log.AddCommand(
		p.forwarded("cat", "Print the log's entries, one JSON object a line", "log", "cat"),
		p.forwarded("info", "Summarise what the log holds", "log", "info"),
		p.forwarded("verify", "Check every byte of the log that readers rely on", "log", "verify"),
		p.newExport(),
	)
	root.AddCommand(
		p.forwarded("explain", "Explain why a pod or a gang was placed where it is, or why it was not", "explain"),
		p.forwarded("events", "Print one line for each event, in order", "events"),
		p.forwarded("get", "List pending entities, the queue, gangs, nodes or pods", "get"),
		p.forwarded("report", "Report who held the resources, what was lost, what was idle and why", "report"),
		p.forwarded("plot", "Draw who held the resources over time, as an SVG file on standard output", "plot"),
		log,
	)
	clihelp.Install(root)
	return root
}

// forwarded returns a command that runs in the container. words are the words of the rollcall command; the log's name
// follows.
func (p *plugin) forwarded(use, short string, words ...string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if isForPrograms(words, args) {
				return p.forward(cmd.Context(), words, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return termwidth.Fit(cmd.OutOrStdout(), func(stdout io.Writer) error {
				return p.forward(cmd.Context(), words, args, stdout, cmd.ErrOrStderr())
			})
		}}
}

// isForPrograms reports whether the output of a command is JSON, CSV or SVG. These are never broken into lines for a
// terminal.
func isForPrograms(words, args []string) bool {
	isFormat := func(arg string) bool {
		arg = strings.ToLower(arg)
		return strings.HasSuffix(arg, "json") || strings.HasSuffix(arg, "csv")
	}
	written := slices.Contains(words, "cat") || slices.Contains(words, "plot")
	return written && !asksForHelp(args) || slices.ContainsFunc(args, isFormat)
}

// forward runs a command in the scheduler's container.
func (p *plugin) forward(ctx context.Context, words, args []string, stdout, stderr io.Writer) error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(p.rules, &p.overrides).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return errors.New("no cluster is configured: name a kubeconfig file with --kubeconfig or in KUBECONFIG, or a " +
			"server with --server")
	}
	if err != nil {
		return fmt.Errorf("which cluster: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	scheduler, err := remote.Find(ctx, client, p.wanted)
	if errors.Is(err, remote.ErrNone) && p.wanted.Namespace == "" && p.wanted.Selector == remote.Selector {
		return p.askDump(ctx, config, words, args, stdout, stderr)
	}
	if err != nil {
		return err
	}
	if p.wanted.Namespace == "" { // anybody may give a pod the labels
		say(stderr, "kubectl rollcall: asking %s\n", scheduler)
	}
	said := termwidth.NewWriter(stderr)
	code, err := remote.Run(ctx, config, scheduler, slices.Concat(words, []string{scheduler.Log}, args), stdout, said)
	err = errors.Join(err, said.Flush())
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return err
	case code != 0:
		return exitError(code)
	}
	return nil
}
