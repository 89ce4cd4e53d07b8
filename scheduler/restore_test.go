package scheduler_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// restorations plays entries and keeps, of what was written down after some of them, a Machine restored from
// it. All are given the same entries from then on, and must stay the same in all that can be asked of them.
type restorations struct {
	fatalf   func(format string, args ...any)
	original *scheduler.Machine
	restored []*scheduler.Machine
	from     []uint64
	state    []byte
}

func newRestorations(fatalf func(format string, args ...any)) *restorations {
	return &restorations{fatalf: fatalf, original: scheduler.New(registry())}
}

// apply takes the next entry to all machines and compares them.
func (s *restorations) apply(e eventlog.Entry) {
	must := func(from uint64, err error) {
		if err != nil {
			s.fatalf("restored after entry %d: %v", from, err)
		}
	}
	must(0, s.original.Apply(e))
	want, hash := answers(s.original), s.original.Hash()
	for i, m := range s.restored {
		must(s.from[i], m.Apply(e))
		s.compare(want, m, s.from[i])
		if m.Hash() != hash {
			s.fatalf("after entry %d the Machine restored after entry %d has another hash", e.Seq, s.from[i])
		}
	}
}

// restore writes the original down and makes a Machine of that; it takes part from now on if it is to be kept.
func (s *restorations) restore(keep bool) {
	var err error
	if s.state, err = s.original.AppendState(s.state[:0]); err != nil {
		s.fatalf("%v", err)
	}
	seq := s.original.Seq()
	m, err := scheduler.Restore(registry(), s.state)
	if err != nil {
		s.fatalf("after entry %d: %v", seq, err)
	}
	s.compare(answers(s.original), m, seq)
	if keep {
		s.restored, s.from = append(s.restored, m), append(s.from, seq)
	}
}

func (s *restorations) compare(want []string, m *scheduler.Machine, from uint64) {
	if got := answers(m); !slices.Equal(got, want) {
		s.fatalf("after entry %d the Machine restored after entry %d differs (- original, + restored):\n%s", m.Seq(), from, cmp.Diff(want, got))
	}
}

// answers are what the Machine says when asked, line by line.
func answers(m *scheduler.Machine) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	d, ok := m.Decide(nil)
	wake, wakes := m.Wake()
	say("entry %d, epoch %d, %v, cycle %d", m.Seq(), m.Epoch(), m.Now(), m.Cycle())
	say("decides %v %+v", ok, d)
	say("wakes %v %v", wakes, wake)
	say("effects %+v", m.Effects())
	for _, e := range m.Queue().All() {
		at, ok := m.Queue().RetryAt(e)
		refused, pending := e.RejectedBy()
		say("%v %v priority %d, ahead %d, retry %v %v, owed %v", e.Key(), e.State(), e.Priority(), m.Queue().Ahead(e), at, ok, e.Owed())
		say("  of %s, attempts %d, failed %v by %v %v, first active %v, since %v %v, backoff until %v, gated by %q: %s, %d refusals, %d errors", e.Profile(), e.Attempts(),
			e.Failed(), refused, pending, e.FirstActive(), e.Timestamp(), e.Since(), e.BackoffUntil(), e.GatingPlugin(), e.GatingMessage(),
			e.GetUnschedulableCount(), e.GetConsecutiveErrorsCount())
		for _, p := range e.Pending() {
			gate, why, _ := e.Gate(p.UID)
			say("  %s labels %v gates %v gated by %q: %s", p.Name, p.Labels, p.Spec.SchedulingGates, gate, why)
		}
	}
	say("reservations %+v", m.Reservations())
	m.WaitingPods().Each(func(w *framework.WaitingPod) bool {
		say("%s labels %v waits on %s for %v until %v, by entry %d", w.Pod.Name, w.Pod.Labels, w.Node, w.Plugins, w.Until, w.Seq)
		return true
	})
	say("fallen %v", m.Cluster().Fallen())
	for _, p := range m.Cluster().AllPods() {
		say("%s is %s on %q since %v, volumes %v, leaving %v", p.Object.Name, p.Stage, p.Node, p.Since, p.Volumes, p.Leaving())
		if g := p.Group; g != nil {
			priority, own := g.Priority()
			say("%s had its minimum: %v; %d ended well, %d leaving", g, g.Met(), g.Succeeded(), g.Leaving())
			say("%s is of %s: refused %q, declared %v, min %d of %d, %d ready, %d waiting, %d assigned, %d placed, %v %v with %v, priority %d %v", p.Object.Name, g,
				g.Refusal(), g.Declared(), g.Min(), g.Total(), g.Ready(), g.Waiting(), g.Assigned(), g.Placed(), g.Mode(), g.MatchPolicy(), g.Composite(), priority, own)
		}
	}
	names := func(pods []fwk.PodInfo) (names []string) {
		for _, p := range pods {
			names = append(names, p.GetPod().Name+"@"+p.GetPod().Spec.NodeName)
		}
		return names
	}
	nodes, _ := m.Cluster().List()
	for _, n := range nodes {
		say("%s: %v of %v; %v %v %v", n.Node().Name, n.GetNonZeroRequested(), n.GetAllocatable(),
			names(n.GetPods()), names(n.GetPodsWithAffinity()), names(n.GetPodsWithRequiredAntiAffinity()))
		images := n.GetImageStates()
		for _, name := range slices.Sorted(maps.Keys(images)) {
			say("  %s %d on %d nodes", name, images[name].Size, images[name].NumNodes)
		}
	}
	for _, res := range eventlog.Resources() {
		for _, obj := range m.Cluster().Informers().List(res) {
			b, err := eventlog.AppendObject(nil, obj)
			say("%s %s/%s %x %v", res, obj.GetNamespace(), obj.GetName(), sha256.Sum256(b), err)
		}
	}
	return lines
}

// play restores after every entry whose number is a multiple of every; one in stride of these machines is taken
// along to the end.
func (s *restorations) play(entries []eventlog.Entry, every, stride int) {
	var rec []byte
	for i, e := range entries {
		// Of its own, as from a log: objects must not be shared with other machines by chance.
		var err error
		rec, err = eventlog.AppendRecord(rec[:0], e, [32]byte{})
		if err != nil {
			s.fatalf("%v", err)
		}
		read, _, err := eventlog.DecodeRecord(rec)
		if err != nil {
			s.fatalf("%v", err)
		}
		if d, ok := read.Payload.(*eventlog.Decision); ok {
			decided, ok := s.original.Decide(nil)
			if !ok || fmt.Sprintf("%+v", decided) != fmt.Sprintf("%+v", *d) {
				s.fatalf("entry %d is decided as %+v, recorded %+v", e.Seq, decided, *d)
			}
		}
		s.apply(read)
		if i%every == 0 {
			s.restore(i/every%stride == 0)
		}
	}
}

// TestWhateverHappensARestoredMachineGoesOnAsTheOriginal plays generated histories of every kind and restores here and
// there.
func TestWhateverHappensARestoredMachineGoesOnAsTheOriginal(t *testing.T) {
	shapes := shapes()
	shapes["TwoProfilesAndAll"] = shape{schedulers: []string{"default-scheduler", "packer", "somebody-else"}, config: packingProfile, interrupts: true, foreign: true}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		t.Run(name, func(t *testing.T) {
			config := encodedConfig(t, shapes[name].config)
			rapid.Check(t, func(t *rapid.T) {
				h := newHistory(t, shapes[name], config)
				h.live()
				newRestorations(h.fatalf).play(h.entries, 1+len(h.entries)/8, 2)
			})
		})
	}
}

// TestOnlyWhatWasWrittenDownIsRestored restores from bytes with each of many faults.
func TestOnlyWhatWasWrittenDownIsRestored(t *testing.T) {
	state := storyState(t)
	if _, err := scheduler.Restore(registry(), state); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, b []byte) {
		if m, err := scheduler.Restore(registry(), b); err == nil {
			again, _ := m.AppendState(nil)
			if !bytes.Equal(again, b) {
				t.Errorf("%s: accepted, and is not what it is written as", what)
			}
		}
	}
	newer := bytes.Clone(state)
	newer[0]++
	if _, err := scheduler.Restore(registry(), newer); err == nil {
		t.Error("a newer version is accepted")
	}
	if _, err := scheduler.Restore(registry(), append(bytes.Clone(state), 0)); err == nil {
		t.Error("a trailing byte is accepted")
	}
	stride := max(1, len(state)/120)
	for i := 0; i < len(state); i += stride {
		if _, err := scheduler.Restore(registry(), state[:i]); err == nil {
			t.Errorf("the first %d of %d bytes are accepted", i, len(state))
		}
		for _, flip := range []byte{1, 0x80, 0xff} {
			flipped := bytes.Clone(state)
			flipped[i] ^= flip
			refused(fmt.Sprintf("byte %d ^ %#x", i, flip), flipped)
		}
	}
}

// TestAnyMutationIsRefusedOrMeansAnotherState mutates a state in many places at once.
func TestAnyMutationIsRefusedOrMeansAnotherState(t *testing.T) {
	state := storyState(t)
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Clone(state)
		for range rapid.IntRange(1, 6).Draw(t, "mutations") {
			at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				b[at] = rapid.Byte().Draw(t, "byte")
			case 1:
				b = append(b[:at:at], append(rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "bytes"), b[at:]...)...)
			case 2:
				b = append(b[:at:at], b[min(len(b), at+rapid.IntRange(0, 40).Draw(t, "cut")):]...)
			}
			if len(b) == 0 {
				return
			}
		}
		if m, err := scheduler.Restore(registry(), b); err == nil {
			if again, err := m.AppendState(nil); err != nil || !bytes.Equal(again, b) {
				t.Fatalf("accepted, and is not what it is written as (%v)", err)
			}
		}
	})
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte{})
	empty, err := scheduler.New(registry()).AppendState(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(empty)
	f.Add(storyState(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := scheduler.Restore(registry(), b)
		if err != nil {
			return
		}
		if again, err := m.AppendState(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("accepted, and is not what it is written as (%v)", err)
		}
	})
}
