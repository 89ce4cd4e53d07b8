package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Places that nodes would have if less important pods had gone, remembered by what a pod needs at the least.
//
// Gangs that more important pods keep out are asked about with every event that may have made room. The answer for one
// of them is that for all that need as much at the least and are as important, and an event changes few nodes.

// nodePlaces is a memo: the places on each node, and on all together, for pods that need so much of each resource at
// the least, without the pods of lower priority.
type nodePlaces struct {
	resources []v1.ResourceName
	least     []int64
	offered   []bool // whether some node offers the resource
	priority  int32

	on      []int32 // as List lists the nodes
	total   int64
	changes uint64 // ChangedSince
	version uint64 // ListVersion
	counted uint64 // reprioritised
	asked   uint64 // State.placesAsked when it was asked for last
}

const (
	// maxNodePlaces bounds the memos: with 50,000 nodes they take 51 MB.
	maxNodePlaces = 256
	// manyPlaces is how many places a node has that nothing limits. No gang has as many members.
	manyPlaces = 1 << 20
)

// placesFor returns the memo for some needs, brought up to date; nil if there are too many others that are in use.
func (s *State) placesFor(needs []resourceNeed, priority int32) *nodePlaces {
	var key strings.Builder
	key.WriteString(strconv.Itoa(int(priority)))
	for i := range needs {
		key.WriteString(" " + string(needs[i].resource) + "=" + strconv.FormatInt(needs[i].smallest(1), 10))
	}
	s.placesAsked++
	m := s.places[key.String()]
	if m == nil {
		if len(s.places) >= maxNodePlaces && !s.forgetPlaces() {
			return nil
		}
		if s.places == nil {
			s.places = map[string]*nodePlaces{}
		}
		m = &nodePlaces{priority: priority}
		for i := range needs {
			m.resources = append(m.resources, needs[i].resource)
			m.least = append(m.least, needs[i].smallest(1))
		}
		s.places[key.String()] = m
	}
	m.asked = s.placesAsked
	m.refresh(s)
	return m
}

// forgetPlaces makes room for a memo. It returns false if all are in use: otherwise each new one would take the place
// of one that is about to be asked for.
func (s *State) forgetPlaces() bool {
	before := len(s.places)
	maps.DeleteFunc(s.places, func(_ string, m *nodePlaces) bool { return s.placesAsked-m.asked > 4*maxNodePlaces })
	return len(s.places) < before
}

// findPlaces reports whether the nodes have k places, without a memo. It looks at nodes until it has found them, and at
// all of them if there are fewer.
func (s *State) findPlaces(needs []resourceNeed, k int, priority int32) bool {
	nodes, _ := s.nodes.List()
	for _, info := range nodes {
		if k <= 0 {
			break
		}
		s.placesCounted++
		places := int64(k)
		for i := range needs {
			name, least := needs[i].resource, needs[i].smallest(1)
			if _, offered := s.free.of(name); offered && least != 0 {
				places = s.placesOn(info, name, least, places, priority)
			}
		}
		k -= int(places)
	}
	return k <= 0
}

// refresh looks again at the nodes that have changed, or at all of them if it is not known which have.
func (m *nodePlaces) refresh(s *State) {
	nodes, _ := s.nodes.List()
	offered := make([]bool, len(m.resources))
	for i := range m.resources {
		_, offered[i] = s.free.of(m.resources[i])
	}
	places, now, known := s.nodes.ChangedSince(m.changes)
	listed, counted := s.record.version(NodeListed), s.record.version(Reprioritised)
	if known && m.on != nil && len(m.on) == len(nodes) && m.version == listed && m.counted == counted &&
		slices.Equal(m.offered, offered) {
		for _, at := range places {
			m.look(s, int(at), nodes[at])
		}
	} else {
		m.on, m.total, m.offered = make([]int32, len(nodes)), 0, offered
		for at, info := range nodes {
			m.look(s, at, info)
		}
	}
	m.changes, m.version, m.counted = now, s.record.version(NodeListed), s.record.version(Reprioritised)
}

// look counts the places on a node anew.
func (m *nodePlaces) look(s *State, at int, info fwk.NodeInfo) {
	s.placesCounted++
	places := int64(manyPlaces)
	for i := range m.resources {
		if m.offered[i] && m.least[i] != 0 {
			places = s.placesOn(info, m.resources[i], m.least[i], places, m.priority)
		}
	}
	m.total += places - int64(m.on[at])
	m.on[at] = int32(places)
}

// PlacesCounted returns how often a node was looked at to count its places without less important pods. It is for
// tests.
func (s *State) PlacesCounted() int { return s.placesCounted }
