package effect

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// These rules say when an eviction is tried again, and given up. An answer of the API server to the patch or the delete
// that is an error is a refusal:
//
//   - an answer that says that the same call would be refused again ends it at the third such refusal, 2 s after the
//     first. These are the codes 400, 403, 405, 406, 413, 415 and 422, as webhooks and missing rights cause them;
//   - any other one (404, 409, 500, 503 and so on): the tenth refusal ends it, about 35 s after the first;
//   - 429 is none: the API server has put the call off, for as long as it says. It is one after maxPutOff.
//
// No answer is no refusal either: the pod is read back, as often as it takes.
//
// An eviction for which nobody waits, of the rest of a gang that has fallen below its minimum, is never given up. It is
// tried more and more seldom, until it is once in slowestTry.
const (
	lastingRefusals = 3
	manyRefusals    = 10
	maxPutOff       = 10 * time.Minute
	slowTry         = time.Minute
	slowestTry      = 10 * time.Minute
	// longWait is the shortest wait for the next try that a result reports, and that a drain does not wait for.
	longWait = time.Second
)

// eviction is an eviction on its way: the condition DisruptionTarget is written, then the pod is deleted, as
// kube-scheduler does it (pkg/scheduler/framework/preemption/executor.go). In difference to it both calls have the UID
// as a precondition. Each try begins with reading the pod: it may be gone, and the read shows the outcome of an earlier
// try.
type eviction struct {
	*Effects
	engine.Effect
	withdrawn *atomic.Bool
	began     time.Time
	sent      bool  // the pod may have been deleted by this process
	refused   int   // how often the API server has answered with an error
	unread    int   // how often it could not be read, since that last went well
	unheard   int   // how often no answer came to a patch or a delete, since one last did
	cause     error // the last refusal
	final     bool  // it is not sent again
}

// look reads the pod and evicts it if it is there and not leaving already.
func (v *eviction) look(ctx context.Context) turn {
	if err := v.opts.Still(v.Effect); err != nil {
		return v.end(eventlog.EvictGone, "%v", err)
	}
	pod, err := v.readPod(ctx, v.Effect)
	switch {
	case isGone(err, v.Name):
		return v.gone("is gone")
	case err != nil:
		return v.unanswered(err, &v.unread)
	case pod.UID != v.UID:
		return v.gone("is another one (UID %s)", pod.UID)
	case pod.DeletionTimestamp != nil:
		return v.gone("is being deleted")
	case isFinished(pod):
		return v.gone("has finished (%s)", pod.Status.Phase)
	}
	v.unread = 0
	if v.withdrawn.Load() {
		return v.end(eventlog.EvictWithdrawn, "nobody waits for the room of pod %s/%s any more", v.Namespace, v.Name)
	}
	if v.final {
		v.opts.Report(fmt.Sprintf("pod %s/%s (%s): its eviction, asked for by entry %d, is given up: %v", v.Namespace,
			v.Name, v.UID, v.Seq, v.cause))
		return v.end(eventlog.EvictGivenUp, "%v", v.cause)
	}
	return v.send(ctx, pod)
}

// send writes the condition and deletes the pod.
func (v *eviction) send(ctx context.Context, pod *v1.Pod) turn {
	if patch := v.condition(pod); patch != nil {
		err := v.call(ctx, CallCondition, func(ctx context.Context) error {
			_, err := v.opts.Client.CoreV1().Pods(v.Namespace).Patch(ctx, v.Name, types.StrategicMergePatchType, patch,
				metav1.PatchOptions{}, "status")
			return err
		})
		if err != nil {
			return v.again(err)
		}
	}
	if v.withdrawn.Load() {
		return v.end(eventlog.EvictWithdrawn, "nobody waits for the room of pod %s/%s any more", v.Namespace, v.Name)
	}
	err := v.call(ctx, CallDelete, func(ctx context.Context) error {
		return v.opts.Client.CoreV1().Pods(v.Namespace).Delete(ctx, v.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.UID))})
	})
	if err != nil {
		v.sent = v.sent || !isAnswer(err) || isFailure(err)
		return v.again(err)
	}
	return v.end(eventlog.EvictDone, "")
}

func isFinished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// gone ends an eviction that has nothing left to do. If the pod goes because of an earlier try, it is done.
func (v *eviction) gone(format string, args ...any) turn {
	message := fmt.Sprintf("pod %s/%s ", v.Namespace, v.Name) + fmt.Sprintf(format, args...)
	if v.sent {
		return v.end(eventlog.EvictDone, "%s", message)
	}
	return v.end(eventlog.EvictGone, "%s", message)
}

// end is the eviction's last result.
func (v *eviction) end(outcome eventlog.EvictOutcome, format string, args ...any) turn {
	return ended(v.result(outcome, fmt.Sprintf(format, args...)))
}

func (v *eviction) result(outcome eventlog.EvictOutcome, message string) *eventlog.EvictResult {
	return &eventlog.EvictResult{UID: v.UID, Outcome: outcome, Message: cut(message), Decision: v.Seq}
}

// again says how an eviction continues after its patch or its delete has ended in an error.
func (v *eviction) again(err error) turn {
	if _, off := putOff(err); !isAnswer(err) || off && v.opts.Clock.Now().Sub(v.began) < maxPutOff {
		return v.unanswered(err, &v.unheard)
	}
	v.unheard = 0
	v.refused++
	v.cause = err
	most := manyRefusals
	if isRefusal(err) {
		most = lastingRefusals
	}
	if v.MakesRoom && v.refused >= most {
		v.final = true
		return turn{next: v.look} // the call may have been carried out all the same
	}
	v.retried()
	wait := v.patience(err)
	if wait < longWait {
		return turn{next: v.look, after: wait}
	}
	v.trouble(v.Effect, fmt.Sprintf("its eviction, asked for by entry %d, is refused", v.Seq), err)
	r := v.result(eventlog.EvictRefused, err.Error())
	r.RetryAfter = wait
	return turn{next: v.look, after: wait, idle: true, result: r}
}

// patience returns the time to wait after a refusal.
func (v *eviction) patience(err error) time.Duration {
	switch over := v.refused - manyRefusals; {
	case over >= 0:
		return min(slowTry<<min(over, 10), slowestTry)
	case isRefusal(err) && v.refused > 1: // after the first one it is seen at once if the pod is another one
		return min(longWait<<min(v.refused-1, 10), lastBackoff)
	}
	return backoff(v.refused)
}

// unanswered tries again after a call that had no answer, which is counted, or that was put off.
func (v *eviction) unanswered(err error, count *int) turn {
	wait, off := putOff(err)
	if !off {
		*count++
		wait = backoff(*count)
		v.trouble(v.Effect, "it cannot be evicted", err)
	}
	v.retried()
	return turn{next: v.look, after: wait}
}

// condition returns the patch that adds the condition DisruptionTarget; nil if the pod has it already.
func (v *eviction) condition(pod *v1.Pod) []byte {
	c := v1.PodCondition{
		Type:               v1.DisruptionTarget,
		Status:             v1.ConditionTrue,
		ObservedGeneration: pod.Generation,
		Reason:             v1.PodReasonPreemptionByScheduler,
		Message:            v.message(),
		LastTransitionTime: metav1.NewTime(v.opts.Clock.Now()),
	}
	for _, old := range pod.Status.Conditions {
		if old.Type != c.Type || old.Status != c.Status {
			continue
		}
		if old.Reason == c.Reason && old.Message == c.Message {
			return nil
		}
		c.LastTransitionTime = old.LastTransitionTime
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.UID},
		"status":   map[string]any{"conditions": []v1.PodCondition{c}},
	})
	if err != nil {
		panic(fmt.Sprintf("a pod's condition cannot be written as JSON: %v", err))
	}
	return patch
}

// message gives the reason of the eviction, in kube-scheduler's words if it is for another pod.
func (v *eviction) message() string {
	scheduler, preemptor := v.Scheduler, "pod"
	if scheduler == "" {
		scheduler = "rollcall"
	}
	if d := v.Decision; d != nil {
		switch {
		case d.Outcome == eventlog.Evicted:
			return fmt.Sprintf("%s: evicting because its pod group has fallen below its minimum", scheduler)
		case d.Group != "":
			preemptor = "podgroup"
		}
	}
	return fmt.Sprintf("%s: preempting to accommodate a higher priority %s", scheduler, preemptor)
}
