package sim

import (
	"context"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// carryOut does what an effect asks for and keeps the inputs that tell of it for the next step.
func (c *Cluster) carryOut(e scheduler.Effect) error {
	switch e.Kind {
	case scheduler.Bind:
		c.answers = append(c.answers, c.bind(e)...)
		return nil
	case scheduler.Evict:
		// A victim that is gone needs no eviction: its deletion has been told.
		if i, there := c.live[e.UID]; there {
			c.answers = append(c.answers, c.endPod(i, c.eviction(e.Seq))...)
		}
		return nil
	case scheduler.Ask:
		return c.answer(e)
	}
	return fmt.Errorf("effect of unknown kind %d on pod %s/%s", e.Kind, e.Namespace, e.Name)
}

// answer asks the extenders about a pod, which may be gone.
func (c *Cluster) answer(e scheduler.Effect) error {
	if c.opts.Extenders == nil {
		return fmt.Errorf("extenders are asked about pod %s/%s: a simulation has none", e.Namespace, e.Name)
	}
	if i, there := c.live[e.UID]; there {
		pod := c.pods[i].template.DeepCopy()
		pod.Namespace, pod.Name, pod.UID = e.Namespace, e.Name, e.UID
		c.answers = append(c.answers, &eventlog.ExtenderResult{UID: e.UID, Decision: e.Seq,
			Answers: c.opts.Extenders(pod, e.Nodes)})
	}
	return nil
}

// eviction is how a pod ends whose eviction the decision at entry seq asked for. If nobody knows that decision it is
// taken for a preemption.
func (c *Cluster) eviction(seq uint64) ending {
	d := c.scheduler.Eviction(seq)
	switch {
	case d == nil:
		return ending{how: report.Preempted}
	case d.Outcome == eventlog.Evicted:
		return ending{how: report.Evicted}
	case d.Group != "":
		return ending{report.Preempted, d.Namespace + "/" + d.Group}
	}
	return ending{report.Preempted, d.Namespace + "/" + d.Name}
}

// bind starts a pod on its node, or says why it cannot. The pod is told of by the result alone.
func (c *Cluster) bind(e scheduler.Effect) []eventlog.Payload {
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
	node := c.nodes[e.Node]
	if node == nil {
		return answer(eventlog.BindFailed, "node %s is gone", e.Node)
	}
	inputs, err := c.store.bindClaims(e.Namespace, e.Volumes, node.object, workload.Start.Add(c.now))
	if err != nil {
		return answer(eventlog.BindFailed, "%v", err)
	}
	claims := c.withClaims(i, c.name(i).Name)
	if claims != nil {
		allocated, err := c.devices.bind(claims, e.Devices)
		if err != nil {
			return append(inputs, answer(eventlog.BindFailed, "%v", err)...)
		}
		inputs = append(inputs, allocated...)
	}
	cycle := c.scheduler.BindingCycle(e.UID)
	if cycle != nil {
		// The virtual cluster binds the pod, whether DefaultBinder or another Bind plugin took it.
		if _, status := cycle.Run(quiet, framework.InOrder); status != nil {
			result := &eventlog.BindResult{UID: e.UID, Node: e.Node, Decision: e.Seq}
			framework.BindFailure(result, status)
			if inputs = append(inputs, result); claims != nil {
				inputs = append(inputs, c.devices.release(claims, false)...)
			}
			return inputs
		}
	}
	c.start(i, node)
	if cycle != nil {
		cycle.PostBind(quiet)
	}
	return append(inputs, answer(eventlog.BindBound, "")...)
}

// quiet is the context of plugins.
var quiet = framework.Quiet(context.Background())
