package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// timing has the waiting times.
type timing struct {
	// poll is between two questions whether the API server has a resource.
	poll time.Duration
	// retry is after the first of several failures, and most after later ones.
	retry, most time.Duration
	// healthy is the time that a watch has to have lasted for its end to count as a first failure.
	healthy time.Duration
}

var usualTiming = timing{poll: 10 * time.Second, retry: 200 * time.Millisecond, most: 20 * time.Second,
	healthy: time.Minute}

// goneAnswers is the number of times in a row that the API server must say that it does not have a resource. After that
// the objects that the log has of it count as deleted.
const goneAnswers = 3

// withoutLogger returns ctx with a silent logger for client-go: a report has everything that a person should know.
func withoutLogger(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// reflect keeps the ledger up to date about one resource until ctx ends.
func (w *Watch) reflect(ctx context.Context, place int) {
	s := &store{watch: w, place: place, kind: w.kinds[place]}
	s.encoder.Own, s.encoder.Recording = eventlog.NewOwnTrim(w.opts.Own), w.opts.Recording
	s.continueFrom(w.opts.Recorded)
	delay := w.timing.backoff()
	for absent := 0; ctx.Err() == nil; {
		found, err := w.has(ctx, s.kind)
		if ctx.Err() != nil {
			return
		}
		w.told(place, "discover", err)
		switch {
		case err != nil:
			sleep(ctx, delay.Step())
		case !found:
			absent++
			w.lacks(s, absent)
			sleep(ctx, jittered(w.timing.poll))
			delay = w.timing.backoff()
		default:
			absent = 0
			w.noteServed(s.kind.resource, true)
			if w.follow(ctx, s) {
				delay = w.timing.backoff()
			}
			sleep(ctx, delay.Step())
		}
	}
}

// follow lists and watches a resource until ctx ends, or the API server says that it does not have it. It reports
// whether that went well for long.
func (w *Watch) follow(ctx context.Context, s *store) (healthy bool) {
	src, client := s.kind.of(w.opts.Client, w.custom)
	var gone atomic.Bool
	var lost atomic.Pointer[error]
	if w.opts.Recording {
		src = src.noticing(&lost)
	}
	lw := src.asListWatch(client, func(verb string, streamed bool, err error) {
		switch {
		case ctx.Err() != nil:
		case apierrors.IsNotFound(err):
			gone.Store(true)
		case streamed && err != nil && !isUnreachable(err) && !apierrors.IsTooManyRequests(err):
			// A list follows, and reports any failure.
		case err == nil && streamed:
			w.told(s.place, "list", nil)
			w.told(s.place, "watch", nil)
		case !isExpired(err):
			w.told(s.place, verb, err)
		}
	})
	opts := cache.ReflectorOptions{
		Name:    "rollcall-" + string(s.kind.resource),
		Clock:   endingClock{ctx: ctx},
		Backoff: w.timing.backoff(),
	}
	lists := cache.NewReflectorWithOptions(lw, s.kind.example(), s, opts)
	delay := w.timing.backoff()
	for ctx.Err() == nil && !gone.Load() {
		began := time.Now()
		attempt, cancel := context.WithCancel(ctx)
		w.again[s.place].Store(&cancel)
		r := lists
		if s.position != "" {
			r = cache.NewReflectorWithOptions(s.resumable(lw), s.kind.example(), continued{s}, opts)
		}
		// The failure was reported already: client-go's error adds nothing to it.
		_ = r.ListAndWatchWithContext(attempt)
		cancel()
		if why := lost.Swap(nil); why != nil || gone.Load() || w.relist[s.place].Swap(false) {
			s.lose(why)
		}
		if time.Since(began) > w.timing.healthy {
			delay, healthy = w.timing.backoff(), true
		}
		if !gone.Load() {
			sleep(ctx, delay.Step())
		}
	}
	return healthy
}

// has asks the API server whether it has the resource.
func (w *Watch) has(ctx context.Context, k kind) (bool, error) {
	group := k.group()
	client := discovery.ToServerResourcesInterfaceWithContext(w.opts.Client.Discovery())
	list, err := client.ServerResourcesForGroupVersionWithContext(ctx, group.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if apierrors.IsForbidden(err) {
		return true, nil // listing it will show
	}
	if err != nil {
		return false, err
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == group.Resource {
			return true, nil
		}
	}
	return false, nil
}

// lacks takes in that the API server has said so many times in a row that it does not have a resource.
func (w *Watch) lacks(s *store, times int) {
	w.noteServed(s.kind.resource, false)
	known := len(w.ledger.names(s.place))
	s.lacked(known > 0)
	if known == 0 || times < goneAnswers {
		w.listed(s.place) // it holds nothing up: what the log has stands until it is certain
		return
	}
	w.opts.Report(fmt.Sprintf("%s: the %d that were there count as deleted", s.kind.resource, known))
	_ = s.Replace(nil, "") // of nothing, nothing can be wrong
	s.returns(time.Now())
}

// backoff returns the delays after failures that follow one another.
func (t timing) backoff() *wait.Backoff {
	return &wait.Backoff{Duration: t.retry, Factor: 2, Jitter: 1, Steps: 16, Cap: t.most}
}

func jittered(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// endingClock is the real clock, except that its waits end when ctx ends. A reflector waits before it tries a watch
// again, and would hold Run up for as long.
type endingClock struct {
	clock.RealClock
	ctx context.Context
}

// After implements clock.Clock.
func (c endingClock) After(d time.Duration) <-chan time.Time {
	at := make(chan time.Time, 1)
	go func() {
		sleep(c.ctx, d)
		at <- time.Now()
	}()
	return at
}
