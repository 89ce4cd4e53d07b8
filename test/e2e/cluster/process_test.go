package cluster_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

func script(t *testing.T, text string, ready func(context.Context) error) *cluster.Process {
	t.Helper()
	p := cluster.NewProcess("script", filepath.Join(t.TempDir(), "output"), []string{"sh", "-c", text}, nil, ready)
	t.Cleanup(p.Kill)
	return p
}

func TestAProcessThatEndsTooSoonIsAnErrorWithItsLastLines(t *testing.T) {
	p := script(t, "echo one; echo two >&2; exit 3", func(context.Context) error { return errors.New("not yet") })
	err := p.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.HasSuffix(err.Error(), "one\ntwo") {
		t.Fatalf("Start: %v", err)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Errorf("the error wraps no ExitError: %v", err)
	}
}

func TestAProcessThatIsNotReadyInTimeIsAnErrorThatSaysWhatIsMissing(t *testing.T) {
	p := script(t, "echo here; exec sleep 600", func(context.Context) error { return errors.New("not yet") })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := p.Start(ctx)
	if err == nil || !strings.Contains(err.Error(), "not yet") || !strings.Contains(err.Error(), "here") {
		t.Fatalf("Start: %v", err)
	}
}

func TestAProcessIsKilledSuspendedAndStartedAgain(t *testing.T) {
	p := script(t, "exec sleep 600", nil)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err == nil {
		t.Error("a process that runs was started again")
	}
	first := p.PID()
	if err := errors.Join(p.Suspend(), p.Resume()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Usage(); err != nil {
		t.Error(err)
	}
	p.Kill()
	if p.Running() || p.PID() != 0 {
		t.Error("it runs after Kill")
	}
	if err := p.Suspend(); err == nil {
		t.Error("a process that does not run was suspended")
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.PID() == first {
		t.Error("it has the number of its first life")
	}
	if err := p.Terminate(t.Context()); err == nil {
		t.Error("a sleep that was terminated ended well")
	}
}

func TestAProcessThatIgnoresSIGTERMIsKilled(t *testing.T) {
	p := script(t, "trap '' TERM; echo ready; while :; do sleep 0.05; done", nil)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(p.Tail(1), "ready") {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Terminate(ctx); err == nil || p.Running() {
		t.Errorf("Terminate: %v; running %v", err, p.Running())
	}
}
