package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// moment is one step of a story: how long after the one before, and what the world brings.
type moment struct {
	after  time.Duration
	inputs []eventlog.Payload
}

// gangStory has all cases of an engine: gangs that fit, gangs that must wait, and one that is released. Time makes
// work. A late member comes, nodes come and go, and the results of binds come a step later.
func gangStory() []moment {
	return []moment{
		{0, []eventlog.Payload{node("n1", "4"), node("n2", "4")}},
		{0, []eventlog.Payload{group("green", 3), pod("green-0", "3", "green"), pod("green-1", "3", "green"),
			pod("green-2", "2", "green")}},
		{time.Second / 2, []eventlog.Payload{node("n0", "2")}},
		{time.Second, nil},
		{time.Second, []eventlog.Payload{gone("green-0"), gone("green-1"), gone("green-2"),
			&eventlog.Deleted{Resource: eventlog.Nodes, Name: "n0", UID: "node-n0"}}},
		{time.Second, []eventlog.Payload{group("red", 3), pod("red-0", "2", "red"), pod("red-1", "2", "red"),
			pod("red-2", "2", "red")}},
		{time.Second, []eventlog.Payload{group("blue", 2), pod("blue-0", "3", "blue"), pod("wide", "16", "")}},
		{time.Second, []eventlog.Payload{pod("blue-1", "3", "blue")}},
		{time.Second, []eventlog.Payload{pod("single", "1", "")}},
		{2 * time.Second, nil},
		{time.Second, []eventlog.Payload{gone("red-0"), gone("red-1"), gone("red-2")}},
		{10 * time.Second, nil},
		{time.Second, []eventlog.Payload{node("n3", "16")}},
		{10 * time.Second, nil},
		{0, []eventlog.Payload{&eventlog.Deleted{Resource: eventlog.Nodes, Name: "n1", UID: "node-n1"},
			pod("last", "1", "")}},
		{time.Minute, nil},
		{6 * time.Minute, nil},
	}
}

func node(name, cpu string) eventlog.Payload {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu),
		v1.ResourcePods: resource.MustParse("110")}
	return &eventlog.Upserted{Resource: eventlog.Nodes, Object: n}
}

func group(name string, minimum int32) eventlog.Payload {
	g := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("group-" + name)}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
	return &eventlog.Upserted{Resource: eventlog.PodGroups, Object: g}
}

func pod(name, cpu, group string) eventlog.Payload {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.SchedulerName = "default-scheduler"
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	if group != "" {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}
	return &eventlog.Upserted{Resource: eventlog.Pods, Object: p}
}

func gone(name string) eventlog.Payload {
	return &eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: name, UID: types.UID("uid-" + name)}
}

// world drives an engine through a story and carries out its effects: what is asked for in one step is
// answered in the next one.
type world struct {
	t       testing.TB
	log     *faultyLog
	engine  *engine.Engine
	now     time.Time
	answers []eventlog.Payload
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, log: &faultyLog{kept: eventlog.NewMemory()}, now: start}
	w.reopen()
	return w
}

// reopen makes a new engine from the log, as after a crash.
func (w *world) reopen() {
	w.t.Helper()
	w.log = &faultyLog{kept: w.log.kept}
	w.engine = open(w.t, w.log, w.now)
}

func open(t testing.TB, log engine.Log, now time.Time) *engine.Engine {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(context.Background(), log, now, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", NewID: func() string { return "epoch" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// step lets a moment happen. An error leaves the world as it was.
func (w *world) step(m moment) ([]scheduler.Effect, error) {
	w.t.Helper()
	inputs := append(append([]eventlog.Payload(nil), w.answers...), m.inputs...)
	effects, err := effectsOf(w.engine.Step(context.Background(), w.now.Add(m.after), inputs))
	w.engine.AwaitSnapshot() // so that each one that is due is made
	if err != nil {
		return effects, err
	}
	w.now = w.now.Add(m.after)
	w.answers = nil
	durable, err := w.log.kept.Last()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, x := range effects {
		if x.Seq > durable {
			w.t.Errorf("the effect %+v is released, and the last durable entry is %d", x, durable)
		}
		if x.Kind == scheduler.Bind {
			w.answers = append(w.answers, &eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: eventlog.BindBound})
		}
	}
	return effects, nil
}

func (w *world) mustStep(m moment) []scheduler.Effect {
	w.t.Helper()
	effects, err := w.step(m)
	if err != nil {
		w.t.Fatal(err)
	}
	return effects
}

func (w *world) entries() []eventlog.Entry { return entries(w.t, w.log.kept) }

func entries(t testing.TB, log engine.Log) []eventlog.Entry {
	t.Helper()
	var all []eventlog.Entry
	for e, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// placements says where each pod of the story stands.
func placements(m *scheduler.Machine) map[string]string {
	where := map[string]string{}
	for _, moment := range gangStory() {
		for _, in := range moment.inputs {
			if up, ok := in.(*eventlog.Upserted); ok && up.Resource == eventlog.Pods {
				if p := m.Cluster().Pods().Get(up.Object.GetUID()); p != nil {
					where[p.Object.Name] = fmt.Sprintf("%s %s", p.Stage, p.Node)
				}
			}
		}
	}
	return where
}

var errDisk = errors.New("the disk said no")

// faultyLog fails the append number failAt (from 1), before or after its entries are kept, and all that follow.
type faultyLog struct {
	kept    *eventlog.Memory
	failAt  int // 0 for never
	persist bool
	appends []int // how many entries each had
	failed  bool
}

func (l *faultyLog) Append(ctx context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	if l.failed {
		return eventlog.ErrUnknownOutcome
	}
	l.appends = append(l.appends, len(entries))
	if len(l.appends) != l.failAt {
		return l.kept.Append(ctx, expectedLast, entries)
	}
	l.failed = true
	if l.persist {
		if err := l.kept.Append(ctx, expectedLast, entries); err != nil {
			return err
		}
	}
	return errDisk
}

func (l *faultyLog) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return l.kept.Read(ctx, from)
}

func (l *faultyLog) RecordHash(ctx context.Context, seq uint64) ([32]byte, error) {
	return l.kept.RecordHash(ctx, seq)
}

func (l *faultyLog) Last() (uint64, error) { return l.kept.Last() }
func (l *faultyLog) Limit() eventlog.Limit { return l.kept.Limit() }
func (l *faultyLog) Close() error          { return l.kept.Close() }
