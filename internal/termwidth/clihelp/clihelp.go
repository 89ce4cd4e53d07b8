// Package clihelp writes the help texts of the commands of a program in lines of at most 80 columns, or fewer on a
// terminal that has fewer.
package clihelp

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rollcall-sched/rollcall/internal/termwidth"
)

// Install makes root, and all commands below it, write their help in such lines.
func Install(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		w := cmd.OutOrStdout()
		width := termwidth.Usual
		if terminal := termwidth.Width(w); terminal != 0 {
			width = min(width, terminal)
		}
		if _, err := io.WriteString(w, text(cmd, width)); err != nil {
			cmd.PrintErrln(err)
		}
	})
}

// text returns the help of a command in lines of at most so many columns. Lines with examples stay whole.
func text(cmd *cobra.Command, width int) string {
	about := cmd.Long
	if about == "" {
		about = cmd.Short
	}
	usage := cmd.UsageString()
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		if whole := trimmed(flags.FlagUsages()); whole != "" {
			usage = strings.Replace(usage, whole, wrapped(flags, width), 1)
		}
	}
	usage = fitted(usage, width)
	about = strings.ReplaceAll(trimmed(about), "\n\t", "\n  ") // cobra's own texts have tabs before commands
	return fmt.Sprintf("%s\n\n%s", termwidth.Reflow(about, width), usage)
}

// fitted breaks the lines of a usage that are no commands to be copied.
func fitted(usage string, width int) string {
	lines, section := strings.Split(usage, "\n"), ""
	for i, line := range lines {
		if line != "" && line[0] != ' ' {
			section = line
		}
		if section != "Usage:" && section != "Examples:" {
			lines[i] = termwidth.WrapLine(line, width)
		}
	}
	return strings.Join(lines, "\n")
}

// wrapped returns the usages of flags. pflag leaves a line too long if it has a long word. Such a line is broken
// here, or gets a smaller indentation.
func wrapped(flags *pflag.FlagSet, width int) string {
	lines := strings.Split(trimmed(flags.FlagUsagesWrapped(width)), "\n")
	for i, line := range lines {
		word := strings.TrimSpace(line)
		lead := strings.Index(line, word)
		for long := range strings.FieldsSeq(word) {
			lead = max(0, min(lead, width-len(long)))
		}
		lines[i] = termwidth.Wrap(strings.Repeat(" ", lead)+word, width, lead)
	}
	return strings.Join(lines, "\n")
}

func trimmed(text string) string { return strings.TrimRight(text, " \t\n") }
