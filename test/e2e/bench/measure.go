package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// workers is the number of requests that this program has in progress at a time.
const workers = 32

// most is the time that one measurement may take.
const most = 15 * time.Minute

// create creates so many pods in gangs, and returns their names.
func (b *bench) create(ctx context.Context, pods, gang int) (names []string, err error) {
	return b.createThen(ctx, pods, gang, func(int, string) error { return nil })
}

// createThen calls then with the number and the name of each pod that it has created, many at a time.
func (b *bench) createThen(
	ctx context.Context, pods, gang int, then func(number int, name string) error,
) (names []string, err error) {
	groups := (pods + gang - 1) / gang
	first := b.made
	b.made += groups
	group := func(i int) string { return fmt.Sprintf("gang-%06d", first+i) }
	if gang > 1 {
		if err := parallel(groups, func(i int) error {
			g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: group(i)}}
			g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(gang)}
			_, err := b.client.SchedulingV1beta1().PodGroups("default").Create(ctx, g, metav1.CreateOptions{})
			return err
		}); err != nil {
			return nil, fmt.Errorf("create the PodGroups: %w", err)
		}
	}
	for i := range pods {
		names = append(names, fmt.Sprintf("%s-%d", group(i/gang), i%gang))
	}
	return names, parallel(pods, func(i int) error {
		p := pod(names[i], "")
		if gang > 1 {
			name := group(i / gang)
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		}
		if _, err := b.client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the pods: %w", err)
		}
		return then(i, names[i])
	})
}

// createBound creates the pods that are on nodes from the beginning.
func (b *bench) createBound(ctx context.Context) error {
	if err := parallel(b.bound, func(i int) error {
		p := pod(fmt.Sprintf("bound-%06d", i), "")
		p.Spec.NodeName = b.names[i%len(b.names)]
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("100m")
		_, err := b.client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("create the pods on nodes: %w", err)
	}
	return nil
}

func pod(name, scheduler string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{SchedulerName: scheduler, Containers: []v1.Container{{
			Name: "c", Image: "registry.k8s.io/pause:3.10",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}},
		}}},
	}
}

// parallel calls f for the numbers below count.
func parallel(count int, f func(int) error) error {
	errs := make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < count && errs[w] == nil; i += workers {
				errs[w] = f(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// clear deletes all pods and PodGroups, and waits until they are gone. Each pod is a request of its own: one that
// deletes them all may take longer than the API server gives a request.
func (b *bench) clear(ctx context.Context) error {
	now := int64(0)
	o := metav1.DeleteOptions{GracePeriodSeconds: &now}
	pods := b.client.CoreV1().Pods("default")
	for {
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 1000})
		if err == nil {
			err = parallel(len(list.Items), func(i int) error {
				err := pods.Delete(ctx, list.Items[i].Name, o)
				if apierrors.IsNotFound(err) {
					return nil
				}
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("delete the pods: %w", err)
		}
		if len(list.Items) == 0 {
			break
		}
	}
	err := b.client.SchedulingV1beta1().PodGroups("default").DeleteCollection(ctx, o, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("delete the PodGroups: %w", err)
	}
	return nil
}

// watcher sees pods become bound.
type watcher struct {
	stop context.CancelFunc

	mu sync.Mutex
	// at is the time at which each pod was seen bound.
	at          map[string]time.Time
	first, last time.Time
	more        chan struct{}
}

// watch begins to watch the pods that are bound.
func (b *bench) watch(ctx context.Context) *watcher {
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{stop: stop, at: map[string]time.Time{}, more: make(chan struct{}, 1)}
	lw := cache.NewListWatchFromClient(b.client.CoreV1().RESTClient(), "pods", "default",
		fields.OneTermNotEqualSelector("spec.nodeName", ""))
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw, ObjectType: &v1.Pod{}, Handler: cache.ResourceEventHandlerFuncs{AddFunc: w.see},
	})
	go informer.RunWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	return w
}

func (w *watcher) see(obj any) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.at) == 0 {
		w.first = now
	}
	w.at[obj.(*v1.Pod).Name], w.last = now, now
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// wait waits until so many pods are bound.
func (w *watcher) wait(ctx context.Context, count int) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		w.mu.Lock()
		n := len(w.at)
		w.mu.Unlock()
		if n >= count {
			return nil
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods were bound: %w", n, count, ctx.Err())
		}
	}
}

// cost is the use of resources so far.
type cost struct {
	scheduler, apiServer cluster.Usage
	requests             map[string]float64
}

func (b *bench) cost(ctx context.Context, s *schedulers.Scheduler) (c cost, err error) {
	if s != nil {
		if c.scheduler, err = s.Usage(); err != nil {
			return c, err
		}
	}
	if c.apiServer, err = b.c.APIServer.Usage(); err != nil {
		return c, err
	}
	text, err := b.c.Metrics(ctx)
	if err != nil {
		return c, err
	}
	c.requests = requests(text)
	return c, nil
}

// settled waits until there are no more requests about pods, PodGroups and events, for a minute at most, and returns
// the use of resources by then.
func (b *bench) settled(ctx context.Context, s *schedulers.Scheduler) (c cost, err error) {
	last, same := -1.0, 0
	for try := 0; try < 120 && same < 3; try++ {
		if c, err = b.cost(ctx, s); err != nil {
			return c, err
		}
		sum := 0.0
		for what, n := range c.requests {
			if strings.Contains(what, " pod") || strings.Contains(what, " events") {
				sum += n
			}
		}
		if same++; sum != last {
			last, same = sum, 0
		}
		select {
		case <-ctx.Done():
			return c, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	return c, nil
}

// requests adds up the requests that the API server has had, by verb and resource, from its metrics.
func requests(metrics string) map[string]float64 {
	sum := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "apiserver_request_total{")
		labels, value, ok2 := strings.Cut(rest, "} ")
		if !ok || !ok2 {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			continue
		}
		what := label(labels, "verb") + " " + label(labels, "resource")
		if sub := label(labels, "subresource"); sub != "" {
			what += "/" + sub
		}
		sum[what] += n
	}
	return sum
}

// label is the value of a label of a metric.
func label(labels, name string) string {
	_, rest, ok := strings.Cut(","+labels, ","+name+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
