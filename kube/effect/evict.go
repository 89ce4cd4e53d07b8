package effect

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// An eviction that was answered with errors manyRefusals times, which is after about 35 s, is tried once in slowTry
// from then on, and that is reported. It is not given up: the log has no entry that says so, and the room of the victim
// is kept for its preemptor as long as the victim is there.
const (
	manyRefusals = 10
	slowTry      = time.Minute
)

// eviction is an eviction on its way: the condition DisruptionTarget is written, then the pod is deleted, as
// kube-scheduler does it (pkg/scheduler/framework/preemption/executor.go). In difference to it both calls have the UID
// as a precondition. Each try begins with reading the pod: it may be gone.
type eviction struct {
	*Effects
	Request
	refused int // how often the API server has answered with an error
	unread  int // how often no answer came, since one last did
}

// look reads the pod and evicts it if it is there and not leaving already.
func (v *eviction) look(ctx context.Context) turn {
	if v.opts.Still(v.Effect) != nil {
		return ended(nil)
	}
	pod, err := v.readPod(ctx, v.Request)
	switch {
	case apierrors.IsNotFound(err):
		return ended(nil)
	case err != nil:
		return v.again(err)
	case pod.UID != v.UID, pod.DeletionTimestamp != nil, isFinished(pod):
		return ended(nil)
	}
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
	err = v.call(ctx, CallDelete, func(ctx context.Context) error {
		return v.opts.Client.CoreV1().Pods(v.Namespace).Delete(ctx, v.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.UID))})
	})
	if err != nil {
		return v.again(err)
	}
	return ended(nil)
}

func isFinished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// again tries the eviction again later. A drain does not wait for that: the next process tries it, too.
func (v *eviction) again(err error) turn {
	wait, off := putOff(err)
	switch {
	case apierrors.IsNotFound(err):
		return ended(nil)
	case off:
	case isAnswer(err):
		v.refused, v.unread = v.refused+1, 0
		if wait = backoff(v.refused); v.refused >= manyRefusals {
			wait = slowTry
			v.trouble(v.Request, fmt.Sprintf("its eviction, asked for by entry %d, is refused", v.Seq), err)
		}
	default:
		v.unread++
		wait = backoff(v.unread)
		v.trouble(v.Request, "it cannot be evicted", err)
	}
	v.retried()
	return turn{next: v.look, after: wait, idle: v.refused >= manyRefusals}
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

// message says for what the pod is evicted, in kube-scheduler's words where it is for another pod.
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
