package explain

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// project names the labels and annotations of pods that take part in a project's queueing. The first one of a list that
// a pod has counts.
type project struct {
	name              string
	scheduler         string // that its pods name; "" if they may name any
	queue, gang, part []string
	gates             string // the prefix of its scheduling gates; "" for none
	managed           string // the label of pods that it has held back; "" for none
}

// projects are the ones that are known. Logs keep all labels, and only some annotations: eventlog lists them.
var projects = []project{
	{name: "Kueue", queue: []string{"kueue.x-k8s.io/queue-name"}, gang: []string{"kueue.x-k8s.io/pod-group-name"},
		part: []string{"kueue.x-k8s.io/podset"}, gates: "kueue.x-k8s.io/", managed: "kueue.x-k8s.io/managed"},
	{name: "Volcano", scheduler: "volcano", queue: []string{"volcano.sh/queue-name"},
		gang: []string{"scheduling.k8s.io/group-name"}, part: []string{"volcano.sh/task-spec"}},
	{name: "KAI", scheduler: "kai-scheduler", queue: []string{"kai.scheduler/queue", "runai/queue"},
		gang: []string{"pod-group-name"}, part: []string{"kai.scheduler/subgroup-name"}},
	{name: "YuniKorn", scheduler: "yunikorn", queue: []string{"yunikorn.apache.org/queue", "queue"},
		gang: []string{"yunikorn.apache.org/app-id", "applicationId"},
		part: []string{"yunikorn.apache.org/task-group-name"}},
}

// managedBy returns the facts about the projects that queue a pod.
func managedBy(pod *v1.Pod) (all []answer.Managed) {
	for i := range projects {
		if x := projects[i].of(pod); x != nil {
			all = append(all, *x)
		}
	}
	return all
}

// of returns the facts about one project, nil for none. Keys without a domain count only for pods that name the
// project's scheduler.
func (p *project) of(pod *v1.Pod) *answer.Managed {
	x := &answer.Managed{Project: p.name}
	own := p.scheduler != "" && pod.Spec.SchedulerName == p.scheduler
	if own {
		x.From = append(x.From, "spec.schedulerName")
	}
	first := func(keys []string) string {
		for _, key := range keys {
			if !own && !strings.Contains(key, "/") && key != "pod-group-name" {
				continue
			}
			if value := pod.Labels[key]; value != "" {
				x.From = append(x.From, "label "+key)
				return value
			}
			if value := pod.Annotations[key]; value != "" {
				x.From = append(x.From, "annotation "+key)
				return value
			}
		}
		return ""
	}
	x.Queue, x.Gang, x.Part = first(p.queue), first(p.gang), first(p.part)
	for _, g := range pod.Spec.SchedulingGates {
		if p.gates != "" && strings.HasPrefix(g.Name, p.gates) {
			x.Gates = append(x.Gates, g.Name)
			x.From = append(x.From, "spec.schedulingGates")
		}
	}
	if p.managed != "" && (pod.Labels[p.managed] != "" || len(x.Gates) > 0) {
		admitted := len(x.Gates) == 0
		x.Admitted = &admitted
		if pod.Labels[p.managed] != "" {
			x.From = append(x.From, "label "+p.managed)
		}
	}
	if x.From = slices.Compact(x.From); len(x.From) == 0 {
		return nil
	}
	return x
}
