package explain

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestAPodSaysWhoQueuesIt(t *testing.T) {
	labelled := func(scheduler string, pairs ...string) *v1.Pod {
		p := &v1.Pod{}
		p.Spec.SchedulerName, p.Labels, p.Annotations = scheduler, map[string]string{}, map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			p.Labels[pairs[i]] = pairs[i+1]
		}
		return p
	}
	held := labelled("default-scheduler", "kueue.x-k8s.io/queue-name", "team-a", "kueue.x-k8s.io/managed", "true")
	held.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}, {Name: "other/gate"}}
	admitted := labelled("default-scheduler", "kueue.x-k8s.io/queue-name", "team-a", "kueue.x-k8s.io/managed", "true",
		"kueue.x-k8s.io/pod-group-name", "train")
	volcano := labelled("volcano")
	volcano.Annotations["scheduling.k8s.io/group-name"] = "job"
	kai := labelled("kai-scheduler", "kai.scheduler/queue", "gpu")
	kai.Annotations["pod-group-name"] = "pg-1"
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"nobody": {labelled("default-scheduler", "queue", "mine", "app", "web"), "null"},
		"Kueue": {held, `[{"project":"Kueue","queue":"team-a","admitted":false,` +
			`"gates":["kueue.x-k8s.io/admission"],"from":["label kueue.x-k8s.io/queue-name",` +
			`"spec.schedulingGates","label kueue.x-k8s.io/managed"]}]`},
		"admitted": {admitted, `[{"project":"Kueue","queue":"team-a","gang":"train","admitted":true,` +
			`"from":["label kueue.x-k8s.io/queue-name","label kueue.x-k8s.io/pod-group-name",` +
			`"label kueue.x-k8s.io/managed"]}]`},
		"Volcano": {volcano, `[{"project":"Volcano","gang":"job","from":["spec.schedulerName",` +
			`"annotation scheduling.k8s.io/group-name"]}]`},
		"KAI": {kai, `[{"project":"KAI","queue":"gpu","gang":"pg-1","from":["spec.schedulerName",` +
			`"label kai.scheduler/queue","annotation pod-group-name"]}]`},
		"YuniKorn": {labelled("yunikorn", "applicationId", "app-7", "queue", "root.a"), `[{"project":"YuniKorn","queue":"root.a","gang":"app-7","from":["spec.schedulerName",` +
			`"label queue","label applicationId"]}]`},
		"YuniKorn's": {labelled("x", "yunikorn.apache.org/queue", "root.b"), `[{"project":"YuniKorn","queue":"root.b","from":["label yunikorn.apache.org/queue"]}]`},
	} {
		got, err := json.Marshal(managedBy(test.pod))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v\nwant %s", name, got, err, test.want)
		}
	}
}
