package histories

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A Takeover is the duration of a takeover, in a cluster of some size, until a gang was bound that came when the
// leading scheduler was killed. The scheduler that takes over was on standby, and had all of the log.
type Takeover struct {
	// Entries is the number of the log's entries.
	Entries uint64
	// Gone is the time at which the leader's end was noticed. Leads is the time at which the log was open and the lead
	// begun. TakenOver is the time at which the log's last entry was applied. First and All are the times at which the
	// first member and all members were bound. Each counts from the kill.
	Gone, Leads, TakenOver, First, All time.Duration
}

// nodeOfTakeover is the number of CPUs of each node of a Takeover; each pod takes one.
const nodeOfTakeover = 64

// MeasureTakeover makes a cluster with the given numbers of nodes and bound pods, and lets one scheduler log all of
// it. It kills that one, and measures the time that another one needs to bind a gang of the given size.
func MeasureTakeover(t testing.TB, nodes, pods, gang int) (Takeover, error) {
	h, err := newHistory(t, Plan{
		Name: fmt.Sprintf("takeover of %d nodes and %d pods", nodes, pods), Seed: 1, Schedulers: 2,
		Patience: 30 * time.Second, Every: time.Second, Usual: true, Fill: func(c *cluster) { fill(c, nodes, pods) },
	})
	if err != nil {
		return Takeover{}, err
	}
	defer h.log.Close()
	out, err := h.takeover(gang)
	h.end()
	return out, errors.Join(err, h.wrong)
}

// fill makes nodes and pods that are bound to them.
func fill(c *cluster, nodes, pods int) {
	name := func(i int) string { return fmt.Sprintf("host-%05d", i) }
	for i := range nodes {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU:  *resource.NewQuantity(nodeOfTakeover, resource.DecimalSI),
			v1.ResourcePods: resource.MustParse("110"),
		}
		c.put(eventlog.Nodes, n)
	}
	for i := range pods {
		p := podOfTakeover(fmt.Sprintf("bound-%06d", i), "")
		p.Spec.NodeName = name(i % nodes)
		c.put(eventlog.Pods, p)
	}
}

func podOfTakeover(name, gang string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.SchedulerName = "default-scheduler"
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(1, resource.DecimalSI),
	}}}}
	if gang != "" {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &gang}
	}
	return p
}

// takeover is MeasureTakeover in a history that is ready to begin.
func (h *history) takeover(gang int) (out Takeover, err error) {
	if err := h.begin(); err != nil {
		return out, err
	}
	const most = 10 * time.Minute
	bound := func() bool { return len(h.cluster.called()) > 0 }
	if err := h.await("the leader has logged the cluster, and bound a pod", most, bound); err != nil {
		return out, err
	}
	leader := h.schedulerAt(leading)
	standby := h.members[0]
	if standby == leader {
		standby = h.members[1]
	}
	hasAll := func() bool {
		out.Entries = h.lastNote(leader.id, Acknowledged).Last
		return out.Entries > 0 && h.lastNote(standby.id, Seen).Last >= out.Entries
	}
	if err := h.await("the standby has all of the log", most, hasAll); err != nil {
		return out, err
	}
	time.Sleep(2 * time.Second) // what comes late: results of binds, and the watches of the standby
	before := len(h.cluster.called())
	killed := time.Now()
	if _, err := (killScheduler{leading}).begin(h); err != nil {
		return out, err
	}
	h.addGangOfTakeover(gang)
	all := func() bool { return len(h.cluster.called()) >= before+gang }
	if err := h.await("the gang is bound", most, all); err != nil {
		return out, err
	}
	calls := h.cluster.called()
	out.First, out.All = calls[before].At.Sub(killed), calls[before+gang-1].At.Sub(killed)
	for word, at := range map[string]*time.Duration{ // any order: each sets its own
		"the leader is gone": &out.Gone, ": leads": &out.Leads, "took over the state": &out.TakenOver,
	} {
		if *at, err = h.saidAfter(standby.name, word, killed); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (h *history) addGangOfTakeover(members int) {
	const name = "gang-after"
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(members)}
	h.cluster.put(eventlog.PodGroups, g)
	for i := range members {
		h.cluster.put(eventlog.Pods, podOfTakeover(fmt.Sprintf("%s-%d", name, i), name))
	}
}

// lastNote returns the last note of a kind among the last ones of a process; an empty one if there is none.
func (h *history) lastNote(process string, what What) (last Note) {
	file, err := os.Open(filepath.Join(h.dir, process+notesEnd))
	if err != nil {
		return last
	}
	defer file.Close()
	const end = 64 << 10
	if info, err := file.Stat(); err == nil && info.Size() > end {
		_, _ = file.Seek(-end, 2)
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var n Note
		if json.Unmarshal(lines.Bytes(), &n) == nil && n.What == what { // the first and the last may be cut
			last = n
		}
	}
	return last
}

// saidAfter returns the time from begun until a scheduler wrote something.
func (h *history) saidAfter(name, what string, begun time.Time) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(h.dir, name+".err"))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		clock, rest, _ := strings.Cut(string(line), " ")
		day := begun.Format(time.DateOnly + " ")
		at, err := time.ParseInLocation(time.DateOnly+" 15:04:05.000", day+clock, time.Local)
		if err == nil && strings.Contains(rest, what) && !at.Before(begun.Truncate(time.Millisecond)) {
			return at.Sub(begun), nil
		}
	}
	return 0, fmt.Errorf("scheduler %s has not said %q", name, what)
}
