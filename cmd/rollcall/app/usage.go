package app

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rollcall-sched/rollcall/internal/similar"
)

// This file has the messages about a wrong command line: what was expected, with an example, or what was likely meant.

// helpWithArgs makes cmd, and all commands below it, name the expected arguments when they get others.
func helpWithArgs(cmd *cobra.Command) {
	for _, cmd := range commands(cmd) {
		cmd.SuggestionsMinimumDistance = 2
		accepts := cmd.Args
		if accepts == nil {
			continue
		}
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			if err := accepts(cmd, given); err != nil {
				return usageError{wrongArgs(cmd, given, err)}
			}
			return nil
		}
	}
}

// wrongArgs names the arguments that a command expects instead of the given ones.
func wrongArgs(cmd *cobra.Command, given []string, err error) error {
	if cmd.HasSubCommands() && len(given) > 0 {
		text := fmt.Sprintf("unknown command %q of %s", given[0], cmd.CommandPath())
		if _, err := os.Stat(given[0]); err == nil && cmd.HasParent() {
			var names []string
			for _, sub := range cmd.Commands() {
				names = append(names, sub.Name())
			}
			return fmt.Errorf("%s needs one of its commands before %s: %s", cmd.CommandPath(), given[0],
				strings.Join(names, ", "))
		}
		if near := cmd.SuggestionsFor(given[0]); len(near) > 0 {
			return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
		}
		return errors.New(text)
	}
	_, wanted, ok := strings.Cut(cmd.Use, " ")
	if !ok {
		return fmt.Errorf("%s takes no argument, and %q was given", cmd.CommandPath(), strings.Join(given, " "))
	}
	text := fmt.Sprintf("%s: want %s, and %s given", cmd.CommandPath(), wanted, countArgs(given))
	if example := firstExample(cmd); example != "" {
		return fmt.Errorf("%s; for example: %s", text, example)
	}
	return fmt.Errorf("%s: %w", text, err)
}

func countArgs(given []string) string {
	switch len(given) {
	case 0:
		return "no argument was"
	case 1:
		return "1 argument was"
	}
	return fmt.Sprintf("%d arguments were", len(given))
}

// firstExample returns a command's first example, in one line.
func firstExample(cmd *cobra.Command) string {
	whole := strings.ReplaceAll(strings.TrimSpace(cmd.Example), " \\\n    ", " ")
	first, _, _ := strings.Cut(whole, "\n")
	return first
}

// flagError names the flag that was likely meant by an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usageError{err}
	}
	name := unknown.GetSpecifiedName()
	var near []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(name) > 1 && (similar.Edits(name, f.Name, 3) <= 2 || strings.HasPrefix(f.Name, name)) {
			near = append(near, "--"+f.Name)
		}
	})
	if len(near) == 0 {
		return usageError{err}
	}
	return usageError{fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))}
}

// enumValue is the value of a flag that is one of some words. Set takes them in any case. It keeps any other word, so
// that the command can refuse it by name.
type enumValue struct {
	to     *string
	values []string
}

// String implements pflag.Value.
func (e enumValue) String() string {
	if e.to == nil {
		return ""
	}
	return *e.to
}

// Type implements pflag.Value.
func (e enumValue) Type() string { return "string" }

// Set implements pflag.Value.
func (e enumValue) Set(given string) error {
	*e.to = given
	if i := slices.IndexFunc(e.values, func(v string) bool { return strings.EqualFold(v, given) }); i >= 0 {
		*e.to = e.values[i]
	}
	return nil
}
