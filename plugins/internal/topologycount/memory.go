package topologycount

// maxMemory bounds what all Counts take with their topologies, in bytes. The Counts that were not used for longest go
// first. Example: on 50,000 nodes there is room for more than 200 apps whose pods are apart by node and prefer another
// label. maxTopologies bounds the topologies, because each of them is looked up for every node that changes.
// leastMemos is how many Counts there may be in any case.
const (
	maxMemory     = 256 << 20
	maxTopologies = 64
	leastMemos    = 16
)

// memos are the Counts by key.
type memos struct {
	byKey          map[string]*Counts
	oldest, newest *Counts // of the order of the last use
	bytes          int     // of all together
	most           int     // maxMemory, or less in tests
}

// keep takes in new Counts.
func (s *memos) keep(c *Counts) {
	if s.byKey == nil {
		s.byKey = map[string]*Counts{}
	}
	s.byKey[c.key] = c
	s.putLast(c)
}

// use notes that the Counts are used, and how much memory they take now.
func (s *memos) use(c *Counts) {
	s.takeOut(c)
	s.putLast(c)
	size := c.size()
	s.bytes += size - c.bytes
	c.bytes = size
}

// drop forgets Counts.
func (s *memos) drop(c *Counts) {
	s.takeOut(c)
	delete(s.byKey, c.key)
	s.bytes -= c.bytes
	c.dropped = true
}

// putLast puts the Counts behind all others in the order of the last use.
func (s *memos) putLast(c *Counts) {
	c.older, c.newer = s.newest, nil
	if s.newest == nil {
		s.oldest = c
	} else {
		s.newest.newer = c
	}
	s.newest = c
}

// takeOut takes the Counts out of the order.
func (s *memos) takeOut(c *Counts) {
	if c.older == nil {
		s.oldest = c.newer
	} else {
		c.older.newer = c.newer
	}
	if c.newer == nil {
		s.newest = c.older
	} else {
		c.newer.older = c.older
	}
}
