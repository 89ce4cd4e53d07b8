package effect

import (
	"context"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

// asking is a question to extenders on its way.
type asking struct {
	*Effects
	engine.Effect
}

// ask asks, beside the workers: a slow extender holds up no bind. A drain does not wait for the answer: the next
// process asks again.
func (a *asking) ask(ctx context.Context) turn {
	if a.opts.Extenders == nil {
		panic(fmt.Sprintf("extenders are to be asked about pod %s/%s, and there are none", a.Namespace, a.Name))
	}
	result := &eventlog.ExtenderResult{UID: a.UID, Decision: a.Seq}
	done := a.beside(ctx, func(ctx context.Context) {
		if len(a.Candidates) > 0 {
			result.Answers = a.opts.Extenders.Preempt(ctx, a.Pod, a.Candidates, a.Pods)
			return
		}
		result.Answers = a.opts.Extenders.Ask(ctx, a.Pod, a.Nodes)
	})
	return turn{until: done, idle: true, next: func(context.Context) turn { return ended(result) }}
}

// bindByExtender has the extender bind the pod that is to, if there is one. bindBy is next if there is none, or if it
// may be ignored and failed. Whatever an extender answers, the pod is read before the result.
func (b *binding) bindByExtender(ctx context.Context) turn {
	extenders := b.opts.Extenders
	if extenders == nil || b.Pod == nil || !extenders.Binds(b.Pod) {
		return turn{next: b.bindBy}
	}
	if err := b.opts.Still(b.Effect); err != nil {
		return b.fail(err)
	}
	var by string
	var err error
	done := b.beside(ctx, func(ctx context.Context) { by, err = extenders.Bind(ctx, b.Pod, b.Node) })
	return turn{until: done, next: func(context.Context) turn {
		switch {
		case err == nil && by == "":
			return turn{next: b.bindBy}
		case err == nil:
			err = fmt.Errorf("extender %s says that it has bound the pod, and it is not bound", by)
		default:
			err = fmt.Errorf("extender %s: %w", by, err)
		}
		b.refused = fwk.AsStatus(err).WithPlugin(framework.ExtenderName)
		return b.fail(err)
	}}
}
