package queue

import (
	"slices"
	"strings"
)

// A LanePolicy decides which lane an entity is in, which lane goes first, and which entity others may pass in a lane.
//
// A lane is a list of entities in queue order. Example: a policy has a lane for each namespace. Then the first entity
// of a lane never waits for an entity of another lane, whatever their priorities are, and CompareLanes orders the
// namespaces.
//
// A policy answers from the Entity, its factory's arguments and, in Passes, the PolicyView that the factory got. It
// changes none of them. It has no clock, no random number and no memory: the same state gives the same answers.
// Policies are compared with ==, so a policy is a pointer or a type without fields.
type LanePolicy interface {
	// Lane returns the name of the entity's lane; "" if the entity is in none, so that all may pass it. It must follow
	// from the entity's key, profile, priority and pods. It is asked again when one of them changes.
	Lane(e *Entity) string
	// CompareLanes returns a negative number if lane a goes before lane b, a positive one if b goes first, and 0 if the
	// queue's order of the first entities decides. It must be a strict weak order. The entity that is attempted next is
	// the first of the first lane in which one is worth an attempt.
	CompareLanes(a, b string) int
	// Passes reports, of an entity that waits for its turn, whether entities behind it in its lane may be attempted
	// before it. An active entity is attempted first in any case.
	Passes(e *Entity) bool
}

// LaneBlocker may be implemented by a LanePolicy that knows what blocks a lane without asking Passes of each entity.
type LaneBlocker interface {
	// Blocking returns the one entity of a lane that lets none pass unless it is active, nil for none; known is false
	// if Passes must be asked. It is a memo of Passes.
	Blocking(lane string) (e *Entity, known bool)
}

// LaneOvertaker may be implemented by a LanePolicy with exceptions to Passes.
type LaneOvertaker interface {
	// Overtaking returns the entities that may be attempted before an earlier entity that lets none pass, in any order.
	// The queue ignores entities that are not behind it in its lane.
	Overtaking(first *Entity) []*Entity
}

// BestEffort is the LanePolicy without lanes: whatever fits passes what does not.
type BestEffort struct{}

// Lane implements LanePolicy.
func (BestEffort) Lane(*Entity) string { return "" }

// CompareLanes implements LanePolicy.
func (BestEffort) CompareLanes(_, _ string) int { return 0 }

// Passes implements LanePolicy.
func (BestEffort) Passes(*Entity) bool { return true }

// laneSet is the lanes of one policy.
type laneSet struct {
	policy LanePolicy
	lanes  []*lane // by name
}

// laneSets are the lanes of all policies.
type laneSets struct {
	sets      []*laneSet
	byProfile map[string]*laneSet // without the profiles under BestEffort
	byName    map[string]*lane
	looked    int // entities that searches of removed lanes have visited
}

// addPolicy gives a profile its policy. Profiles with the same policy share its lanes.
func (s *laneSets) addPolicy(profile string, policy LanePolicy) {
	if policy == nil || policy == (BestEffort{}) {
		return
	}
	if s.byProfile == nil {
		s.byProfile, s.byName = map[string]*laneSet{}, map[string]*lane{}
	}
	for _, set := range s.sets {
		if set.policy == policy {
			s.byProfile[profile] = set
			return
		}
	}
	set := &laneSet{policy: policy}
	s.sets, s.byProfile[profile] = append(s.sets, set), set
}

// nameFor returns the name of the lane that an entity belongs to, "" for none.
func (s *laneSets) nameFor(e *Entity) string {
	set := s.byProfile[e.profile]
	if set == nil || e.resize {
		return ""
	}
	return set.policy.Lane(e)
}

// laneFor returns the lane that an entity belongs to, nil for none. It makes the lane if it is not there.
func (s *laneSets) laneFor(e *Entity) *lane {
	name := s.nameFor(e)
	if name == "" {
		return nil
	}
	l := s.byName[name]
	if l == nil {
		l = &lane{name: name, set: s.byProfile[e.profile]}
		l.blocker, _ = l.set.policy.(LaneBlocker)
		l.overtaker, _ = l.set.policy.(LaneOvertaker)
		s.byName[name] = l
		i, _ := slices.BinarySearchFunc(l.set.lanes, name, func(o *lane, name string) int {
			return strings.Compare(o.name, name)
		})
		l.set.lanes = slices.Insert(l.set.lanes, i, l)
	}
	return l
}

// dropEmpty forgets the lanes without entities. It must not be called while lanes are searched.
func (s *laneSets) dropEmpty() {
	for _, set := range s.sets {
		set.lanes = slices.DeleteFunc(set.lanes, func(l *lane) bool {
			if l.entities.size > 0 {
				return false
			}
			s.looked += l.entities.looked
			delete(s.byName, l.name)
			return true
		})
	}
}
