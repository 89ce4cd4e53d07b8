package effect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
)

// preBind has the plugins of the binding cycle do their work before the bind, beside the workers: a plugin may wait for
// as long as it likes, and holds up nobody else. It is broken off when the bind no longer needs to be sent. A drain
// gives it up without a result. bindByExtender is next.
func (b *binding) preBind(ctx context.Context) turn {
	if b.Binding == nil {
		return turn{next: b.bindByExtender}
	}
	var status *fwk.Status
	var needless error
	done := b.beside(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go b.watch(ctx, cancel)
		if status = b.Binding.Before(ctx, atOnce); status != nil && ctx.Err() != nil {
			needless = context.Cause(ctx)
		}
	})
	return turn{until: done, idle: true, next: func(context.Context) turn {
		switch {
		case needless != nil:
			return b.fail(needless)
		case status != nil:
			b.refused = status
			return b.fail(status.AsError())
		}
		return turn{next: b.bindByExtender}
	}}
}

// bindBy has the Bind plugins bind the pod, if one takes it. send is next if none does.
func (b *binding) bindBy(ctx context.Context) turn {
	if b.Binding == nil {
		return turn{next: b.send}
	}
	var by string
	var status *fwk.Status
	done := b.beside(ctx, func(ctx context.Context) { by, status = b.Binding.Bind(ctx) })
	return turn{until: done, next: func(context.Context) turn {
		if status == nil && by == "" {
			return turn{next: b.send}
		}
		if status == nil { // it has the last word that the pod is bound
			status = fwk.AsStatus(fmt.Errorf("plugin %q says that it has bound the pod, and it is not bound", by)).
				WithPlugin(by)
		}
		b.refused = status
		return b.fail(status.AsError())
	}}
}

// beside calls do in a goroutine of its own, and returns a context that ends when do has returned. The context ends
// together with Run's context.
func (e *Effects) beside(ctx context.Context, do func(context.Context)) <-chan struct{} {
	done := make(chan struct{})
	e.plugins.Go(func() {
		defer close(done)
		do(framework.WithoutLogger(ctx))
	})
	return done
}

// pluginGrace is the time that Run waits at its end for plugins, whose contexts have ended then.
const pluginGrace = 5 * time.Second

// awaitPlugins waits until no plugin is at work, for pluginGrace at the most.
func (e *Effects) awaitPlugins() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.plugins.Wait()
	}()
	select {
	case <-done:
	case <-time.After(pluginGrace):
		e.opts.Report("plugins are still at work on binds: they do not heed that their context has ended")
	}
}

// watch ends the work of plugins for a pod that no longer needs a bind, or when the process is to end.
func (b *binding) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		err := b.opts.Still(b.Effect)
		if err == nil && b.isDraining() {
			err = errors.New("the scheduler ends")
		}
		if err != nil {
			cancel(err)
			return
		}
		tick := make(chan struct{})
		b.opts.Clock.AfterFunc(pollVolumes, func() { close(tick) })
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

func (e *Effects) isDraining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// atOnce is a framework.Together that makes all calls at the same time.
func atOnce(calls []func()) {
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
	}
	all.Wait()
}

// bound is the result of a bind that succeeded, after the plugins have heard it.
func (b *binding) bound(ctx context.Context) turn {
	if b.Binding == nil {
		return b.stands(ctx)
	}
	done := b.beside(ctx, b.Binding.PostBind) // also if it is known by now that the pod is bound
	return turn{until: done, next: b.stands}
}
