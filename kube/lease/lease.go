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
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
)

// ErrLost says that another scheduler may have the lease now.
var ErrLost = errors.New("the lease is lost: another scheduler may be the leader now")

// watchdog is how long the lease may be expired before the process counts as not alive.
const watchdog = 20 * time.Second

// Election is one candidate.
type Election struct {
	config   leaderelection.LeaderElectionConfig
	identity string
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
	return &Election{identity: identity, config: leaderelection.LeaderElectionConfig{
		Lock: lock, Name: c.ResourceName, ReleaseOnCancel: true,
		LeaseDuration: c.LeaseDuration.Duration, RenewDeadline: c.RenewDeadline.Duration,
		RetryPeriod: c.RetryPeriod.Duration,
		WatchDog:    leaderelection.NewLeaderHealthzAdaptor(watchdog),
	}}, nil
}

// WatchDog is the check of the process's health: it fails if this candidate is the leader and cannot renew its lease.
func (e *Election) WatchDog() *leaderelection.HealthzAdaptor { return e.config.WatchDog }

// Identity is the candidate's name.
func (e *Election) Identity() string { return e.identity }

// Run waits until this candidate is the leader and then calls lead, whose context ends when ctx does or when the lease
// is lost. The lease is given back only after lead has returned, so that the next leader finds everything at its end.
// Run returns what lead returned, joined with ErrLost if the lease was lost, and nil if ctx ended before lead was
// called. other is told the name of each other candidate that is seen to lead.
func (e *Election) Run(ctx context.Context, other func(identity string), lead func(context.Context) error) error {
	leading, led := make(chan context.Context, 1), make(chan error, 1)
	config := e.config
	// The elector runs until lead has returned, even if ctx has ended: it renews the lease while effects are awaited.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	lost := make(chan struct{})
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leadership context.Context) { leading <- leadership },
		OnStoppedLeading: func() { close(lost) },
		OnNewLeader: func(identity string) {
			if identity != e.identity && other != nil {
				other(identity)
			}
		},
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	if config.WatchDog != nil {
		config.WatchDog.SetLeaderElection(elector)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		elector.Run(electing)
	}()
	select {
	case <-ctx.Done():
		release()
		<-done
		return nil
	case leadership := <-leading:
		lctx, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(leadership, cancel)
		go func() { led <- lead(lctx) }()
		err := <-led
		stop()
		cancel()
		if leadership.Err() != nil {
			err = errors.Join(ErrLost, err)
		}
		release()
		<-done
		return err
	}
}
