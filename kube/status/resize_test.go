package status

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

const resizeConfig = `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
"featureGates": {"InPlacePodVerticalScalingSchedulerPreemption": true}}`

// A running pod whose resize is deferred stays scheduled: neither a condition nor an event says that it is not, of the
// pod or of its gang, as with kube-scheduler 1.37. The victim has its event.
func TestNoStatusTellsOfAResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := framework.LoadConfig([]byte(resizeConfig), "config")
		if err != nil {
			t.Fatal(err)
		}
		w := newWorldOf(t, cfg, podGroup("team", 3))
		grows, low := pod("a", "2", "team", 9).(*eventlog.Upserted), pod("low", "3", "", 1).(*eventlog.Upserted)
		grows.Object.(*corev1.Pod).Spec.NodeName = "n1"
		grows.Object.(*corev1.Pod).Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred},
		}
		low.Object.(*corev1.Pod).Spec.NodeName = "n1"
		team := &eventlog.Upserted{Resource: eventlog.PodGroups, Object: podGroup("team", 3)}
		w.step(node("n1", "4"), team, low, grows)
		w.step(evicted("low", eventlog.EvictDone))
		expect(t, w.written(),
			"create event Normal Preempted of low by default-scheduler: Preempted by pod uid-a on node n1")
	})
}
