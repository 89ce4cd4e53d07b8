package sim_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// story is a simulation that can be begun, stopped and resumed.
type story struct {
	nodes   []workload.NodePlan
	work    *workload.Workload
	config  []byte
	until   time.Duration
	requeue sim.Requeue
	// made, if not nil, is called with the cluster.
	made func(*sim.Cluster)
	// ahead has the simulation continue while what was decided is being made durable.
	ahead bool
}

// troubledDemo is the bundled demo on nodes of which some fail, join late, or are cordoned.
func troubledDemo(t testing.TB) story {
	t.Helper()
	nodes, work, err := workload.Demo()
	if err != nil {
		t.Fatal(err)
	}
	trouble(nodes)
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return story{nodes: nodes, work: work, config: config}
}

func (s story) engine(log engine.Log, now time.Time) (*engine.Engine, error) {
	opts := engine.Options{Registry: transcripts.Registry(), Config: s.config, Version: "test"}
	if s.ahead {
		opts.Release = engine.WhenDecided
	}
	return engine.Open(context.Background(), log, now, opts)
}

func (s story) cluster(t testing.TB) *sim.Cluster {
	t.Helper()
	c, err := sim.New(s.nodes, s.work, sim.Options{Until: s.until, Requeue: s.requeue, Singles: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.made != nil {
		s.made(c)
	}
	return c
}

// run tells the story from its beginning.
func (s story) run(t testing.TB) (*eventlog.Memory, report.Summary) {
	t.Helper()
	log := eventlog.NewMemory()
	eng, err := s.engine(log, workload.Start)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := s.cluster(t).Run(context.Background(), sim.Stepping(eng), nil)
	if err != nil {
		t.Fatal(err)
	}
	return log, sum
}

// resume continues with the story behind what the log has.
func (s story) resume(t testing.TB, log engine.Log) (report.Summary, error) {
	t.Helper()
	var eng *engine.Engine
	r := sim.Resume(log.Read(context.Background(), 1), scheduler.New(transcripts.Registry()), s.config,
		func(now time.Time) (_ sim.Scheduler, err error) {
			eng, err = s.engine(log, now)
			if s.ahead {
				return sim.Advancing(eng), err
			}
			return sim.Stepping(eng), err
		})
	defer r.Close()
	sum, err := s.cluster(t).Run(context.Background(), r, nil)
	if eng != nil {
		err = errors.Join(err, eng.Close()) // all is durable then, or it says why not
	}
	if err == nil {
		err = r.Finished()
	}
	return sum, err
}

// told is everything that a log tells but who wrote it: its entries as a writer that was never stopped would
// have numbered them, that is, without the starts of later epochs.
func told(t testing.TB, log engine.Log) []string {
	t.Helper()
	var all []string
	number := map[uint64]uint64{}
	for e, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind() == eventlog.KindEpochStarted {
			continue
		}
		number[e.Seq] = uint64(len(all)) + 2
		e.Seq, e.Epoch = number[e.Seq], 1
		if result, ok := e.Payload.(*eventlog.BindResult); ok {
			renumbered := *result
			renumbered.Decision = number[result.Decision]
			e.Payload = &renumbered
		}
		rec, err := eventlog.AppendRecord(nil, e, [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(rec))
	}
	return all
}

// state is the whole state of a log, except for its position. Every restart of a writer adds an entry, so the numbers
// of entries and epochs differ from a run without restarts; nothing else may differ. The two numbers are at the
// beginning of the state's encoding. It has decisions' numbers only while effects are outstanding or pods wait, and at
// the end of a simulation neither is so.
func state(t testing.TB, log engine.Log) []byte {
	t.Helper()
	m := scheduler.New(transcripts.Registry())
	for e, err := range log.Read(context.Background(), 1) {
		if err == nil {
			err = m.Apply(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.Effects()); n > 0 {
		t.Fatalf("%d effects are outstanding", n)
	}
	all, err := m.AppendState(nil)
	if err != nil {
		t.Fatal(err)
	}
	behaviour, n := binary.Uvarint(all[1:]) // behind the encoding's version
	if behaviour != uint64(m.Behaviour()) {
		t.Fatalf("the state begins with behaviour %d, want %d", behaviour, m.Behaviour())
	}
	rest := all[1+n:]
	for _, want := range []uint64{m.Seq(), m.Epoch()} {
		got, n := binary.Uvarint(rest)
		if got != want {
			t.Fatalf("the state begins with %d, want %d", got, want)
		}
		rest = rest[n:]
	}
	return rest
}

// ending has the facts that stay the same however often a simulation was stopped.
type ending struct {
	told  []string
	state []byte
}

func endingOf(t testing.TB, log engine.Log) ending { return ending{told(t, log), state(t, log)} }

// wantSameEnd compares a log that was resumed with one that was written in one go.
func wantSameEnd(t testing.TB, whole ending, resumed engine.Log) {
	t.Helper()
	want, got := whole.told, told(t, resumed)
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Fatalf("input or decision %d differs:\n%q\n%q", i+2, want[i], got[i])
		}
	}
	if len(want) != len(got) {
		t.Fatalf("%d inputs and decisions, without a stop %d", len(got), len(want))
	}
	if !bytes.Equal(whole.state, state(t, resumed)) {
		t.Fatal("the states at the end differ")
	}
	report, err := replay.Verify(
		context.Background(),
		resumed.Read(context.Background(), 1),
		replay.Options{Registry: transcripts.Registry()},
	)
	if err != nil || !report.Identical() {
		t.Fatalf("the replay of the resumed log: %v, %v", err, report.Divergences)
	}
}

// cut returns a log of the first n entries.
func cut(t testing.TB, log engine.Log, n int) *eventlog.Memory {
	t.Helper()
	out := eventlog.NewMemory()
	var entries []eventlog.Entry
	for e, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == n {
			break
		}
		entries = append(entries, e)
	}
	if err := out.Append(context.Background(), 0, entries); err != nil {
		t.Fatal(err)
	}
	return out
}

func last(t testing.TB, log engine.Log) int {
	t.Helper()
	n, err := log.Last()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// TestASimulationResumedAfterAnyEntryEndsAsIfItHadNeverStopped cuts the log of a simulation behind each of its
// entries, which is also behind each step and between all parts of one.
func TestASimulationResumedAfterAnyEntryEndsAsIfItHadNeverStopped(t *testing.T) {
	s := troubledDemo(t)
	whole, want := s.run(t)
	end := endingOf(t, whole)
	wantTroubles(t, whole)
	for n := range last(t, whole) + 1 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			log := cut(t, whole, n)
			s := s
			s.ahead = n%2 == 0
			sum, err := s.resume(t, log)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprintf("%+v", sum), fmt.Sprintf("%+v", want); got != want {
				t.Errorf("the summary is\n%s, without a stop\n%s", got, want)
			}
			wantSameEnd(t, end, log)
		})
	}
}

// TestALogWhoseBindResultsNameNoDecisionIsResumed resumes a log as earlier versions wrote it.
func TestALogWhoseBindResultsNameNoDecisionIsResumed(t *testing.T) {
	s := troubledDemo(t)
	whole, want := s.run(t)
	for _, n := range []int{last(t, whole) / 2, last(t, whole)} {
		log, results := eventlog.NewMemory(), 0
		for e, err := range cut(t, whole, n).Read(context.Background(), 1) {
			if err != nil {
				t.Fatal(err)
			}
			if result, ok := e.Payload.(*eventlog.BindResult); ok {
				if result.Decision == 0 {
					t.Fatalf("entry %d names no decision", e.Seq)
				}
				result.Decision = 0
				results++
			}
			if err := log.Append(context.Background(), e.Seq-1, []eventlog.Entry{e}); err != nil {
				t.Fatal(err)
			}
		}
		sum, err := s.resume(t, log)
		if err != nil || results == 0 {
			t.Fatalf("%d results: %v", results, err)
		}
		if got, want := fmt.Sprintf("%+v", sum), fmt.Sprintf("%+v", want); got != want {
			t.Errorf("the summary is\n%s, without a stop\n%s", got, want)
		}
	}
}

// contestedStory has gangs and pods that are preempted, lost with a node and evicted with their gang, and come again.
const contestedStory = `---
{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {rollcall.dev/fails: 40m}}, status: {allocatable: {cpu: 8}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: 8}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n3, annotations: {rollcall.dev/joins: 50m}}, status: {allocatable: {cpu: 8}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
---
{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: low, annotations: {rollcall.dev/below-minimum: Evict}}, spec: {minMember: 2}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: low, annotations: {rollcall.dev/duration: 30m}}, spec: {parallelism: 2, template: {metadata: {labels: {scheduling.x-k8s.io/pod-group: low}}, spec: {containers: [{name: c, resources: {requests: {cpu: 6}}}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: urgent, annotations: {rollcall.dev/arrival: 10m, rollcall.dev/duration: 20m}}, spec: {priorityClassName: high, containers: [{name: c, resources: {requests: {cpu: 8}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-0, annotations: {rollcall.dev/duration: 2h}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, uid: w, controller: true}]}, spec: {nodeSelector: {kubernetes.io/hostname: n1}, containers: [{name: c, resources: {requests: {cpu: 2}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: single, annotations: {rollcall.dev/arrival: 5m, rollcall.dev/duration: 50m}}, spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]}}
`

// TestASimulationInWhichPodsComeAgainIsResumedAfterAnyEntry is the same for a contested cluster. The report stays the
// same, too, although only decisions made by the stopped process show what preempted a pod.
func TestASimulationInWhichPodsComeAgainIsResumedAfterAnyEntry(t *testing.T) {
	s := troubledDemo(t)
	var err error
	if s.nodes, s.work, err = workload.Parse("contested.yaml", strings.NewReader(contestedStory)); err != nil {
		t.Fatal(err)
	}
	var cluster *sim.Cluster
	s.requeue, s.made = sim.RequeueAll, func(c *sim.Cluster) { cluster = c }
	whole, want := s.run(t)
	rows := fmt.Sprintf("%+v", cluster.Report())
	end := endingOf(t, whole)
	r := want.Requeued
	if r.Gangs.Preempted.CameAgain != 1 || r.Pods.Lost.CameAgain == 0 || r.Pods.Evicted.CameAgain == 0 ||
		!strings.Contains(rows, "default/urgent") {
		t.Errorf("the story has not all that it should: %+v\n%s", r, rows)
	}
	for n := range last(t, whole) + 1 {
		log := cut(t, whole, n)
		s.ahead = n%2 == 0
		sum, err := s.resume(t, log)
		if err != nil {
			t.Fatalf("behind entry %d: %v", n, err)
		}
		if got, want := fmt.Sprintf("%+v", sum), fmt.Sprintf("%+v", want); got != want {
			t.Errorf("behind entry %d the summary is\n%s, without a stop\n%s", n, got, want)
		}
		if got := fmt.Sprintf("%+v", cluster.Report()); got != rows {
			t.Errorf("behind entry %d the report is\n%s, without a stop\n%s", n, got, rows)
		}
		wantSameEnd(t, end, log)
	}
}

// wantTroubles guards the test: what is hard to resume must be in the log.
func wantTroubles(t testing.TB, log engine.Log) {
	t.Helper()
	seen := map[string]bool{}
	for e, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		switch p := e.Payload.(type) {
		case *eventlog.Deleted:
			seen["Deleted "+string(p.Resource)] = true
		case *eventlog.Decision:
			seen[p.Outcome.String()] = true
		case *eventlog.Tick:
			seen["Tick"] = true
		}
	}
	for _, what := range []string{"Deleted nodes", "Deleted pods", "Scheduled", "Waiting", "Unschedulable", "Tick"} {
		if !seen[what] {
			t.Errorf("the log has no %s: it tests less than it should", what)
		}
	}
}

// TestASimulationStoppedAgainAndAgainEndsAsIfItHadNeverStopped has the disk fail in each of several resumptions in a
// row.
func TestASimulationStoppedAgainAndAgainEndsAsIfItHadNeverStopped(t *testing.T) {
	s := troubledDemo(t)
	whole, _ := s.run(t)
	end := endingOf(t, whole)
	rapid.Check(t, func(r *rapid.T) {
		log := cut(t, whole, rapid.IntRange(0, last(t, whole)).Draw(r, "entries"))
		for range rapid.IntRange(1, 6).Draw(r, "stops") {
			s := s
			s.ahead = rapid.Bool().Draw(r, "ahead")
			failing := &failingLog{Memory: log, left: rapid.IntRange(0, 12).Draw(r, "appends"),
				persist: rapid.Bool().Draw(r, "persist")}
			if _, err := s.resume(t, failing); err == nil {
				break // it came to its end
			} else if !errors.Is(err, errDisk) {
				r.Fatal(err)
			}
			log = cut(t, log, max(0, last(t, log)-rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3}).Draw(r, "lost")))
		}
		if _, err := s.resume(t, log); err != nil {
			r.Fatal(err)
		}
		wantSameEnd(t, end, log)
	})
}

var errDisk = errors.New("the disk said no")

// failingLog fails once left appends have gone well, with the entries kept or not.
type failingLog struct {
	*eventlog.Memory
	left    int
	persist bool
}

func (l *failingLog) Append(ctx context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	if l.left--; l.left >= 0 {
		return l.Memory.Append(ctx, expectedLast, entries)
	}
	if l.persist {
		if err := l.Memory.Append(ctx, expectedLast, entries); err != nil {
			return err
		}
	}
	return errDisk
}

// TestALogOfAnotherSimulationIsNotResumed changes what the simulation is made of. The error names the first entry
// that is not as recorded, and nothing is appended.
func TestALogOfAnotherSimulationIsNotResumed(t *testing.T) {
	whole, _ := troubledDemo(t).run(t)
	for _, c := range []struct {
		name   string
		change func(*story)
		want   string
	}{
		{"another node", func(s *story) {
			node := *s.nodes[3].Node
			node.Name = "other"
			s.nodes[3].Node = &node
		}, "nodes node-04, and here it would be a change of nodes other"},
		{"a node that is bigger", func(s *story) {
			node := s.nodes[3].Node.DeepCopy()
			node.Labels["size"] = "big"
			s.nodes[3].Node = node
		}, "nodes node-04, and here it would be the same with other content"},
		{"a node less", func(s *story) { s.nodes = s.nodes[:11] }, "nodes node-12"},
		{"a node that does not fail", func(s *story) { s.nodes[0].Fails = 0 }, "the deletion of nodes node-01"},
		{"a pod that takes longer", func(s *story) {
			s.work.Pods = slices.Clone(s.work.Pods)
			for i := range s.work.Pods {
				s.work.Pods[i].Duration += time.Second
			}
		}, ", and here it would be "},
		{"a pod less", func(s *story) { s.work.Pods = s.work.Pods[:len(s.work.Pods)-1] }, "pods default/mistyped"},
		{"another configuration", func(s *story) {
			cfg := framework.DefaultConfig()
			cfg.PodMaxBackoffSeconds++
			s.config, _ = framework.EncodeConfig(cfg)
		}, "entry 1 is the start of an epoch, and here it would be one with another configuration"},
		{"an earlier end", func(s *story) { s.until = 20 * time.Minute }, "here everything has ended before it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := troubledDemo(t)
			c.change(&s)
			log := cut(t, whole, last(t, whole))
			_, err := s.resume(t, log)
			var other *sim.OtherSimulationError
			if !errors.As(err, &other) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), fmt.Sprintf("entry %d ", other.Seq)) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
			if last(t, log) != last(t, whole) {
				t.Errorf("something was appended to the log")
			}
		})
	}
}

// TestADamagedLogIsNotResumed has reading fail in the middle.
func TestADamagedLogIsNotResumed(t *testing.T) {
	s := troubledDemo(t)
	whole, _ := s.run(t)
	damage := &eventlog.DamagedError{Seq: 100, Err: errors.New("torn")}
	log := &damagedLog{Memory: whole, damage: damage}
	if _, err := s.resume(t, log); !errors.Is(err, damage) {
		t.Errorf("the error is %v, want the damage", err)
	}
}

type damagedLog struct {
	*eventlog.Memory
	damage *eventlog.DamagedError
}

func (l *damagedLog) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range l.Memory.Read(ctx, from) {
			if e.Seq == l.damage.Seq {
				yield(eventlog.Entry{}, l.damage)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestALogThatHasCredentialsIsResumed has a log as an earlier version wrote it, with a kubeconfig's path and the
// userinfo of images. They are no longer logged.
func TestALogThatHasCredentialsIsResumed(t *testing.T) {
	s := troubledDemo(t)
	for i := range s.work.Pods {
		pod := s.work.Pods[i].Template.DeepCopy()
		pod.Spec.Containers[0].Image = "robot:hunter2@registry.example/train"
		s.work.Pods[i].Template = pod
	}
	whole, want := s.run(t)
	before := eventlog.NewMemory()
	var entries []eventlog.Entry
	for e, err := range cut(t, whole, last(t, whole)/2).Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		switch p := e.Payload.(type) {
		case *eventlog.EpochStarted:
			p.Config = bytes.Replace(p.Config, []byte(`"kubeconfig":""`), []byte(`"kubeconfig":"/home/me/admin"`), 1)
		case *eventlog.Upserted:
			if pod, ok := p.Object.(*corev1.Pod); ok {
				pod.Spec.Containers[0].Image = "robot:hunter2@registry.example/train"
			}
		}
		entries = append(entries, e)
	}
	if err := before.Append(context.Background(), 0, entries); err != nil {
		t.Fatal(err)
	}
	sum, err := s.resume(t, before)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", sum), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("the summary is\n%s, without a stop\n%s", got, want)
	}
	for e, err := range before.Read(context.Background(), uint64(len(entries)+1)) {
		if err != nil {
			t.Fatal(err)
		}
		record, err := eventlog.AppendRecord(nil, e, [32]byte{})
		if err != nil || bytes.Contains(record, []byte("hunter2")) || bytes.Contains(record, []byte("/home/me/admin")) {
			t.Errorf("entry %d has a credential, error %v", e.Seq, err)
		}
	}
}

// TestASimulationWithAPluginInBindingCyclesIsResumed has a plugin with a memory of its own limit the pods of a rack,
// and refuse binds. It answers the same when it is asked again.
func TestASimulationWithAPluginInBindingCyclesIsResumed(t *testing.T) {
	s := troubledDemo(t)
	cfg, err := framework.LoadConfig([]byte(`{"apiVersion":"kubescheduler.config.k8s.io/v1",
		"kind":"KubeSchedulerConfiguration","profiles":[{"plugins":{"multiPoint":{"enabled":[{"name":"RackLimit"}]}}}]}`),
		"test")
	if err != nil {
		t.Fatal(err)
	}
	if s.config, err = framework.EncodeConfig(cfg); err != nil {
		t.Fatal(err)
	}
	s.until = 12 * time.Minute // what is refused is refused for ever
	for i := range s.nodes[:4] {
		s.nodes[i].Node = s.nodes[i].Node.DeepCopy()
		metav1.SetMetaDataLabel(&s.nodes[i].Node.ObjectMeta, "rack", fmt.Sprint("r", i/2))
	}
	for i := range s.work.Pods {
		if i%5 == 0 {
			s.work.Pods[i].Template = s.work.Pods[i].Template.DeepCopy()
			metav1.SetMetaDataLabel(&s.work.Pods[i].Template.ObjectMeta, "bind",
				[]string{"refused", "broken", "own"}[i/5%3])
		}
	}
	whole, want := s.run(t)
	refused := 0
	for e, err := range whole.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if result, ok := e.Payload.(*eventlog.BindResult); ok && result.Plugin == "RackLimit" {
			refused++
		}
	}
	if refused < 10 {
		t.Errorf("%d binds were refused", refused)
	}
	for n := 0; n <= last(t, whole); n += 1 + last(t, whole)/7 {
		log := cut(t, whole, n)
		sum, err := s.resume(t, log)
		if err != nil {
			t.Fatalf("resumed after entry %d: %v", n, err)
		}
		if got, want := fmt.Sprintf("%+v", sum), fmt.Sprintf("%+v", want); got != want {
			t.Errorf("resumed after entry %d, the summary is\n%s, without a stop\n%s", n, got, want)
		}
		if !slices.Equal(told(t, log), told(t, whole)) {
			t.Errorf("resumed after entry %d, the log is another one", n)
		}
	}
}
