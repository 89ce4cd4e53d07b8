// Package scheduler owns the Machine: a scheduler with no goroutine, no clock and no I/O. It is a function of the log:
// the same entries give the same state, and the same state gives the same bytes of the next decision.
//
// The loop that drives it, written out:
//
//	m := scheduler.New(registry)
//	for entry := range log {                 // recovery: recorded decisions are facts
//		m.Apply(entry)
//	}
//	for {
//		inputs := <-world                    // objects changed, binds came back, time passed
//		entries := stamp(inputs)             // next sequence numbers, a time that never goes back
//		for entry := range entries {
//			m.Apply(entry)
//		}
//		for {
//			d, ok := m.Decide(nil)
//			if !ok {
//				break                        // nothing to do before the next input, or before m.Wake()
//			}
//			entry := stamp(d)
//			m.Apply(entry)                   // the decision becomes state ...
//			entries = append(entries, entry)
//		}
//		log.Append(entries)                  // ... and durable ...
//		release(m.EffectsAfter(released))    // ... before anything happens because of it
//	}
//
// Package engine is that loop; it need not wait for the append, but decides the next entries meanwhile, and releases
// the effects of durable decisions. If the append fails, the Machine is ahead of the log: it must be discarded and
// built again from the log.
//
// Apply is the only mutation. It asks no plugin whether it agrees with a decision: a newer binary with other plugins
// recovers an older log. Decide is pure: it runs a scheduling cycle of the plugins on the state, and takes back their
// reservations. A decision becomes state only by Apply. A build with the tag `invariants` checks both properties at run
// time: that only Apply changes the state, and that Decide leaves it unchanged.
//
// A gang is one entity in the queue. When it reaches the head, its members' cycles run back to back. Each ends in
// Permit, where the gang plugin answers Wait, and the pod is held on its node. The cycle that completes the minimum
// allows all members in its own Decision, and only then are their binds released. If a member finds no node, the
// attempt continues as long as the members not attempted yet can still complete the minimum. If they cannot, the
// Decision on that member also releases the waiting members.
//
// # Where to look
//
// Apply:
//
//	apply.go                 an entry comes in; objects that came, changed or went
//	apply_decision.go        a decision becomes state
//	epoch.go                 an epoch starts: profiles, and the queue, are made by its configuration
//
// Decide, in the order in which it asks:
//
//	decide.go                what the next decision is about
//	decide_waiting.go        a waiting pod must leave its node, or may be bound
//	below_minimum.go         the rest of a gang that fell below its minimum is evicted
//	reservation_decision.go  room is reserved for the first of a lane, by what package backfill proposes
//	cycle.go                 the scheduling cycle of a pod: find a node, reserve, permit
//
// The parts of the Machine, each a type of its own:
//
//	entity.go, entity_needs.go  which entity of the queue a pod belongs to, and what the entity needs
//	waiting_pods.go             the waiting pods, and which of them cannot go on waiting
//	nominations.go              nodes where room is kept for pods while their victims leave
//	effects.go                  binds and evictions without a result yet
//	group_claims.go             which claims of PodGroups are to be given back
//	topology.go                 the domain of nodes that a gang may go to
//	room.go                     whether an attempt would certainly fail now for want of room
//	profiles.go                 the plugins, and what they see of the Machine
//
// state.go and restore.go write the state as bytes and read it. Start reading at machine.go; test/transcripts/testdata
// has whole stories, cycle by cycle.
package scheduler
