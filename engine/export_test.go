package engine

// MaxAppend is maxAppend.
const MaxAppend = maxAppend

// AwaitSnapshot waits for the snapshot under way, and has its failure reported.
func (e *Engine) AwaitSnapshot() { e.collect(true) }
