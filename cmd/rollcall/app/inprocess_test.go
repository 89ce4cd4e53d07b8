package app

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// here runs a command in this process, beside others, with any exit code. Paths must be absolute, and feature gates the
// default ones. No test may send it signals, or measure its memory. asProcess runs the others.
func here(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	root := NewCommand()
	var out, complaint bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&complaint)
	code = execute(ctx, root)
	return out.String(), complaint.String(), code
}

// asProcess runs a program in a process of its own, with any exit code.
func asProcess(t testing.TB, program string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(program, args...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), complaint.String(), cmd.ProcessState.ExitCode()
}

// ran runs a command, with any exit code. It runs "run" in a process of its own, because that configures the process's
// logging once for all, and the others here.
func ran(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	if args[0] == "run" {
		return asProcess(t, "rollcall", args...)
	}
	return here(t.Context(), args...)
}

// rollcall runs the command in this process, requires its success, and returns its output.
func rollcall(t testing.TB, args ...string) []byte {
	t.Helper()
	out, complaint, code := here(t.Context(), args...)
	if code != exitDone {
		t.Fatalf("rollcall %s: exit code %d\n%s", strings.Join(args, " "), code, complaint)
	}
	return []byte(out)
}

// succeeds reports whether a command ended well, here.
func succeeds(t testing.TB, args []string) bool {
	t.Helper()
	out, complaint, code := here(t.Context(), args...)
	if code != exitDone {
		t.Errorf("rollcall %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, complaint)
	}
	return code == exitDone
}
