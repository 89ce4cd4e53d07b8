package engine

// MaxAppend is maxAppend, MaxInFlight maxInFlight.
const (
	MaxAppend   = maxAppend
	MaxInFlight = maxInFlight
)

// AwaitSnapshot waits for the snapshot under way, and has its failure reported.
func (e *Engine) AwaitSnapshot() { e.collect(true) }

// InFlight returns how many entries are with the writer.
func (e *Engine) InFlight() int {
	e.writer.mu.Lock()
	defer e.writer.mu.Unlock()
	return len(e.writer.queue) + e.writer.taken
}

// WriterIsFull says that someone waits to hand over more than may be in flight.
func (e *Engine) WriterIsFull() bool {
	e.writer.mu.Lock()
	defer e.writer.mu.Unlock()
	return e.writer.waiting > 0
}
