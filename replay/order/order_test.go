package order

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/test/compat"
)

// node has room for one of the pods below at a time.
const node = `apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
`

// pod returns a pod that takes cpu for ten minutes and evicts nothing.
func pod(name string, priority int, arrival, cpu string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations: {rollcall.dev/arrival: %s, rollcall.dev/duration: 10m}
spec:
  priority: %d
  preemptionPolicy: Never
  containers: [{name: c, resources: {requests: {cpu: "%s"}}}]
`, name, arrival, priority, cpu)
}

// reversed has the gang plugin reverse the queue: the last comes first.
type reversed struct{ *coscheduling.Coscheduling }

func (r *reversed) Less(a, b fwk.QueuedEntityInfo) bool { return r.Coscheduling.Less(b, a) }

// tampered returns plugins of a scheduler that places in the wrong order.
func tampered() framework.Registry {
	registry := plugins.NewRegistry()
	registry.Factories[coscheduling.Name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin,
		error,
	) {
		plugin, err := coscheduling.New(ctx, args, h)
		if err != nil {
			return nil, err
		}
		gangs, ok := plugin.(*coscheduling.Coscheduling)
		if !ok {
			return nil, fmt.Errorf("the gang plugin is a %T", plugin)
		}
		return &reversed{gangs}, nil
	}
	return registry
}

// recorded simulates a workload with some plugins and returns the log.
func recorded(
	t *testing.T, yaml string, policy coscheduling.QueuePolicy, registry framework.Registry,
) *eventlog.Memory {
	t.Helper()
	nodes, work, err := workload.Parse("workload.yaml", strings.NewReader(yaml))
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if policy != "" {
		config = withPolicy(t, policy)
	}
	log := eventlog.NewMemory()
	eng, err := engine.Open(t.Context(), log, workload.Start,
		engine.Options{Registry: registry, Config: config, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Run(t.Context(), sim.Stepping(eng), func(sim.Progress) {}); err != nil {
		t.Fatal(err)
	}
	return log
}

// withPolicy returns an encoded configuration with a queue policy.
func withPolicy(t *testing.T, policy coscheduling.QueuePolicy) []byte {
	t.Helper()
	cfg, err := framework.LoadConfig([]byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {queuePolicy: `+string(policy)+`}
`), "test")
	if err != nil {
		t.Fatal(err)
	}
	out, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// audited audits a log with the plugins that it should have been decided with.
func audited(t *testing.T, log *eventlog.Memory, from uint64) *Report {
	t.Helper()
	last, err := log.Last()
	if err != nil {
		t.Fatal(err)
	}
	past := history.New(history.Plain(log, plugins.NewRegistry()), history.Options{})
	r, err := Audit(t.Context(), past, Options{From: from, Last: last, Keep: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// contended has a pod on the only node while others of different priorities come; when it ends, one of them continues.
var contended = node + pod("hog", 0, "0s", "4") + pod("low", 1, "10s", "4") + pod("high", 5, "20s", "4") +
	pod("late", 5, "30s", "4")

func TestALogInTheRightOrderHasNoViolation(t *testing.T) {
	r := audited(t, recorded(t, contended, "", plugins.NewRegistry()), 1)
	if r.Violations != 0 || r.Placed != 4 {
		t.Errorf("%d violations, %d placed, want none of 4:\n%s", r.Violations, r.Placed, text(t, r))
	}
}

// TestALogOfAReversedQueueHasViolations has a scheduler with another order write the log. Everything else in it is
// right: each placement fits, and replay with the same plugins finds it identical.
func TestALogOfAReversedQueueHasViolations(t *testing.T) {
	r := audited(t, recorded(t, contended, "", tampered()), 1)
	found := map[string]bool{}
	for _, o := range r.Overtakings {
		if o.Verdict == Violation {
			found[fmt.Sprintf("%s %s before %s", o.Rule, o.By.Name, o.Overtaken.Name)] = true
		}
	}
	for _, want := range []string{"Turn default/low before default/high", "Turn default/late before default/high"} {
		if !found[want] {
			t.Errorf("not found: %s\n%s", want, text(t, r))
		}
	}
	if uint64(len(found)) != r.Violations {
		t.Errorf("%d violations are counted, and %d reported", r.Violations, len(found))
	}
}

// TestASmallPodPassesALargeOneThatWasRefused has a pod of a higher priority wait for room that a lower one does not
// need.
func TestASmallPodPassesALargeOneThatWasRefused(t *testing.T) {
	work := node + pod("hog", 9, "0s", "2") + pod("large", 5, "10s", "4") + pod("small", 1, "20s", "1")
	for policy, want := range map[coscheduling.QueuePolicy]string{
		"":                      "Refused",
		coscheduling.StrictFIFO: "",
		coscheduling.Backfill:   "",
	} {
		r := audited(t, recorded(t, work, policy, plugins.NewRegistry()), 1)
		if r.Violations != 0 || r.Placed != 3 {
			t.Errorf("%s: %d violations, %d placed, want none of 3:\n%s", policy, r.Violations, r.Placed, text(t, r))
		}
		if want == "" && policy == coscheduling.StrictFIFO && r.Allowed != 0 {
			t.Errorf("%s: something was passed:\n%s", policy, text(t, r))
		}
		if want != "" && !strings.Contains(text(t, r), want) {
			t.Errorf("%s: want the rule %s:\n%s", policy, want, text(t, r))
		}
		if policy == "" && (len(r.Overtakings) != 1 || r.Overtakings[0].Refused == 0 ||
			!strings.Contains(strings.Join(r.Overtakings[0].Reasons, ""), "Insufficient cpu")) {
			t.Errorf("the overtaking does not name what refused the other:\n%s", text(t, r))
		}
	}
}

// TestUnderStrictFIFOEveryPassIsAViolation reads a log that was decided under BestEffort as if its first epoch had said
// StrictFIFO.
func TestUnderStrictFIFOEveryPassIsAViolation(t *testing.T) {
	work := node + pod("hog", 9, "0s", "2") + pod("large", 5, "10s", "4") + pod("small", 1, "20s", "1")
	log := recorded(t, work, "", plugins.NewRegistry())
	var entries []eventlog.Entry
	for e, err := range log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := e.Payload.(*eventlog.EpochStarted); ok {
			changed := *p
			changed.Config = withPolicy(t, coscheduling.StrictFIFO)
			e.Payload = &changed
		}
		entries = append(entries, e)
	}
	forged := eventlog.NewMemory()
	if err := forged.Append(t.Context(), 0, entries); err != nil {
		t.Fatal(err)
	}
	r := audited(t, forged, 1)
	if r.Violations != 1 || r.Rules[Strict] != 1 || r.Overtakings[0].By.Name != "default/small" {
		t.Errorf("want one violation of %s by small:\n%s", Strict, text(t, r))
	}
}

// TestARangeIsJudgedAsInTheWholeLog audits from each entry on.
func TestARangeIsJudgedAsInTheWholeLog(t *testing.T) {
	log := recorded(t, contended, "", tampered())
	whole := audited(t, log, 1)
	last, err := log.Last()
	if err != nil {
		t.Fatal(err)
	}
	for from := uint64(1); from <= last; from++ {
		want := uint64(0)
		for _, o := range whole.Overtakings {
			if o.Verdict == Violation && o.Chosen >= from {
				want++
			}
		}
		if r := audited(t, log, from); r.Violations != want || r.First != from || r.Last != last {
			t.Errorf("from entry %d: %d violations in %d to %d, want %d", from, r.Violations, r.First, r.Last, want)
		}
	}
}

// before reads a log that an earlier version wrote.
type before struct{ log *compat.Log }

func (b before) First() uint64 { return b.log.First }

func (b before) Last() (uint64, error) { return 1 << 60, nil }

func (b before) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return b.log.Entries(ctx, from)
}

// TestNoLogOfBeforeHasAViolation audits the logs that earlier versions wrote: gangs of both APIs, preemption, Backfill,
// topology, volumes, composites, restarts.
func TestNoLogOfBeforeHasAViolation(t *testing.T) {
	var attempts, allowed uint64
	rules := map[Rule]uint64{}
	compat.Each(t, "../../test/compat/testdata", func(t *testing.T, l *compat.Log) {
		if l.First != 1 {
			t.Skip("it begins with a snapshot")
		}
		past := history.New(history.Plain(before{l}, l.Registry), history.Options{})
		r, err := Audit(t.Context(), past, Options{From: 1, Last: 1 << 60, Keep: 3})
		if err != nil {
			t.Fatal(err)
		}
		if r.Violations != 0 {
			t.Errorf("violations:\n%s", text(t, r))
		}
		attempts, allowed = attempts+r.Attempts, allowed+r.Allowed
		for rule, n := range r.Rules {
			rules[rule] += n
		}
	})
	if attempts < 1000 || allowed < 100 {
		t.Errorf("%d attempts, %d overtakings: the logs tell too little", attempts, allowed)
	}
	t.Logf("%d attempts, overtakings %v", attempts, rules)
}

func text(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// gangOf returns a PodGroup with a minimum of 1 below the composite c, with its only pod.
func gangOf(name, cpu string) string {
	return fmt.Sprintf(`---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: %s}
spec:
  parentCompositePodGroupName: c
  schedulingPolicy: {gang: {minCount: 1}}
`, name) + strings.Replace(pod(name+"-0", 5, "0s", cpu), "spec:\n",
		"spec:\n  schedulingGroup: {podGroupName: "+name+"}\n", 1)
}

// TestACompositeThatHasEnoughBlocksNothing has one gang of a composite placed, which is enough, and another that fits
// nowhere. A pod of a lower priority may pass that under StrictFIFO too.
func TestACompositeThatHasEnoughBlocksNothing(t *testing.T) {
	work := node + `---
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: c}
spec:
  priority: 5
  schedulingPolicy: {gang: {minGroupCount: 1}}
` + gangOf("a", "1") + gangOf("b", "8") + pod("small", 1, "20s", "1")
	r := audited(t, recorded(t, work, coscheduling.StrictFIFO, plugins.NewRegistry()), 1)
	if r.Violations != 0 || r.Rules[Beyond] != 1 || r.Overtakings[0].By.Name != "default/small" {
		t.Errorf("want one overtaking, by small, by the rule %s:\n%s", Beyond, text(t, r))
	}
}
