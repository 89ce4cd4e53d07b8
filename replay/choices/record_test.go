package choices_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay/choices"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// start is the time of a recording's first entry.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// recording is a log of a cluster that others schedule. Each entry comes a second after the one before it.
type recording struct {
	t   *testing.T
	log *eventlog.Memory
	seq uint64
}

func newRecording(t *testing.T, configuration string) *recording {
	t.Helper()
	cfg := framework.DefaultConfig()
	if configuration != "" {
		var err error
		if cfg, err = framework.LoadConfig([]byte(configuration), "test"); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Recording = true
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{t: t, log: eventlog.NewMemory()}
	r.add(&eventlog.EpochStarted{ID: "test", Version: "test", Format: eventlog.FormatVersion,
		Behaviour: scheduler.Behaviour, Config: config})
	return r
}

func (r *recording) now() time.Time { return start.Add(time.Duration(r.seq) * time.Second) }

func (r *recording) add(payloads ...eventlog.Payload) {
	r.t.Helper()
	for _, p := range payloads {
		e := eventlog.Entry{Seq: r.seq + 1, Epoch: 1, Time: eventlog.TimeOf(r.now()), Payload: p}
		if err := r.log.Append(r.t.Context(), r.seq, []eventlog.Entry{e}); err != nil {
			r.t.Fatal(err)
		}
		r.seq++
	}
}

func (r *recording) history() *history.Log {
	return history.New(history.Plain(r.log, transcripts.Registry()), history.Options{})
}

// compare returns all choices of the recording.
func (r *recording) compare(opts choices.Options) (all []*answer.Choice, sum *choices.Summary) {
	r.t.Helper()
	sum, err := choices.Compare(r.t.Context(), r.history(), 1, r.seq, opts, func(x *answer.Choice) error {
		all = append(all, x)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if sum.Binds != len(all) || sum.Same+sum.Other+sum.Infeasible+sum.Unrated != sum.Binds {
		r.t.Errorf("the counts of %d choices do not add up: %+v", len(all), sum)
	}
	return all, sum
}

func upserted(res eventlog.Resource, obj eventlog.Object) eventlog.Payload {
	return &eventlog.Upserted{Resource: res, Object: obj}
}

func node(name, cpu string, options ...func(*v1.Node)) eventlog.Payload {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu),
		v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110")}
	for _, o := range options {
		o(n)
	}
	return upserted(eventlog.Nodes, n)
}

func cordoned(n *v1.Node) { n.Spec.Unschedulable = true }

func pod(name, cpu string, options ...func(*v1.Pod)) eventlog.Payload {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("pod-" + name)}}
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
	for _, o := range options {
		o(p)
	}
	return upserted(eventlog.Pods, p)
}

func on(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }

func made(at time.Time) func(*v1.Pod) {
	return func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(at.Truncate(time.Second)) }
}

func scheduledBy(name string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.SchedulerName = name } }

// ofGang makes the pod a member of a gang, which its members declare.
func ofGang(name, size string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Labels = map[string]string{"kueue.x-k8s.io/pod-group-name": name}
		p.Annotations = map[string]string{"kueue.x-k8s.io/pod-group-total-count": size}
	}
}
