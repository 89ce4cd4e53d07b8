package throughput

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/bench/yardstick"
	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// nodeBatch is the number of nodes in one Step.
const nodeBatch = 1000

// stuck is the time without a placement after which the rest is given up.
const stuck = 30 * time.Second

// drive feeds the engine and books which entries become durable, and when. The next batch is decided while the one
// before is made durable. The binds of a batch are answered with the batch after the next one, never sooner, so that
// the decisions do not depend on the speed of the disk.
type drive struct {
	Options
	log    madeLog
	engine *engine.Engine

	effects []engine.Effect // given out, and not carried out yet
	carried uint64          // the entry up to which effects are carried out
	wake    time.Time       // when time alone makes work; zero for never

	answers []eventlog.Payload // results of binds, for the engine's next inputs
	given   []time.Time        // the time at which the engine got each pod, by its number
	placed  []placement        // by the pod's number

	devices workload.InUse // with DRA: the devices of bound pods

	evicted  []int32         // by the runner's number: the order at its end, 0 for none
	evictors map[string]bool // the gangs that needed evictions

	bound, ended int
	settled      int // pods whose placement is durable, and no longer waits for anything
	order        int // placements so far
	decisions    int
	unbooked     error // why book has failed
	latencies    []time.Duration
}

// placement is the last place that a decision gave a pod.
type placement struct {
	node, order int32 // order from 1; 0: it has none
	ended       int32 // the order at its end, 0 for none
	timed       bool  // its latency was taken
	settled     bool
	bound       bool
	devices     *resourcev1.AllocationResult // with DRA: its claim's devices
}

func newDrive(o Options, log madeLog) *drive {
	all := o.Pods + o.Idle
	return &drive{Options: o, log: log, given: make([]time.Time, all), placed: make([]placement, all),
		evicted: make([]int32, o.Runners()), evictors: map[string]bool{}, devices: workload.InUse{},
		latencies: make([]time.Duration, 0, all)}
}

// take books what became durable, in the log's order, and takes on the effects. It is given what a call of the engine
// returns: also with an error there may be something that became durable before.
func (d *drive) take(ready engine.Ready, err error) error {
	for _, c := range ready.Commits {
		if d.unbooked = d.book(c); d.unbooked != nil {
			return errors.Join(d.unbooked, err)
		}
	}
	d.effects, d.wake = append(d.effects, ready.Effects...), ready.Wake
	return err
}

// book books what an append made durable.
func (d *drive) book(c engine.Commit) error {
	for i := range c.Entries {
		switch p := c.Entries[i].Payload.(type) {
		case *eventlog.Decision:
			if err := d.note(p, c.At); err != nil {
				return err
			}
		case *eventlog.Deleted:
			if p.Resource != eventlog.Pods {
				continue
			}
			d.order++
			if i, ok := workload.RunnerIndex(p.UID); ok && i < len(d.evicted) {
				d.evicted[i] = int32(d.order)
				continue
			}
			pod, _, err := d.pod(p.UID)
			if err != nil {
				return err
			}
			pod.ended = int32(d.order)
		}
	}
	return nil
}

// note books a decision that is durable.
func (d *drive) note(decision *eventlog.Decision, at time.Time) error {
	d.decisions++
	if len(decision.Victims) > 0 {
		d.evictors[decision.Group] = true
	}
	for _, uid := range decision.Rejected {
		p, _, err := d.pod(uid)
		if err != nil {
			return err
		}
		p.order = 0
	}
	for _, uid := range decision.Allowed {
		if err := d.countFinal(uid); err != nil {
			return err
		}
	}
	if decision.Outcome != eventlog.Scheduled && decision.Outcome != eventlog.Waiting {
		return nil
	}
	node, err := workload.NodeIndex(decision.Node)
	if err != nil {
		return err
	}
	p, i, err := d.pod(decision.UID)
	if err != nil {
		return err
	}
	if decision.Outcome == eventlog.Scheduled {
		if err := d.countFinal(decision.UID); err != nil {
			return err
		}
	}
	if p.order != 0 && p.node == int32(node) {
		return nil // what waited continues
	}
	d.order++
	if !p.timed {
		p.timed = true
		d.latencies = append(d.latencies, at.Sub(d.given[i]))
	}
	p.node, p.order = int32(node), int32(d.order)
	return nil
}

// countFinal counts a pod whose placement is final.
func (d *drive) countFinal(uid types.UID) error {
	p, _, err := d.pod(uid)
	if err != nil {
		return err
	}
	if !p.settled {
		p.settled = true
		d.settled++
	}
	return nil
}

// pod returns the record of the pod with that UID, and its number.
func (d *drive) pod(uid types.UID) (*placement, int, error) {
	i, err := workload.Index(uid)
	if err != nil || i >= len(d.placed) {
		return nil, 0, fmt.Errorf("the engine speaks of a pod %s, which was never given to it: %w", uid, err)
	}
	return &d.placed[i], i, nil
}

// load gives the engine the nodes.
func (d *drive) load(ctx context.Context) error {
	for first := 0; first < d.Nodes; first += nodeBatch {
		var inputs []eventlog.Payload
		if first == 0 {
			for _, n := range d.Namespaces() {
				inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Namespaces, Object: n})
			}
		}
		if d.DRA && first == 0 {
			inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.DeviceClasses, Object: d.Class()})
		}
		for i := first; i < min(first+nodeBatch, d.Nodes); i++ {
			inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Nodes, Object: d.Node(i)})
			if d.DRA {
				inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.ResourceSlices, Object: d.Slice(i)})
			}
		}
		if err := d.giveAndWait(ctx, inputs); err != nil {
			return err
		}
		d.progress("loading nodes", min(first+nodeBatch, d.Nodes), d.Nodes)
	}
	return d.loadRunners(ctx)
}

// loadRunners gives the engine the pods that run from the beginning.
func (d *drive) loadRunners(ctx context.Context) error {
	var inputs []eventlog.Payload
	for g := range d.RunnerGroups() {
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.PodGroups, Object: d.RunnerGroup(g)})
	}
	for i := range d.Runners() {
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: d.Runner(i)})
		if len(inputs) < nodeBatch && i+1 < d.Runners() {
			continue
		}
		if err := d.giveAndWait(ctx, inputs); err != nil {
			return err
		}
		inputs = nil
		d.progress("loading pods", i+1, d.Runners())
	}
	return nil
}

// pods gives the engine the workload, batch after batch. It returns when all binds are answered and the answers are
// durable. When the limit is over it stops the engine in the middle of its work; the engine cannot be used afterwards.
func (d *drive) pods(ctx context.Context, began time.Time) error {
	if d.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, began.Add(d.Limit), errLimit)
		defer cancel()
	}
	err := d.feed(ctx, began)
	var failed *engine.AppendError
	if errors.Is(context.Cause(ctx), errLimit) && !errors.As(err, &failed) && d.unbooked == nil {
		return nil
	}
	return err
}

// errLimit is the cause of a context whose time is over.
var errLimit = errors.New("the time to measure is over")

func (d *drive) feed(ctx context.Context, began time.Time) error {
	moved, seen := began, 0
	for next := 0; d.bound < d.Pods || len(d.answers) > 0 || d.inFlight(); {
		until := d.until(next)
		if !d.hasRoom(next, until) {
			if err := d.carryOutAll(); err != nil { // this may bind pods that have to end
				return err
			}
		}
		inputs := d.answers
		d.answers = nil
		inputs = d.end(inputs, next, until)
		inputs = d.arrive(inputs, next, until)
		next = until
		if len(inputs) == 0 && d.inFlight() {
			if err := d.carryOutAll(); err != nil {
				return err
			}
			continue
		}
		if len(inputs) == 0 {
			if time.Since(moved) > stuck {
				return nil
			}
			if err := d.sleep(ctx); err != nil {
				return err
			}
		}
		if err := d.give(ctx, inputs); err != nil {
			return err
		}
		if d.bound > seen {
			moved, seen = time.Now(), d.bound
		}
		d.progress("placing pods", d.bound, d.Pods)
	}
	return nil
}

// until returns the number after the last pod that comes in one batch with pod next.
func (d *drive) until(next int) int {
	return d.Spec.Until(workload.Turns{Stay: d.Stay, Batch: d.Batch}, next)
}

// arrive adds the pods from number next up to until, with their groups.
func (d *drive) arrive(inputs []eventlog.Payload, next, until int) []eventlog.Payload {
	now := time.Now()
	for i := next; i < until; i++ {
		if g, ok := d.Begins(i); ok {
			inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.PodGroups, Object: d.Group(g)})
		}
		inputs = d.arrivePod(inputs, i)
		d.given[i] = now
	}
	return inputs
}

// arrivePod adds a pod, behind the claim that was made for it.
func (d *drive) arrivePod(inputs []eventlog.Payload, i int) []eventlog.Payload {
	if d.DRA {
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: d.Claim(i)})
	}
	return append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: d.Pod(i)})
}

// here is the number of bound pods that have not ended.
func (d *drive) here() int { return d.bound - d.ended }

// hasRoom reports whether all the pods are bound that have to end before the pods from number next up to until come.
func (d *drive) hasRoom(next, until int) bool {
	for i := d.ended; i < min(until-d.Stay, next); i++ {
		if !d.placed[i].bound {
			return false
		}
	}
	return true
}

// end adds the ends of the oldest pods before number next, so that there is room for the pods up to until.
func (d *drive) end(inputs []eventlog.Payload, next, until int) []eventlog.Payload {
	for until-d.ended > d.Stay && d.ended < next {
		first, end := d.ended, d.Together(d.ended)
		for i := first; i < end; i++ {
			if !d.placed[i].bound {
				return inputs // the oldest waits for its node
			}
		}
		for i := first; i < end; i++ {
			inputs = append(inputs, deleted(eventlog.Pods, d.Pod(i)))
			if d.DRA { // the claim was made for the pod, and ends with it
				inputs = append(inputs, deleted(eventlog.ResourceClaims, d.Claim(i)))
				d.free(i)
			}
		}
		if g, ok := d.Begins(first); ok {
			inputs = append(inputs, deleted(eventlog.PodGroups, d.Group(g)))
		}
		d.ended = end
	}
	return inputs
}

func deleted(resource eventlog.Resource, o eventlog.Object) *eventlog.Deleted {
	return &eventlog.Deleted{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
}

// idle gives the engine one pod after the other, each when no work is left.
func (d *drive) idle(ctx context.Context, r *Result) error {
	if d.Idle == 0 || d.bound < d.Pods {
		return nil
	}
	d.latencies = d.latencies[:0]
	for i := d.Pods; i < d.Pods+d.Idle; i++ {
		d.given[i] = time.Now()
		if err := d.giveAndWait(ctx, d.arrivePod(nil, i)); err != nil {
			return err
		}
		answers := d.answers
		d.answers = nil
		if err := d.giveAndWait(ctx, answers); err != nil {
			return err
		}
		d.progress("one pod at a time", i-d.Pods+1, d.Idle)
	}
	r.IdlePods = len(d.latencies)
	r.IdleP50, r.IdleP99 = Percentiles(d.latencies)
	return nil
}

// giveAndWait gives the engine inputs, and carries out what it decided.
func (d *drive) giveAndWait(ctx context.Context, inputs []eventlog.Payload) error {
	if err := d.take(d.engine.Step(ctx, time.Now(), inputs)); err != nil {
		return err
	}
	return d.carryOut(d.engine.Machine().Seq())
}

// give gives the engine inputs, and then waits for the effects of earlier decisions and carries them out.
func (d *drive) give(ctx context.Context, inputs []eventlog.Payload) error {
	before := d.engine.Machine().Seq()
	if err := d.take(d.engine.Advance(ctx, time.Now(), inputs)); err != nil {
		return err
	}
	return d.await(before)
}

// inFlight reports whether there may be effects that are not carried out yet.
func (d *drive) inFlight() bool { return d.carried < d.engine.Machine().Seq() }

// carryOutAll waits for the effects of all decisions, and carries them out.
func (d *drive) carryOutAll() error { return d.await(d.engine.Machine().Seq()) }

// await waits until entry seq is durable, and carries out the effects up to it.
func (d *drive) await(seq uint64) error {
	if err := d.take(d.engine.Await(seq)); err != nil {
		return err
	}
	return d.carryOut(seq)
}

// carryOut carries out the effects up to entry seq, which are durable: a bind does nothing, and is answered at once;
// an evicted pod is deleted.
func (d *drive) carryOut(seq uint64) error {
	d.carried = seq
	n := 0
	for i := range d.effects {
		effect := &d.effects[i].Effect
		if effect.Seq > seq {
			break
		}
		n++
		if effect.Kind != scheduler.Bind {
			if err := d.evict(effect); err != nil {
				return err
			}
			continue
		}
		p, i, err := d.pod(effect.UID)
		if err != nil {
			return err
		}
		if err := d.allocate(p, i, effect); err != nil {
			return err
		}
		p.bound = true
		d.bound++
		d.answers = append(d.answers,
			&eventlog.BindResult{UID: effect.UID, Node: effect.Node, Outcome: eventlog.BindBound})
	}
	d.effects = slices.Delete(d.effects, 0, n)
	return nil
}

// evict ends a runner.
func (d *drive) evict(effect *scheduler.Effect) error {
	i, ok := workload.RunnerIndex(effect.UID)
	if !ok || i >= len(d.evicted) {
		return fmt.Errorf("the scheduler evicts pod %s, for which the workload gives no reason", effect.Name)
	}
	d.answers = append(d.answers, deleted(eventlog.Pods, d.Runner(i)))
	return nil
}

// allocate writes the devices of a bind into the pod's claim, as a scheduler does before it binds the pod.
func (d *drive) allocate(p *placement, i int, bind *scheduler.Effect) error {
	if !d.DRA {
		return nil
	}
	claim := d.Claim(i)
	if len(bind.Devices) != 1 || bind.Devices[0].Claim != claim.Name || bind.Devices[0].UID != claim.UID {
		return fmt.Errorf("pod %s is to be bound with the claims %v, want %s", bind.Name, bind.Devices, claim.Name)
	}
	allocation, err := bind.Devices[0].Result()
	if err != nil {
		return err
	}
	if err := d.devices.Take(bind.UID, bind.Node, allocation); err != nil {
		return err
	}
	p.devices = allocation
	d.answers = append(d.answers,
		&eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: d.Allocated(i, allocation)})
	return nil
}

// free takes back the device of a pod that ends.
func (d *drive) free(i int) {
	p := &d.placed[i]
	if err := d.devices.Leave(d.Pod(i).UID, p.devices); err != nil {
		panic("throughput: " + err.Error()) // allocate has taken it for this pod
	}
	p.devices = nil
}

// sleep waits until time makes work.
func (d *drive) sleep(ctx context.Context) error {
	pause := 100 * time.Millisecond
	if !d.wake.IsZero() {
		pause = min(pause, time.Until(d.wake))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// evictions is the number of evicted runners.
func (d *drive) evictions() (n int) {
	for _, order := range d.evicted {
		if order > 0 {
			n++
		}
	}
	return n
}

func (d *drive) progress(doing string, done, of int) {
	if d.Progress != nil {
		d.Progress(doing, done, of)
	}
}

// events are the placements of bound pods, the ends of pods, and the ends of runners, in order.
func (d *drive) events() []yardstick.Event {
	slots := make([]yardstick.Event, d.order+1)
	used := make([]bool, d.order+1)
	for i, p := range d.placed {
		if !p.settled {
			continue
		}
		slots[p.order], used[p.order] = yardstick.Event{Pod: int32(i), Node: p.node}, true
		if p.ended > 0 {
			slots[p.ended], used[p.ended] = yardstick.Event{Pod: int32(i), Node: p.node, Left: true}, true
		}
	}
	for i, order := range d.evicted {
		if order > 0 {
			slots[order], used[order] = yardstick.Event{Pod: int32(i), Node: int32(d.RunnerNode(i)), Left: true,
				Runner: true}, true
		}
	}
	events := slots[:0]
	for i, e := range slots {
		if used[i] {
			events = append(events, e)
		}
	}
	return events
}
