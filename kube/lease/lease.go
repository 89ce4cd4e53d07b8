// Package lease elects the one scheduler that works, with a Lease in the API server.
//
// The lease only avoids that two schedulers try at once. That two cannot write one log is the log's own promise.
//
// Start reading at Run.
package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
)

// ErrLost says that another scheduler may have the lease now.
var ErrLost = errors.New("the lease is lost: another scheduler may be the leader now")

// ErrNotHeld says that nothing may be changed in the cluster, because this process does not have the lease, or did not
// renew it in time.
var ErrNotHeld = errors.New("the lease is not held, or was not renewed in time: nothing is sent")

// watchdog is the time for which the lease may be expired before the process counts as not alive.
const watchdog = 20 * time.Second

// Election is one candidate.
type Election struct {
	config   leaderelection.LeaderElectionConfig
	identity string
	vacant   chan string                                  // a candidate that is gone, see TakeFrom
	elector  atomic.Pointer[leaderelection.LeaderElector] // nil while Run is not at work
	renewed  atomic.Pointer[time.Time]                    // nil before the lease was taken
}

// New returns a candidate for the lease that c names, under the name of the host and a random part: two processes of
// one host are two candidates.
func New(c componentbaseconfig.LeaderElectionConfiguration, config *rest.Config) (*Election, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	identity := host + "_" + uuid.NewString()
	lock, err := resourcelock.NewFromKubeconfig(c.ResourceLock, c.ResourceNamespace, c.ResourceName,
		resourcelock.ResourceLockConfig{Identity: identity}, config, c.RenewDeadline.Duration)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return &Election{identity: identity, vacant: make(chan string, 1), config: leaderelection.LeaderElectionConfig{
		Lock: lock, Name: c.ResourceName,
		LeaseDuration: c.LeaseDuration.Duration, RenewDeadline: c.RenewDeadline.Duration,
		RetryPeriod: c.RetryPeriod.Duration,
		WatchDog:    leaderelection.NewLeaderHealthzAdaptor(watchdog),
	}}, nil
}

// WatchDog is the check of the process's health: it fails if this candidate is the leader and cannot renew its lease.
func (e *Election) WatchDog() *leaderelection.HealthzAdaptor { return e.config.WatchDog }

// Identity is the candidate's name.
func (e *Election) Identity() string { return e.identity }

// Run waits until this candidate is the leader and then calls lead. lost is closed when the lease is lost: nothing may
// be sent from then on. The context of lead ends when ctx does or when the lease is lost. The lease is given back only
// after lead has returned, so that the next leader finds everything at its end; one that was lost is not given back.
// Run returns the result of lead, joined with ErrLost if the lease was lost, and nil if ctx ended before lead was
// called. other receives the name of each other candidate that is seen to lead. Run can be called again after it has
// returned.
func (e *Election) Run(
	ctx context.Context, other func(identity string), lead func(ctx context.Context, lost <-chan struct{}) error,
) error {
	for {
		c, err := e.stand(ctx, other)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			c.withdraw()
			return nil
		case holder := <-e.vacant:
			c.withdraw() // a new try comes at once then
			e.giveBack(ctx, holder)
		case leadership := <-c.leading:
			lctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer context.AfterFunc(leadership, func() { cancel(ErrLost) })()
			err := lead(lctx, leadership.Done())
			if leadership.Err() != nil {
				c.end()
				e.elector.Store(nil)
				return errors.Join(ErrLost, err)
			}
			c.withdraw()
			return err
		}
	}
}

// A candidacy is an elector at work.
type candidacy struct {
	election *Election
	leading  chan context.Context // holds the leadership's once there is one
	end      context.CancelFunc
	done     chan struct{}
}

// stand begins to try to get the lease.
func (e *Election) stand(ctx context.Context, other func(identity string)) (*candidacy, error) {
	c := &candidacy{election: e, leading: make(chan context.Context, 1), done: make(chan struct{})}
	config := e.config
	config.Lock = &renewals{e.config.Lock, e}
	// The elector would give a lost lease back before it says that it is lost, while the leader is still at work.
	config.ReleaseOnCancel = false
	// The elector runs until lead has returned, even if ctx has ended: it renews the lease while effects are awaited.
	electing, end := context.WithCancel(context.WithoutCancel(ctx))
	c.end = end
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leadership context.Context) { c.leading <- leadership },
		OnStoppedLeading: func() {},
		OnNewLeader: func(identity string) {
			if identity != e.identity && other != nil {
				other(identity)
			}
		},
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		end()
		return nil, fmt.Errorf("leader election: %w", err)
	}
	e.elector.Store(elector)
	if config.WatchDog != nil {
		config.WatchDog.SetLeaderElection(elector)
	}
	go func() {
		defer close(c.done)
		elector.Run(electing)
	}()
	return c, nil
}

// withdraw ends the candidacy, and gives the lease back if it has it.
func (c *candidacy) withdraw() {
	c.end()
	<-c.done
	c.election.release()
	c.election.elector.Store(nil)
}

// TakeFrom says that another candidate is known to be gone: if it has the lease, Run, while it waits, takes the lease
// from it and tries to get it at once. Without TakeFrom the lease would have to expire. That two leaders
// do not do harm is not the lease's promise, so that a mistake here costs time and nothing else.
func (e *Election) TakeFrom(holder string) {
	select {
	case e.vacant <- holder:
	default: // one is on its way
	}
}

// giveBack gives the lease back in the name of holder, if that has it. It can fail, because the API server is not
// reached or another candidate was faster: the lease expires by itself.
func (e *Election) giveBack(ctx context.Context, holder string) {
	ctx, cancel := context.WithTimeout(ctx, e.config.RenewDeadline)
	defer cancel()
	record, _, err := e.config.Lock.Get(ctx)
	if err != nil || record.HolderIdentity != holder || holder == e.identity {
		return
	}
	now := metav1.Now()
	_ = e.config.Lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
}

// release gives the lease back if this candidate has it, so that the next one need not wait until it has expired.
func (e *Election) release() {
	if !e.elector.Load().IsLeader() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.config.RenewDeadline)
	defer cancel()
	for {
		record, _, err := e.config.Lock.Get(ctx)
		if err != nil || record.HolderIdentity != e.identity {
			return // it expires by itself
		}
		now := metav1.Now()
		err = e.config.Lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
		if !apierrors.IsConflict(err) {
			return
		}
	}
}
