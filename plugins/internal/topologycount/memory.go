package topologycount

import "container/list"

// maxMemory bounds what all Counts take with their topologies, in bytes. The Counts that were not used for longest go
// first. Example: on 50,000 nodes there is room for more than 200 apps whose pods are apart by node and prefer another
// label. maxTopologies bounds the topologies, because each of them is looked up for every node that changes.
// leastMemos Counts are kept in any case.
const (
	maxMemory     = 256 << 20
	maxTopologies = 64
	leastMemos    = 16
)

// memos are the Counts by key.
type memos struct {
	byKey map[string]*Counts
	order list.List // of *Counts: the most recently used in front
	bytes int       // of all together
	most  int       // maxMemory, or less in tests
}

// keep takes in new Counts.
func (s *memos) keep(c *Counts) {
	if s.byKey == nil {
		s.byKey = map[string]*Counts{}
	}
	s.byKey[c.key] = c
	c.element = s.order.PushFront(c)
}

// use notes that the Counts are used, and how much memory they take now.
func (s *memos) use(c *Counts) {
	s.order.MoveToFront(c.element)
	size := c.size()
	s.bytes += size - c.bytes
	c.bytes = size
}

// oldest returns the Counts that were not used for longest, nil if there are none.
func (s *memos) oldest() *Counts {
	if e := s.order.Back(); e != nil {
		return e.Value.(*Counts)
	}
	return nil
}

// drop forgets Counts.
func (s *memos) drop(c *Counts) {
	s.order.Remove(c.element)
	delete(s.byKey, c.key)
	s.bytes -= c.bytes
	c.dropped = true
}
