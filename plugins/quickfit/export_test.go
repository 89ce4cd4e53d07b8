package quickfit

// MaxNames is for tests.
const MaxNames = maxNames

// Names returns how many extended resources the ledger keeps.
func (f *Fit) Names() int { return len(f.ledger.names) }
