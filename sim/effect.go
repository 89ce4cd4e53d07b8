package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// carryOut carries out an effect, and keeps the resulting inputs for the next step.
func (c *Cluster) carryOut(ctx context.Context, e *engine.Effect) error {
	switch e.Kind {
	case scheduler.Bind:
		c.answers = append(c.answers, c.bind(e)...)
		return nil
	case scheduler.Evict:
		// A victim that has ended needs no eviction: its deletion is already an input.
		if i, there := c.live[e.UID]; there {
			c.answers = append(c.answers, c.endPod(i, eviction(e.Decision))...)
		}
		if _, stays := c.nodes.leaving[e.UID]; stays {
			c.answers = append(c.answers,
				&eventlog.EvictResult{UID: e.UID, Outcome: eventlog.EvictDone, Decision: e.Seq})
		}
		return nil
	case scheduler.GiveBack:
		c.answers = append(c.answers, c.giveBack(e)...)
		return nil
	case scheduler.Ask:
		return c.answer(ctx, e)
	}
	return fmt.Errorf("effect of unknown kind %d on pod %s/%s", e.Kind, e.Namespace, e.Name)
}

// answer asks the extenders about a pod, which may have ended. Answers from before a simulation is resumed are in its
// log.
func (c *Cluster) answer(ctx context.Context, e *engine.Effect) error {
	i, there := c.live[e.UID]
	if !there {
		return nil
	}
	if log, ok := c.scheduler.(*Resumption); ok {
		recorded, err := log.answerTo(e)
		if err != nil {
			return err
		}
		if recorded != nil {
			c.answers = append(c.answers, recorded)
			return nil
		}
	}
	if c.opts.Extenders == nil {
		return fmt.Errorf("HTTP extenders are asked about pod %s/%s, and the simulation has none", e.Namespace, e.Name)
	}
	result := &eventlog.ExtenderResult{UID: e.UID, Decision: e.Seq}
	if pod := c.build(i, e.Name); len(e.Candidates) > 0 {
		result.Answers = c.opts.Extenders.Preempt(ctx, pod, e.Candidates, c.podsAt(e.Candidates))
	} else {
		result.Answers = c.opts.Extenders.Ask(ctx, pod, e.Nodes)
	}
	if err := ctx.Err(); err != nil {
		return err // it is not an extender's answer
	}
	c.answers = append(c.answers, result)
	return nil
}

// podsAt returns, by node, the pods that may be named as victims on candidates: those on the node, and the victims,
// which may be elsewhere, or held in Permit.
func (c *Cluster) podsAt(candidates []eventlog.Candidate) map[string][]*corev1.Pod {
	pods := make(map[string][]*corev1.Pod, len(candidates))
	for _, at := range candidates {
		var on []int32
		if node := c.nodes.live[at.Node]; node != nil {
			on = slices.Sorted(maps.Keys(node.pods))
		}
		for _, uid := range at.Victims {
			if i, there := c.live[uid]; there && !slices.Contains(on, i) {
				on = append(on, i)
			}
		}
		for _, i := range on {
			pod := c.build(i, c.name(i).Name)
			if node := c.pods[i].node; node != nil {
				pod.Spec.NodeName = node.object.Name
			}
			pods[at.Node] = append(pods[at.Node], pod)
		}
	}
	return pods
}

// Node returns the present node of that name, nil if there is none. It must not be changed.
func (c *Cluster) Node(name string) *corev1.Node {
	if node := c.nodes.live[name]; node != nil {
		return node.object
	}
	return nil
}

// eviction returns the ending of a pod whose eviction the decision asked for. An unknown decision counts as a
// preemption.
func eviction(d *eventlog.Decision) ending {
	switch {
	case d == nil:
		return ending{how: report.Preempted}
	case d.Outcome == eventlog.Evicted:
		return ending{how: report.Evicted}
	case d.Group != "":
		return ending{how: report.Preempted, by: d.Namespace + "/" + d.Group}
	}
	return ending{how: report.Preempted, by: d.Namespace + "/" + d.Name}
}

// bind starts a pod on its node, or returns the reason why it cannot. The result is the only input about the pod.
func (c *Cluster) bind(e *engine.Effect) []eventlog.Payload {
	answer := func(outcome eventlog.BindOutcome, format string, args ...any) []eventlog.Payload {
		return []eventlog.Payload{
			&eventlog.BindResult{UID: e.UID, Node: e.Node, Outcome: outcome, Message: fmt.Sprintf(format, args...),
				Decision: e.Seq}}
	}
	i, there := c.live[e.UID]
	if !there {
		return answer(eventlog.BindConflict, "pod %s/%s is gone", e.Namespace, e.Name)
	}
	if on := c.pods[i].node; on != nil {
		if on.object.Name == e.Node {
			return answer(eventlog.BindBound, "")
		}
		return answer(eventlog.BindConflict, "pod %s/%s is bound to node %s", e.Namespace, e.Name, on.object.Name)
	}
	node := c.nodes.live[e.Node]
	if node == nil {
		return answer(eventlog.BindFailed, "node %s is gone", e.Node)
	}
	inputs, err := c.store.bindClaims(e.Namespace, e.Volumes, node.object, workload.Start.Add(c.now))
	if err != nil {
		return answer(eventlog.BindFailed, "%v", err)
	}
	claims := c.withClaims(i, c.name(i).Name)
	if claims == nil && len(e.Devices) > 0 {
		claims = c.build(i, c.name(i).Name) // a claim is made for it
	}
	if claims != nil {
		allocated, err := c.devices.bind(claims, e.Devices)
		if err != nil {
			return append(inputs, answer(eventlog.BindFailed, "%v", err)...)
		}
		inputs = append(inputs, allocated...)
	}
	if e.Binding != nil {
		// The virtual cluster binds the pod, whether DefaultBinder or another Bind plugin took it.
		status := e.Binding.Before(silent, framework.InOrder)
		if status == nil {
			_, status = e.Binding.Bind(silent)
		}
		if status != nil {
			result := &eventlog.BindResult{UID: e.UID, Node: e.Node, Decision: e.Seq}
			framework.BindFailure(result, status)
			if inputs = append(inputs, result); claims != nil {
				inputs = append(inputs, c.devices.release(claims, false)...)
			}
			return inputs
		}
	}
	c.start(i, node)
	if e.Binding != nil {
		e.Binding.PostBind(silent)
	}
	return append(inputs, answer(eventlog.BindBound, "")...)
}

// silent is the context of plugins.
var silent = framework.WithoutLogger(context.Background())

// due returns the inputs of this instant: first the results of carried-out effects, then the cluster's own events.
func (c *Cluster) due() ([]eventlog.Payload, error) {
	inputs := c.answers
	c.answers = nil
	for c.dropStale() && c.queue[0].at <= c.now {
		more, err := c.happen(c.queue.next())
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, more...)
	}
	bound, err := c.store.bindAtOnce(workload.Start.Add(c.now))
	return append(append(inputs, bound...), c.store.expand()...), err
}

// upserted makes the input for an object that came or changed.
func upserted(resource eventlog.Resource, o eventlog.Object) eventlog.Payload {
	return &eventlog.Upserted{Resource: resource, Object: o}
}
