package engine

// MaxAppend is maxAppend, MaxInFlight maxInFlight, MaxInFlightBytes maxInFlightBytes.
const (
	MaxAppend        = maxAppend
	MaxInFlight      = maxInFlight
	MaxInFlightBytes = maxInFlightBytes
)

// ClaimsOf is claimsOf.
var ClaimsOf = claimsOf

// AwaitSnapshot waits for the snapshot under way, and has its failure reported.
func (e *Engine) AwaitSnapshot() { e.collect(true) }

// AwaitSnapshot waits for the snapshot under way.
func (s *Standby) AwaitSnapshot() { s.collect(true) }

// InFlight returns how many entries, and bytes of payload, are with the writer.
func (e *Engine) InFlight() (entries, bytes int) {
	e.writer.mu.Lock()
	defer e.writer.mu.Unlock()
	return e.writer.flying.entries, e.writer.flying.bytes
}
