package quickfit

// MaxNames exports maxNames to tests.
const MaxNames = maxNames

// Names returns the number of extended resources in the ledger.
func (f *Fit) Names() int { return len(f.ledger.names) }
