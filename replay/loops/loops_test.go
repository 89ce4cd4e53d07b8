package loops_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/loops"
)

// story writes a log of pods that evict each other, and knows what happens in it. Every entity has one pod at a time:
// the even ones are pods of a controller, with a new name each time, the odd ones are gangs.
type story struct {
	entries []eventlog.Entry
	now     eventlog.Time
	pods    int
	runs    []*v1.Pod       // by entity: its pod; nil while it has none
	since   []eventlog.Time // by entity: when its pod was bound
	first   []string        // by entity: the name of its first pod
	times   []int           // by entity: how often it was evicted
	edges   map[[2]int]bool // who evicted whom
	held    time.Duration   // of all evicted pods
}

func newStory(entities int) *story {
	s := &story{now: eventlog.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), edges: map[[2]int]bool{}}
	s.runs, s.since = make([]*v1.Pod, entities), make([]eventlog.Time, entities)
	s.first, s.times = make([]string, entities), make([]int, entities)
	return s
}

func (s *story) add(p eventlog.Payload) {
	s.entries = append(s.entries, eventlog.Entry{Seq: uint64(len(s.entries)) + 1, Epoch: 1, Time: s.now, Payload: p})
}

func (s *story) pass(d time.Duration) { s.now = s.now.Add(d) }

// name returns how the report names an entity.
func (s *story) name(i int) string {
	if i%2 == 1 {
		return fmt.Sprintf("gang ml/gang-%d", i)
	}
	return "pod ml/" + s.first[i]
}

// start gives an entity a pod on a node.
func (s *story) start(i int) {
	s.pods++
	uid := types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.pods))
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: fmt.Sprintf("p-%d", s.pods), UID: uid}}
	if i%2 == 1 {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To(fmt.Sprintf("gang-%d", i))}
	} else {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: fmt.Sprint(i),
			UID: types.UID(fmt.Sprintf("owner-%d", i)), Controller: ptr.To(true)}}
	}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m")}}}}
	if s.runs[i] = p; s.first[i] == "" {
		s.first[i] = p.Name
	}
	s.add(&eventlog.Upserted{Resource: eventlog.Pods, Object: p})
	s.add(&eventlog.Decision{Cycle: uint64(s.pods), Namespace: "ml", Name: p.Name, UID: uid,
		Outcome: eventlog.Scheduled, Node: "n"})
	s.add(&eventlog.BindResult{UID: uid, Node: "n", Outcome: eventlog.BindBound, Decision: uint64(len(s.entries))})
	s.since[i] = s.now
}

// evict has an entity evict another one's pod, which goes after a while.
func (s *story) evict(by, victim int, after time.Duration) {
	p, v := s.runs[by], s.runs[victim]
	s.add(&eventlog.Decision{Cycle: uint64(s.pods), Namespace: "ml", Name: p.Name, UID: p.UID,
		Outcome: eventlog.Unschedulable, Nominated: "n", Victims: []types.UID{v.UID}})
	s.pass(after)
	s.add(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: v.Name, UID: v.UID})
	s.edges[[2]int{by, victim}] = true
	s.times[victim]++
	s.held += s.now.Sub(s.since[victim])
	s.runs[victim] = nil
}

func (s *story) found(t *testing.T) *loops.Report {
	t.Helper()
	log := eventlog.NewMemory()
	if err := log.Append(t.Context(), 0, s.entries); err != nil {
		t.Fatal(err)
	}
	past := history.New(history.Plain(log, plugins.NewRegistry()), history.Options{})
	r, err := loops.Find(t.Context(), past, loops.Options{From: 1, Last: uint64(len(s.entries))})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// circles returns the sets of entities that reach each other by evictions, by Warshall's algorithm.
func (s *story) circles() (out []string) {
	n := len(s.runs)
	reach := maps.Clone(s.edges)
	for k := range n {
		for i := range n {
			for j := range n {
				if reach[[2]int{i, k}] && reach[[2]int{k, j}] {
					reach[[2]int{i, j}] = true
				}
			}
		}
	}
	done := map[int]bool{}
	for i := range n {
		if !reach[[2]int{i, i}] || done[i] {
			continue
		}
		var members []string
		for j := range n {
			if reach[[2]int{i, j}] && reach[[2]int{j, i}] {
				members, done[j] = append(members, s.name(j)), true
			}
		}
		slices.Sort(members)
		out = append(out, strings.Join(members, ", "))
	}
	slices.Sort(out)
	return out
}

// TestLoopsAreTheOnesOfANaiveSearch compares the loops of random histories with the loops that the writer of the
// history finds: sets of entities that reach each other, and how often each was evicted.
func TestLoopsAreTheOnesOfANaiveSearch(t *testing.T) {
	circles, again := 0, 0
	for seed := range uint64(fixedseed.Of(2000, 300)) {
		r := rand.New(rand.NewPCG(seed, 3))
		n := 2 + r.IntN(6)
		s := newStory(n)
		for range 4 + r.IntN(20) {
			s.pass(time.Duration(r.IntN(3600)) * time.Second)
			by, victim := r.IntN(n), r.IntN(n)
			for _, i := range []int{by, victim} {
				if s.runs[i] == nil {
					s.start(i)
				}
			}
			if by != victim && r.IntN(3) > 0 {
				s.evict(by, victim, time.Duration(r.IntN(60))*time.Second)
			}
		}
		report := s.found(t)
		var found []string
		for _, l := range report.Loops {
			if l.Kind == loops.Again {
				again++
				continue
			}
			checkCircle(t, seed, s, &l)
			members := slices.Concat(l.Entities, l.More)
			slices.Sort(members)
			found = append(found, strings.Join(members, ", "))
		}
		slices.Sort(found)
		if want := s.circles(); !slices.Equal(found, want) {
			t.Errorf("seed %d: the circles are %q, and a naive search has %q", seed, found, want)
		}
		circles += report.Circles
		sum := 0
		for i, times := range s.times {
			sum += times
			if want := roundsOf(report, s.name(i)); times > 1 && want != times {
				t.Errorf("seed %d: %s was evicted %d times, and its loops have %d", seed, s.name(i), times, want)
			}
		}
		if report.Evictions != sum || report.Pods != sum {
			t.Errorf("seed %d: %d evictions of %d pods, want %d", seed, report.Evictions, report.Pods, sum)
		}
		thousandths := int64(s.held) * 1500 / int64(time.Hour)
		if want := json.Number(fmt.Sprintf("%d.%03d", thousandths/1000, thousandths%1000)); sum > 0 &&
			report.Lost["cpu"] != want && s.held > 0 {
			t.Errorf("seed %d: lost are %s hours of CPU, want %s", seed, report.Lost["cpu"], want)
		}
	}
	t.Logf("%d circles, %d again", circles, again)
	if circles == 0 || again == 0 {
		t.Error("the histories test nothing")
	}
}

// checkCircle checks that each entity of a circle has evicted the next one.
func checkCircle(t *testing.T, seed uint64, s *story, l *loops.Loop) {
	t.Helper()
	for i, name := range l.Entities {
		next := l.Entities[(i+1)%len(l.Entities)]
		evicted := false
		for edge := range s.edges {
			evicted = evicted || s.name(edge[0]) == name && s.name(edge[1]) == next
		}
		if !evicted {
			t.Errorf("seed %d: of the circle %q, %s never evicted %s", seed, l.Entities, name, next)
		}
	}
}

// roundsOf returns the largest round of an entity's evictions in all loops.
func roundsOf(r *loops.Report, name string) (rounds int) {
	for _, l := range r.Loops {
		for _, x := range l.Evictions {
			if x.Victim == name {
				rounds = max(rounds, x.Round)
			}
		}
	}
	return rounds
}

// TestACircleIsToldWithItsCost writes the report of two gangs that evict each other in turn.
func TestACircleIsToldWithItsCost(t *testing.T) {
	s := newStory(4)
	s.start(1)
	s.pass(2 * time.Hour)
	s.start(3)
	s.evict(3, 1, 0) // held for two hours
	s.pass(time.Hour)
	s.start(1)
	s.evict(1, 3, 0) // held for one hour
	s.pass(time.Hour)
	s.start(3)
	s.evict(3, 1, 0) // held for one hour
	var b bytes.Buffer
	if err := s.found(t).WriteText(&b, 2); err != nil {
		t.Fatal(err)
	}
	const want = `circle    gang ml/gang-3 evicted gang ml/gang-1, which evicted gang ml/gang-3
          3 evictions of 3 pods in 2h0m0s, since 2026-01-01T02:00:00.000000000Z (entries 7 to 17)
          lost: 6.000 hours of CPU
          entry 7: gang ml/gang-3 evicted a pod of gang ml/gang-1, time 1
          entry 12: gang ml/gang-1 evicted a pod of gang ml/gang-3, time 1
          … and 1 more eviction
entries 1 to 18: 3 evictions of 3 pods, lost: 6.000 hours of CPU
1 circle; 0 more came again and were evicted again
`
	if b.String() != want {
		t.Errorf("the report is\n%s\nwant\n%s", b.String(), want)
	}
}

// TestAnEvictionThatIsGivenUpIsNone has the victim stay.
func TestAnEvictionThatIsGivenUpIsNone(t *testing.T) {
	for _, outcome := range []eventlog.EvictOutcome{eventlog.EvictGivenUp, eventlog.EvictWithdrawn} {
		s := newStory(2)
		s.start(0)
		s.start(1)
		v := s.runs[0]
		s.evict(1, 0, 0)
		s.entries = s.entries[:len(s.entries)-1] // it is not deleted
		s.add(&eventlog.EvictResult{UID: v.UID, Outcome: outcome, Decision: uint64(len(s.entries))})
		if r := s.found(t); r.Evictions != 0 || r.Pods != 0 || len(r.Lost) != 0 {
			t.Errorf("%s: %d evictions of %d pods are counted, which lost %s", outcome, r.Evictions, r.Pods, r.Lost)
		}
	}
}
