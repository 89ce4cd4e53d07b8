package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// result is one measurement. Times are in seconds.
type result struct {
	Round               int
	Scheduler, Scenario string
	// Pods were bound. Seconds is from the scenario's begin to the last bind, as a watch saw it; PerSecond counts from
	// the first bind to the last.
	Pods               int
	Seconds, PerSecond float64
	// CPU is the scheduler's processor time, APIServerCPU the API server's, until the requests have ended that follow
	// the binds, such as those for events.
	CPU, APIServerCPU float64
	// Memory is the scheduler's resident memory at its peak, in bytes.
	Memory int64
	// P50 and P99 are latencies, of the scenario latency.
	P50, P99 float64 `json:",omitempty"`
	// LogBytes is the growth of the scheduler's log on disk during the scenario growth.
	LogBytes int64 `json:",omitempty"`
	// Stages are the scheduler's messages about the scenario takeover, each with the time since the leader was killed.
	Stages []string `json:",omitempty"`
	// Requests are the requests to the API server meanwhile, by verb and resource, including this program's.
	Requests map[string]float64
}

// line is the measurement as a line of text.
func (r result) line() string {
	text := fmt.Sprintf("%d %-16s %-8s", r.Round, r.Scheduler, r.Scenario)
	switch {
	case r.LogBytes > 0:
		text += fmt.Sprintf(" %5d pods in %.0f s; log %.2f MB, %.0f MB a day;",
			r.Pods, r.Seconds, float64(r.LogBytes)/1e6, float64(r.LogBytes)/1e6*24*3600/r.Seconds)
	case len(r.Stages) > 0:
		text += fmt.Sprintf(" %5d pods; the next gang was bound %.2f s after the leader was killed: %s;",
			r.Pods, r.Seconds, strings.Join(r.Stages, ", "))
	case r.P50 > 0:
		text += fmt.Sprintf(" p50 %.1f ms, p99 %.1f ms;", r.P50*1000, r.P99*1000)
	default:
		text += fmt.Sprintf(" %5d pods, last after %6.1f s, %5.0f a second;", r.Pods, r.Seconds, r.PerSecond)
	}
	text += fmt.Sprintf(" CPU %.1f s, API server %.1f s, %d MB;", r.CPU, r.APIServerCPU, r.Memory>>20)
	for _, what := range slices.Sorted(maps.Keys(r.Requests)) {
		if n := r.Requests[what]; n >= float64(r.Pods)/100 && n > 1 {
			text += fmt.Sprintf(" %s %.0f", what, n)
		}
	}
	return text
}

// since takes the difference of two costs into the result.
func (r *result) since(before, after cost) {
	r.CPU = (after.scheduler.CPU - before.scheduler.CPU).Seconds()
	r.APIServerCPU = (after.apiServer.CPU - before.apiServer.CPU).Seconds()
	r.Memory = after.scheduler.PeakMemory
	r.Requests = map[string]float64{}
	for what, n := range after.requests {
		if d := n - before.requests[what]; d > 0 {
			r.Requests[what] = d
		}
	}
}

// rate adds the observations of the watch to the result.
func (r *result) rate(w *watcher, begun time.Time) {
	r.Seconds = w.last.Sub(begun).Seconds()
	if span := w.last.Sub(w.first).Seconds(); span > 0 {
		r.PerSecond = float64(r.Pods-1) / span
	}
}

// backlog creates the pods and then starts the scheduler. The processor time includes its start.
func (b *bench) backlog(ctx context.Context, choice string) (r result, err error) {
	if _, err := b.create(ctx, b.pods, b.gang); err != nil {
		return r, err
	}
	w := b.watch(ctx)
	defer w.stop()
	before, err := b.cost(ctx, nil)
	if err != nil {
		return r, err
	}
	begun := time.Now()
	s, err := b.start(ctx, choice)
	if err != nil {
		return r, err
	}
	defer s.Kill()
	return b.finish(ctx, result{Pods: b.pods}, s, w, before, begun)
}

// burst starts the scheduler, has it bind one pod, and then creates the pods.
func (b *bench) burst(ctx context.Context, choice string) (r result, err error) {
	s, err := b.warm(ctx, choice)
	if err != nil {
		return r, err
	}
	defer s.Kill()
	w := b.watch(ctx)
	defer w.stop()
	before, err := b.cost(ctx, s)
	if err != nil {
		return r, err
	}
	begun := time.Now()
	if _, err := b.create(ctx, b.pods, b.gang); err != nil {
		return r, err
	}
	return b.finish(ctx, result{Pods: b.pods}, s, w, before, begun)
}

// warm starts a scheduler and has it bind a pod, which is then deleted.
func (b *bench) warm(ctx context.Context, choice string) (*schedulers.Scheduler, error) {
	s, err := b.start(ctx, choice)
	if err != nil {
		return nil, err
	}
	w := b.watch(ctx)
	defer w.stop()
	if _, err = b.create(ctx, 1, 1); err == nil {
		err = w.wait(ctx, 1)
	}
	if err == nil {
		err = b.clear(ctx)
	}
	if err != nil {
		s.Kill()
		return nil, fmt.Errorf("%w; the scheduler's output:\n%s", err, s.Tail(20))
	}
	return s, nil
}

func (b *bench) finish(
	ctx context.Context, r result, s *schedulers.Scheduler, w *watcher, before cost, begun time.Time,
) (result, error) {
	if err := w.wait(ctx, r.Pods); err != nil && s != nil {
		return r, fmt.Errorf("%w; the scheduler's output:\n%s", err, s.Tail(20))
	} else if err != nil {
		return r, err
	}
	after, err := b.settled(ctx, s)
	if err != nil {
		return r, err
	}
	r.since(before, after)
	r.rate(w, begun)
	return r, nil
}

// latency creates one pod after the other and waits for each.
func (b *bench) latency(ctx context.Context, choice string) (r result, err error) {
	s, err := b.warm(ctx, choice)
	if err != nil {
		return r, err
	}
	defer s.Kill()
	w := b.watch(ctx)
	defer w.stop()
	before, err := b.cost(ctx, s)
	if err != nil {
		return r, err
	}
	r.Pods = b.latencyPods
	var took []time.Duration
	for i := range b.latencyPods {
		begun := time.Now()
		names, err := b.create(ctx, 1, 1)
		if err != nil {
			return r, err
		}
		if err := w.wait(ctx, i+1); err != nil {
			return r, fmt.Errorf("%w; the scheduler's output:\n%s", err, s.Tail(20))
		}
		w.mu.Lock()
		took = append(took, w.at[names[0]].Sub(begun))
		w.mu.Unlock()
		// The cluster is idle again: what follows the bind, such as its event, is over.
		time.Sleep(50 * time.Millisecond)
	}
	after, err := b.cost(ctx, s)
	if err != nil {
		return r, err
	}
	r.since(before, after)
	slices.Sort(took)
	r.P50, r.P99 = took[len(took)/2].Seconds(), took[len(took)*99/100].Seconds()
	return r, nil
}

// limit binds the pods without a scheduler: what the API server takes.
func (b *bench) limit(ctx context.Context) (r result, err error) {
	names, err := b.create(ctx, b.pods, b.gang)
	if err != nil {
		return r, err
	}
	w := b.watch(ctx)
	defer w.stop()
	before, err := b.cost(ctx, nil)
	if err != nil {
		return r, err
	}
	r.Pods = b.pods
	begun := time.Now()
	if err := parallel(len(names), func(i int) error { return b.bind(ctx, i, names[i]) }); err != nil {
		return r, err
	}
	return b.finish(ctx, r, nil, w, before, begun)
}

// burstLimit creates the pods and binds each at once, without a scheduler: what the API server takes of both.
func (b *bench) burstLimit(ctx context.Context) (r result, err error) {
	w := b.watch(ctx)
	defer w.stop()
	before, err := b.cost(ctx, nil)
	if err != nil {
		return r, err
	}
	r.Pods = b.pods
	begun := time.Now()
	bind := func(i int, name string) error { return b.bind(ctx, i, name) }
	if _, err := b.createThen(ctx, b.pods, b.gang, bind); err != nil {
		return r, err
	}
	return b.finish(ctx, r, nil, w, before, begun)
}

// bind binds the pod with a number to the node whose turn it is.
func (b *bench) bind(ctx context.Context, number int, name string) error {
	err := b.client.CoreV1().Pods("default").Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Target:     v1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("node-%05d", number%b.nodes)},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("bind pod %s: %w", name, err)
	}
	return nil
}

// summary writes the medians of the rounds.
func summary(out io.Writer, all []result) {
	type key struct{ scenario, scheduler string }
	by := map[key][]result{}
	for _, r := range all {
		k := key{r.Scenario, r.Scheduler}
		by[k] = append(by[k], r)
	}
	keys := slices.SortedFunc(maps.Keys(by), func(a, b key) int {
		return strings.Compare(a.scenario+a.scheduler, b.scenario+b.scheduler)
	})
	fmt.Fprint(out, "\nMedians:\n")
	fmt.Fprint(out, "| scenario | scheduler | last bound, s | pods/s | p50, ms | p99, ms | CPU, s | memory, MB |\n")
	fmt.Fprint(out, "|---|---|--:|--:|--:|--:|--:|--:|\n")
	for _, k := range keys {
		of := func(f func(result) float64) float64 {
			var v []float64
			for _, r := range by[k] {
				v = append(v, f(r))
			}
			slices.Sort(v)
			return v[len(v)/2]
		}
		fmt.Fprintf(out, "| %s | %s | %.1f | %.0f | %.1f | %.1f | %.1f | %.0f |\n", k.scenario, k.scheduler,
			of(func(r result) float64 { return r.Seconds }), of(func(r result) float64 { return r.PerSecond }),
			of(func(r result) float64 { return 1000 * r.P50 }), of(func(r result) float64 { return 1000 * r.P99 }),
			of(func(r result) float64 { return r.CPU }), of(func(r result) float64 { return float64(r.Memory >> 20) }))
	}
}
