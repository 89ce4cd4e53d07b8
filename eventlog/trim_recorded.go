package eventlog

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file has the fields that only the log of a recorder has. An Encoder with Recording keeps them besides the
// others. They say who has done something to a pod or a node, and why. No decision reads them.

// The annotations that NoteAuthors makes of a pod's managed fields.
const (
	// BoundByAnnotation names the field manager that set the pod's node, or else the one that set its condition
	// PodScheduled.
	BoundByAnnotation = "recorded.rollcall.dev/bound-by"
	// DisruptedByAnnotation names the field manager that set the condition DisruptionTarget.
	DisruptedByAnnotation = "recorded.rollcall.dev/disrupted-by"
	// NominatedByAnnotation names the field manager that nominated a node for the pod.
	NominatedByAnnotation = "recorded.rollcall.dev/nominated-by"
)

// recordedAnnotations are the annotations that only a recording has.
var recordedAnnotations = []string{BoundByAnnotation, DisruptedByAnnotation, NominatedByAnnotation}

// recordedPodAnnotations are the annotations that a recording keeps of pods.
var recordedPodAnnotations = slices.Concat(keptAnnotations[Pods], recordedAnnotations)

// recordedFields are the fields that a recording keeps besides keptFields.
var recordedFields = []keptRows{
	{Pods, []keptField{
		{"status.{reason,message}", "why a pod has failed, such as Evicted"},
		{"status.conditions.message", "who evicted a pod, why it has no node, how far a resize has come"},
		{"status.{containerStatuses,initContainerStatuses}.restartCount", "containers that fail again and again"},
		{
			"status.{containerStatuses,initContainerStatuses}.{state,lastState}.terminated.{exitCode,signal,reason}",
			"how a container has ended, such as OOMKilled",
		},
	}},
	{Nodes, []keptField{{"status.conditions.{reason,message}", "what is wrong with a node"}}},
}

// cleanedRecordedFields are the cleanedFields of recordedFields.
var cleanedRecordedFields = []cleanedRows{
	{Pods, recordedText, []string{
		"status.{reason,message}", "status.conditions.message",
		"status.{containerStatuses,initContainerStatuses}.{state,lastState}.terminated.reason",
	}},
	{Nodes, recordedText, []string{"status.conditions.{reason,message}"}},
}

// maxRecordedText is the largest number of bytes of a text for people in a recording. The API server allows 32 KiB.
const maxRecordedText = 1024

// recordedText returns a text for people without credentials, cut to maxRecordedText.
func recordedText(text string) string {
	text = MessageWithoutCredentials(text)
	if len(text) > maxRecordedText {
		text = strings.ToValidUTF8(text[:maxRecordedText], "")
	}
	return text
}

// isRecorded reports whether only a recording keeps a condition of a pod. A pod that is scheduled has a node, so a
// condition that says it adds nothing.
func isRecorded(c *corev1.PodCondition) bool {
	switch c.Type {
	case corev1.PodScheduled:
		return c.Status != corev1.ConditionTrue
	case corev1.PodResizeInProgress:
		return true
	}
	return false
}

// NoteAuthors replaces the annotations of a recording on a pod by the names in the pod's managed fields. A user may
// have set the annotations, too: these are dropped. The caller owns the pod.
func NoteAuthors(pod *corev1.Pod) {
	for _, key := range recordedAnnotations {
		delete(pod.Annotations, key)
	}
	disrupted := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
	bound := ""
	for i := range pod.ManagedFields {
		m := &pod.ManagedFields[i]
		if owns(m, `"f:nodeName"`) || bound == "" && owns(m, `k:{\"type\":\"PodScheduled\"}`) {
			bound = m.Manager
		}
		if disrupted && owns(m, `k:{\"type\":\"DisruptionTarget\"}`) {
			noteAuthor(pod, DisruptedByAnnotation, m.Manager)
		}
		if pod.Status.NominatedNodeName != "" && owns(m, `"f:nominatedNodeName"`) {
			noteAuthor(pod, NominatedByAnnotation, m.Manager)
		}
	}
	if pod.Spec.NodeName != "" && bound != "" {
		noteAuthor(pod, BoundByAnnotation, bound)
	}
}

// owns reports whether a manager owns the field of a name. The names that are asked for occur in pods only once, so the
// set of fields need not be parsed: most pods have large ones.
func owns(m *metav1.ManagedFieldsEntry, field string) bool {
	return m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), field)
}

func noteAuthor(pod *corev1.Pod, key, author string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[key] = author
}
