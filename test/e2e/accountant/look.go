package accountant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// Look makes a quiescent point: it lists the pods of a cluster as the user "accountant". Call it when no bind should be
// under way, and at the end. Two at least make sense: what is in part at one may be whole at the next.
func Look(ctx context.Context, c *cluster.Cluster) error {
	file, err := c.KubeconfigFor("", User, "system:masters")
	if err != nil {
		return err
	}
	defer os.Remove(file)
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return fmt.Errorf("look at the pods: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("look at the pods: %w", err)
	}
	if _, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("look at the pods: %w", err)
	}
	return nil
}

// Audit makes a quiescent point and checks everything that happened in the cluster so far, against a scheduler. If the
// scheduler has a log, Audit compares its binds with its decisions, and replays the log. Findings are errors of the
// test.
func Audit(t testing.TB, c *cluster.Cluster, s *schedulers.Scheduler) *Account {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := Look(ctx, c); err != nil {
		t.Fatal(err)
	}
	a, err := ReadFile(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Schedulers: []string{s.User}}
	found := a.Check(o)
	if s.Log != "" {
		more, err := againstLog(ctx, a, s, o)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, more...)
	}
	for i, f := range found {
		if i == 20 {
			t.Errorf("… and %d more", len(found)-i)
			break
		}
		t.Error("accountant: " + f)
	}
	return a
}

// ReadFile reads the audit log in a file.
func ReadFile(name string) (*Account, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	a, err := Read(f)
	return a, errors.Join(err, f.Close())
}

// againstLog compares the audit log with the scheduler's own, and replays that.
func againstLog(ctx context.Context, a *Account, s *schedulers.Scheduler, o Options) ([]string, error) {
	out, err := s.Rollcall(ctx, "log", "cat", s.Log)
	if err != nil {
		return nil, err
	}
	d, err := ReadDecisions(bytes.NewReader(out))
	if err != nil {
		return nil, err
	}
	found := a.CheckDecisions(d, o, 0)
	if out, err := s.Rollcall(ctx, "replay", s.Log); err != nil {
		found = append(found, fmt.Sprintf("the replay is not identical: %v\n%s", err, out))
	}
	return found, nil
}
