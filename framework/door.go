package framework

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"

	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// This file limits plugins' access to the API server.

var (
	// errInside is the error of a request that a plugin makes in a cycle.
	errInside = errors.New("plugins cannot reach the API server within a cycle: what a cycle reads must come from " +
		"the log, and what it asks for leaves as an effect; the client works in PreBind, Bind and PostBind, and in " +
		"goroutines of the plugin's own")
	// errNowhere is the error of every request if there is no API server.
	errNowhere = errors.New("there is no API server: this is a simulation, a replay, or an answer from a log")
)

// door is the transport from plugins to the API server.
type door struct {
	outside http.RoundTripper // nil: there is no API server
}

// RoundTrip makes the request, unless a plugin makes it within a cycle.
func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
	err := errNowhere
	switch {
	case InsideCycle():
		err = errInside
	case d.outside != nil:
		return d.outside.RoundTrip(r)
	}
	return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
}

// cycleFrames are prefixes of the functions that call plugins within a cycle, or create them.
var cycleFrames = []string{
	"github.com/rollcall-sched/rollcall/scheduler.(*", // methods of the Machine, its cycles and its parts
	"github.com/rollcall-sched/rollcall/framework.(*search).",
	"github.com/rollcall-sched/rollcall/framework.NewProfile",
}

// InsideCycle reports whether the caller runs within a cycle: whether the goroutine's stack has a function that calls
// plugins in cycles. A context would not do, because a plugin may pass another one.
func InsideCycle() bool {
	pcs := make([]uintptr, 128)
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			for _, prefix := range cycleFrames {
				if strings.HasPrefix(frame.Function, prefix) {
					return true
				}
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// doorLimiter lets a request within a cycle pass at once, so that it fails without waiting.
type doorLimiter struct{ flowcontrol.RateLimiter }

// Wait implements flowcontrol.RateLimiter.
func (l doorLimiter) Wait(ctx context.Context) error {
	if InsideCycle() {
		return nil
	}
	return l.RateLimiter.Wait(ctx)
}

// Accept implements flowcontrol.RateLimiter.
func (l doorLimiter) Accept() {
	if !InsideCycle() {
		l.RateLimiter.Accept()
	}
}

// pluginShare divides the scheduler's requests per second to get the limit of plugins.
const pluginShare = 4

// limiterOf returns a rate limiter for plugins. It is separate, so that their requests do not delay binds.
func limiterOf(outside *restclient.Config) flowcontrol.RateLimiter {
	switch {
	case outside.QPS < 0:
		return flowcontrol.NewFakeAlwaysRateLimiter()
	case outside.QPS == 0:
		return flowcontrol.NewTokenBucketRateLimiter(restclient.DefaultQPS, restclient.DefaultBurst)
	}
	return flowcontrol.NewTokenBucketRateLimiter(max(outside.QPS/pluginShare, 1), max(outside.Burst/pluginShare, 1))
}

// client returns the client of plugins and its configuration. outside is the configuration for the API server, nil if
// there is none.
func client(outside *restclient.Config) (clientset.Interface, *restclient.Config, error) {
	// QPS -1 means no rate limiter. One would wait by the wall clock before the request fails.
	cfg := &restclient.Config{Host: "https://no-api-server.invalid", QPS: -1, Transport: door{}}
	if outside != nil {
		cfg = restclient.CopyConfig(outside)
		cfg.RateLimiter = doorLimiter{limiterOf(outside)}
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return door{next} })
	}
	clients, err := clientset.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("make the client of plugins: %w", err)
	}
	return clients, cfg, nil
}
