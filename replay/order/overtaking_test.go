package order

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// lanes has a profile whose entities are in a lane, and one whose entities pass each other.
const lanes = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {queuePolicy: StrictFIFO}
- schedulerName: other
`

// overtaking is the beginning of a log in which the gang first, which preempts nothing, lacks a member for a while, and
// pods behind it have others evicted meanwhile.
var overtaking = []string{
	"node n1 cpu=4", "node n2 cpu=4",
	"pod ml/low cpu=4 priority=1 node=n1", "pod ml/other cpu=4 priority=9 node=n2",
	"group ml/first min=2 priority=5 preemptionPolicy=Never; pod ml/first-0 cpu=3 group=first; " +
		"pod ml/first-1 cpu=3 group=first",
	"delete pods ml/first-1", "advance 1s",
}

// playedLog plays lines of the transcripts' dialect, and returns the entries.
func playedLog(t *testing.T, lines ...string) []eventlog.Entry {
	t.Helper()
	p := transcripts.New(t)
	p.KeepBinds = true
	p.Configure(lanes)
	for _, line := range slices.Concat(overtaking, lines) {
		p.Step(line)
	}
	return p.Entries()
}

// at returns the place of the last Decision on a pod.
func at(t *testing.T, entries []eventlog.Entry, pod string) int {
	t.Helper()
	for i := len(entries) - 1; i >= 0; i-- {
		if d, ok := entries[i].Payload.(*eventlog.Decision); ok && d.Name == pod {
			return i
		}
	}
	t.Fatalf("no Decision is on %s", pod)
	return 0
}

// judged audits entries that were altered: they are numbered again.
func judged(t *testing.T, entries []eventlog.Entry) string {
	t.Helper()
	cycle := uint64(0)
	for i := range entries {
		entries[i] = eventlog.Entry{Seq: uint64(i + 1), Epoch: entries[i].Epoch, Time: entries[i].Time,
			Settled: entries[i].Settled, Payload: entries[i].Payload}
		if d, ok := entries[i].Payload.(*eventlog.Decision); ok {
			cycle++
			d.Cycle = cycle
		}
	}
	log := eventlog.NewMemory()
	if err := log.Append(t.Context(), 0, entries); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range audited(t, log, 1).Overtakings {
		out = append(out, fmt.Sprintf("%s %s: %s before %s (%s)", o.Verdict, o.Rule, o.By.Name, o.Overtaken.Name,
			o.Detail))
	}
	return strings.Join(out, "\n")
}

func wantJudged(t *testing.T, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("want %s:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != len(wants) {
		t.Errorf("%d overtakings, want %d:\n%s", n, len(wants), got)
	}
}

// nominatedPod has the pod second placed where it is nominated, past the gang first, which lets nothing pass.
func nominatedPod(t *testing.T) []eventlog.Entry {
	return playedLog(t, "pod ml/second cpu=4 priority=5", "pod ml/first-2 cpu=3 group=first", "advance 10s",
		"delete pods ml/other; delete pods ml/low")
}

func TestANominatedPodMayOvertakeWhatLetsNothingPass(t *testing.T) {
	wantJudged(t, judged(t, nominatedPod(t)), "allowed Nominated: ml/second before ml/first")
}

// TestANominatedPodMayNotOvertakeWhoseTurnItIs leaves out the attempt on first: it is active, and nothing blocks it.
func TestANominatedPodMayNotOvertakeWhoseTurnItIs(t *testing.T) {
	entries := nominatedPod(t)
	last := at(t, entries, "second")
	first := last
	for first > 0 && entries[first-1].Kind() == eventlog.KindDecision {
		first--
	}
	entries = append(entries[:first:first], entries[last:]...)
	wantJudged(t, judged(t, entries), "VIOLATION Turn: ml/second before ml/first")
}

// TestANominatedPodOvertakesOnItsNodeOnly alters the node that second went to.
func TestANominatedPodOvertakesOnItsNodeOnly(t *testing.T) {
	entries := nominatedPod(t)
	d := entries[at(t, entries, "second")].Payload.(*eventlog.Decision)
	if d.Node != "n1" {
		t.Fatalf("second goes to %q", d.Node)
	}
	d.Node = "n2"
	wantJudged(t, judged(t, entries), "VIOLATION StrictFIFO: ml/second before ml/first (the queue policy StrictFIFO "+
		"lets none pass it; pod ml/second went to node n2, where no Decision had kept room for it)")
}

// TestANominationByOthersOvertakesNothing alters a log: the nomination came with the pod's object.
func TestANominationByOthersOvertakesNothing(t *testing.T) {
	entries := nominatedPod(t)
	var altered []eventlog.Entry
	for _, e := range entries {
		if d, ok := e.Payload.(*eventlog.Decision); ok && d.Nominated != "" {
			continue
		}
		if p, ok := e.Payload.(*eventlog.Upserted); ok && p.Object.GetName() == "second" {
			pod := p.Object.(*v1.Pod).DeepCopy()
			pod.Status.NominatedNodeName = "n1"
			e.Payload = &eventlog.Upserted{Resource: p.Resource, Object: pod}
		}
		altered = append(altered, e)
	}
	wantJudged(t, judged(t, altered), "VIOLATION StrictFIFO: ml/second before ml/first")
}

// TestWhatMayOvertakeItsLaneIsNotHeldUpByIt has a pod of another profile, and of a lower priority, placed before
// second, which nothing in its lane keeps from its turn. The pod third has to wait for the first of the lane.
func TestWhatMayOvertakeItsLaneIsNotHeldUpByIt(t *testing.T) {
	entries := playedLog(t, "node n3 cpu=1", "pod ml/second cpu=4 priority=5", "pod ml/third cpu=4 priority=5",
		"pod ml/first-2 cpu=3 group=first", "advance 10s",
		"delete pods ml/other; delete pods ml/low; pod ml/by cpu=1 priority=1 scheduler=other")
	second, by := at(t, entries, "second"), at(t, entries, "by")
	if by < second {
		t.Fatalf("by is placed at %d, second at %d", by, second)
	}
	const (
		nominated = "allowed Nominated: ml/second before ml/first"
		third     = "allowed Lane: ml/by before ml/third"
		refused   = "ml/by before ml/first"
	)
	wantJudged(t, judged(t, slices.Clone(entries)), nominated, third, refused)
	moved := entries[by]
	entries = slices.Insert(slices.Delete(entries, by, by+1), second, moved)
	wantJudged(t, judged(t, entries), nominated, third, refused, "VIOLATION Turn: ml/by before ml/second")
}

// beyond has the gang second placed where it is nominated, past the gang first. Its member second-2 is beyond its
// minimum, and finds no node: n3 is for first.
func beyond(t *testing.T) []eventlog.Entry {
	t.Helper()
	return playedLog(t, "node n3 cpu=1", "group ml/second min=2 priority=5; pod ml/second-0 cpu=2 group=second; "+
		"pod ml/second-1 cpu=2 group=second", "pod ml/second-2 cpu=1 group=second; pod ml/first-2 cpu=3 group=first; "+
		"delete pods ml/low", "advance 10s")
}

// decisionOn returns the last Decision on a pod, to be altered.
func decisionOn(t *testing.T, entries []eventlog.Entry, pod string) *eventlog.Decision {
	t.Helper()
	d, ok := entries[at(t, entries, pod)].Payload.(*eventlog.Decision)
	if !ok {
		t.Fatalf("there is no Decision on %s", pod)
	}
	return d
}

const goesTo = "no Decision had kept room for it"

// TestMembersBeyondTheMinimumAreJudged alters the Decision on the member that finds no node: it goes to n3.
func TestMembersBeyondTheMinimumAreJudged(t *testing.T) {
	const allowed = "allowed Nominated: ml/second before ml/first"
	wantJudged(t, judged(t, beyond(t)), allowed)
	entries := beyond(t)
	d := decisionOn(t, entries, "second-2")
	if d.Outcome != eventlog.Unschedulable {
		t.Fatalf("second-2 goes to %q", d.Node)
	}
	d.Outcome, d.Node, d.Rejections = eventlog.Scheduled, "n3", nil
	wantJudged(t, judged(t, entries), allowed, "VIOLATION StrictFIFO: ml/second before ml/first (the queue policy "+
		"StrictFIFO lets none pass it; pod ml/second-2 went to node n3, where "+goesTo+")")
}

// TestANodeThatTheObjectAloneNamesIsNotKept has the object of the member that is beyond the minimum name n3, to which
// no Decision nominates it.
func TestANodeThatTheObjectAloneNamesIsNotKept(t *testing.T) {
	entries := beyond(t)
	for _, e := range entries {
		if p, ok := e.Payload.(*eventlog.Upserted); ok && p.Object.GetName() == "second-0" {
			pod := p.Object.DeepCopyObject().(*v1.Pod)
			pod.Name, pod.UID, pod.Status.NominatedNodeName = "second-", "named", "n3"
			named := eventlog.Entry{Epoch: e.Epoch, Time: entries[len(entries)-1].Time,
				Payload: &eventlog.Upserted{Resource: p.Resource, Object: pod}}
			last := at(t, entries, "second-0")
			d := *decisionOn(t, entries, "second-0")
			d.Name, d.UID, d.Node = "second-", "named", "n3"
			entries = slices.Insert(entries, last, named,
				eventlog.Entry{Epoch: e.Epoch, Time: named.Time, Payload: &d})
			break
		}
	}
	wantJudged(t, judged(t, entries), "VIOLATION StrictFIFO: ml/second before ml/first (the queue policy StrictFIFO "+
		"lets none pass it; pod ml/second- went to node n3, where "+goesTo+")")
}

// TestWhatIsGoneIsNotOvertaken deletes the gang first while second is attempted, whose last member goes to n3 then.
func TestWhatIsGoneIsNotOvertaken(t *testing.T) {
	entries := beyond(t)
	decisionOn(t, entries, "second-1").Node = "n3"
	last := at(t, entries, "second-1")
	var gone []eventlog.Entry
	for _, e := range entries[:last] {
		if p, ok := e.Payload.(*eventlog.Upserted); ok && (p.Object.GetName() == "first-0" ||
			p.Object.GetName() == "first-2") {
			gone = append(gone, eventlog.Entry{Epoch: e.Epoch, Time: entries[last].Time, Payload: &eventlog.Deleted{
				Resource: eventlog.Pods, Namespace: "ml", Name: p.Object.GetName(), UID: p.Object.GetUID(),
			}})
		}
	}
	if len(gone) != 2 {
		t.Fatalf("%d members of first", len(gone))
	}
	entries = slices.Insert(entries, last, gone...)
	wantJudged(t, judged(t, entries), "allowed Nominated: ml/second before ml/first")
}

// TestAGangThatTheEndOfAWaitCompletesIsJudged plays a story.
func TestAGangThatTheEndOfAWaitCompletesIsJudged(t *testing.T) {
	entries := transcripts.PlayFile(t, "testdata/completed_by_a_wait.txt")
	wantJudged(t, judged(t, entries), "allowed Refused: ml/train before ml/high")
}

// TestAMemberThatIsTriedWhenTheOthersAreBoundIsJudged has such a member placed on a node that is not kept for it.
func TestAMemberThatIsTriedWhenTheOthersAreBoundIsJudged(t *testing.T) {
	entries := transcripts.PlayFile(t, "testdata/beyond_kept_alone.txt")
	d := *entries[at(t, entries, "second-1")].Payload.(*eventlog.Decision)
	d.Allowed, d.Node = nil, "n3"
	for _, e := range entries {
		if p, ok := e.Payload.(*eventlog.Upserted); ok && p.Object.GetName() == "second-2" {
			d.Name, d.UID = "second-2", p.Object.GetUID()
		}
	}
	last := entries[len(entries)-1]
	last.Payload = &d
	wantJudged(t, judged(t, append(entries, last)), "allowed Nominated: ml/second before ml/first",
		"VIOLATION StrictFIFO: ml/second before ml/first (the queue policy StrictFIFO lets none pass it; "+
			"pod ml/second-2 went to node n3, where "+goesTo+")")
}

// stepped plays lines with the default configuration, and returns the entries.
func stepped(t *testing.T, lines ...string) []eventlog.Entry {
	t.Helper()
	p := transcripts.New(t)
	p.KeepBinds = true
	p.Configure("")
	for _, line := range lines {
		p.Step(line)
	}
	return p.Entries()
}

// TestRoomThatIsKeptForOthersIsNotFree has room kept for a pod, which gangs of a lower priority do not get.
func TestRoomThatIsKeptForOthersIsNotFree(t *testing.T) {
	for cpu, want := range map[string]string{
		"1": "(it needed 2000m cpu, and 1000m were free then; 1000m more were kept for others)",
		"2": "(it needed 4000m cpu, and 1000m were free then; 1000m more were kept for others)",
	} {
		entries := stepped(t, "node n1 cpu=4", "node n2 cpu=4", "pod ml/low cpu=3 priority=1 node=n1",
			"pod ml/other cpu=3 priority=9 node=n2", "pod ml/high cpu=4 priority=9",
			"group ml/wide min=2 priority=5 preemptionPolicy=Never; pod ml/wide-0 cpu="+cpu+" group=wide; "+
				"pod ml/wide-1 cpu="+cpu+" group=wide", "pod ml/small cpu=1")
		got := judged(t, entries)
		wantJudged(t, got, "ml/small before ml/high", "ml/small before ml/wide")
		if !strings.Contains(got, want) {
			t.Errorf("want %s:\n%s", want, got)
		}
	}
}

// TestAVictimThatStaysIsNotOvertaken has a victim lose its node while it is to be evicted, and come into the queue
// because its eviction is withdrawn. Entries are altered: the pod behind it is placed first.
func TestAVictimThatStaysIsNotOvertaken(t *testing.T) {
	entries := transcripts.PlayFile(t, "testdata/victim_stays.txt")
	wantJudged(t, judged(t, slices.Clone(entries)), "")
	victim, small := at(t, entries, "victim"), at(t, entries, "small")
	if small != victim+1 {
		t.Fatalf("victim is placed at %d, small at %d", victim, small)
	}
	entries[victim], entries[small] = entries[small], entries[victim]
	wantJudged(t, judged(t, entries), "VIOLATION Turn: ml/small before ml/victim")
}
