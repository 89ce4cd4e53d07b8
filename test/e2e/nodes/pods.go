package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// DurationAnnotation says how long a pod runs until it has succeeded, as time.ParseDuration reads it.
const DurationAnnotation = "rollcall.dev/duration"

// FailsAnnotation makes a pod fail at its end, with a reason for its containers such as OOMKilled.
const FailsAnnotation = "e2e.rollcall.dev/fails"

// kubelet runs the pods of all the nodes.
type kubelet struct {
	nodes *Nodes
	mine  map[string]int // the numbers of the nodes
	pods  listers.PodLister
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// runPods starts running the pods that are bound to the nodes, and returns when the present ones are known.
func (n *Nodes) runPods(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(n.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}))
	informer := factory.Core().V1().Pods()
	k := &kubelet{
		nodes: n, mine: map[string]int{}, pods: informer.Lister(),
	}
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](20*time.Millisecond, 2*time.Second)
	k.queue = workqueue.NewTypedRateLimitingQueue(backoff)
	for i, name := range n.names {
		k.mine[name] = i
	}
	changed := func(obj any) {
		p, ok := obj.(*v1.Pod)
		if !ok {
			return
		}
		if _, mine := k.mine[p.Spec.NodeName]; mine {
			k.queue.Add(cache.MetaObjectToName(p))
		}
	}
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) },
	}); err != nil {
		return fmt.Errorf("watch the pods of the nodes: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return fmt.Errorf("watch the pods of the nodes: %w", ctx.Err())
	}
	for range workers / 2 {
		n.done.Go(func() {
			for k.next(ctx) {
			}
		})
	}
	n.done.Go(func() {
		<-ctx.Done()
		k.queue.ShutDown()
		factory.Shutdown()
	})
	return nil
}

// next takes one pod a step further; it reports whether there may be more.
func (k *kubelet) next(ctx context.Context) bool {
	key, quit := k.queue.Get()
	if quit {
		return false
	}
	defer k.queue.Done(key)
	switch again, err := k.step(ctx, key); {
	case err != nil && ctx.Err() == nil:
		k.queue.AddRateLimited(key)
	case again > 0:
		k.queue.Forget(key)
		k.queue.AddAfter(key, again)
	default:
		k.queue.Forget(key)
	}
	return true
}

// step does what a kubelet would do about a pod now. It returns when to look at the pod again, 0 for never.
func (k *kubelet) step(ctx context.Context, key cache.ObjectName) (again time.Duration, err error) {
	p, err := k.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || k.nodes.isSilent(p.Spec.NodeName) {
		return 0, nil // the pod no longer exists, as its kubelet wants
	}
	if p.DeletionTimestamp != nil {
		return 0, k.remove(ctx, p)
	}
	switch p.Status.Phase {
	case v1.PodPending, "":
		return 0, k.report(ctx, p, running(p, k.now(p)))
	case v1.PodRunning:
		duration, err := time.ParseDuration(p.Annotations[DurationAnnotation])
		if err != nil || p.Status.StartTime == nil {
			return 0, nil // it runs until it is deleted
		}
		if left := p.Status.StartTime.Add(duration).Sub(k.now(p).Time); left > 0 {
			return left, nil
		}
		status := succeeded(p, k.now(p))
		if reason := p.Annotations[FailsAnnotation]; reason != "" {
			fail(&status, reason)
		}
		return 0, k.report(ctx, p, status)
	}
	return 0, nil
}

// fail makes the end of a pod a failure of its containers.
func fail(s *v1.PodStatus, reason string) {
	s.Phase = v1.PodFailed
	for i := range s.ContainerStatuses {
		s.ContainerStatuses[i].State.Terminated.Reason = reason
		s.ContainerStatuses[i].State.Terminated.ExitCode = 137
	}
}

// now is the time by the clock of the pod's node.
func (k *kubelet) now(p *v1.Pod) metav1.Time {
	return metav1.NewTime(time.Now().Add(k.nodes.skew(k.mine[p.Spec.NodeName])))
}

// remove ends a pod that is being deleted: this pod, not another of its name.
func (k *kubelet) remove(ctx context.Context, p *v1.Pod) error {
	now := int64(0)
	err := k.nodes.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// report writes a pod's status. The UID in the patch makes it one of this pod only.
func (k *kubelet) report(ctx context.Context, p *v1.Pod, status v1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("write the status of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	_, err = k.nodes.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	var answer apierrors.APIStatus
	if apierrors.IsNotFound(err) || errors.As(err, &answer) && answer.Status().Code == 422 {
		return nil
	}
	return err
}

func running(p *v1.Pod, now metav1.Time) v1.PodStatus {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.UID))
	x := h.Sum32()
	ip := fmt.Sprintf("10.%d.%d.%d", 128+x>>25, x>>8&255, x&255)
	s := v1.PodStatus{
		Phase: v1.PodRunning, StartTime: &now, HostIP: "127.0.0.1", PodIP: ip, PodIPs: []v1.PodIP{{IP: ip}},
		Conditions: conditions(now, v1.ConditionTrue, ""),
	}
	for _, c := range p.Spec.Containers {
		started := true
		s.ContainerStatuses = append(s.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &started,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return s
}

func succeeded(p *v1.Pod, now metav1.Time) v1.PodStatus {
	s := v1.PodStatus{Phase: v1.PodSucceeded, Conditions: conditions(now, v1.ConditionFalse, "PodCompleted")}
	for _, c := range p.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
				Reason: "Completed", StartedAt: *p.Status.StartTime, FinishedAt: now,
			}},
		})
	}
	return s
}

func conditions(now metav1.Time, ready v1.ConditionStatus, reason string) []v1.PodCondition {
	return []v1.PodCondition{
		{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: now},
		{Type: v1.ContainersReady, Status: ready, Reason: reason, LastTransitionTime: now},
		{Type: v1.PodReady, Status: ready, Reason: reason, LastTransitionTime: now},
	}
}
