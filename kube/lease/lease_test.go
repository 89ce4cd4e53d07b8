package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidate is an Election over a client, with kube-scheduler's times.
func candidate(client *fake.Clientset, identity string) *Election {
	return &Election{identity: identity, config: leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "rollcall"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true, Name: "rollcall", WatchDog: leaderelection.NewLeaderHealthzAdaptor(watchdog),
	}}
}

// holder is the name in the lease.
func holder(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	lease, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "rollcall", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// TestTheLeaseIsKeptUntilTheLeaderHasEnded ends a leader that takes a minute to come to its end, with another candidate
// waiting: the other one begins after that, and not before.
func TestTheLeaseIsKeptUntilTheLeaderHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		first, end := context.WithCancel(t.Context())
		busy, done := false, make(chan error, 2)
		go func() {
			done <- candidate(client, "a").Run(first, nil, func(ctx context.Context) error {
				busy = true
				<-ctx.Done()
				time.Sleep(time.Minute)
				busy = false
				return nil
			})
		}()
		time.Sleep(time.Second)
		if !busy || holder(t, client) != "a" {
			t.Fatalf("a leads: %t, the lease is %q's", busy, holder(t, client))
		}
		second, endSecond := context.WithCancel(t.Context())
		began, seen := false, ""
		go func() {
			done <- candidate(client, "b").Run(second, func(other string) { seen = other },
				func(ctx context.Context) error {
					if began = true; busy {
						t.Error("b leads while a is at work")
					}
					<-ctx.Done()
					return nil
				})
		}()
		time.Sleep(time.Minute)
		if began || seen != "a" {
			t.Errorf("b has begun: %t; it sees %q lead", began, seen)
		}
		end()
		time.Sleep(2 * time.Minute)
		if !began {
			t.Error("b does not lead two minutes after a's end")
		}
		endSecond()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestALeaseThatIsLostEndsTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		done := make(chan error, 1)
		a := candidate(client, "a")
		go func() {
			done <- a.Run(t.Context(), nil, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Hour) // it hangs
				return nil
			})
		}()
		time.Sleep(time.Second)
		if err := a.WatchDog().Check(nil); err != nil {
			t.Errorf("a leader with a lease is not well: %v", err)
		}
		client.PrependReactor("*", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
			return true, &coordinationv1.Lease{}, errors.New("connection refused")
		})
		began := time.Now()
		time.Sleep(time.Minute)
		if err := a.WatchDog().Check(nil); err == nil {
			t.Error("a leader that hangs, a minute after its lease was lost, counts as well")
		}
		if err := <-done; !errors.Is(err, ErrLost) {
			t.Errorf("the end is %v, want that the lease is lost", err)
		}
		if took := time.Since(began); took > time.Hour+15*time.Second {
			t.Errorf("the leader was told after %s, when another one may have led", took-time.Hour)
		}
	})
}

func TestACandidateThatEndsBeforeItLeadsEndsWithoutAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		ctx, end := context.WithCancel(t.Context())
		go func() {
			_ = candidate(client, "a").Run(t.Context(), nil, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(time.Second)
		done := make(chan error, 1)
		go func() {
			done <- candidate(client, "b").Run(ctx, nil, func(context.Context) error {
				t.Error("two lead")
				return nil
			})
		}()
		time.Sleep(time.Second)
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
