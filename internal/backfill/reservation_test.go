package backfill

import (
	"bytes"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/queue"
)

// emptyView is a View of a cluster and queue in which there is nothing.
type emptyView struct{ *cluster.State }

func (emptyView) IsPicked(*queue.Entity) bool { return false }

func (emptyView) Now() eventlog.Time { return 0 }
func (emptyView) Versions() Versions { return Versions{} }
func (emptyView) FirstInLane(string, func(*queue.Entity) (yes, passed bool)) *queue.Entity {
	return nil
}
func (emptyView) ForgetPassed(string)                                       {}
func (emptyView) Entities() int                                             { return 0 }
func (emptyView) Entity(queue.Key) *queue.Entity                            { return nil }
func (emptyView) InFlight() bool                                            { return false }
func (emptyView) KeyOf(*cluster.Pod) queue.Key                              { return queue.Key{} }
func (emptyView) HasEnough(*queue.Entity) bool                              { return false }
func (emptyView) Needed(*queue.Entity) (room.Demand, bool)                  { return room.Demand{}, false }
func (emptyView) LeastNeeds(*queue.Entity) ([]Need, time.Duration, bool)    { return nil, 0, false }
func (emptyView) DomainsNow(*queue.Entity) (nodes [][]string, limited bool) { return nil, false }
func (emptyView) EntityOf(*cluster.Pod) *queue.Entity                       { return nil }
func (emptyView) StandsBefore(a, b *queue.Entity) bool                      { return false }
func (emptyView) Nominated() []*queue.Entity                                { return nil }
func (emptyView) KeptFor(queue.Key) []Kept                                  { return nil }
func (emptyView) KeptNodes() []string                                       { return nil }
func (emptyView) KeptOn(node string) []*cluster.Pod                         { return nil }
func (emptyView) LacksRoom(*queue.Entity) bool                              { return false }
func (v emptyView) Free(name v1.ResourceName) (amount int64, ok bool)       { return v.State.Free(name) }

func reservationFor(lane, gang string, at eventlog.Time) Reservation {
	return Reservation{
		Key: fwk.PodGroupKey("ml", gang), Lane: lane, At: at,
		Places: []eventlog.Place{{UID: "a", Node: "n0"}, {UID: "b", Node: "n1"}},
	}
}

func newTestPlanner() *Planner {
	c := cluster.New()
	return New(
		emptyView{c}, room.NewTable(c),
		Lane{Name: "y", Backfill: true},
		Lane{Name: "x", Backfill: true},
		Lane{Name: "z"},
	)
}

func TestReservationsAreRestoredFromTheirBytes(t *testing.T) {
	p := newTestPlanner()
	p.Reserve(reservationFor("y", "g", 5))
	p.Reserve(reservationFor("x", "h", 7))
	p.Observe("x", eventlog.Entry{Payload: &eventlog.Tick{}}, true)
	state := p.AppendState(nil)
	again := newTestPlanner()
	r := canonical.NewReader(state)
	again.Restore(r)
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(state, again.AppendState(nil)) {
		t.Error("the restored reservations have other bytes")
	}
	if got := again.Reservations(); len(got) != 2 || got[0].Lane != "x" || got[1].At != 5 {
		t.Errorf("%+v", got)
	}
}

func TestEachFieldOfAReservationShowsInTheBytes(t *testing.T) {
	seen := map[string]int{}
	for i, change := range []func(p *Planner, r *Reservation){
		func(*Planner, *Reservation) {},
		func(_ *Planner, r *Reservation) { r.Lane = "x" },
		func(_ *Planner, r *Reservation) { r.Key = fwk.PodKey("ml", "g") },
		func(_ *Planner, r *Reservation) { r.Key.Namespace = "other" },
		func(_ *Planner, r *Reservation) { r.At++ },
		func(_ *Planner, r *Reservation) { r.Places = r.Places[:1] },
		func(_ *Planner, r *Reservation) { r.Places[0].Node = "n2" },
	} {
		p, r := newTestPlanner(), reservationFor("y", "g", 5)
		change(p, &r)
		p.Reserve(r)
		state := string(p.AppendState(nil))
		if j, ok := seen[state]; ok {
			t.Errorf("change %d has the bytes of change %d", i, j)
		}
		seen[state] = i
		p.Observe(r.Lane, eventlog.Entry{Payload: &eventlog.Tick{}}, true)
		if string(p.AppendState(nil)) == state {
			t.Errorf("change %d: that the room changed does not show", i)
		}
	}
}

func TestAReservationWithoutPlacesEndsTheOneThereIs(t *testing.T) {
	p := newTestPlanner()
	p.Reserve(reservationFor("x", "g", 5))
	version := p.Version()
	p.Reserve(Reservation{Key: fwk.PodGroupKey("ml", "g"), Lane: "x"})
	if got := p.Reservations(); len(got) != 0 || p.Version() == version {
		t.Errorf("%+v at version %d, before %d", got, p.Version(), version)
	}
}

func TestAnEntityThatIsGoneWaitsNoMore(t *testing.T) {
	p := newTestPlanner()
	if p.WaitsNoMore("x") {
		t.Error("a lane without a reservation has one whose entity is gone")
	}
	p.Reserve(reservationFor("x", "g", 5))
	if !p.WaitsNoMore("x") {
		t.Error("the reservation of an entity that is not in the queue goes on")
	}
	p.End("x")
	if p.WaitsNoMore("x") || len(p.Reservations()) > 0 {
		t.Error("a reservation that ended is there")
	}
}

func TestLanesAreThoseThatWereGiven(t *testing.T) {
	p := newTestPlanner()
	if got := p.Backfilled(); len(got) != 2 || got[0] != "x" || got[1] != "y" {
		t.Errorf("under Backfill: %v", got)
	}
	if !p.HasLane("z") || p.HasLane("w") {
		t.Error("z has a lane, w has none")
	}
	if _, ok := p.Propose(); ok || p.BlockedLanes() != nil {
		t.Error("something is proposed or blocked in empty lanes")
	}
}
