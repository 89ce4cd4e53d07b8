package kubescheduler

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/rollcall-sched/rollcall/bench/workload"
)

// podStore has the pods of a workload that preempts, as an API server would. The pods that run from the beginning are
// listed. A write of the scheduler is answered at once and comes back through the watch. A deleted pod no longer
// exists. podStore replaces the fake client's object tracker, which would take longer.
type podStore struct {
	watch *watch.FakeWatcher

	mu      sync.Mutex
	over    bool  // no more events, and no more writes
	version int64 // the last resourceVersion
	held    map[types.NamespacedName]*corev1.Pod
	// onEvicted is called with a deleted runner, before the scheduler learns about it.
	onEvicted func(runner int)
}

// newPodStore makes one that has the runners.
func newPodStore(spec workload.Spec, w *watch.FakeWatcher, onEvicted func(runner int)) *podStore {
	s := &podStore{watch: w, held: map[types.NamespacedName]*corev1.Pod{}, onEvicted: onEvicted, version: 1}
	for i := range spec.Runners() {
		pod := spec.Runner(i)
		s.held[nameOf(pod)] = pod
	}
	return s
}

func nameOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// react has the client's calls for pods answered from the store.
func (s *podStore) react(f *clienttesting.Fake) {
	f.PrependReactor("list", "pods", s.list)
	f.PrependReactor("get", "pods", s.get)
	f.PrependReactor("patch", "pods", s.patch)
	f.PrependReactor("delete", "pods", s.delete)
}

// end has nothing told any more, before the scheduler stops, which closes the watch.
func (s *podStore) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// put stores a pod that is not shared, with the next version. The caller holds the lock.
func (s *podStore) put(pod *corev1.Pod) {
	s.version++
	pod.ResourceVersion = strconv.FormatInt(s.version, 10)
	s.held[nameOf(pod)] = pod
}

// add has a pod come.
func (s *podStore) add(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.put(pod)
	s.watch.Add(pod)
}

// bind gives a pod its node.
func (s *podStore) bind(pod *corev1.Pod, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.held[nameOf(pod)]; before != nil && !s.over {
		bound := before.DeepCopy()
		bound.Spec.NodeName = node
		s.put(bound)
		s.watch.Modify(bound)
	}
}

// list is the reaction to the list of all pods.
func (s *podStore) list(clienttesting.Action) (handled bool, ret runtime.Object, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := &corev1.PodList{}
	all.ResourceVersion = strconv.FormatInt(s.version, 10)
	// any order: a list of the API has none that counts
	for _, pod := range s.held {
		all.Items = append(all.Items, *pod)
	}
	return true, all, nil
}

// get is the reaction to a pod that is read.
func (s *podStore) get(action clienttesting.Action) (handled bool, ret runtime.Object, err error) {
	read, ok := action.(clienttesting.GetAction)
	if !ok {
		return true, nil, fmt.Errorf("a pod is to be read by a %T", action)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, err := s.of(read.GetNamespace(), read.GetName())
	return true, pod, err
}

// of returns a pod. The caller holds the lock.
func (s *podStore) of(namespace, name string) (*corev1.Pod, error) {
	pod := s.held[types.NamespacedName{Namespace: namespace, Name: name}]
	switch {
	case s.over:
		return nil, apierrors.NewServiceUnavailable("the measurement is over")
	case pod == nil:
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	return pod, nil
}

// statusPatch is the scheduler's write to a pod.
type statusPatch struct {
	Status json.RawMessage `json:"status"`
}

// patch is the reaction to a pod whose status is patched.
func (s *podStore) patch(action clienttesting.Action) (handled bool, ret runtime.Object, err error) {
	written, ok := action.(clienttesting.PatchAction)
	if !ok || action.GetSubresource() != "status" || written.GetPatchType() != types.StrategicMergePatchType {
		return true, nil, fmt.Errorf("a pod's %q is to be patched by a %T", action.GetSubresource(), action)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.of(written.GetNamespace(), written.GetName())
	if err != nil {
		return true, nil, err
	}
	pod := before.DeepCopy()
	if err := patchStatus(&pod.Status, written.GetPatch()); err != nil {
		return true, nil, fmt.Errorf("patch of pod %s: %w", pod.Name, err)
	}
	s.put(pod)
	s.watch.Modify(pod) // within the lock, so that the watch tells it in the order of the versions
	return true, pod, nil
}

// patchStatus applies a patch of a pod to its status, which is small beside the pod.
func patchStatus(status *corev1.PodStatus, patch []byte) error {
	var p statusPatch
	if err := json.Unmarshal(patch, &p); err != nil {
		return err
	}
	before, err := json.Marshal(status)
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, p.Status, corev1.PodStatus{})
	if err != nil {
		return err
	}
	*status = corev1.PodStatus{}
	return json.Unmarshal(after, status)
}

// delete is the reaction to a pod that is deleted: it is gone at once.
func (s *podStore) delete(action clienttesting.Action) (handled bool, ret runtime.Object, err error) {
	asked, ok := action.(clienttesting.DeleteAction)
	if !ok {
		return true, nil, fmt.Errorf("a pod is to be deleted by a %T", action)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, err := s.of(asked.GetNamespace(), asked.GetName())
	if err != nil {
		return true, nil, err
	}
	i, ok := workload.RunnerIndex(pod.UID)
	if !ok {
		return true, nil, fmt.Errorf("pod %s is to be deleted, for which the workload gives no reason", pod.Name)
	}
	delete(s.held, nameOf(pod))
	s.onEvicted(i)
	s.watch.Delete(pod)
	return true, nil, nil
}
