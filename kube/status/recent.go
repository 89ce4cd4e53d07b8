package status

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Recent holds the last entries of a log that another process writes, as far as Recover reads them. A process that
// takes the log over need not read them again before it decides. The zero value keeps none. One goroutine at a time may
// use it.
type Recent struct {
	// Most is the number of entries that are kept.
	Most int

	entries []eventlog.Entry // a ring once there are Most
	next    uint64           // the entry behind the last one, 0 for none yet
}

// Note takes in the next entry. After a gap in the numbers it begins again.
func (r *Recent) Note(e eventlog.Entry) {
	if e.Seq != r.next {
		r.entries = r.entries[:0]
	}
	r.next = e.Seq + 1
	if len(r.entries) < r.Most {
		r.entries = append(r.entries, brief(e))
	} else if r.Most > 0 {
		r.entries[r.place(e.Seq)] = brief(e)
	}
	if len(r.entries) == r.Most && r.Most > 0 { // from now on an entry's place follows from its number
		r.turn()
	}
}

// place returns the place of an entry in the ring.
func (r *Recent) place(seq uint64) int { return int(seq % uint64(r.Most)) }

// turn brings the entries to their places when the ring has become full.
func (r *Recent) turn() {
	first := r.next - uint64(r.Most)
	if r.entries[r.place(first)].Seq == first {
		return
	}
	turned := make([]eventlog.Entry, r.Most)
	for _, e := range r.entries {
		turned[r.place(e.Seq)] = e
	}
	r.entries = turned
}

// Between returns entries from one to another, and whether it has all of them.
func (r *Recent) Between(first, last uint64) (iter.Seq2[eventlog.Entry, error], bool) {
	if r.next == 0 || last != r.next-1 || first > last || last-first >= uint64(len(r.entries)) {
		return nil, false
	}
	return func(yield func(eventlog.Entry, error) bool) {
		for seq := first; seq <= last; seq++ {
			if !yield(r.entry(seq), nil) {
				return
			}
		}
	}, true
}

// entry returns one that it has.
func (r *Recent) entry(seq uint64) eventlog.Entry {
	if len(r.entries) == r.Most {
		return r.entries[r.place(seq)]
	}
	return r.entries[len(r.entries)-int(r.next-seq)]
}

// brief is an entry without the parts that Observe does not read.
func brief(e eventlog.Entry) eventlog.Entry {
	p, ok := e.Payload.(*eventlog.Upserted)
	if !ok {
		return e
	}
	switch object := p.Object.(type) {
	case *corev1.Pod:
		e.Payload = &eventlog.Upserted{Resource: p.Resource, Object: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: object.UID},
		}}
	case *resourcev1.ResourceClaim:
	default:
		if !cluster.DeclaresGroups(p.Resource) {
			e.Payload = &eventlog.Tick{}
		}
	}
	return e
}
