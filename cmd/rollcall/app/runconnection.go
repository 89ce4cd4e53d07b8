package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/engine/live"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/client"
	"github.com/rollcall-sched/rollcall/kube/effect"
	"github.com/rollcall-sched/rollcall/kube/extender"
	"github.com/rollcall-sched/rollcall/kube/metrics"
	"github.com/rollcall-sched/rollcall/kube/status"
	"github.com/rollcall-sched/rollcall/kube/watch"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// connection holds everything between the scheduler and its API server.
type connection struct {
	*clusterProcess
	effects *effect.Effects
	status  *status.Status
	watcher atomic.Pointer[watch.Watch] // nil before the state is recovered
}

// Statuses of pods and groups get at most a quarter of the requests that the scheduler may make in a second. Events get
// at most an eighth. Binds, evictions and watches get the rest, and all of them if there is nothing to show.
const (
	statusShare = 4
	eventShare  = 8
)

// connect makes the connection between a scheduler that leads, or is about to, and its API server.
func (p *clusterProcess) connect() (*connection, error) {
	c := &connection{clusterProcess: p}
	statuses, err := slower(c.rest, statusShare)
	if err != nil {
		return nil, err
	}
	events, err := slower(c.rest, eventShare)
	if err != nil {
		return nil, err
	}
	extenders, err := c.extenders()
	if err != nil {
		return nil, err
	}
	c.effects = effect.New(effect.Options{
		Extenders: extenders,
		Client:    c.client, Workers: bindWorkers, Whole: c.whole, BindTimeout: volumeTimeout(c.config),
		DeviceTimeout: deviceTimeout(c.config), Still: c.still, Report: logNote,
	})
	c.status = status.New(status.Options{
		Pods: statuses, Events: events, Config: c.rest, Seen: c.seen, Report: logNote,
		Crowded: c.effects.Crowded, Schedulers: schedulersOf(c.config),
	})
	p.current.Store(c)
	return c, p.count()
}

// schedulersOf returns the scheduler names that the profiles of a configuration have and that pods ask for.
func schedulersOf(config *framework.Config) (names []string) {
	for i := range config.Profiles {
		names = append(names, config.Profiles[i].SchedulerName)
	}
	return names
}

// extenders returns the client of the configuration's HTTP extenders. Requests carry the whole pod, as the API server
// has it at that time, and whole nodes.
func (c *connection) extenders() (*extender.Client, error) {
	return extender.New(extender.Options{
		Extenders: c.config.Extenders,
		Pod: func(ctx context.Context, namespace, name string, uid types.UID) (*corev1.Pod, error) {
			pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && pod.UID != uid {
				err = fmt.Errorf("it is another one (UID %s)", pod.UID)
			}
			return pod, err
		},
		Node: func(name string) *corev1.Node {
			node, _ := c.whole(eventlog.Nodes, "", name).(*corev1.Node)
			return node
		},
	})
}

// volumeTimeout returns the longest time, of all profiles, that a pod waits for its volumes; 0 if none sets it.
func volumeTimeout(cfg *framework.Config) (longest time.Duration) {
	for _, profile := range cfg.Profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*config.VolumeBindingArgs); ok {
				longest = max(longest, time.Duration(args.BindTimeoutSeconds)*time.Second)
			}
		}
	}
	return longest
}

// deviceTimeout returns the longest time, of all profiles, that a pod waits for its devices; 0 if none sets it.
func deviceTimeout(cfg *framework.Config) (longest time.Duration) {
	for _, profile := range cfg.Profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*config.DynamicResourcesArgs); ok {
				longest = max(longest, plugins.BindingTimeout(args))
			}
		}
	}
	return longest
}

// whole is a volume or a claim as last seen in the API server.
func (c *connection) whole(res eventlog.Resource, namespace, name string) eventlog.Object {
	w := c.watcher.Load()
	if w == nil {
		return nil
	}
	return w.Whole(res, namespace, name)
}

// slower returns a client with a part of the rate.
func slower(config *rest.Config, share int) (kubernetes.Interface, error) {
	made, err := kubernetes.NewForConfig(client.Part(config, share))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return made, nil
}

// watch returns the watches, over the state that was recovered. following says that another process writes the log, and
// recorded where a recorder continues.
func (c *connection) watch(recovered *scheduler.Machine, following bool, recorded watch.Recorded) (*watch.Watch,
	error) {
	w, err := watch.New(watch.Options{
		Client: c.client, Config: c.rest, Known: recovered.Cluster().Objects(), Report: logNote,
		WholeNodes: len(c.config.Extenders) > 0, Own: c.config.PluginResources, Following: following,
		Recording: c.running.records, Recorded: recorded,
	})
	if err != nil {
		return nil, err
	}
	c.watcher.Store(w)
	return w, nil
}

// seen returns the pod's state in the API server, for its status.
func (c *connection) seen(uid types.UID) (status.Pod, bool) {
	w := c.watcher.Load()
	if w == nil {
		return status.Pod{}, false
	}
	p, ok := w.Pod(uid)
	return status.Pod{
		NodeName: p.NodeName, NominatedNodeName: p.NominatedNodeName, Scheduled: p.Scheduled,
		Generation: p.Generation, ResourceVersion: p.ResourceVersion, Terminating: p.Terminating,
	}, ok
}

// still gives the reason not to send an effect; nil if it is still to be sent.
func (c *connection) still(e engine.Effect) error {
	w := c.watcher.Load()
	if w == nil {
		return nil
	}
	p, ok := w.Pod(e.UID)
	return fits(e.Effect, p, ok, w.Node(e.Node))
}

// fits gives the reason not to send an effect, or nil: its pod and node, as last seen in the API server, no longer
// allow it.
func fits(e scheduler.Effect, p watch.Pod, there, node bool) error {
	switch {
	case !there:
		return errors.New("the pod is gone")
	case e.Kind != scheduler.Bind:
		return nil
	case p.Terminating:
		return errors.New("the pod is being deleted")
	case p.NodeName != "":
		return fmt.Errorf("the pod is on node %s", p.NodeName)
	case !node:
		return fmt.Errorf("node %s is gone", e.Node)
	}
	return nil
}

// count registers the metrics of the current connection, so that they are served from the first connection on.
func (p *clusterProcess) count() error {
	if p.counts != nil {
		return nil
	}
	p.counts = metrics.New(metrics.Sources{
		Watch:   func() *watch.Watch { return p.current.Load().watcher.Load() },
		Effects: func() effect.Counts { return p.current.Load().effects.Counts() },
		Status:  func() status.Counts { return p.current.Load().status.Counts() },
		Stage:   func() live.Stage { return live.Stage(p.stage.Load()) },
	})
	if err := legacyregistry.Registerer().Register(p.counts); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
