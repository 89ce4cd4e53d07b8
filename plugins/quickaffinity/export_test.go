package quickaffinity

// Costs returns how often, ever, a node was looked at, pods of a kind were compared with the terms of a pod, and all
// pods of all nodes were counted.
func (a *Affinity) Costs() (looked, compared, counted int) {
	return a.ledger.looked, a.memos.costs.compared, a.memos.costs.counted
}

// Memos returns how many memos there are, and how many bytes they are thought to take.
func (a *Affinity) Memos() (n, bytes int) { return len(a.memos.byKey), a.memos.bytes }

// SetMaxMemory sets how many bytes all memos may take, with what they count by.
func (a *Affinity) SetMaxMemory(bytes int) { a.memos.most = bytes }

// Topologies returns how many there are, and how many bytes they are thought to take.
func (a *Affinity) Topologies() (n, bytes int) { return len(a.ledger.topologies), a.ledger.size() }

// Listed returns how often, ever, all namespaces were listed.
func (a *Affinity) Listed() int { return a.namespaces.listed }

// Kinds returns how many kinds of pods have a number, and how many values the labels of nodes.
func (a *Affinity) Kinds() (kinds, values int) {
	for _, t := range a.ledger.topologies {
		values += len(t.ids)
	}
	return len(a.ledger.kinds), values
}

// What bounds them.
const (
	MaxMemory     = maxMemory
	LeastMemos    = leastMemos
	MaxTopologies = maxTopologies
	MaxNews       = maxNews
	Slack         = slack
)
