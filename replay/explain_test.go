package replay_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// TestExplanations plays the stories in testdata. With -rewrite it writes down what is said now; read it as
// someone would who was just woken up.
//
// Commands:
//
//	config                             the KubeSchedulerConfiguration that stands below, before the first log
//	log [binds=keep]           takes in what stands below, line by line, deciding after each; binds are
//	                           answered at once, unless they are kept
//	pod|group NS/NAME [at=SEQ] [after=DURATION] [from=SEQ] [runnersup=N] [json|reason|history]
//	                                   from: what is known begins behind that entry; reason, history: only that, as JSON
//
// Lines of a log:
//
//	node NAME cpu=4 [memory=] [gpu=] [pods=110] [taint=KEY] [label=k:v]
//	group NS/NAME min=3 [parent=C] [mode=NonStrict] [asks=GPUS] [timeout=30s] [below=Evict]
//	composite NS/NAME min=2
//	pod NS/NAME cpu=1 [memory=] [gpu=] [group=G] [node=N] [gate=G] [scheduler=S] [selector=k:v] [label=k:v] [lasts=10s] [count=N]
//	                                            count: NAME is followed by a number from 0 on
//	ungate|delete|terminate|finish|fail|bound NS/NAME
//	                                            of a pod: its gates go, it goes, its deletion begins, it has
//	                                            succeeded, its bind fails, is done
//	delete-node NAME
//	delete-group NS/NAME
//	wait DURATION
func TestExplanations(t *testing.T) {
	datadriven.Walk(t, "testdata/explain", func(t *testing.T, path string) {
		var s *story
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if s == nil {
				s = newStoryWith(t, configurationOf(d))
			}
			s.t = t
			switch d.Cmd {
			case "config":
				return "ok"
			case "log":
				return s.write(d)
			case "pod", "group":
				return s.ask(d)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// story is a log that is written by an engine.
type story struct {
	t      *testing.T
	now    time.Time
	log    *eventlog.Memory
	engine *engine.Engine
	uids   int
	keep   bool // binds are not answered
}

func newStory(t *testing.T) *story { return newStoryWith(t, "") }

// newStoryWith begins a story with a configuration, "" for the default one.
func newStoryWith(t *testing.T, configuration string) *story {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := &story{t: t, now: start, log: eventlog.NewMemory()}
	if configuration != "" {
		loaded, err := framework.LoadConfig([]byte(configuration), "configuration")
		s.must(err)
		config, err = framework.EncodeConfig(loaded)
		s.must(err)
	}
	s.engine, err = engine.Open(context.Background(), s.log, s.now, engine.Options{Registry: registry(),
		Config: config, Version: "test", NewID: func() string { return "epoch" }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) write(d *datadriven.TestData) string {
	s.keep = d.HasArg("binds")
	for line := range strings.Lines(d.Input) {
		if words := strings.Fields(line); len(words) > 0 {
			s.line(words[0], words[1], words[2:])
		}
	}
	last, err := s.log.Last()
	s.must(err)
	return fmt.Sprintf("%d entries", last)
}

func (s *story) line(verb, name string, args []string) {
	s.t.Helper()
	namespace, short, _ := strings.Cut(name, "/")
	p := s.engine.Machine().Cluster().PodNamed(namespace, short)
	switch verb {
	case "node":
		s.step(&eventlog.Upserted{Resource: eventlog.Nodes, Object: node(name, args)})
	case "group":
		if arg(args, "mode")+arg(args, "asks")+arg(args, "timeout") != "" {
			s.step(&eventlog.Upserted{Resource: eventlog.XPodGroups, Object: xgroup(s.t, namespace, short, args)})
			break
		}
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: short, UID: types.UID("group-" + short)}}
		n, err := strconv.Atoi(arg(args, "min"))
		s.must(err)
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(n)}
		if policy := arg(args, "below"); policy != "" {
			g.Annotations = map[string]string{"rollcall.dev/below-minimum": policy}
		}
		if c := arg(args, "parent"); c != "" {
			g.Spec.ParentCompositePodGroupName = &c
		}
		s.step(&eventlog.Upserted{Resource: eventlog.PodGroups, Object: g})
	case "composite":
		c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: short, UID: types.UID("composite-" + short)}}
		n, err := strconv.Atoi(arg(args, "min"))
		s.must(err)
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: int32(n)}
		s.step(&eventlog.Upserted{Resource: eventlog.CompositePodGroups, Object: c})
	case "pod":
		s.pods(namespace, short, args)
	case "ungate":
		open := p.Object.DeepCopy()
		open.Spec.SchedulingGates = nil
		s.step(&eventlog.Upserted{Resource: eventlog.Pods, Object: open})
	case "terminate":
		ending := p.Object.DeepCopy()
		ending.DeletionTimestamp = &metav1.Time{Time: s.now}
		s.step(&eventlog.Upserted{Resource: eventlog.Pods, Object: ending})
	case "finish":
		done := p.Object.DeepCopy()
		done.Spec.NodeName, done.Status.Phase = p.Node, v1.PodSucceeded
		s.step(&eventlog.Upserted{Resource: eventlog.Pods, Object: done})
	case "delete-group":
		s.step(&eventlog.Deleted{Resource: eventlog.PodGroups, Namespace: namespace, Name: short, UID: types.UID("group-" + short)})
	case "delete":
		s.step(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: namespace, Name: short, UID: p.Object.UID})
	case "delete-node":
		s.step(&eventlog.Deleted{Resource: eventlog.Nodes, Name: name, UID: types.UID("node-" + name)})
	case "bound":
		s.step(&eventlog.BindResult{UID: p.Object.UID, Node: p.Node, Outcome: eventlog.BindBound})
	case "fail":
		s.step(&eventlog.BindResult{UID: p.Object.UID, Node: p.Node, Outcome: eventlog.BindFailed, Message: "the API server said no"})
	case "wait":
		by, err := time.ParseDuration(name)
		s.must(err)
		s.now = s.now.Add(by)
		s.step()
	default:
		s.t.Fatalf("unknown line %q", verb)
	}
}

// pods brings one pod, or as many as args say in one step.
func (s *story) pods(namespace, name string, args []string) {
	n, err := strconv.Atoi(cmp.Or(arg(args, "count"), "0"))
	s.must(err)
	var inputs []eventlog.Payload
	for i := range max(1, n) {
		s.uids++
		each := name
		if n > 0 {
			each += strconv.Itoa(i)
		}
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: pod(namespace, each, fmt.Sprintf("uid-%d", s.uids), args)})
	}
	s.step(inputs...)
}

// step takes inputs in and, unless binds are kept, answers those that are asked for.
func (s *story) step(inputs ...eventlog.Payload) {
	s.t.Helper()
	effects, err := s.engine.Step(context.Background(), s.now, inputs)
	s.must(err)
	var results []eventlog.Payload
	for _, x := range effects {
		if x.Kind == scheduler.Bind && !s.keep {
			results = append(results, &eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: eventlog.BindBound})
		}
	}
	if len(results) > 0 {
		s.step(results...)
	}
}

func (s *story) ask(d *datadriven.TestData) string {
	opts := replay.ExplainOptions{Registry: registry()}
	if d.HasArg("at") {
		d.ScanArgs(s.t, "at", &opts.AtSeq)
	}
	if d.HasArg("runnersup") {
		d.ScanArgs(s.t, "runnersup", &opts.RunnersUp)
	}
	if d.HasArg("after") {
		var after string
		d.ScanArgs(s.t, "after", &after)
		by, err := time.ParseDuration(after)
		s.must(err)
		opts.AtTime = eventlog.TimeOf(start.Add(by))
	}
	if d.HasArg("from") {
		d.ScanArgs(s.t, "from", &opts.Base)
		opts.Restore = s.restore(opts.Base)
	}
	namespace, name, _ := strings.Cut(d.CmdArgs[0].Key, "/")
	var x interface{ WriteText(io.Writer) error }
	var err error
	if d.Cmd == "pod" {
		x, err = replay.ExplainPod(context.Background(), s.log.Read, namespace, name, opts)
	} else {
		x, err = replay.ExplainGroup(context.Background(), s.log.Read, namespace, name, opts)
		var missing *replay.NotFoundError
		if errors.As(err, &missing) && missing.Composite {
			x, err = replay.ExplainComposite(context.Background(), s.log.Read, namespace, name, opts)
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	if d.HasArg("json") {
		b, err := json.MarshalIndent(x, "", " ")
		s.must(err)
		return string(b)
	}
	if d.HasArg("history") {
		b, err := json.MarshalIndent(x.(*replay.GroupExplanation).History, "", " ")
		s.must(err)
		return string(b)
	}
	if d.HasArg("reason") {
		b, err := json.MarshalIndent(reasonOf(x), "", " ")
		s.must(err)
		return string(b)
	}
	var b strings.Builder
	s.must(x.WriteText(&b))
	return b.String()
}

func reasonOf(x any) *replay.Reason {
	if pod, ok := x.(*replay.PodExplanation); ok {
		return pod.Reason
	}
	return x.(*replay.GroupExplanation).Reason
}

// restore makes the state after an entry from the log, as a snapshot would.
func (s *story) restore(seq uint64) func(uint64) (*scheduler.Machine, error) {
	return func(uint64) (*scheduler.Machine, error) {
		m := scheduler.New(registry())
		for e, err := range s.log.Read(1) {
			if err != nil || e.Seq > seq {
				return m, err
			}
			if err := m.Apply(e); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
}

func configurationOf(d *datadriven.TestData) string {
	if d.Cmd == "config" {
		return d.Input
	}
	return ""
}

func arg(args []string, key string) string {
	for _, a := range args {
		if k, v, _ := strings.Cut(a, "="); k == key {
			return v
		}
	}
	return ""
}

func resources(args []string) v1.ResourceList {
	list := v1.ResourceList{}
	for key, name := range map[string]v1.ResourceName{"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"} {
		if v := arg(args, key); v != "" {
			list[name] = resource.MustParse(v)
		}
	}
	return list
}

func node(name string, args []string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Status.Allocatable = resources(args)
	n.Status.Allocatable[v1.ResourcePods] = resource.MustParse(cmp.Or(arg(args, "pods"), "110"))
	if key := arg(args, "taint"); key != "" {
		n.Spec.Taints = []v1.Taint{{Key: key, Effect: v1.TaintEffectNoSchedule}}
	}
	if k, v, ok := strings.Cut(arg(args, "label"), ":"); ok {
		n.Labels = map[string]string{k: v}
	}
	return n
}

func pod(namespace, name, uid string, args []string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
	p.Spec.SchedulerName = "default-scheduler"
	if s := arg(args, "scheduler"); s != "" {
		p.Spec.SchedulerName = s
	}
	p.Spec.NodeName = arg(args, "node")
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: resources(args)}}}
	if g := arg(args, "group"); g != "" {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g}
	}
	if k, v, ok := strings.Cut(arg(args, "label"), ":"); ok {
		p.Labels = map[string]string{k: v}
	}
	if d := arg(args, "lasts"); d != "" {
		p.Annotations = map[string]string{"rollcall.dev/duration": d}
	}
	if g := arg(args, "gate"); g != "" {
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: g}}
	}
	if k, v, ok := strings.Cut(arg(args, "selector"), ":"); ok {
		p.Spec.NodeSelector = map[string]string{k: v}
	}
	return p
}

// tampered reads s's log with every decision passed through change.
func (s *story) tampered(change func(*eventlog.Decision)) replay.Reader {
	return func(from uint64) iter.Seq2[eventlog.Entry, error] {
		return func(yield func(eventlog.Entry, error) bool) {
			for e, err := range s.log.Read(from) {
				if d, ok := e.Payload.(*eventlog.Decision); ok {
					change(d)
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

func TestADecisionThatThisProgramWouldNotMakeIsExplainedAsRecordedAndSaysSo(t *testing.T) {
	s := newStory(t)
	s.line("node", "n1", []string{"cpu=4"})
	s.line("node", "n2", []string{"cpu=8"})
	s.line("pod", "ml/a", []string{"cpu=1"})
	read := s.tampered(func(d *eventlog.Decision) { d.Node, d.Score = "n1", 1 })
	x, err := replay.ExplainPod(context.Background(), stopAfter(read, 4+1), "ml", "a", replay.ExplainOptions{Registry: registry()})
	if err != nil {
		t.Fatal(err)
	}
	d := x.Decision
	if d.Node != "n1" || d.Winner.Node != "n1" || x.Node != "n1" {
		t.Errorf("explained is %s with the scores of %s, not what was recorded", d.Node, d.Winner.Node)
	}
	if d.Diverged == nil || d.Diverged.Field != "node" {
		t.Errorf("the divergence is %+v, want one in node", d.Diverged)
	}
}

// stopAfter reads only the first n entries.
func stopAfter(read replay.Reader, n uint64) replay.Reader {
	return func(from uint64) iter.Seq2[eventlog.Entry, error] {
		return func(yield func(eventlog.Entry, error) bool) {
			for e, err := range read(from) {
				if e.Seq > n || !yield(e, err) {
					return
				}
			}
		}
	}
}

func TestWhatComesAfterThePointInQuestionDoesNotChangeTheAnswer(t *testing.T) {
	s := newStory(t)
	for _, line := range []string{
		"node n1 cpu=4", "node n2 cpu=2", "pod ml/a cpu=3", "group ml/g min=2", "pod ml/g-0 cpu=2 group=g",
		"pod ml/g-1 cpu=2 group=g", "wait 5s", "delete ml/a", "wait 20s", "pod ml/b cpu=1", "delete ml/g-0", "pod ml/a cpu=1",
	} {
		words := strings.Fields(line)
		s.line(words[0], words[1], words[2:])
	}
	last, err := s.log.Last()
	if err != nil {
		t.Fatal(err)
	}
	said := func(read replay.Reader, at uint64) string {
		opts := replay.ExplainOptions{Registry: registry(), AtSeq: at}
		pod, podErr := replay.ExplainPod(context.Background(), read, "ml", "a", opts)
		group, groupErr := replay.ExplainGroup(context.Background(), read, "ml", "g", opts)
		b, err := json.Marshal([]any{pod, group})
		s.must(err)
		return fmt.Sprintf("%s %t %t", b, errors.Is(podErr, replay.ErrNotFound), errors.Is(groupErr, replay.ErrNotFound))
	}
	for at := uint64(1); at <= last; at++ {
		if whole, cut := said(s.log.Read, at), said(stopAfter(s.log.Read, at), at); whole != cut {
			t.Errorf("at entry %d the whole log gives\n%s\nthe log up to there\n%s", at, whole, cut)
		}
	}
}

func TestACancelledExplanationEndsWithTheContextsError(t *testing.T) {
	s := newStory(t)
	s.line("pod", "ml/a", []string{"cpu=1"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := replay.ExplainPod(ctx, s.log.Read, "ml", "a", replay.ExplainOptions{Registry: registry()}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
