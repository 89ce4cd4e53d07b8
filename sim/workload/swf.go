package workload

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// swfFields is the number of fields of a line of the Standard Workload Format; the constants are the fields that are
// read, counted from 0. The format is defined at https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.
const (
	swfFields    = 18
	swfJob       = 0
	swfSubmit    = 1  // seconds
	swfRun       = 3  // seconds; end minus start
	swfAllocated = 4  // processors
	swfRequested = 7  // processors
	swfTime      = 8  // seconds; requested by the user
	swfStatus    = 10 // 1 completed, 0 failed, 5 cancelled, 2 to 4 a part of a job
	swfUser      = 11
	swfGroup     = 12
)

// swfCancelled is the status of a job that was cancelled.
const swfCancelled = 5

// UserLabel and GroupLabel are the labels of pods with the user and the group of their job, as numbers. Pods of a job
// whose user or group is unknown lack them.
const (
	UserLabel  = "rollcall.dev/user"
	GroupLabel = "rollcall.dev/group"
)

// swfLine has the fields of a line that are read.
type swfLine struct {
	job, submit, run, processors int64
	// declared is the time that the user requested, or else the run time.
	declared int64
	// user and group are -1 if they are unknown.
	user, group int64
}

// readSWF reads a Standard Workload Format file. A job of N processors becomes the PodGroup job-ID
// (scheduling.k8s.io/v1beta1) with a gang minimum of N, and the pods job-ID-0 to job-ID-(N-1) of one cpu each. They
// arrive at the submit time and run for the run time, for one second if that is 0. With the annotation
// DurationAnnotation they declare the requested time, or else the run time. A scheduler may rely on it, but the pods
// run for their run time, shorter or longer. They have the job's user and group as labels.
//
// The meaning of -1 (unknown) follows the format's definition. Processors are the allocated ones, else the requested
// ones. The run time is the measured one, else the requested one. Two kinds of line are no work, and are left out with
// a note: jobs cancelled (status 5) before they ran, and the parts (status 2 to 4) of a job that has a line of its own
// as a whole. A field that is needed and unknown otherwise is an error.
func readSWF(in *input, path string, r io.Reader) error {
	template := newTemplate(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, nil)
	declared, labels := declarations{}, owners{}
	seen := map[int64]bool{}
	var jobs []swfLine // made at the end: a file of too many is refused before it takes memory
	cancelled, parts, pods := 0, 0, int64(0)
	err := lines(path, r, func(_ int, text []byte) error {
		line := strings.TrimSpace(string(text))
		if line == "" || strings.HasPrefix(line, ";") {
			return nil
		}
		numbers, err := swfNumbers(line)
		if err != nil {
			return err
		}
		switch status := numbers[swfStatus]; {
		case status >= 2 && status <= 4:
			parts++
			return nil
		case status == swfCancelled && numbers[swfRun] <= 0:
			cancelled++
			return nil
		}
		job, err := swfJobOf(numbers)
		if err != nil {
			return err
		}
		if seen[job.job] {
			return fmt.Errorf("job %d stands twice", job.job)
		}
		seen[job.job] = true
		if pods += job.processors; pods > MaxPods {
			return fmt.Errorf("job %d needs %d processors, a pod each, which makes %d pods with the jobs before: a "+
				"workload can have %d", job.job, job.processors, pods, MaxPods)
		}
		jobs = append(jobs, job)
		return nil
	})
	if err != nil {
		return err
	}
	in.workload.Pods = slices.Grow(in.workload.Pods, int(pods))
	for _, job := range jobs {
		in.addGang(job, template, declared.of(wholeSeconds(job.declared)), labels.of(job))
	}
	if cancelled > 0 {
		in.note("%s left out", counted(cancelled, "job that was cancelled before it ran is",
			"jobs that were cancelled before they ran are"))
	}
	if parts > 0 {
		in.note("%s left out", counted(parts, "line that tells of a part of a job is",
			"lines that tell of parts of a job are"))
	}
	return nil
}

// swfNumbers splits a line. Every field is a number; the fields that are read are whole numbers.
func swfNumbers(line string) (numbers [swfFields]int64, err error) {
	fields := strings.Fields(line)
	if len(fields) != swfFields {
		return numbers, fmt.Errorf("%d fields instead of %d", len(fields), swfFields)
	}
	for i, field := range fields {
		switch i {
		case swfJob, swfSubmit, swfRun, swfAllocated, swfRequested, swfTime, swfStatus:
			numbers[i], err = wholeNumber(fmt.Sprintf("field %d", i+1), field, -1, maxSeconds)
			if err != nil {
				return numbers, err
			}
		default:
			if !isNumber(field) {
				return numbers, fmt.Errorf("field %d: %q is not a number", i+1, cut(field, 40))
			}
			if numbers[i], err = strconv.ParseInt(field, 10, 64); err != nil {
				numbers[i] = -1 // it is not read, or tells nothing about the work
			}
		}
	}
	return numbers, nil
}

// swfJobOf returns the job of a line, or an error that names a missing field.
func swfJobOf(numbers [swfFields]int64) (swfLine, error) {
	l := swfLine{job: numbers[swfJob], submit: numbers[swfSubmit], run: numbers[swfRun],
		processors: numbers[swfAllocated], user: numbers[swfUser], group: numbers[swfGroup]}
	if l.job < 0 {
		return l, fmt.Errorf("field %d: job number unknown", swfJob+1)
	}
	if l.submit < 0 {
		return l, fmt.Errorf("field %d: submit time unknown", swfSubmit+1)
	}
	if l.run < 0 {
		l.run = numbers[swfTime]
	}
	if l.run < 0 {
		return l, fmt.Errorf("fields %d and %d: run time unknown", swfRun+1, swfTime+1)
	}
	if l.declared = numbers[swfTime]; l.declared <= 0 {
		l.declared = l.run
	}
	if l.processors <= 0 {
		l.processors = numbers[swfRequested]
	}
	if l.processors <= 0 {
		return l, fmt.Errorf("fields %d and %d: number of processors unknown", swfAllocated+1, swfRequested+1)
	}
	return l, nil
}

// addGang adds a job's group and pods. Names are parts of one string, so that a pod takes little memory beyond its
// plan.
func (in *input) addGang(job swfLine, template *corev1.Pod, annotations, labels map[string]string) {
	name := "job-" + strconv.FormatInt(job.job, 10)
	at := time.Duration(job.submit) * time.Second
	in.workload.Objects = append(in.workload.Objects, ObjectPlan{
		At: at, Resource: eventlog.PodGroups,
		Object: &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
			Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(job.processors)},
			}},
		},
	})
	for k := range job.processors {
		in.workload.Pods = append(in.workload.Pods, PodPlan{
			Namespace: metav1.NamespaceDefault, Name: name + "-" + strconv.FormatInt(k, 10), PodGroup: name,
			Arrival: at, Duration: wholeSeconds(job.run), Template: template, Annotations: annotations,
			Labels: labels,
		})
	}
}

// owners are the labels of pods, one for all pods of a user and a group.
type owners map[[2]int64]map[string]string

// of returns the labels of a job's pods, nil for none.
func (o owners) of(job swfLine) map[string]string {
	key := [2]int64{job.user, job.group}
	labels, known := o[key]
	if known {
		return labels
	}
	for label, id := range map[string]int64{UserLabel: job.user, GroupLabel: job.group} { // any order: a map
		if id >= 0 && labels == nil {
			labels = map[string]string{}
		}
		if id >= 0 {
			labels[label] = strconv.FormatInt(id, 10)
		}
	}
	o[key] = labels
	return labels
}
