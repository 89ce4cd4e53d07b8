package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

// maxBinds limits the binds sent for a pod that is unbound afterwards. The last one is sent about 3 s after the first.
const maxBinds = 6

// binding is a bind on its way. Its steps are reserveClaims, bindVolumes, awaitDevices, awaitVolumes, preBind, send
// and look; one of an earlier epoch begins with look. Whatever fails, look has the last word: an earlier attempt, also
// one of an earlier process, may have bound the pod.
type binding struct {
	*Effects
	engine.Effect

	sent   int   // the number of binds sent, without the ones to be sent later
	tries  int   // of the step before that, since it last succeeded
	unread int   // how often the pod could not be read, since it last could
	kept   int   // how often its claims could not be given back
	cause  error // why the pod is read
	final  bool  // it is not sent again

	conflicts int             // how often a claim had changed before it was written
	refusals  int             // how often the API server has refused to give a claim back
	left      map[string]bool // the claims that stay as they are, because it has

	elsewhere bool // somebody else has bound the pod to another node

	refused *fwk.Status // by a plugin

	offSince time.Time // since when the server has put off every call; zero if it has not put off the last one

	awaited []awaited // claims with binding conditions

	settled  int       // how many of Volumes are written
	written  []written // what was written
	deadline time.Time // until when claims have to be bound
	readBack bool      // volumes are read from the server, not from the lister
}

// send binds the pod.
func (b *binding) send(ctx context.Context) turn {
	if err := b.opts.Still(b.Effect); err != nil {
		return b.fail(err)
	}
	err := b.call(ctx, CallBind, func(ctx context.Context) error {
		return b.opts.Client.CoreV1().Pods(b.Namespace).Bind(ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name, UID: b.UID},
			Target:     v1.ObjectReference{Kind: "Node", Name: b.Node},
		}, metav1.CreateOptions{})
	})
	if err == nil {
		return b.bound(ctx)
	}
	if wait, ok := b.putOff(err); ok {
		b.retried()
		return turn{next: b.send, after: wait}
	}
	b.sent++
	b.cause, b.final = err, isRefusal(err) || apierrors.IsTooManyRequests(err)
	return turn{next: b.look}
}

// putOff is putOff of an error until the server, or a webhook in its name, has put off all calls for maxPutOff. After
// that it is a refusal: others get the capacity, and the pod another try.
func (b *binding) putOff(err error) (time.Duration, bool) {
	wait, ok := putOff(err)
	now := b.opts.Clock.Now()
	switch {
	case !ok && !isAnswer(err):
	case !ok:
		b.offSince = time.Time{}
	case b.offSince.IsZero():
		b.offSince = now
	case now.Sub(b.offSince) >= maxPutOff:
		return 0, false
	}
	return wait, ok
}

// fail ends the bind without sending it, once it is sure that the pod is not bound already.
func (b *binding) fail(err error) turn {
	b.cause, b.final = err, true
	return turn{next: b.look}
}

// look reads the pod back, and tells the state of the pod at the API server.
func (b *binding) look(ctx context.Context) turn {
	pod, err := b.readPod(ctx, b.Effect)
	switch {
	case isGone(err, b.Name):
		return b.unbound(eventlog.BindConflict, "pod %s/%s is gone", b.Namespace, b.Name)
	case err != nil:
		b.unread++
		b.trouble(b.Effect, "what came of the bind cannot be read, its capacity stays reserved", err)
		return turn{next: b.look, after: backoff(b.unread)}
	}
	b.unread = 0
	switch {
	case pod.UID != b.UID:
		return b.unbound(eventlog.BindConflict, "pod %s/%s is another one (UID %s)", b.Namespace, b.Name, pod.UID)
	case pod.Spec.NodeName == b.Node:
		return b.bound(ctx)
	case pod.Spec.NodeName != "":
		b.elsewhere = true
		return b.unbound(eventlog.BindConflict, "pod %s/%s is bound to node %s", b.Namespace, b.Name, pod.Spec.NodeName)
	case pod.DeletionTimestamp != nil:
		return b.unbound(eventlog.BindConflict, "pod %s/%s is being deleted", b.Namespace, b.Name)
	case len(pod.Spec.SchedulingGates) > 0, b.final, b.sent >= maxBinds:
		return b.unbound(eventlog.BindFailed, "%v", b.cause)
	case b.cause == nil: // an earlier process has not bound it
		return turn{next: b.reserveClaims}
	}
	b.retried()
	return turn{next: b.send, after: backoff(b.sent)}
}

// unbound ends a bind that has not bound the pod. It gives back the claims that the bind may have written, before it
// reports the result.
func (b *binding) unbound(outcome eventlog.BindOutcome, format string, args ...any) turn {
	ends := b.end(outcome, format, args...)
	if len(b.Claims) == 0 {
		return ends
	}
	return turn{next: b.giveBackClaims(ends)}
}

// end is the bind's result.
func (b *binding) end(outcome eventlog.BindOutcome, format string, args ...any) turn {
	result := &eventlog.BindResult{
		UID:      b.UID,
		Node:     b.Node,
		Outcome:  outcome,
		Message:  cut(fmt.Sprintf(format, args...)),
		Decision: b.Seq,
	}
	if b.refused != nil && outcome == eventlog.BindFailed {
		framework.BindFailure(result, b.refused)
		result.Message = cut(result.Message)
	}
	return ended(result)
}

// again makes a step before the bind once more after an error that may pass, and fails after too many.
func (b *binding) again(s step, err error) turn {
	wait, off := b.putOff(err)
	var inconsistent *inconsistentError
	switch {
	case off:
	case apierrors.IsTooManyRequests(err), errors.As(err, &inconsistent), isRefusal(err),
		b.tries >= maxBinds && isAnswer(err):
		return b.fail(err)
	default:
		b.tries++
		wait = backoff(b.tries)
		if !isAnswer(err) {
			b.trouble(b.Effect, "it cannot be bound, its capacity stays reserved", err)
		}
	}
	b.retried()
	return turn{next: s, after: wait}
}

// inconsistentError says that the objects at the API server do not agree with the decision.
type inconsistentError struct{ err error }

func (e *inconsistentError) Error() string { return e.err.Error() }
func (e *inconsistentError) Unwrap() error { return e.err }

func inconsistent(format string, args ...any) error {
	return &inconsistentError{fmt.Errorf(format, args...)}
}
