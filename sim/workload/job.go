package workload

import (
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// templatePrefix is the path of the pods in a Job.
const templatePrefix = "spec.template."

// addJob adds a Job. Its annotations are its pods' too; the template's own take precedence.
func (m *manifest) addJob(d *document) error {
	job := &batchv1.Job{}
	if err := d.decode(job); err != nil {
		return err
	}
	job.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if err := m.identify(d, "jobs.batch", job, true); err != nil {
		return err
	}
	if err := d.checkForeignAnnotations(job.Annotations, "", "Job "+ObjectName(job)); err != nil {
		return err
	}
	m.pods = append(m.pods, podSource{doc: d, job: job})
	return nil
}

// addJobPods adds the pods that the Job controller would make if every pod succeeded: NAME-0, NAME-1 and so on. There
// are as many as completions (or, without completions, as the parallelism), and parallelism of them exist at a time.
// The remaining ones are deleted after activeDeadlineSeconds, counted from the Job's arrival.
//
// A Job that has ended or is suspended makes none. A Job with a pod of its own in the file is refused, since the file
// does not say which of its pods that is.
func (m *manifest) addJobPods(d *document, job *batchv1.Job) error {
	if jobHasEnded(job) {
		m.endedOwners[jobKind.Kind]++
		return nil
	}
	if s := job.Spec.Suspend; s != nil && *s {
		m.suspended[jobKind.Kind]++
		return nil
	}
	key := ownerKey{jobKind.GroupKind(), types.NamespacedName{Namespace: job.Namespace, Name: job.Name}}
	if pod := m.ownership.pods[key]; pod != "" {
		return d.errorf("metadata.name", "Job %s and its pod %s are both in the file: leave one of them out",
			ObjectName(job),
			pod)
	}
	times, err := d.times("", job.Annotations, nil, ArrivalAnnotation, DurationAnnotation)
	if err != nil {
		return err
	}
	template := jobTemplate(job)
	inner, err := d.times(templatePrefix, job.Spec.Template.Annotations, memberAnnotations(template),
		DurationAnnotation)
	if err != nil {
		return err
	}
	duration := times[DurationAnnotation]
	if own, given := inner[DurationAnnotation]; given {
		duration = own
	}
	count, parallelism, err := jobSize(d, job)
	if err != nil {
		return err
	}
	if err := m.checkRoom(d, "spec", "Job "+ObjectName(job), int64(count)); err != nil {
		return err
	}
	deadline, err := jobDeadline(d, job, times[ArrivalAnnotation])
	if err != nil {
		return err
	}
	var batch *Batch
	if parallelism < count {
		batch = &Batch{Parallelism: int(parallelism)}
	}
	if text, given := job.Annotations[DurationAnnotation]; given && template.Annotations[DurationAnnotation] == "" {
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, DurationAnnotation, text)
	}
	if err := m.finishPod(d, template, templatePrefix); err != nil {
		return err
	}
	indexed := job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
	controller := &Controller{Kind: jobKind.Kind, Name: job.Name, Prefix: job.Name + "-"}
	for k := range count {
		index := strconv.Itoa(int(k))
		plan := PodPlan{
			Namespace: job.Namespace, Name: job.Name + "-" + index, Template: template,
			Arrival: times[ArrivalAnnotation], Duration: duration, Deadline: deadline, Batch: batch,
			Controller: controller,
		}
		if indexed {
			plan.Template = template.DeepCopy()
			plan.Template.Labels[batchv1.JobCompletionIndexAnnotation] = index
			plan.Controller = &Controller{
				Kind: jobKind.Kind, Name: job.Name, Prefix: jobPrefix(job.Name, plan.Template),
			}
		}
		if err := m.unique(d, string(eventlog.Pods), plan.Namespace+"/"+plan.Name); err != nil {
			return err
		}
		if err := m.addPod(d, plan); err != nil {
			return err
		}
	}
	return nil
}

// jobDeadline returns the time at which a Job's remaining pods are deleted; 0 is never.
func jobDeadline(d *document, job *batchv1.Job, arrival time.Duration) (time.Duration, error) {
	s := job.Spec.ActiveDeadlineSeconds
	if s == nil {
		return 0, nil
	}
	if *s < 1 || *s > maxSeconds {
		return 0, d.errorf("spec.activeDeadlineSeconds", "spec.activeDeadlineSeconds: %d lies outside 1 and %d", *s,
			maxSeconds)
	}
	deadline := arrival + time.Duration(*s)*time.Second
	if deadline > MaxOffset {
		return 0, d.errorf("spec.activeDeadlineSeconds", "spec.activeDeadlineSeconds: the deadline lies beyond %s",
			MaxOffset)
	}
	return deadline, nil
}

// jobSize returns the number of a Job's pods and the number that exist at a time.
func jobSize(d *document, job *batchv1.Job) (count, parallelism int32, err error) {
	if s := job.Spec.Suspend; s != nil && *s {
		return 0, 0, d.errorf("spec.suspend", "spec.suspend: a suspended Job makes no pods: resume it, or leave it "+
			"out")
	}
	parallelism = 1
	if p := job.Spec.Parallelism; p != nil {
		parallelism = *p
	}
	if parallelism < 1 || parallelism > MaxObjectPods {
		return 0, 0, d.errorf("spec.parallelism", "spec.parallelism: %d lies outside 1 and %d", parallelism,
			MaxObjectPods)
	}
	count = parallelism
	if c := job.Spec.Completions; c != nil {
		if count = *c; count < 1 || count > MaxObjectPods {
			return 0, 0, d.errorf("spec.completions", "spec.completions: %d lies outside 1 and %d", count,
				MaxObjectPods)
		}
	}
	return count, min(parallelism, count), nil
}

// jobTemplate makes the pod of which the Job's pods are copies.
func jobTemplate(job *batchv1.Job) *corev1.Pod {
	t := job.Spec.Template
	pod := &corev1.Pod{Spec: *t.Spec.DeepCopy()}
	pod.Namespace, pod.Name = job.Namespace, job.Name+"-0"
	pod.Labels = map[string]string{batchv1.JobNameLabel: job.Name, "job-name": job.Name}
	for k, v := range t.Labels {
		pod.Labels[k] = v
	}
	for k, v := range t.Annotations {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[k] = v
	}
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	setDefaults(pod)
	return pod
}

// jobHasEnded reports whether a Job no longer makes pods.
func jobHasEnded(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
}
