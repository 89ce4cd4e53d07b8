// Package scheduler is the heart of Rollcall: the Machine, a scheduler with no goroutine, no clock and no
// I/O. It is a function of the log: whoever applies the same entries gets the same state, and whoever asks
// that state for its next decision gets the same bytes.
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
// the effects of those that have become durable. If the append fails, the Machine is ahead of the log: it must be thrown away
// and built again from what the log holds.
//
// Apply is the only mutation. Of a decision it needs no plugin's agreement: a newer binary with other plugins
// recovers an older log. Decide is pure: it runs a scheduling cycle of the plugins on the state as it
// stands and takes back whatever they reserved; what a cycle settles comes into the state by Apply of its
// Decision only. With the build tag invariants both are checked as they run.
//
// A gang is one entity in the queue. When it reaches the head its members' cycles run back to back: each
// ends in Permit, where the gang plugin answers Wait, and the pod is held on its node; the cycle that
// completes the minimum allows them all in its own Decision, and only then are their binds released. A member
// that finds no node is passed over while those not tried yet are enough without it; when they are not, the same
// Decision releases the held ones. Several gangs can be one entity: unit.go. What may
// pass what is in package backfill and lanes.go, where in a cluster a gang may be in topology.go, what becomes of held
// pods in wait.go.
//
// Who fits nowhere may have others evicted (nominate.go): the Decision names the victims, and the nodes where room is kept
// for the pods that they go for.
//
// Start reading at machine.go; transcripts/testdata has whole stories, cycle by cycle.
package scheduler
