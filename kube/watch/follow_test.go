package watch

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A standby is a Watch beside the Watch of a model, which writes the log. It receives the same changes and the log,
// each in its order, and one of the two later than the other.
type standby struct {
	model
	changes []news
	log     []eventlog.Payload
	seq     uint64
	listed  bool
}

// News is a change that the standby has not received yet.
type news struct {
	res  eventlog.Resource
	obj  eventlog.Object
	gone bool
}

// follow begins a standby beside the leader.
func follow(leader *model) *standby {
	s := &standby{model: model{t: leader.t, world: leader.world, behind: map[eventlog.Resource]bool{}}}
	s.state = leader.state
	s.beginAs(true)
	if s.listed = rapid.Bool().Draw(s.t, "listed at once"); s.listed {
		s.listAll()
	}
	leader.changed = func(res eventlog.Resource, obj eventlog.Object, gone bool) {
		s.changes = append(s.changes, news{res, obj.DeepCopyObject().(eventlog.Object), gone})
	}
	leader.taken = func(inputs []eventlog.Payload) { s.log = append(s.log, inputs...) }
	return s
}

// hear tells the standby of the next change.
func (s *standby) hear() {
	if len(s.changes) == 0 || !s.listed {
		return
	}
	c := s.changes[0]
	s.changes = s.changes[1:]
	s.tell(c.res, c.obj, c.gone)
}

// relist gives the standby a list, which has all changes of the resource.
func (s *standby) relist(res eventlog.Resource) {
	if !s.listed {
		s.listed, s.changes = true, nil
		s.listAll()
		return
	}
	var others []news
	for _, c := range s.changes {
		if c.res != res {
			others = append(others, c)
		}
	}
	s.changes = others
	s.list(res)
}

// read tells the standby of the log's next entry.
func (s *standby) read() {
	if len(s.log) == 0 {
		return
	}
	s.seq++
	if err := s.watch.Logged(eventlog.Entry{Seq: s.seq, Payload: s.log[0]}); err != nil {
		s.t.Fatal(err)
	}
	s.log = s.log[1:]
}

// takeOver lets the standby read the rest of the log, and write it from then on.
func (s *standby) takeOver() {
	for len(s.log) > 0 {
		s.read()
	}
	if got := s.watch.Take(); got != nil {
		s.t.Errorf("it takes %v before it leads", got)
	}
	again := map[eventlog.Resource]bool{}
	for place, k := range kinds {
		cancel := context.CancelFunc(func() { again[k.resource] = true })
		s.watch.again[place].Store(&cancel)
	}
	s.watch.Lead()
	for res := range again {
		s.relist(res)
	}
}

func TestAStandbyThatTakesOverBringsTheLogToTheWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		leader := &model{t: t, behind: map[eventlog.Resource]bool{},
			world: map[eventlog.Resource]map[string]eventlog.Object{eventlog.Pods: {}, eventlog.Nodes: {}}}
		leader.state = newLogState(t)
		leader.begin()
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			leader.change()
			if rapid.Bool().Draw(t, "logged") {
				leader.take()
			}
		}
		s := follow(leader)
		resources := rapid.SampledFrom([]eventlog.Resource{eventlog.Pods, eventlog.Nodes})
		t.Repeat(map[string]func(*rapid.T){
			"change":    func(*rapid.T) { leader.change() },
			"change ":   func(*rapid.T) { leader.change() },
			"take":      func(*rapid.T) { leader.take() },
			"hear":      func(*rapid.T) { s.hear() },
			"hear ":     func(*rapid.T) { s.hear() },
			"read":      func(*rapid.T) { s.read() },
			"read ":     func(*rapid.T) { s.read() },
			"agree":     func(*rapid.T) { s.agree(leader) },
			"list":      func(t *rapid.T) { s.relist(resources.Draw(t, "of")) },
			"leader's":  func(t *rapid.T) { leader.list(resources.Draw(t, "of")) },
			"take over": func(*rapid.T) { s.takeOver(); s.finish(); s = follow(leader.after(s)) },
		})
		s.takeOver()
		s.finish()
	})
}

// agree lets the leader log all that there is, and the standby hear and read it: nothing waits then, and nothing is
// kept about objects that are gone.
func (s *standby) agree(leader *model) {
	leader.check()
	for len(s.log) > 0 {
		s.read()
	}
	if !s.listed {
		s.relist(eventlog.Pods)
	}
	for len(s.changes) > 0 {
		s.hear()
	}
	for res, behind := range s.behind {
		if behind {
			s.list(res)
		}
	}
	if n := s.watch.Waiting(); n != 0 {
		s.t.Errorf("%d wait, although the log has what the cluster has", n)
	}
	for place := range kinds {
		for name, a := range s.watch.ledger.books[place] {
			if !a.known || !a.told {
				s.t.Errorf("it keeps %s: known %v, told %v", name, a.known, a.told)
			}
		}
	}
}

// finish lets the standby, which leads, hear the rest, and checks the log.
func (s *standby) finish() {
	if rapid.Bool().Draw(s.t, "take at once") {
		s.take()
	}
	if !s.listed {
		s.relist(eventlog.Pods)
	}
	for len(s.changes) > 0 {
		s.hear()
	}
	s.check()
}

// after makes the model that writes the log of the standby that has taken over.
func (m *model) after(s *standby) *model {
	m.watch, m.stores, m.behind, m.state = s.watch, s.stores, s.behind, s.state
	return m
}

func TestALeaderIsNotToldOfItsOwnLog(t *testing.T) {
	w, _ := alone(t)
	err := w.Logged(eventlog.Entry{Seq: 7, Payload: &eventlog.Tick{}})
	if err == nil || !strings.Contains(err.Error(), "entry 7") {
		t.Errorf("error %v, want that this process writes the log", err)
	}
}

// The leader has logged that a node is gone, perhaps because its API server did not have the resource for a while. The
// standby has heard about the node once, and keeps no copy of it: it lists the nodes again when it leads.
func TestWhatTheLogLacksIsListedAgain(t *testing.T) {
	s := newServer(t)
	defer s.close()
	n := node("n1", "1", heartbeat)
	s.put(n)
	w, err := New(Options{Client: s.client(), Config: s.config(), Following: true})
	if err != nil {
		t.Fatal(err)
	}
	w.timing = hasty
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	<-w.Synced()
	trimmed, _, err := (&eventlog.Encoder{}).Logged(&eventlog.Upserted{Resource: eventlog.Nodes, Object: n})
	if err != nil {
		t.Fatal(err)
	}
	for seq, p := range []eventlog.Payload{trimmed, &eventlog.Deleted{Resource: eventlog.Nodes, Name: "n1", UID: "1"}} {
		if err := w.Logged(eventlog.Entry{Seq: uint64(seq), Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Waiting(); got != 0 {
		t.Fatalf("%d wait, want none: the log had what the cluster has", got)
	}
	w.Lead()
	var got []eventlog.Payload
	await(t, "the node", func() bool {
		got = append(got, w.Take()...)
		return len(got) > 0
	})
	if up, ok := got[0].(*eventlog.Upserted); !ok || len(got) > 1 || up.Object.GetName() != "n1" {
		t.Errorf("took %v, want the node", got)
	}
}

// An object of a list may be in the log when it comes over the wire, and gone from it when the list is complete.
func TestWhatIsLoggedDuringAListMayGo(t *testing.T) {
	w, stores := alone(t)
	w.following.Store(new([]byte))
	n := node("n1", "1", heartbeat)
	trimmed, _, err := (&eventlog.Encoder{}).Logged(&eventlog.Upserted{Resource: eventlog.Nodes, Object: n})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Logged(eventlog.Entry{Seq: 1, Payload: trimmed}); err != nil {
		t.Fatal(err)
	}
	arrived, err := stores[eventlog.Nodes].Transformer()(n)
	if err != nil {
		t.Fatal(err)
	}
	gone := &eventlog.Deleted{Resource: eventlog.Nodes, Name: "n1", UID: "1"}
	if err := w.Logged(eventlog.Entry{Seq: 2, Payload: gone}); err != nil {
		t.Fatal(err)
	}
	if err := stores[eventlog.Nodes].Replace([]any{arrived}, ""); err != nil {
		t.Fatal(err)
	}
	if w.Waiting() != 1 {
		t.Errorf("%d wait, want the node", w.Waiting())
	}
}

// A node came and went before the standby read that the leader had logged it. The leader was gone before it logged the
// deletion: the standby does.
func TestWhatWasLoggedAfterItsEndIsDeleted(t *testing.T) {
	w, stores := alone(t)
	w.following.Store(new([]byte))
	for _, s := range stores {
		if err := s.Replace(nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	n := node("n1", "1", heartbeat)
	logged, _, err := (&eventlog.Encoder{}).Logged(&eventlog.Upserted{Resource: eventlog.Nodes, Object: n})
	if err != nil {
		t.Fatal(err)
	}
	nodes := stores[eventlog.Nodes]
	if err := errors.Join(nodes.Add(n), nodes.Delete(n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Logged(eventlog.Entry{Seq: 1, Payload: logged}); err != nil {
		t.Fatal(err)
	}
	w.Lead()
	got := w.Take()
	if len(got) != 1 {
		t.Fatalf("took %v, want the node's end", got)
	}
	if d, ok := got[0].(*eventlog.Deleted); !ok || d.Name != "n1" || d.UID != "1" {
		t.Errorf("took %v, want the node's end", got[0])
	}
}
