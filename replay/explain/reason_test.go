package explain_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// Every code has a row in the table of docs/GANGS.md, which names a story in
// test/transcripts/testdata/explain that tells it; and the table has no other row.
func TestEveryCodeOfAReasonHasAStory(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "GANGS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| **Code** | ")
	if !ok {
		t.Fatal("there is no table of codes")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var rows []answer.Code
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		code := strings.Trim(strings.TrimSpace(cells[0]), "`")
		rows = append(rows, answer.Code(code))
		last := cells[len(cells)-1]
		_, story, ok := strings.Cut(last, "`explain/")
		story, _, _ = strings.Cut(story, "`")
		told, err := os.ReadFile(filepath.Join("..", "..", "test", "transcripts", "testdata", "explain", story))
		if !ok || err != nil {
			t.Errorf("the row of %s names no story: %q", code, last)
		} else if !strings.Contains(string(told), fmt.Sprintf("\n \"code\": %q", code)) {
			t.Errorf("%s tells nothing of %s", story, code)
		}
	}
	if !slices.Equal(rows, answer.Codes()) {
		t.Errorf("the table has\n%v\nthe codes are\n%v", rows, answer.Codes())
	}
}

// configurationOfHistories has both plugins of the stories.
const configurationOfHistories = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    permit:
      enabled:
      - name: Approval
    filter:
      enabled:
      - name: Faulty
`

// drawStep draws one line of a story, or of several members of a gang.
func drawStep(t *rapid.T, s *transcripts.Player) {
	group := func() string { return fmt.Sprintf("g%d", rapid.IntRange(0, 3).Draw(t, "group")) }
	sample := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	var all []string
	for _, p := range s.Machine().Cluster().Pods().All() {
		all = append(all, p.Object.Namespace+"/"+p.Object.Name)
	}
	verbs := []string{"node", "group", "pod", "pod", "pod", "pod", "advance", "composite", "delete nodes",
		"delete podgroups.scheduling.k8s.io", "rest"}
	if len(all) > 0 {
		verbs = append(verbs, "delete pods", "terminate", "finish", "ungate", "failed", "bound")
	}
	name, args := "", []string(nil)
	verb := sample("verb", verbs...)
	switch verb {
	case "node":
		name = fmt.Sprintf("n%d", rapid.IntRange(0, 3).Draw(t, "node"))
		args = []string{"cpu=" + sample("cpu", "1", "2", "4"), "gpu=" + sample("gpu", "0", "2"),
			sample("label", "", "label=disk:ssd")}
	case "delete nodes":
		name = fmt.Sprintf("n%d", rapid.IntRange(0, 3).Draw(t, "node"))
	case "group":
		name = "ml/" + group()
		args = []string{"min=" + sample("min", "1", "2", "3"), sample("priority", "", "", "priority=7")}
		switch sample("kind", "plain", "below", "NonStrict", "asks") {
		case "below":
			args = append(args, "parent=c")
		case "NonStrict":
			args = append(args[:1], "api=x-k8s.io", "mode=NonStrict", "timeout=20s")
		case "asks":
			args = append(args[:1], "api=x-k8s.io", "asks=2")
		}
	case "delete podgroups.scheduling.k8s.io":
		name = "ml/" + group()
	case "composite":
		name, args = "ml/c", []string{"min=" + sample("min", "1", "2")}
	case "pod":
		last, err := s.Log().Last()
		if err != nil {
			t.Fatal(err)
		}
		name = fmt.Sprintf("ml/p%d-", last+1)
		args = []string{"cpu=" + sample("cpu", "1", "1", "3"), "gpu=" + sample("gpu", "0", "1"),
			"count=" + sample("count", "1", "2", "3"),
			sample("gate", "", "", "", "gate=example.com/quota"), sample("selector", "", "", "", "selector=disk:ssd"),
			sample("label", "", "", "", "label=approval:wanted", "label=approval:given", "label=fault:yes"),
			sample("scheduler", "", "", "", "", "", "scheduler=another"),
			sample("priority", "", "", "priority=5", "priority=9")}
		if g := group(); g != "g3" {
			args = append(args, "group="+g)
		}
	case "advance":
		name = sample("for", "1s", "5s", "20s", "400s")
	case "rest":
		s.KeepBinds = !s.KeepBinds
		return
	default:
		name = sample("pod", all...)
	}
	s.Step(strings.Join(append([]string{verb, name}, args...), " "))
}

// In every state of a gang with a pending member, there is one reason with a known code. Everything about it that can
// be checked in another way is true.
func TestEveryPendingGangHasOneReasonAndItIsTrue(t *testing.T) {
	told := map[answer.Code]int{}
	rapid.Check(t, func(rt *rapid.T) {
		s := transcripts.New(rt)
		s.Configure(configurationOfHistories)
		s.KeepBinds = rapid.Bool().Draw(rt, "binds are kept")
		if rapid.Bool().Draw(rt, "begins with a cluster") {
			s.Step("node n0 cpu=4 gpu=2")
			s.Step("group ml/g0 min=2")
			s.Step("group ml/g1 min=2 parent=c")
			s.Step("group ml/g2 min=1 parent=c")
			s.Step("composite ml/c min=2")
		}
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			drawStep(rt, s)
		}
		since, settled := map[types.NamespacedName]*answer.Reason{}, map[types.NamespacedName]*answer.Reason{}
		err := explain.ReasonsAlong(s.Log(), transcripts.Registry(),
			func(m *scheduler.Machine, e eventlog.Entry, name types.NamespacedName, x *answer.Reason) {
				if complaint := refute(m, name, x); complaint != "" {
					rt.Fatalf("entry %d, gang %s: %s: %+v", e.Seq, name, complaint, x)
				}
				before := since[name]
				since[name] = x
				if x == nil {
					settled[name] = nil
					return
				}
				told[x.Code]++
				if before != nil && before.Code == x.Code && before.Since != x.Since {
					rt.Fatalf("entry %d, gang %s: %s since %s, and just before since %s", e.Seq, name, x.Code, x.Since,
						before.Since)
				}
				if old := settled[name]; before != nil && before.Code == answer.InFlight && old != nil &&
					old.Code == x.Code && old.Since != x.Since {
					rt.Fatalf("entry %d, gang %s: %s since %s, and before the attempt since %s", e.Seq, name, x.Code,
						x.Since, old.Since)
				}
				if x.Code != answer.InFlight {
					settled[name] = x
				}
				if now := answer.Instant(e.Time); (before == nil ||
					before.Code != x.Code && before.Code != answer.InFlight) && x.Since != now {
					rt.Fatalf("entry %d, gang %s: %s since %s, though it came up at %s", e.Seq, name, x.Code, x.Since,
						now)
				}
			})
		if err != nil {
			rt.Fatal(err)
		}
	})
	var counts []string
	for code, n := range told {
		counts = append(counts, fmt.Sprintf("%s %d", code, n))
	}
	slices.Sort(counts)
	t.Log(counts)
}

// refute returns a false statement of a reason, "" for none.
func refute(m *scheduler.Machine, name types.NamespacedName, x *answer.Reason) string {
	g := m.Cluster().Gangs().Named(name.Namespace, name.Name)
	if g == nil {
		if x != nil {
			return "a gang that is not there has a reason"
		}
		return ""
	}
	living, withNode := 0, 0
	for _, p := range g.Members() {
		switch {
		case p.Stage == cluster.Waiting, p.Stage == cluster.Pending && p.MayBePlaced():
			living++
		}
		if p.Stage != cluster.Pending {
			withNode++
		}
	}
	switch {
	case x == nil && living > 0:
		return "a member is pending without a reason"
	case x == nil:
		return ""
	case !slices.Contains(answer.Codes(), x.Code):
		return "the code is not known"
	case !strings.HasPrefix(x.Message, "Gang "+name.String()+" "), x.WaitsFor.Kind == "", x.NextRetry.Words == "":
		return "something is not said"
	case x.Since == 0 || x.Since > answer.Instant(m.Now()):
		return "it cannot be so since then"
	}
	return refuteCode(m, g, x, withNode)
}

// refuteCode compares the code with the state.
func refuteCode(m *scheduler.Machine, g *cluster.Group, x *answer.Reason, withNode int) string {
	e := m.GangEntity(g.Namespace, g.Name)
	present := g.Ready() + g.Waiting() + g.Assigned()
	failed := slices.Contains([]answer.Code{answer.LacksRoom, answer.Unplaceable, answer.PluginFailed,
		answer.PermitTimedOut,
		answer.BrokenOff, answer.BindFailed}, x.Code)
	inFlight := e != nil && e.State() == queue.InFlight
	switch {
	case x.Code == answer.FailedBefore:
		return "the whole log is known"
	case x.Code == answer.BeingDeleted, x.Code == answer.BeingEvicted:
		return "this is no pod"
	case x.Code != answer.Undeclared && !g.Declared():
		return "it is not declared"
	case g.Declared() && x.Code != answer.Refused && g.Refusal() != "":
		return "it is refused"
	case x.Code == answer.InFlight && !inFlight:
		return "no cycle of it runs"
	case inFlight && x.Code != answer.InFlight && x.Code != answer.Undeclared && x.Code != answer.Refused:
		return "its cycles run"
	case x.Code == answer.Incomplete && present >= g.Min():
		return "enough members are there"
	case failed && (x.Failed == nil || x.Member == "" || e == nil || !e.Failed()):
		return "nothing has failed"
	case x.Code == answer.Gated && len(x.KeptOut) == 0:
		return "nothing is gated"
	case x.Code == answer.InTurn && e.State() != queue.Active:
		return "it does not stand in line: " + e.State().String()
	case x.Code == answer.HeldByPermit && (g.Waiting() == 0 ||
		withNode < g.Min() && g.MatchPolicy() != gang.OnceSatisfied):
		return "nothing is held"
	case x.Code == answer.WaitsForOthers && (g.Composite() == nil || len(x.WaitsFor.Groups) == 0 ||
		slices.Contains(x.WaitsFor.Groups, g.String())):
		return "it waits for no other"
	case x.Code == answer.LacksRoom && len(x.Refusals) == 0:
		return "nobody refused it"
	}
	return ""
}

// The reason for the gang's waiting is the same whether one reads the whole history or asks at that point, about the
// gang or about a pod of it. Each pending pod has a reason.
func TestAReasonAskedForIsTheOneThatHistoryCameTo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := transcripts.New(rt)
		s.Configure(configurationOfHistories)
		for range rapid.IntRange(5, 15).Draw(rt, "steps") {
			drawStep(rt, s)
		}
		last, err := s.Log().Last()
		if err != nil {
			rt.Fatal(err)
		}
		at := rapid.Uint64Range(1, last).Draw(rt, "at")
		want := map[types.NamespacedName]*answer.Reason{}
		pending := map[string]bool{} // by name of each pod: whether it is neither bound nor being bound
		doomed := map[string]bool{}  // by name of each pod that has no node: whether it is to go
		err = explain.ReasonsAlong(s.Log(), transcripts.Registry(),
			func(m *scheduler.Machine, e eventlog.Entry, name types.NamespacedName, x *answer.Reason) {
				if e.Seq != at {
					return
				}
				want[name] = x
				for _, p := range m.Cluster().Pods().All() {
					pending[p.Object.Name] = p.Stage == cluster.Pending || p.Stage == cluster.Waiting
					if p.Stage == cluster.Pending && p.Object.Spec.SchedulerName == v1.DefaultSchedulerName {
						doomed[p.Object.Name] = !p.MayBePlaced()
					}
				}
			})
		if err != nil {
			rt.Fatal(err)
		}
		for name, is := range pending {
			got, err := explain.Pod(context.Background(), wholeLog(s.Log()), "ml", name,
				explain.Options{AtSeq: at})
			if err != nil {
				rt.Fatal(err)
			}
			if is != (got.Reason != nil) {
				rt.Fatalf("at entry %d pod %s, pending %t, has the reason %+v", at, name, is, got.Reason)
			}
			if x := got.Reason; x != nil && doomed[name] != (x.Code == answer.BeingDeleted ||
				x.Code == answer.BeingEvicted) {
				rt.Fatalf("at entry %d pod %s, which is to go: %t, has the reason %+v", at, name, doomed[name], x)
			}
			if x := got.Reason; x != nil && (!slices.Contains(answer.Codes(), x.Code) ||
				x.Code == answer.FailedBefore || x.Message == "" || x.NextRetry.Words == "" ||
				x.WaitsFor.Kind == "" || x.Group != "" && (x.Pod == nil || x.Group != got.Group ||
				cmp.Or(x.LastCode, x.Code) != want[types.NamespacedName{Namespace: "ml",
					Name: strings.TrimPrefix(got.Group, "ml/")}].Code)) {
				rt.Fatalf("at entry %d pod %s has the reason %+v", at, name, x)
			}
		}
		for name, x := range want {
			got, err := explain.Group(context.Background(), wholeLog(s.Log()), name.Namespace, name.Name,
				explain.Options{AtSeq: at})
			if err != nil {
				rt.Fatal(err)
			}
			if (got.Reason == nil) != (x == nil) || x != nil &&
				(cmp.Or(got.Reason.LastCode, got.Reason.Code) != x.Code ||
					got.Reason.Since != x.Since || got.Reason.Attempts != x.Attempts) {
				rt.Fatalf("at entry %d gang %s has the reason %+v, on the way it was %+v", at, name, got.Reason, x)
			}
		}
	})
}

// The lists of an explanation are bounded, however much there was.
func TestTheListsOfAnExplanationAreBounded(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n1 cpu=6000 gpu=4 pods=6000")
	s.Step("group ml/g min=2")
	s.Step("pod ml/g-0 cpu=1 gpu=3 group=g")
	s.Step("pod ml/g-1 cpu=1 gpu=3 group=g")
	const others = 5000
	for i := range others / 100 {
		s.Step(fmt.Sprintf("pod ml/o%d- cpu=1 count=100", i))
		s.Step("advance 1s")
	}
	x, err := explain.Group(context.Background(), wholeLog(s.Log()), "ml", "g",
		explain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	past := x.History.LetPast
	if past == nil || len(past.By) != 20 || past.Pods != others || past.Pods != len(past.By)+past.OtherPods {
		t.Fatalf("let past: %+v", past)
	}
	var sum int64
	for _, by := range past.By {
		sum += by.Took[0].Amount
	}
	if sum += past.OthersTook[0].Amount; sum != past.Took[0].Amount || past.Took[0].Amount != int64(past.Pods)*1000 {
		t.Errorf("%d pods took %d, in the list are %d", past.Pods, past.Took[0].Amount, sum)
	}
}
