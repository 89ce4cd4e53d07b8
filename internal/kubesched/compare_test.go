package kubesched_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/kubesched"
)

// decideAll makes both sides decide until nothing is left to decide.
func (d *duel) decideAll() {
	for range 1000 {
		trace := &framework.Trace{}
		traced, ok := d.ours.Decide(trace)
		decision, _ := d.ours.Decide(nil) // with memos
		if diff := cmp.Diff(traced, decision); diff != "" {
			d.fatalf("with a trace (-) and without (+) another is decided:\n%s", diff)
		}
		if !ok {
			return
		}
		d.decide(&decision, trace)
	}
	d.fatalf("there is no end of decisions")
}

// decide lets kube-scheduler decide on the pod of a decision, compares, and applies the decision on both sides.
func (d *duel) decide(ours *eventlog.Decision, trace *framework.Trace) {
	pod := d.api[keyOf(&v1.Pod{}, ours.Namespace, ours.Name)].(*v1.Pod).DeepCopy()
	if f := trace.Failed; f != nil && strings.Contains(strings.Join(f.Reasons, ""), "search for devices is given up") {
		d.seen["search is given up"]++ // ours is bounded in steps, and kube-scheduler's in time
		d.enter(ours)
		return
	}
	pod.Status.NominatedNodeName = d.nominated[pod.UID]
	theirs := d.theirs.Ask(pod)
	d.deciding = fmt.Sprintf("on pod %s we decide %+v, after PostFilter %+v; nominated are %v", pod.Name, *ours,
		trace.PostFilter, d.nominated)
	apart := d.isApart(pod) || d.freesDevices(pod)
	if !apart {
		d.compareFilters(theirs, trace)
		d.compareScores(theirs, trace)
	}
	switch ours.Outcome {
	case eventlog.Scheduled:
		if _, feasible := theirs.Scores[ours.Node]; apart && feasible {
			d.enter(ours)
			d.reserve(ours, pod)
			break
		}
		if best := theirs.Best(); len(best) == 0 || best[0] != ours.Node {
			d.fatalf("kube-scheduler takes one of %v", best) // of nodes that are equally good we take the first by name
		}
		if theirs.Scores[ours.Node].Total != ours.Score {
			d.fatalf("the score is %d", theirs.Scores[ours.Node].Total)
		}
		d.seen["scheduled"]++
		d.enter(ours)
		d.reserve(ours, pod)
	case eventlog.Unschedulable:
		victims := d.victimsOf(ours)
		if !apart {
			if len(theirs.Scores) > 0 || theirs.Failed != nil {
				d.fatalf("kube-scheduler takes one of %v: %v", theirs.Best(), theirs.Failed)
			}
			d.comparePreemption(ours, pod, victims)
		}
		d.yield(ours, pod)
		d.enter(ours)
		d.nominate(pod, ours.Nominated)
		d.evict(ours, victims)
	case eventlog.Error:
		if theirs.Failed == nil {
			d.fatalf("kube-scheduler does not fail: %+v", theirs)
		}
		d.seen["failed"]++
		d.enter(ours)
	default:
		d.fatalf("that is no outcome for a pod by itself")
	}
	d.deciding = ""
}

// isApart says whether a pod and one that is nominated must not be beside each other. Ours keeps such a pod out of the
// way of the nominated one, and kube-scheduler does not (scheduler/apart.go). So the feasible nodes and all that
// follows from them are not compared.
func (d *duel) isApart(pod *v1.Pod) bool {
	for uid := range d.nominated { // any order: any of them
		if other := d.podOf(uid); uid != pod.UID && (forbids(pod, other) || forbids(other, pod)) {
			d.seen["kept apart from a nominated pod"]++
			return true
		}
	}
	return false
}

// freesDevices says whether preemption may free devices for a pod, or keep some for nominated ones. kube-scheduler's
// does neither (plugins/devicesfreed.go).
func (d *duel) freesDevices(pod *v1.Pod) bool {
	frees := d.shape.preemption && len(pod.Spec.ResourceClaims) > 0
	d.seen["devices may be freed"] += map[bool]int{true: 1}[frees]
	return frees
}

// forbids says whether the required anti-affinity of a pod is against another one.
func forbids(pod, other *v1.Pod) bool {
	for _, term := range fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity) {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil || selector.Matches(labels.Set(other.Labels)) { // whatever the namespaces
			return true
		}
	}
	return false
}

// enter makes our decision a fact.
func (d *duel) enter(ours *eventlog.Decision) { d.apply(ours) }

// compareFilters compares the reasons for which the pod as a whole was refused, or each of the nodes.
func (d *duel) compareFilters(theirs *kubesched.Answer, trace *framework.Trace) {
	if theirs.Failed != nil {
		return // kube-scheduler filters side by side: what it has filtered before it fails is left to chance
	}
	var whole *kubesched.Refusal
	for _, a := range trace.PreFilter {
		if a.Code != "Success" && a.Code != "Skip" {
			whole = &kubesched.Refusal{Plugin: a.Plugin, Code: a.Code, Reasons: a.Reasons}
		}
	}
	if diff := cmp.Diff(theirs.PreFilter, whole); diff != "" {
		d.fatalf("PreFilter of kube-scheduler (-) and ours (+):\n%s", diff)
	}
	if whole != nil {
		d.note("PreFilter", *whole)
		return
	}
	skipped := slices.Sorted(slices.Values(trace.SkippedFilters))
	if diff := cmp.Diff(theirs.Skipped, skipped); diff != "" {
		d.fatalf("the plugins that skip Filter, of kube-scheduler (-) and ours (+):\n%s", diff)
	}
	refused := map[string]kubesched.Refusal{}
	// If several CSI drivers are missing, kube-scheduler names any of them.
	for node, r := range theirs.Refused {
		theirs.Refused[node] = anyDriver(r)
	}
	for _, r := range trace.Refused {
		refused[r.Node] = kubesched.Refusal{Plugin: r.Plugin, Code: r.Code, Reasons: r.Reasons}
		refused[r.Node] = forGood(anyDriver(refused[r.Node]))
		d.note("Filter", refused[r.Node])
	}
	if diff := cmp.Diff(theirs.Refused, refused); diff != "" {
		d.fatalf("the nodes that kube-scheduler (-) and we (+) refuse:\n%s", diff)
	}
}

// forGood is a refusal with kube-scheduler's code: there preemption frees no devices.
func forGood(r kubesched.Refusal) kubesched.Refusal {
	if r.Plugin == names.DynamicResources && slices.Equal(r.Reasons, []string{"cannot allocate all claims"}) {
		r.Code = fwk.UnschedulableAndUnresolvable.String()
	}
	return r
}

// anyDriver is a refusal without the name of the CSI driver that a node does not have.
func anyDriver(r kubesched.Refusal) kubesched.Refusal {
	const missing = " CSI driver is not installed on the node"
	if r.Plugin == names.NodeVolumeLimits && len(r.Reasons) == 1 && strings.HasSuffix(r.Reasons[0], missing) {
		r.Reasons = []string{missing}
	}
	return r
}

// note counts a refusal by its plugin and its words, without the names in them.
func (d *duel) note(point string, r kubesched.Refusal) {
	d.seen[point+" "+r.Plugin]++
	for _, reason := range r.Reasons {
		if before, _, named := strings.Cut(reason, `"`); named {
			reason = before + "…"
		}
		d.seen[point+" "+r.Plugin+": "+reason]++
	}
}

func (d *duel) compareScores(theirs *kubesched.Answer, trace *framework.Trace) {
	if theirs.Failed != nil {
		return
	}
	scores := map[string]kubesched.Score{}
	for _, s := range trace.Scored {
		score := kubesched.Score{Total: s.Total}
		for _, p := range s.Plugins {
			score.Plugins = append(score.Plugins,
				kubesched.PluginScore{Plugin: p.Plugin, Raw: p.Raw, Weighted: p.Weighted})
			if p.Raw != 0 {
				d.seen["Score "+p.Plugin]++
			}
		}
		scores[s.Node] = score
	}
	if diff := cmp.Diff(theirs.Scores, scores); diff != "" {
		d.fatalf("the scores of kube-scheduler (-) and ours (+):\n%s", diff)
	}
}

// reserve lets kube-scheduler reserve for the pod on the chosen node. It compares what kube-scheduler writes before it
// binds the pod with our decision.
func (d *duel) reserve(ours *eventlog.Decision, pod *v1.Pod) {
	made := ""
	for _, c := range ours.Devices {
		if c.UID == "" {
			made = c.Claim
		}
	}
	written, err := d.theirs.Bind(ours.Node, made)
	if err != nil {
		d.fatalf("kube-scheduler does not reserve: %v", err)
	}
	f := flight{pod: pod, node: ours.Node, decision: d.ours.Seq(), claims: map[string]*resourcev1.ResourceClaim{}}
	var volumes []eventlog.VolumeClaim
	devices := map[string]string{}
	for _, obj := range written {
		switch o := obj.(type) {
		case *v1.PersistentVolume:
			volumes = append(volumes, eventlog.VolumeClaim{Claim: o.Spec.ClaimRef.Name, Volume: o.Name})
		case *v1.PersistentVolumeClaim:
			if node := o.Annotations[volume.AnnSelectedNode]; node != ours.Node {
				d.fatalf("kube-scheduler has claim %s provisioned for node %q", o.Name, node)
			}
			volumes = append(volumes, eventlog.VolumeClaim{Claim: o.Name})
		case *resourcev1.ResourceClaim:
			f.claims[o.Name] = o
			stands, ok := d.api[keyOf(o, o.Namespace, o.Name)].(*resourcev1.ResourceClaim)
			if !ok || stands.Status.Allocation == nil {
				devices[o.Name] = d.comparable(o.Status.Allocation)
			}
		}
	}
	slices.SortFunc(volumes, func(a, b eventlog.VolumeClaim) int { return strings.Compare(a.Claim, b.Claim) })
	if diff := cmp.Diff(volumes, ours.Volumes); diff != "" {
		d.fatalf("the volumes of kube-scheduler (-) and ours (+):\n%s", diff)
	}
	decided := map[string]string{}
	for _, c := range ours.Devices {
		allocation, err := c.Result()
		if err != nil {
			d.fatalf("claim %s: %v", c.Claim, err)
		}
		decided[c.Claim] = d.comparable(allocation)
		if claim := f.claims[c.Claim]; claim != nil {
			allocation.Devices.Config = claim.Status.Allocation.Devices.Config
			claim.Status.Allocation = allocation
		}
	}
	if diff := cmp.Diff(devices, decided); diff != "" {
		d.fatalf("the devices of kube-scheduler (-) and ours (+):\n%s", diff)
	}
	d.compareMade(ours, pod, f.claims[made])
	f.volumes = volumes
	for _, v := range volumes {
		d.seen["volume is bound"] += map[bool]int{true: 1}[v.Volume != ""]
		d.seen["volume is provisioned"] += map[bool]int{true: 1}[v.Volume == ""]
	}
	d.seen["claim is allocated"] += len(devices)
	d.seen["claim is shared"] += len(f.claims) - len(devices)
	delete(d.nominated, pod.UID)
	d.theirs.Nominate(pod, "")
	d.flying = append(d.flying, f)
}

// compareMade compares kube-scheduler's claim for extended resources with ours: its requests, and which container uses
// which of them.
func (d *duel) compareMade(ours *eventlog.Decision, pod *v1.Pod, theirs *resourcev1.ResourceClaim) {
	told, err := d.theirs.Mappings()
	if err != nil {
		d.fatalf("patch of the pod's status: %v", err)
	}
	if theirs == nil {
		if told != nil {
			d.fatalf("kube-scheduler says of a pod without a claim %+v", told)
		}
		if len(devices.ClassesOf(d.ours.Cluster().Devices(), pod)) > 0 {
			d.seen["extended resource of a device plugin"]++
		}
		return
	}
	i := slices.IndexFunc(ours.Devices, func(c eventlog.DeviceClaim) bool { return c.Claim == theirs.Name })
	requests, err := ours.Devices[i].Requests()
	if err != nil {
		d.fatalf("claim %s: %v", theirs.Name, err)
	}
	made := devices.ClaimToMake(pod, theirs.Name, requests)
	if diff := cmp.Diff(theirs.Spec, made.Spec); diff != "" {
		d.fatalf("the claim for extended resources of kube-scheduler (-) and ours (+):\n%s", diff)
	}
	if diff := cmp.Diff([]any{theirs.Annotations, theirs.OwnerReferences},
		[]any{made.Annotations, made.OwnerReferences}); diff != "" {
		d.fatalf("whose the claim for extended resources is, by kube-scheduler (-) and by us (+):\n%s", diff)
	}
	mappings, err := devices.RequestMappings(pod, requests)
	if err != nil {
		d.fatalf("claim %s: %v", theirs.Name, err)
	}
	want := &v1.PodExtendedResourceClaimStatus{ResourceClaimName: theirs.Name, RequestMappings: mappings}
	if diff := cmp.Diff(told, want); diff != "" {
		d.fatalf("the status of the pod by kube-scheduler (-) and by us (+):\n%s", diff)
	}
	d.seen["claim is made"]++
	d.seen["claim is made of several requests"] += map[bool]int{true: 1}[len(requests) > 1]
	d.seen["request is used twice"] += map[bool]int{true: 1}[len(mappings) > len(requests)]
	d.seen["claim is made beside others"] += map[bool]int{true: 1}[len(ours.Devices) > 1]
}

// comparable leaves out of an allocation the parts that we omit or choose otherwise by intent. Configurations and times
// are not in the log. The identities of shares follow from the claim, where kube-scheduler's are random.
func (d *duel) comparable(a *resourcev1.AllocationResult) string {
	if a == nil {
		return "none"
	}
	a = a.DeepCopy()
	a.AllocationTimestamp, a.Devices.Config = nil, nil
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		if r.ShareID != nil {
			d.seen["device is shared"]++
			r.ShareID = new(types.UID)
		}
		if r.AdminAccess != nil && *r.AdminAccess {
			d.seen["device for admin access"]++
		}
		if strings.Contains(r.Request, "/") {
			d.seen["first available"]++
		}
		if strings.HasPrefix(r.Device, "half") {
			d.seen["partition"]++
		}
		d.seen["device"]++
	}
	text, err := json.Marshal(a)
	if err != nil {
		d.fatalf("allocation: %v", err)
	}
	return string(text)
}

// comparePreemption compares the node and the victims. Kube-scheduler may choose at random between nodes that are
// equally good: ours is one of its answers.
func (d *duel) comparePreemption(ours *eventlog.Decision, pod *v1.Pod, victims []*v1.Pod) {
	var ourVictims []string
	for _, p := range victims {
		ourVictims = append(ourVictims, p.Name)
	}
	slices.Sort(ourVictims)
	us := fmt.Sprintf("nominated to %q, victims %v", ours.Nominated, ourVictims)
	answers := map[string]bool{}
	for range 60 {
		theirs, err := d.theirs.Preempt()
		failed := slices.ContainsFunc(ours.Rejections, func(r eventlog.Rejection) bool {
			return r.Plugin == names.DefaultPreemption && r.Code == fwk.Error.String()
		})
		if (err != nil) != failed {
			d.fatalf("preemption of kube-scheduler: %v", err)
		}
		if failed {
			theirs.Node = pod.Status.NominatedNodeName // it keeps its nomination
			d.seen["preemption fails"]++
		}
		// Kube-scheduler's victims include pods that are leaving already. It does not delete them again.
		theirs.Victims = slices.DeleteFunc(theirs.Victims, func(name string) bool {
			return d.api[keyOf(pod, namespace, name)].GetDeletionTimestamp() != nil
		})
		if theirs.Ineligible != "" {
			theirs.Node = pod.Status.NominatedNodeName // it keeps its nomination
			d.seen["not eligible to preempt"]++
		}
		answers[fmt.Sprintf("nominated to %q, victims %v", theirs.Node, theirs.Victims)] = true
		if answers[us] {
			if len(victims) > 0 {
				d.seen["preempts"]++
				d.noteVictims(pod, victims)
			}
			return
		}
	}
	d.fatalf("%s; kube-scheduler: one of %v", us, slices.Sorted(maps.Keys(answers)))
}

func (d *duel) victimsOf(ours *eventlog.Decision) (victims []*v1.Pod) {
	for _, uid := range ours.Victims {
		victims = append(victims, d.podOf(uid))
	}
	return victims
}

func (d *duel) noteVictims(pod *v1.Pod, victims []*v1.Pod) {
	for _, p := range append(victims, pod) {
		if len(p.Spec.ResourceClaims) > 0 {
			d.seen["preemption with devices"]++
		}
		if len(p.Spec.Volumes) > 0 {
			d.seen["preemption with volumes"]++
		}
	}
	if len(victims) > 1 {
		d.seen["several victims"]++
	}
}

// yield: the pods of lower priority that are nominated to the node where pods are evicted lose their
// nomination (getLowerPriorityNominatedPods).
func (d *duel) yield(ours *eventlog.Decision, pod *v1.Pod) {
	var yield, theirs []types.UID
	for _, n := range ours.Nominations {
		if n.Node != "" {
			d.fatalf("pod %s is nominated too", n.UID)
		}
		if d.nominated[n.UID] != ours.Nominated || *d.podOf(n.UID).Spec.Priority >= *pod.Spec.Priority {
			d.fatalf("pod %s keeps its nomination", n.UID)
		}
		yield = append(yield, n.UID)
		d.nominate(d.podOf(n.UID), "")
		d.seen["nomination is lost"]++
	}
	if len(ours.Victims) > 0 {
		for uid, node := range d.nominated {
			if uid != pod.UID && node == ours.Nominated && *d.podOf(uid).Spec.Priority < *pod.Spec.Priority {
				theirs = append(theirs, uid)
			}
		}
	}
	if len(theirs) > 0 {
		d.fatalf("%v lose their nominations, and %v keep theirs", yield, theirs)
	}
}
