package sim

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// DefaultIdleLimit is the virtual time that a simulation waits for a scheduler that has only time left to react to. It
// is three times the five minutes after which kube-scheduler tries every unschedulable pod again.
const DefaultIdleLimit = 15 * time.Minute

// latest is the latest offset at which something can happen: no duration after it leaves the range of a log's time.
const latest = 190 * 365 * 24 * time.Hour

// maxIdleSteps is the largest number of wake-ups in a row, at one instant, in which a scheduler may do nothing.
const maxIdleSteps = 100

// Options are the choices of a simulation.
type Options struct {
	// Until ends the simulation at that offset; events at it still happen. 0 means to run until no more events can
	// happen.
	Until time.Duration
	// IdleLimit ends the simulation once no further event of the virtual cluster is planned and the scheduler, woken by
	// time alone, has done nothing for this virtual time. 0 is DefaultIdleLimit.
	IdleLimit time.Duration
	// Requeue selects the pods that come again after they were preempted, lost or evicted.
	Requeue Requeue
	// Singles keeps the times of pods of no group too, for Report. It costs 56 bytes a pod.
	Singles bool
	// Timeline keeps the data for Timeline.
	Timeline bool
	// GroupClaims says that PodGroups have claims: the feature gate DRAWorkloadResourceClaims of the configuration.
	GroupClaims bool
	// Extenders are the HTTP extenders of the configuration; nil if it has none. They are called while the virtual
	// clock stands still, one question after the other.
	Extenders Extenders
}

// Extenders answer questions about pods. They must not change the pods.
type Extenders interface {
	// Ask asks about a pod and nodes, sorted.
	Ask(ctx context.Context, pod *corev1.Pod, nodes []string) []eventlog.ExtenderAnswer
	// Preempt asks about candidates, sorted by node, for the preemption of pods by a pod. pods are, by node, the pods
	// that may be named as victims.
	Preempt(ctx context.Context, pod *corev1.Pod, candidates []eventlog.Candidate, pods map[string][]*corev1.Pod,
	) []eventlog.ExtenderAnswer
}

// Progress is the progress of a simulation.
type Progress struct {
	// Now is the virtual time.
	Now time.Time
	// Pods is the number of pods of the workload. Arrived, Bound and Ended count the ones that have arrived, were ever
	// bound, and have ended permanently.
	Pods, Arrived, Bound, Ended int
}

// Cluster is a virtual cluster. It is used by one goroutine and runs once.
type Cluster struct {
	opts  Options
	work  *workload.Workload
	queue schedule
	// now is the present offset; lastActivity is the last one at which something other than a wake-up happened.
	now, lastActivity time.Duration

	nodes  nodes
	pods   []podState
	live   map[types.UID]int32
	names  podNames
	quotas quotas
	drains drains
	// befallen records what happened to pods that were preempted, lost or evicted, by their index.
	befallen map[int32]*befallen
	// unbound are templates of pods that arrived with a node, or with a status, as their controller has them.
	unbound    map[*corev1.Pod]*corev1.Pod
	batches    map[*workload.Batch]*batchState
	groups     []groupState
	groupIndex map[types.NamespacedName]int32
	store      storage
	devices    claimController

	// answers are the inputs caused by carried-out effects, for a step at the same instant.
	answers []eventlog.Payload
	account report.Account
	// singles has the times of pods without a group, by the pod's index; nil without Options.Singles.
	singles  []report.Times
	timeline *report.Timeline // nil without Options.Timeline
	// scheduler is the running scheduler; nil before Run.
	scheduler Scheduler
}

// phase is a stage in a pod's life.
type phase uint8

const (
	planned phase = iota
	pending
	running
	gone
)

// podState is the cluster's record of a pod.
type podState struct {
	phase phase
	// group is the index of its group, -1 for none.
	group int32
	// arrived, bound, and ends if it is running and does not run for ever (then 0), are offsets.
	arrived, bound, ends time.Duration
	node                 *liveNode
	// queued says that it is in the scheduler's queue, and placed that it was ever bound.
	queued, placed bool
	// ended is its outcome, once it has ended.
	ended report.Outcome
	// uid is the pod's UID while it exists.
	uid types.UID
	// template is the present pod, except for its identity.
	template *corev1.Pod
}

// batchState is a Batch's running count and the plans that wait for their turn.
type batchState struct {
	waiting []int32
}

// groupState is the cluster's record of a group.
type groupState struct {
	name types.NamespacedName
	// objects are the objects that declare it, in the order of cluster.GroupResources. Without one, asked is the
	// minimum that its members ask for, 0 for none.
	objects []groupObject
	asked   int
	counted bool // among the gangs whose waits the summary has
	// planned says that the workload declares it a gang; need is the last minimum that was known.
	planned bool
	need    int
	// left counts planned members that have not ended permanently, and arrived the ones that have arrived. running,
	// completed and pending count the ones that run, have run to their end, and wait; queued the ones in the
	// scheduler's queue.
	left, arrived, running, completed, pending, queued int
	// waits says that it is counted as a gang that waits.
	waits bool
	// stands says that the group has its minimum on nodes, or completed, since stoodAt. If it fell below, that was at
	// fellAt, and cause is the outcome of the member with which it fell. For a group that never had its minimum, it is
	// the last member's outcome.
	stands          bool
	stoodAt, fellAt time.Duration
	cause           report.Outcome
	// broken counts the losses of its minimum, by their cause.
	broken struct{ preempted, lost, evicted int }
	report.Times
}

type groupObject struct {
	resource eventlog.Resource
	uid      types.UID
	minimum  int // 0 for a group that asks for none
}

// minimum is the number of members needed at once, 0 if it is unknown; gang is false for a group without a minimum,
// which is placed when one of its members is.
func (g *groupState) minimum() (n int, gang bool) {
	if len(g.objects) > 0 {
		return max(1, g.objects[0].minimum), g.objects[0].minimum > 0
	}
	return g.asked, g.asked > 0
}

// New checks the plans and makes the cluster that they describe. An error names the plan that is wrong.
func New(nodes []workload.NodePlan, work *workload.Workload, opts Options) (*Cluster, error) {
	if opts.IdleLimit == 0 {
		opts.IdleLimit = DefaultIdleLimit
	}
	if opts.Until < 0 || opts.IdleLimit < 0 {
		return nil, fmt.Errorf("negative option: until %s, idle limit %s", opts.Until, opts.IdleLimit)
	}
	if len(nodes) > workload.MaxNodes || len(work.Pods) > workload.MaxPods {
		return nil, fmt.Errorf("%d nodes and %d pods: at most %d and %d can be simulated", len(nodes), len(work.Pods),
			workload.MaxNodes, workload.MaxPods)
	}
	c := &Cluster{
		opts: opts, work: work,
		nodes:      newNodes(nodes),
		pods:       make([]podState, len(work.Pods)),
		live:       map[types.UID]int32{},
		names:      newPodNames(),
		quotas:     newQuotas(work),
		drains:     newDrains(),
		befallen:   map[int32]*befallen{},
		unbound:    map[*corev1.Pod]*corev1.Pod{},
		batches:    map[*workload.Batch]*batchState{},
		groupIndex: map[types.NamespacedName]int32{},
		store:      newStorage(),
		devices:    newClaimController(work, opts),
		account:    report.NewAccount(),
	}
	if opts.Singles {
		c.singles = make([]report.Times, len(work.Pods))
	}
	if opts.Timeline {
		c.timeline = report.NewTimeline()
	}
	events, err := c.nodes.plan()
	if err != nil {
		return nil, err
	}
	c.queue = events
	for i, o := range work.Objects {
		if err := workload.CheckOffset(o.At); err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Resource, workload.ObjectName(o.Object), err)
		}
		if err := c.devices.checkGroup(o.Object); err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Resource, workload.ObjectName(o.Object), err)
		}
		c.queue = append(c.queue, event{at: o.At, kind: objectChanges, index: int32(i)})
		if _, gang := workload.GroupMinimum(o.Object); gang && !o.Delete {
			name := types.NamespacedName{Namespace: o.Object.GetNamespace(), Name: o.Object.GetName()}
			c.groups[c.group(name)].planned = true
		}
	}
	if err := c.planPods(); err != nil {
		return nil, err
	}
	heap.Init(&c.queue)
	return c, nil
}

// planPods queues the pods' arrivals and counts the groups' members.
func (c *Cluster) planPods() error {
	started := map[*workload.Batch]int{}
	for i := range c.work.Pods {
		p := &c.work.Pods[i]
		if err := p.Check(); err != nil {
			return fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		if err := c.devices.check(p.Namespace, p.Template); err != nil {
			return fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		state := &c.pods[i]
		state.group, state.template = -1, p.Template
		if key, ok := p.Group(); ok {
			state.group = c.group(key)
			g := &c.groups[state.group]
			g.left++
			g.planned = g.planned || cluster.MemberMinimum(p.Template) > 0
		}
		if b := p.Batch; b != nil {
			if c.batches[b] == nil {
				c.batches[b] = &batchState{}
			}
			if started[b] >= b.Parallelism {
				c.batches[b].waiting = append(c.batches[b].waiting, int32(i))
				continue
			}
			started[b]++
		}
		c.queue = append(c.queue, event{at: p.Arrival, kind: podArrives, index: int32(i)})
	}
	return nil
}

// group returns the index of the group's state. It makes the state if there is none.
func (c *Cluster) group(name types.NamespacedName) int32 {
	if i, ok := c.groupIndex[name]; ok {
		return i
	}
	i := int32(len(c.groups))
	c.groupIndex[name] = i
	c.groups = append(c.groups, groupState{name: name})
	return i
}

// Run drives s from Start until no more events can happen, or until Options.Until. After every step it calls progress,
// if that is not nil. The summary has everything but the scheduler's own speed; see Summary.Measured. An error is
// ctx's or the scheduler's, or says that the scheduler broke a rule.
func (c *Cluster) Run(ctx context.Context, s Scheduler, progress func(Progress)) (report.Summary, error) {
	c.scheduler = s
	idle, wake := 0, time.Time{}
	for {
		if err := ctx.Err(); err != nil {
			return report.Summary{}, fmt.Errorf("simulate: %w", err)
		}
		t, ok := c.nextInstant(wake)
		if !ok {
			break
		}
		if t > latest {
			return report.Summary{}, fmt.Errorf("simulate: the next event would come %.0f years after the start, "+
				"and a "+
				"log's time ends before that: shorten the durations, or end with --until", t.Hours()/24/365)
		}
		if t > c.now {
			idle = 0
		}
		c.setTime(t)
		inputs, err := c.due()
		if err != nil {
			return report.Summary{}, fmt.Errorf("simulate %s: %w", workload.Start.Add(t).Format(time.RFC3339Nano), err)
		}
		ready, err := s.Step(ctx, workload.Start.Add(t), inputs)
		if err != nil {
			return report.Summary{}, fmt.Errorf("simulate %s: %w", workload.Start.Add(t).Format(time.RFC3339Nano), err)
		}
		wake = ready.Wake
		if len(inputs) > 0 || len(ready.Effects) > 0 {
			idle = 0
			c.noteActivity()
		} else if idle++; idle > maxIdleSteps {
			return report.Summary{},
				fmt.Errorf("simulate %s: the scheduler asked %d times to be woken now and did nothing",
					workload.Start.Add(t).Format(time.RFC3339Nano), idle)
		}
		for i := range ready.Effects {
			if err := c.carryOut(ctx, &ready.Effects[i]); err != nil {
				return report.Summary{},
					fmt.Errorf("simulate %s: %w", workload.Start.Add(t).Format(time.RFC3339Nano), err)
			}
		}
		if c.timeline != nil {
			c.timeline.Sample(c.now, &c.account, c.scheduler.Reservations())
		}
		if progress != nil {
			progress(c.progress())
		}
	}
	c.countRest()
	if c.timeline != nil {
		c.timeline.Finish(c.lastActivity)
	}
	return c.account.Summary(workload.Start, c.lastActivity, c.results()), nil
}

// progress returns the progress of the simulation.
func (c *Cluster) progress() Progress {
	p := Progress{Now: workload.Start.Add(c.now), Pods: len(c.pods)}
	p.Arrived, p.Bound, p.Ended = c.account.Progress()
	return p
}

// nextInstant returns when the next step is, at the latest when the scheduler is to be woken; ok is false at the end of
// the simulation.
func (c *Cluster) nextInstant(wake time.Time) (t time.Duration, ok bool) {
	if len(c.answers) > 0 {
		return c.now, true
	}
	own := c.dropStale()
	if own {
		t, ok = c.queue[0].at, true
	}
	if !wake.IsZero() {
		w := max(c.now, wake.Sub(workload.Start))
		if !own && w-c.lastActivity > c.opts.IdleLimit {
			return 0, false
		}
		if !ok || w < t {
			t, ok = w, true
		}
	}
	if ok && c.opts.Until > 0 && t > c.opts.Until {
		c.setTime(c.opts.Until)
		c.noteActivity()
		return 0, false
	}
	return t, ok
}

// dropStale removes events at the head of the queue that no longer have an effect. It returns false if none is left.
func (c *Cluster) dropStale() bool {
	for len(c.queue) > 0 {
		if !c.stale(c.queue[0]) {
			return true
		}
		c.queue.next()
	}
	return false
}

// stale reports whether an event no longer has an effect.
func (c *Cluster) stale(e event) bool {
	switch e.kind {
	case podEnds:
		p := &c.pods[e.index]
		return p.phase != running || p.ends != e.at || p.node.silent
	case podTainted:
		p := &c.pods[e.index]
		return p.phase != running || !p.node.evicts(e.index, e.at)
	case podDeadline, podChanges:
		phase := c.pods[e.index].phase
		return phase == gone
	case nodeChanges:
		// Changes planned before the node joins have no effect.
		return e.at < c.nodes.plans[e.index].Joins || c.nodes.plans[e.index].Fails != 0 &&
			e.at > c.nodes.plans[e.index].Fails
	}
	return false
}

// setTime moves the clock on to t.
func (c *Cluster) setTime(t time.Duration) {
	c.account.Pass(t - c.now)
	c.now = t
}

// noteActivity notes that something other than a wake-up of the scheduler happened now.
func (c *Cluster) noteActivity() {
	c.lastActivity = c.now
	c.account.Moved()
}

// happen lets one event happen and returns its inputs.
func (c *Cluster) happen(e event) ([]eventlog.Payload, error) {
	switch e.kind {
	case nodeJoins:
		return c.nodeJoins(e.index), nil
	case nodeChanges:
		return c.changeNode(e.index, e.sub), nil
	case nodeFails:
		return c.nodeFails(e.index), nil
	case nodeSilent:
		if live := c.nodes.exists(e.index); live != nil {
			live.silent = true
		}
		return nil, nil
	case nodeDrains:
		return c.drains.attempt(c, e.index), nil
	case podTainted:
		return c.endPod(e.index, ending{how: report.Lost, reason: byTaint}), nil
	case objectChanges:
		return c.objectChanges(c.work.Objects[e.index])
	case podArrives:
		return c.podArrives(e.index)
	case podChanges:
		return c.podChanges(e.index, e.sub)
	case podEnds:
		return c.endPod(e.index, ending{how: plannedEnd(&c.work.Pods[e.index])}), nil
	case podDeadline:
		return c.endPod(e.index, ending{how: report.Withdrawn}), nil
	}
	panic(fmt.Sprintf("event of unknown kind %d", e.kind))
}
