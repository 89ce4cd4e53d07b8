package replaytest

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Start is the time at which a story starts.
var Start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// Story is a log that is written by an engine.
type Story struct {
	T      *testing.T
	Now    time.Time
	Log    *eventlog.Memory
	Engine *engine.Engine
	// Pods counts the pods so far: each has a UID of its own.
	Pods int
	// KeepBinds says that binds are not answered.
	KeepBinds bool
}

// NewStory starts a story with the default configuration.
func NewStory(t *testing.T) *Story { return NewStoryWith(t, "") }

// NewStoryWith begins a story with a configuration, "" for the default one.
func NewStoryWith(t *testing.T, configuration string) *Story {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := &Story{T: t, Now: Start, Log: eventlog.NewMemory()}
	if configuration != "" {
		loaded, err := framework.LoadConfig([]byte(configuration), "configuration")
		s.Must(err)
		config, err = framework.EncodeConfig(loaded)
		s.Must(err)
	}
	s.Engine, err = engine.Open(context.Background(), s.Log, s.Now, engine.Options{Registry: Registry(),
		Config: config, Version: "test", NewID: func() string { return "epoch" }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Must ends the test if err is not nil.
func (s *Story) Must(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// Line takes one line in. The lines are:
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
func (s *Story) Line(verb, name string, args []string) {
	s.T.Helper()
	namespace, short, _ := strings.Cut(name, "/")
	p := s.Engine.Machine().Cluster().PodNamed(namespace, short)
	switch verb {
	case "node":
		s.Step(&eventlog.Upserted{Resource: eventlog.Nodes, Object: Node(name, args)})
	case "group":
		if arg(args, "mode")+arg(args, "asks")+arg(args, "timeout") != "" {
			s.Step(&eventlog.Upserted{Resource: eventlog.XPodGroups, Object: xgroup(s.T, namespace, short, args)})
			break
		}
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: short, UID: types.UID("group-" + short)}}
		n, err := strconv.Atoi(arg(args, "min"))
		s.Must(err)
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(n)}
		if policy := arg(args, "below"); policy != "" {
			g.Annotations = map[string]string{"rollcall.dev/below-minimum": policy}
		}
		if c := arg(args, "parent"); c != "" {
			g.Spec.ParentCompositePodGroupName = &c
		}
		s.Step(&eventlog.Upserted{Resource: eventlog.PodGroups, Object: g})
	case "composite":
		c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: short, UID: types.UID("composite-" + short)}}
		n, err := strconv.Atoi(arg(args, "min"))
		s.Must(err)
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: int32(n)}
		s.Step(&eventlog.Upserted{Resource: eventlog.CompositePodGroups, Object: c})
	case "pod":
		s.addPods(namespace, short, args)
	case "ungate":
		open := p.Object.DeepCopy()
		open.Spec.SchedulingGates = nil
		s.Step(&eventlog.Upserted{Resource: eventlog.Pods, Object: open})
	case "terminate":
		ending := p.Object.DeepCopy()
		ending.DeletionTimestamp = &metav1.Time{Time: s.Now}
		s.Step(&eventlog.Upserted{Resource: eventlog.Pods, Object: ending})
	case "finish":
		done := p.Object.DeepCopy()
		done.Spec.NodeName, done.Status.Phase = p.Node, v1.PodSucceeded
		s.Step(&eventlog.Upserted{Resource: eventlog.Pods, Object: done})
	case "delete-group":
		s.Step(&eventlog.Deleted{Resource: eventlog.PodGroups, Namespace: namespace, Name: short, UID: types.UID("group-" + short)})
	case "delete":
		s.Step(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: namespace, Name: short, UID: p.Object.UID})
	case "delete-node":
		s.Step(&eventlog.Deleted{Resource: eventlog.Nodes, Name: name, UID: types.UID("node-" + name)})
	case "bound":
		s.Step(&eventlog.BindResult{UID: p.Object.UID, Node: p.Node, Outcome: eventlog.BindBound})
	case "fail":
		s.Step(&eventlog.BindResult{UID: p.Object.UID, Node: p.Node, Outcome: eventlog.BindFailed, Message: "the API server said no"})
	case "wait":
		by, err := time.ParseDuration(name)
		s.Must(err)
		s.Now = s.Now.Add(by)
		s.Step()
	default:
		s.T.Fatalf("unknown line %q", verb)
	}
}

// addPods brings one pod, or as many as args say in one step.
func (s *Story) addPods(namespace, name string, args []string) {
	n, err := strconv.Atoi(cmp.Or(arg(args, "count"), "0"))
	s.Must(err)
	var inputs []eventlog.Payload
	for i := range max(1, n) {
		s.Pods++
		each := name
		if n > 0 {
			each += strconv.Itoa(i)
		}
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: Pod(namespace, each, fmt.Sprintf("uid-%d", s.Pods), args)})
	}
	s.Step(inputs...)
}

// Step takes inputs in and, unless binds are kept, answers those that are asked for.
func (s *Story) Step(inputs ...eventlog.Payload) {
	s.T.Helper()
	effects, err := s.Engine.Step(context.Background(), s.Now, inputs)
	s.Must(err)
	var results []eventlog.Payload
	for _, x := range effects {
		if x.Kind == scheduler.Bind && !s.KeepBinds {
			results = append(results, &eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: eventlog.BindBound})
		}
	}
	if len(results) > 0 {
		s.Step(results...)
	}
}
