package lease

import (
	"context"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// renewals is the lock of a lease that notes the time of its last renewal. It is the time before the request, because
// other candidates count from the moment at which the API server has it.
type renewals struct {
	resourcelock.Interface
	election *Election
}

// Create makes the lease.
func (r *renewals) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	err := r.Interface.Create(ctx, record)
	if err == nil {
		r.election.renewed.Store(&began)
	}
	return err
}

// Update renews the lease.
func (r *renewals) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	err := r.Interface.Update(ctx, record)
	if err == nil {
		r.election.renewed.Store(&began)
	}
	return err
}

// Held returns nil while no other candidate can lead, and otherwise ErrNotHeld. A process that was suspended learns it
// here at once, before the elector does.
func (e *Election) Held() error {
	elector, renewed := e.elector.Load(), e.renewed.Load()
	if elector == nil || renewed == nil || !elector.IsLeader() || time.Since(*renewed) >= e.config.RenewDeadline {
		return ErrNotHeld
	}
	return nil
}

// Guard returns config for clients that change nothing without the lease: such a request fails with ErrNotHeld and is
// not sent. Reading is always allowed. The clients of the election itself must not be made of it.
func (e *Election) Guard(config *rest.Config) *rest.Config {
	guarded := rest.CopyConfig(config)
	guarded.Wrap(func(next http.RoundTripper) http.RoundTripper { return &guard{next, e} })
	return guarded
}

// guard is a transport that sends no changes without the lease.
type guard struct {
	next     http.RoundTripper
	election *Election
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := g.election.Held(); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // as RoundTripper demands; nothing was read
			}
			return nil, err
		}
	}
	return g.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport below.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }
