package app

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// explainArgs checks the arguments of explain: a log alone, or a log, a kind and a name.
func explainArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return cobra.ExactArgs(3)(cmd, args)
}

// targetOf returns the name of the object to explain. A node has no namespace.
func targetOf(args []string) (namespace, name string, err error) {
	switch {
	case len(args) < 3:
		return "", "", nil
	case args[1] == "node":
		if args[2] == "" {
			return "", "", usageError{errors.New("the name of a node must not be empty")}
		}
		return "", args[2], nil
	}
	return parseTarget(args[2])
}

func explainNode(cmd *cobra.Command, log *history.Log, _, name string, opts explain.Options) (explanation, error) {
	x, err := explain.Node(cmd.Context(), log, name, opts)
	if err != nil {
		return explanation{}, err
	}
	return explanation{x, x.At, func(w io.Writer) error { return render.Node(w, x) }, ""}, nil
}

// explainEviction answers for a pod. If there is a gang of that name instead, the error says so.
func explainEviction(cmd *cobra.Command, log *history.Log, namespace, name string,
	opts explain.Options) (explanation, error) {
	x, err := explain.Eviction(cmd.Context(), log, namespace, name, opts)
	var missing *explain.NotFoundError
	if errors.As(err, &missing) {
		if _, groupErr := explain.Group(cmd.Context(), log, namespace, name, opts); groupErr == nil {
			return explanation{}, fmt.Errorf("%s/%s is a gang and no pod: ask for one of its pods, which "+
				"\"explain LOG gang %s/%s\" names", namespace, name, namespace, name)
		}
	}
	if err != nil {
		return explanation{}, err
	}
	return explanation{x, x.At, func(w io.Writer) error { return render.Eviction(w, x) }, ""}, nil
}

func explainOverview(cmd *cobra.Command, log *history.Log, _, _ string, opts explain.Options) (explanation, error) {
	x, err := explain.Overview(cmd.Context(), log, opts)
	if err != nil {
		return explanation{}, err
	}
	return explanation{x, x.At, func(w io.Writer) error { return render.Overview(w, x) }, x.Undecided}, nil
}
