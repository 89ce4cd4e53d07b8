package dump

import (
	"context"
	"runtime"
	"sync"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// batchBytes is the size from which a batch of items goes to a decoder.
const batchBytes = 256 << 10

// texts has the memory of items that were decoded.
var texts sync.Pool

// maxFreed is the size of the largest memory that is kept.
const maxFreed = 64 << 10

// newText returns memory for the text of an item. size is a guess.
func newText(size int) []byte {
	if text, ok := texts.Get().(*[]byte); ok {
		return (*text)[:0]
	}
	return make([]byte, 0, size)
}

// freeText gives back the memory of an item that was decoded.
func freeText(text []byte) {
	if cap(text) <= maxFreed {
		texts.Put(&text)
	}
}

// batch is a number of items on their way through a decoder.
type batch struct {
	items []*item
	bytes int
	found []*found
	err   error
	done  chan struct{}
}

// pipeline decodes items in several goroutines, and hands the results on in order. It holds a bounded number of items.
type pipeline struct {
	ctx     context.Context
	now     *batch
	work    chan *batch
	inOrder chan *batch
	failed  chan struct{} // closed after the first error
}

// decodeAll calls split with a function that takes items, and take with each decoded item, in order. It returns the
// first error in the order of the items.
func decodeAll(ctx context.Context, split func(emit func(*item) error) error, take func(*found) error) error {
	n := max(1, runtime.GOMAXPROCS(0))
	p := &pipeline{ctx: ctx, now: &batch{}, work: make(chan *batch, 2*n), inOrder: make(chan *batch, 4*n),
		failed: make(chan struct{})}
	var decoders sync.WaitGroup
	for range n {
		decoders.Go(p.decode)
	}
	splitting := make(chan error, 1)
	go func() {
		err := split(p.emit)
		p.flush()
		close(p.work)
		close(p.inOrder)
		splitting <- err
	}()
	err := p.collect(take)
	splitErr := <-splitting
	decoders.Wait()
	if err != nil {
		return err
	}
	return splitErr
}

// emit takes an item in.
func (p *pipeline) emit(it *item) error {
	p.now.items = append(p.now.items, it)
	if p.now.bytes += len(it.text); p.now.bytes >= batchBytes {
		p.flush()
	}
	select {
	case <-p.failed:
		return errStopped
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	default:
		return nil
	}
}

// flush sends the batch at hand to a decoder.
func (p *pipeline) flush() {
	b := p.now
	if p.now = (&batch{}); len(b.items) == 0 {
		return
	}
	b.done = make(chan struct{})
	p.inOrder <- b
	p.work <- b
}

// decode decodes batches until the last one.
func (p *pipeline) decode() {
	d := decoder{encoder: eventlog.Encoder{Recording: true}}
	for b := range p.work {
		for _, it := range b.items {
			f, err := d.decode(it)
			if err != nil {
				b.err = err
				break
			}
			b.found = append(b.found, f)
			freeText(it.text)
		}
		b.items = nil
		close(b.done)
	}
}

// collect hands the results on in order, until the first error. It drains what comes after it.
func (p *pipeline) collect(take func(*found) error) (err error) {
	for b := range p.inOrder {
		<-b.done
		for _, f := range b.found {
			if err != nil {
				break
			}
			if err = take(f); err != nil {
				close(p.failed)
			}
		}
		if err == nil && b.err != nil {
			err = b.err
			close(p.failed)
		}
	}
	return err
}
