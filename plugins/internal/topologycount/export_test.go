package topologycount

// Costs returns how often, ever, the ledger read a node, compared a kind of pods with a Question, and counted all pods
// of all nodes.
func (l *Ledger) Costs() (looked, compared, counted int) { return l.looked, l.compared, l.counted }

// Counts returns how many Counts there are, and their estimated size in bytes together with the topologies.
func (l *Ledger) Counts() (n, bytes int) {
	return len(l.memos.byKey), l.memos.bytes + l.topologies.bytes()
}

// SetMaxMemory sets how many bytes all Counts may take with the topologies.
func (l *Ledger) SetMaxMemory(bytes int) { l.memos.most = bytes }

// Topologies returns how many there are.
func (l *Ledger) Topologies() int { return len(l.topologies) }

// Numbers returns how many kinds of pods have a number, and how many domains.
func (l *Ledger) Numbers() (kinds, domains int) {
	for _, t := range l.topologies {
		domains += t.Size()
	}
	return len(l.kinds.list), domains
}

// Changes returns how many changes the journal has.
func (l *Ledger) Changes() int { return len(l.journal.changes) }

// The bounds.
const (
	MaxMemory     = maxMemory
	LeastCounts   = leastMemos
	MaxTopologies = maxTopologies
	Slack         = slack
	MinChanges    = minChanges
	MaxNames      = maxNames
)
