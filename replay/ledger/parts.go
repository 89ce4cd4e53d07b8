package ledger

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// parts books a range in parts that begin with snapshots.
type parts struct {
	source history.Source
	o      Options

	// restoring: a Source restores one state at a time, and may report notes meanwhile. Progress is left out then.
	restoring sync.Mutex
	read      atomic.Uint64
	mu        sync.Mutex
	gates     map[string]bool
	mixed     bool // the epochs have different feature gates, which are variables of the process
}

// part is a part of the range: the entries behind after, up to last.
type part struct {
	after, last uint64
	book        *book
	closed      closed
	err         error
	done        chan struct{}
}

// closed is the result of a part.
type closed struct {
	rows      map[string]*row
	common    *row
	resources []v1.ResourceName
	held      map[types.UID][]piece
	fates     map[types.UID]Column
	waits     []wait
	first     map[v1.ResourceName]string // the first entity that waits at the end, by resource
}

// errMixed says that parts cannot be booked at a time.
var errMixed = errors.New("the epochs have different feature gates")

// run books the parts, and resolves what one part leaves to the next.
func (p *parts) run(ctx context.Context) ([]closed, error) {
	cuts, err := p.cut()
	if err != nil {
		return nil, err
	}
	all, err := p.bookAll(ctx, cuts)
	if errors.Is(err, errMixed) {
		p.read.Store(0)
		all, err = p.bookAll(ctx, cuts[:1])
	}
	if err != nil {
		return nil, err
	}
	out := make([]closed, len(all))
	held, open := map[types.UID][]piece{}, map[queue.Key]wait{}
	for i, part := range all {
		out[i] = part.closed
		// any order: each is booked by itself
		for uid, as := range part.closed.fates {
			resolve(held, uid, as, p.o.Edges)
		}
		// any order: pods are independent
		for uid, pieces := range part.closed.held {
			held[uid] = append(held[uid], pieces...)
		}
		p.joinWaits(out[i].waits, open)
	}
	return out, p.follow(ctx, all[len(all)-1], held)
}

// joinWaits gives the waits that a part began with their beginnings, from the waits that the part before left open.
func (p *parts) joinWaits(waits []wait, open map[queue.Key]wait) {
	next := map[queue.Key]wait{}
	for i := range waits {
		w := &waits[i]
		if w.begin == 0 {
			if before, known := open[w.key]; known {
				w.begin, w.group = before.begin, before.group
			} else if w.begin = w.active; w.begin == 0 || w.begin > p.o.Start {
				w.begin = p.o.Start
			}
		}
		if w.end == 0 {
			next[w.key] = *w
		}
	}
	clear(open)
	maps.Copy(open, next)
}

// cut returns the entries behind which parts begin, ascending.
func (p *parts) cut() ([]uint64, error) {
	cuts := []uint64{p.o.After}
	seqs, err := p.source.SnapshotSeqs()
	if err != nil || p.o.Workers < 2 {
		return cuts, err
	}
	size := max(1, (p.o.Last-p.o.After)/uint64(2*p.o.Workers))
	for _, seq := range seqs {
		if seq >= cuts[len(cuts)-1]+size && seq < p.o.Last {
			cuts = append(cuts, seq)
		}
	}
	return cuts, nil
}

// bookAll books the parts, several at a time.
func (p *parts) bookAll(ctx context.Context, cuts []uint64) ([]*part, error) {
	within, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	all := make([]*part, len(cuts))
	next := make(chan *part, len(cuts))
	for i, after := range cuts {
		all[i] = &part{after: after, last: p.o.Last, done: make(chan struct{})}
		if i > 0 {
			all[i-1].last = after
		}
		next <- all[i]
	}
	close(next)
	for range min(max(1, p.o.Workers), len(cuts)) {
		working.Go(func() {
			for x := range next {
				x.err = p.book(within, x)
				close(x.done)
			}
		})
	}
	for _, x := range all {
		<-x.done
		if x.err != nil {
			return nil, x.err
		}
	}
	return all, nil
}

// book books a part.
func (p *parts) book(ctx context.Context, x *part) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	log := history.New(p.source, history.Options{})
	m, err := p.state(ctx, log, x.after)
	if err != nil {
		return err
	}
	if m.Seq() > 0 {
		if err := p.agree(m.Config(), x); err != nil {
			return err
		}
	}
	decisions, err := asked(ctx, log, m)
	if err != nil {
		return err
	}
	start := m.Now()
	if x.after == p.o.After {
		start = p.o.Start
	}
	x.book = newBook(m, &p.o)
	x.book.begin(start, decisions)
	for e, err := range log.Entries(ctx, history.Query{From: x.after + 1, To: history.Bound{Seq: x.last}}) {
		if epoch, ok := e.Payload.(*eventlog.EpochStarted); ok && err == nil {
			err = p.agree(epoch.Config, x)
		}
		if err == nil {
			err = x.book.take(e)
		}
		if err != nil {
			return err
		}
		p.progress(e.Seq)
	}
	end := m.Now()
	if x.last == p.o.Last {
		end = p.o.End
	}
	x.book.close(end)
	b := x.book
	x.closed = closed{b.rows, b.common, b.resources, b.held, b.fates, b.line.waits, b.firsts()}
	if x.last != p.o.Last {
		x.book = nil // its state takes memory
	}
	return nil
}

// state returns the state after an entry.
func (p *parts) state(ctx context.Context, log *history.Log, after uint64) (*scheduler.Machine, error) {
	if after == 0 {
		return scheduler.New(p.source.Registry()), nil
	}
	p.restoring.Lock()
	defer p.restoring.Unlock()
	return log.At(ctx, after)
}

// agree returns errMixed unless the feature gates of a configuration are the ones of the others. One part has to agree
// with nobody.
func (p *parts) agree(config []byte, x *part) error {
	if x.after == p.o.After && x.last == p.o.Last {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	gates := framework.LoggedFeatureGates(config)
	if p.gates == nil {
		p.gates = map[string]bool{}
		maps.Copy(p.gates, gates)
	} else if !maps.Equal(p.gates, gates) {
		p.mixed = true
	}
	if p.mixed {
		return errMixed
	}
	return nil
}

// progress counts an entry.
func (p *parts) progress(seq uint64) {
	const every = 1000
	if p.o.Progress == nil || seq%every != 0 {
		return
	}
	read := p.read.Add(every)
	if p.restoring.TryLock() {
		defer p.restoring.Unlock()
		p.o.Progress(read, max(read, p.o.Last-p.o.After))
	}
}

// follow reads on behind the range until it is known what became of the pods that run there.
func (p *parts) follow(ctx context.Context, x *part, held map[types.UID][]piece) error {
	b := x.book
	b.ended = b.ended[:0]
	log := history.New(p.source, history.Options{})
	for e, err := range log.Entries(ctx, history.Query{From: x.last + 1}) {
		if err != nil {
			return err
		}
		if len(held) == 0 {
			break
		}
		b.noteEnds(e)
		for _, end := range b.ended {
			resolve(held, end.uid, end.as, p.o.Edges)
		}
		b.ended = b.ended[:0]
		if d, ok := e.Payload.(*eventlog.Decision); ok {
			b.fallen[e.Seq] = d.Outcome == eventlog.Evicted
		}
		if err := b.m.Apply(e); err != nil {
			return err
		}
		p.progress(e.Seq)
	}
	// any order: each is booked by itself
	for uid := range held {
		resolve(held, uid, b.lastFate(uid), p.o.Edges)
	}
	return nil
}
