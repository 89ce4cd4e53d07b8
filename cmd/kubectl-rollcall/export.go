package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/internal/durable"
)

// newExport is "log export", whose file is written on this side.
func (p *plugin) newExport() *cobra.Command {
	return &cobra.Command{
		Use: "export", Short: "Write a range of the log to a file on this machine, the incident bundle",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			words := []string{"log", "export"}
			if asksForHelp(args) {
				return p.forward(cmd.Context(), words, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			file, rest, err := takeFlag(args, "--out")
			if err != nil {
				return err
			}
			rest = append(rest, "--out", "-")
			if file == "-" {
				return p.forward(cmd.Context(), words, rest, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if _, err := os.Lstat(file); err == nil {
				return usageError{fmt.Errorf("%s is there already: remove it, or name another file", file)}
			}
			err = durable.WriteNew(file, func(w io.Writer) error {
				return p.forward(cmd.Context(), words, rest, w, cmd.ErrOrStderr())
			})
			if err == nil {
				say(cmd.OutOrStdout(), "written to %s\n", file)
			}
			return err
		},
	}
}

func asksForHelp(args []string) bool {
	for _, a := range args {
		if a == "--help" || a == "-h" {
			return true
		}
	}
	return false
}

// takeFlag returns the value of a flag that is needed, and the arguments without it.
func takeFlag(args []string, flag string) (value string, rest []string, err error) {
	for i := 0; i < len(args); i++ {
		if v, ok := strings.CutPrefix(args[i], flag+"="); ok {
			value = v
		} else if args[i] == flag && i+1 < len(args) {
			i++
			value = args[i]
		} else {
			rest = append(rest, args[i])
		}
	}
	if value == "" {
		return "", nil, usageError{errors.New(flag + " is needed: the file to write")}
	}
	return value, rest, nil
}
