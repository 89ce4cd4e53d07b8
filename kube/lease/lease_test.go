package lease

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidate is an Election over a client, with kube-scheduler's times.
func candidate(client *fake.Clientset, identity string) *Election {
	return &Election{identity: identity, vacant: make(chan string, 1), config: leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "rollcall"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Name: "rollcall", WatchDog: leaderelection.NewLeaderHealthzAdaptor(watchdog),
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
			done <- candidate(client, "a").Run(first, nil, func(ctx context.Context, _ <-chan struct{}) error {
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
				func(ctx context.Context, _ <-chan struct{}) error {
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

// TestAVacatedLeaseIsTakenAtOnce has a leader go without giving its lease back. Another candidate that hears so has it
// at once; one that hears that somebody else is gone waits until the lease expires.
func TestAVacatedLeaseIsTakenAtOnce(t *testing.T) {
	for told, most := range map[string]time.Duration{"a": time.Second, "c": 20 * time.Second} {
		t.Run("told of "+told, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				now := metav1.NowMicro()
				gone, seconds := "a", int32(15)
				_, err := client.CoordinationV1().Leases("kube-system").Create(t.Context(), &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "rollcall"},
					Spec: coordinationv1.LeaseSpec{
						HolderIdentity: &gone, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now,
					},
				}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				b := candidate(client, "b")
				began, ctx, end := time.Duration(0), t.Context(), context.CancelFunc(nil)
				ctx, end = context.WithCancel(ctx)
				done, start := make(chan error, 1), time.Now()
				go func() {
					done <- b.Run(ctx, nil, func(ctx context.Context, _ <-chan struct{}) error {
						began = time.Since(start)
						<-ctx.Done()
						return nil
					})
				}()
				time.Sleep(500 * time.Millisecond)
				b.TakeFrom(told)
				time.Sleep(time.Minute)
				if began == 0 || began > most || told != "a" && began < 10*time.Second {
					t.Errorf("b leads after %s, want within %s", began, most)
				}
				end()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestACandidateStandsAgain has a leader end of its own and stand again: it leads once more.
func TestACandidateStandsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		a := candidate(client, "a")
		for range 2 {
			led := false
			err := a.Run(t.Context(), nil, func(context.Context, <-chan struct{}) error {
				led = true
				return a.Held()
			})
			if err != nil || !led || holder(t, client) != "" {
				t.Fatalf("it led: %t, error %v, and the lease is %q's", led, err, holder(t, client))
			}
			if err := a.Held(); err == nil {
				t.Error("it holds the lease that it gave back")
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
			done <- a.Run(t.Context(), nil, func(ctx context.Context, _ <-chan struct{}) error {
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
			_ = candidate(client, "a").Run(t.Context(), nil, func(ctx context.Context, _ <-chan struct{}) error {
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(time.Second)
		done := make(chan error, 1)
		go func() {
			done <- candidate(client, "b").Run(ctx, nil, func(context.Context, <-chan struct{}) error {
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

// silentLock is a lock whose API server gives no answer from some time on.
type silentLock struct {
	resourcelock.Interface
	silent atomic.Bool
}

func (l *silentLock) wait(ctx context.Context) error {
	if !l.silent.Load() {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Second): // its client's time-out
	}
	return errors.New("no answer in time")
}

func (l *silentLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.wait(ctx); err != nil {
		return nil, nil, err
	}
	return l.Interface.Get(ctx)
}

func (l *silentLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	return l.Interface.Update(ctx, record)
}

// TestALeaseThatIsLostStopsTheLeaderBeforeAnotherOneCanLead has an API server that no longer answers. The leader is
// stopped within the time of its lease, although giving the lease back takes long.
func TestALeaseThatIsLostStopsTheLeaderBeforeAnotherOneCanLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var stopped time.Time
		done := make(chan error, 1)
		a := candidate(client, "a")
		lock := &silentLock{Interface: a.config.Lock}
		a.config.Lock = lock
		go func() {
			done <- a.Run(t.Context(), nil, func(ctx context.Context, lost <-chan struct{}) error {
				<-lost
				stopped = time.Now()
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, ErrLost) {
					t.Errorf("the leader's context ends with %v", cause)
				}
				return nil
			})
		}()
		time.Sleep(time.Second)
		began := time.Now()
		lock.silent.Store(true)
		if err := <-done; !errors.Is(err, ErrLost) {
			t.Errorf("the end is %v, want that the lease is lost", err)
		}
		if took := stopped.Sub(began); took >= a.config.LeaseDuration {
			t.Errorf("the leader was stopped after %s, when another one may have led", took)
		}
	})
}

// TestALeaseThatIsLostInTheEndStopsTheLeader loses the lease while the leader comes to its end.
func TestALeaseThatIsLostInTheEndStopsTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- candidate(client, "a").Run(ctx, nil, func(ctx context.Context, lost <-chan struct{}) error {
				<-ctx.Done()
				<-lost
				return nil
			})
		}()
		time.Sleep(time.Second)
		end()
		time.Sleep(time.Second)
		client.PrependReactor("*", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
			return true, &coordinationv1.Lease{}, errors.New("connection refused")
		})
		if err := <-done; !errors.Is(err, ErrLost) {
			t.Errorf("the end is %v, want that the lease is lost", err)
		}
	})
}

// answers is a transport that answers 200 to everything.
type answers struct{ requests []string }

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.requests = append(a.requests, r.Method)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestNothingIsWrittenWithoutTheLease sends through Guard before the lease is there, while it is, when it was not
// renewed in time (as when the process was suspended), and when another candidate has it.
func TestNothingIsWrittenWithoutTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		a, server := candidate(client, "a"), &answers{}
		transport := a.Guard(&rest.Config{}).WrapTransport(server)
		send := func(method string) error {
			r, err := http.NewRequestWithContext(t.Context(), method, "http://server/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(r)
			if err == nil {
				_ = answer.Body.Close()
			}
			return err
		}
		expect := func(when string, want error) {
			t.Helper()
			for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
				if err := send(method); !errors.Is(err, want) {
					t.Errorf("%s: %s is answered with %v, want %v", when, method, err, want)
				}
			}
			if err := send(http.MethodGet); err != nil {
				t.Errorf("%s: reading: %v", when, err)
			}
		}
		expect("before the election", ErrNotHeld)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- a.Run(ctx, nil, func(ctx context.Context, lost <-chan struct{}) error {
				<-lost
				return nil
			})
		}()
		time.Sleep(time.Minute)
		expect("with the lease", nil)
		client.PrependReactor("update", "leases", func(action ktesting.Action) (bool, runtime.Object, error) {
			update := action.(ktesting.UpdateAction).GetObject().(*coordinationv1.Lease)
			return *update.Spec.HolderIdentity == "a", update, errors.New("connection refused")
		})
		time.Sleep(a.config.RetryPeriod + time.Second)
		a.renewed.Store(new(time.Now().Add(-a.config.RenewDeadline))) // as after a suspension
		expect("with a lease that was not renewed in time", ErrNotHeld)
		a.renewed.Store(new(time.Now()))
		lease, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "rollcall", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("b"), new(metav1.NewMicroTime(time.Now()))
		if _, err := client.CoordinationV1().Leases("kube-system").Update(t.Context(), lease,
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(a.config.RetryPeriod + time.Second)
		expect("with the lease at another candidate", ErrNotHeld)
		end()
		if err := <-done; !errors.Is(err, ErrLost) {
			t.Errorf("the end is %v, want that the lease is lost", err)
		}
		expect("in the end", ErrNotHeld)
	})
}
