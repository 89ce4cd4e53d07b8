package queue

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestTheQueueIsWhatTheModelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{gated: map[types.UID]string{}, free: 2}
		early := rapid.Bool().Draw(t, "early attempts")
		room := func(o *Options) {
			o.Room = func(e *Entity) bool { return e.NumReady() <= w.free }
			o.PopEarly = early
		}
		r := &run{
			t: t, w: w,
			m: &model{world: w, early: early, now: epoch, entities: map[Key]*modelEntity{}},
			q: newQueue(t, w.profile(), room, func(o *Options) { o.RoomVersion = func() uint64 { return w.version } }),
			// plain asks Room again after every change: the version is a memo only.
			plain: newQueue(t, w.profile(), room),
		}
		t.Repeat(r.actions())
	})
}

// run is one history told to the queue, to one without RoomVersion, and to the model.
type run struct {
	t        *rapid.T
	w        *world
	m        *model
	q, plain *Queue
}

func (r *run) both(f func(q *Queue)) { f(r.q); f(r.plain) }

// entity draws one that exists.
func (r *run) entity() *modelEntity {
	if len(r.m.entities) == 0 {
		r.t.Skip("the queue is empty")
	}
	keys := slices.SortedFunc(maps.Keys(r.m.entities), CompareKeys)
	return r.m.entities[rapid.SampledFrom(keys).Draw(r.t, "entity")]
}

func (r *run) uid(e *modelEntity) types.UID {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(e.members))).Draw(r.t, "pod")
}

func (r *run) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"add":        func(*rapid.T) { r.add() },
		"attempt":    func(*rapid.T) { r.attempt() },
		"attempt2":   func(*rapid.T) { r.attempt() },
		"move":       func(*rapid.T) { r.move() },
		"time":       func(*rapid.T) { r.time() },
		"world":      func(*rapid.T) { r.change() },
		"pod":        func(*rapid.T) { r.pod() },
		"entity":     func(*rapid.T) { r.tellEntity() },
		"wake":       func(*rapid.T) { r.wake() },
		"beforeWake": func(*rapid.T) { r.beforeWake() },
		"":           func(*rapid.T) { r.check() },
	}
}

func (r *run) add() {
	g := rapid.IntRange(0, 5).Draw(r.t, "entity")
	i := 0
	key := podKey(fmt.Sprintf("e%d-0", g))
	if g >= 3 {
		i = rapid.IntRange(0, 3).Draw(r.t, "member")
		key = gangKey(fmt.Sprintf("e%d", g))
	}
	pod := r.draw(fmt.Sprintf("e%d-%d", g, i))
	if e := r.m.entities[key]; e != nil && e.members[pod.UID] != nil {
		r.t.Skip("it is there")
	}
	r.both(func(q *Queue) { q.Add(key, pod) })
	r.m.add(key, pod)
}

func (r *run) draw(name string) *v1.Pod {
	return withPriority(podNamed(name), rapid.SampledFrom([]int32{0, 0, 0, 1}).Draw(r.t, "priority"))
}

// attempt lets the head, or any entity, go one step of an attempt.
func (r *run) attempt() {
	e := r.entity()
	if h := r.q.Head(); h != nil && rapid.Bool().Draw(r.t, "head") {
		e = r.m.entities[h.Key()]
	}
	key := e.key
	switch what := rapid.SampledFrom([]string{"start", "place", "unplace", "finish", "refuse", "refuse", "park",
		"park"}).Draw(r.t, "step"); what {
	case "start":
		r.both(func(q *Queue) { q.StartAttempt(key) })
		r.m.startAttempt(key)
	case "place", "unplace":
		uid := r.uid(e)
		if e.members[uid].placed == (what == "place") {
			r.t.Skip("it is so already")
		}
		r.both(func(q *Queue) {
			if what == "place" {
				q.MarkPlaced(key, uid)
			} else {
				q.MarkPending(key, uid)
			}
		})
		r.m.mark(key, uid, what == "place")
	case "finish":
		r.both(func(q *Queue) { q.Finish(key) })
		r.m.finish(key)
	case "park", "refuse":
		names := func(of ...string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID[string]).Draw(r.t, "plugins")
		}
		f := Failure{
			Plugins:        names("P", "R", "H", "unheard"),
			PendingPlugins: names("W", "R"),
			Error:          rapid.IntRange(0, 4).Draw(r.t, "error") == 0,
		}
		if what == "refuse" || rapid.Bool().Draw(r.t, "of one") {
			f.UID = r.uid(e)
		}
		if what == "refuse" {
			r.both(func(q *Queue) { q.Refuse(key, f) })
			r.m.refuse(key, f)
			return
		}
		r.both(func(q *Queue) { q.Park(key, f) })
		r.m.park(key, f)
	}
}

func (r *run) move() {
	ev := rapid.SampledFrom([]fwk.ClusterEvent{evA, evB, evC, evG, wildcard}).Draw(r.t, "event")
	var obj any
	var only types.UID
	if ev == wildcard && rapid.Bool().Draw(r.t, "for one") {
		only = r.uid(r.entity())
		pod := podNamed("x")
		pod.UID = only
		obj = pod
	}
	r.both(func(q *Queue) { q.Move(ev, nil, obj) })
	r.m.move(ev, only)
}

func (r *run) setTime(to eventlog.Time) {
	r.both(func(q *Queue) { q.SetTime(to) })
	r.m.setTime(to)
}

func (r *run) time() {
	d := rapid.SampledFrom(
		[]time.Duration{0, 1, time.Second, 3 * time.Second, 29 * time.Second, 5 * time.Minute},
	).Draw(
		r.t,
		"time",
	)
	r.setTime(r.m.now.Add(d))
}

// change changes the answers of plugins and Room. Nobody learns which entities are gated.
func (r *run) change() {
	if rapid.Bool().Draw(r.t, "free") {
		free := rapid.IntRange(0, 4).Draw(r.t, "free")
		if free > r.w.free {
			r.w.version++
			r.m.change()
			r.both(func(q *Queue) { q.changed() })
		}
		r.w.free = free
		return
	}
	uid := r.uid(r.entity())
	r.w.gated[uid] = rapid.SampledFrom([]string{"G", "H", "I", ""}).Draw(r.t, "gate")
	if r.w.gated[uid] == "" {
		delete(r.w.gated, uid)
	}
}

func (r *run) pod() {
	e := r.entity()
	key, uid := e.key, r.uid(e)
	if rapid.Bool().Draw(r.t, "delete") {
		r.both(func(q *Queue) { q.Delete(key, uid) })
		r.m.delete(key, uid)
		return
	}
	pod := r.draw(e.members[uid].pod.Name)
	r.both(func(q *Queue) { q.Update(key, nil, pod) })
	r.m.update(key, pod)
}

func (r *run) tellEntity() {
	key := r.entity().key
	if rapid.Bool().Draw(r.t, "activate") {
		r.both(func(q *Queue) { q.Activate(key) })
		r.m.activate(key)
		return
	}
	if rapid.Bool().Draw(r.t, "retry") {
		r.both(func(q *Queue) { q.Retry(key) })
		r.m.retry(key)
		return
	}
	r.both(func(q *Queue) { q.Recheck(key) })
	r.m.recheck(key)
}

// wake advances to when the queue wants to be woken: then something must happen.
func (r *run) wake() {
	at, ok := r.q.Wake()
	if !ok {
		r.t.Skip("never")
	}
	if at <= r.m.now {
		r.t.Fatalf("Wake says %v, and it is %v", at, r.m.now)
	}
	before := r.q.AppendState(nil)
	r.setTime(at)
	if bytes.Equal(before, r.q.AppendState(nil)) {
		r.t.Fatalf("nothing happened at %v", at)
	}
}

// beforeWake advances to some time before that: then nothing must happen.
func (r *run) beforeWake() {
	at, ok := r.q.Wake()
	if !ok {
		at = r.m.now.Add(time.Hour)
	}
	before := r.q.AppendState(nil)
	r.setTime(eventlog.Time(rapid.Int64Range(int64(r.m.now), int64(at)-1).Draw(r.t, "before")))
	if !bytes.Equal(before, r.q.AppendState(nil)) {
		r.t.Fatalf("something happened before %v", at)
	}
}

func (r *run) check() {
	r.both(func(q *Queue) { q.ChooseHead() })
	checkPlaces(r.t, r.q)
	if got, want := show(r.q), r.m.String(); got != want {
		r.t.Fatalf("the queue is\n%sthe model is\n%s", got, want)
	}
	head := "none"
	if e := r.q.Head(); e != nil {
		head = e.Key().String()
	}
	if want := r.m.head(); head != want {
		r.t.Fatalf("the head is %s, want %s, of\n%s", head, want, r.m)
	}
	if !bytes.Equal(r.q.AppendState(nil), r.plain.AppendState(nil)) {
		r.t.Fatal("RoomVersion makes a difference")
	}
	if !slices.IsSortedFunc(r.q.retryable.all(), r.q.compare) {
		r.t.Fatal("the owed are out of order")
	}
}
