package remote

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Selector is the label with which the manifests in deploy mark the pods of schedulers.
const Selector = "app.kubernetes.io/name=rollcall"

// program is the scheduler's executable in a container that names no command.
const program = "rollcall"

// A Scheduler is a pod in which "rollcall run" or "rollcall record" runs.
type Scheduler struct {
	Namespace, Pod, Container string
	// Program is the scheduler's executable in the container.
	Program string
	// Log is the name of its log in the container, as its flag --log has it.
	Log string
}

// String is the pod's name as kubectl has it.
func (s Scheduler) String() string { return s.Namespace + "/" + s.Pod }

// Wanted says which scheduler to find.
type Wanted struct {
	// Namespace is the namespace of its pod. Empty: anywhere.
	Namespace string
	// Pod is the pod's name. Empty: the only one with the labels.
	Pod string
	// Selector is a label selector. Find ignores it if Pod is given.
	Selector string
}

// ErrNone is wrapped by the error of Find if there is no pod of a scheduler, whatever runs in it.
var ErrNone = errors.New("no pod")

// Find returns the scheduler that is wanted. If several of a namespace have the labels, the only one that is ready is
// taken. None is chosen among several namespaces: anybody who may make a pod in one can give it these labels. The error
// says what was found instead, and what to do.
func Find(ctx context.Context, client kubernetes.Interface, w Wanted) (Scheduler, error) {
	pods, err := w.list(ctx, client)
	if err != nil {
		return Scheduler{}, err
	}
	var found []Scheduler
	var ready []Scheduler
	var others []string
	for _, pod := range pods {
		s, err := schedulerOf(&pod)
		if err != nil {
			others = append(others, fmt.Sprintf("%s/%s: %v", pod.Namespace, pod.Name, err))
			continue
		}
		found = append(found, s)
		if isReady(&pod) {
			ready = append(ready, s)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case inSeveralNamespaces(found):
		return Scheduler{}, fmt.Errorf("schedulers in several namespaces: %s; name one with --namespace", names(found))
	case len(ready) == 1:
		return ready[0], nil
	case len(found) > 1:
		return Scheduler{}, fmt.Errorf("there are several schedulers, and %d of them are ready: %s; "+
			"name one of them with --pod and --namespace", len(ready), names(found))
	case len(others) > 0:
		return Scheduler{}, fmt.Errorf("no scheduler whose log can be read: %s", strings.Join(others, "; "))
	}
	return Scheduler{}, fmt.Errorf("%w with the labels %s in %s: give --namespace, --selector or --pod", ErrNone,
		w.Selector, placeName(w.Namespace))
}

func (w Wanted) list(ctx context.Context, client kubernetes.Interface) ([]corev1.Pod, error) {
	if w.Pod != "" {
		if w.Namespace == "" {
			return nil, errors.New("--pod is given without --namespace: give both")
		}
		pod, err := client.CoreV1().Pods(w.Namespace).Get(ctx, w.Pod, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("the scheduler's pod: %w", err)
		}
		return []corev1.Pod{*pod}, nil
	}
	list, err := client.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: w.Selector})
	switch {
	case apierrors.IsForbidden(err) && w.Namespace == "":
		return nil, fmt.Errorf("looking for the scheduler's pod in all namespaces: %w; name its namespace with "+
			"--namespace", err)
	case err != nil:
		return nil, fmt.Errorf("looking for the scheduler's pod: %w", err)
	}
	return list.Items, nil
}

// schedulerOf returns the scheduler in a pod. The error says why there is none whose log can be read.
func schedulerOf(pod *corev1.Pod) (Scheduler, error) {
	for _, c := range pod.Spec.Containers {
		line := slices.Concat(c.Command, c.Args)
		at := slices.IndexFunc(line, func(word string) bool { return word == "run" || word == "record" })
		if at < 0 {
			continue
		}
		s := Scheduler{Namespace: pod.Namespace, Pod: pod.Name, Container: c.Name, Program: program}
		if at > 0 && path.Base(line[at-1]) == program {
			s.Program = line[at-1]
		}
		s.Log = flagValue(line[at+1:], "--log")
		switch {
		case s.Log == "":
			return s, fmt.Errorf("container %s has no --log among its arguments", c.Name)
		case s.Log == "memory":
			return s, fmt.Errorf("container %s has its log in memory, where no other command can read it", c.Name)
		case strings.Contains(s.Log, "$("):
			return s, fmt.Errorf("container %s has its log at %s, which the kubelet fills in: run "+
				"\"kubectl exec -n %s %s -- %s …\" instead", c.Name, s.Log, pod.Namespace, pod.Name, s.Program)
		case !isRunning(pod, c.Name):
			return s, fmt.Errorf("container %s does not run (the pod's phase is %s): read the log on its volume, see "+
				"docs/INSTALL.md", c.Name, pod.Status.Phase)
		}
		return s, nil
	}
	return Scheduler{}, errors.New("no container has the argument \"run\" or \"record\"")
}

// flagValue returns the last value that a flag has in a command line.
func flagValue(line []string, flag string) (value string) {
	for i, word := range line {
		if v, ok := strings.CutPrefix(word, flag+"="); ok {
			value = v
		} else if word == flag && i+1 < len(line) {
			value = line[i+1]
		}
	}
	return value
}

func isRunning(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.State.Running != nil
	})
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func inSeveralNamespaces(found []Scheduler) bool {
	return slices.ContainsFunc(found, func(s Scheduler) bool { return s.Namespace != found[0].Namespace })
}

func names(found []Scheduler) string {
	texts := make([]string, 0, len(found))
	for _, s := range found {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, ", ")
}

func placeName(namespace string) string {
	if namespace == "" {
		return "any namespace"
	}
	return "namespace " + namespace
}
