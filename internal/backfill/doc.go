// Package backfill plans which entities may be attempted before which in a lane.
//
// A lane is the entities of one profile in queue order, under the queue policy StrictFIFO or Backfill. An entity is
// what is in the queue as one: a pod, a gang, or the gangs that are admitted together. The first entity of a lane that
// lacks something it needs is called the first below.
//
// Under StrictFIFO no entity passes the first. Under Backfill others pass it as long as they do not delay it:
//
//   - When the first has failed, and it is known when there will be room for it by what the running pods declare of
//     their durations (package outlook), it gets a reservation: a time, and a place for each of its pods. Others may
//     use what the reservation leaves free, and everything if they declare to be gone by its time.
//   - When it is not known when there will be room, the first blocks its lane after a while (Lane.Hold): none passes
//     it any more, so that what comes free collects for it.
//   - An entity that no room can help (it fits on no empty cluster, or fails although it fits) is passed over: the
//     next one is the first.
//
// The Planner owns the lanes' rules, the reservations with their encoding, and memos of answers that are costly. It
// never decides and never changes the queue. The scheduler asks Propose what to write into a Decision, hands the
// applied Decision back with Reserve, and tells with Observe what each entry may have changed:
//
//	if p, ok := planner.Propose(true); ok {    // Decide: pure
//		...                                    // p becomes a Decision, which is logged
//	}
//	planner.Reserve(reservation)               // Apply of a Decision that makes a reservation
//	planner.End(profile)                       // Apply of a Decision that ends one
//	planner.Observe(profile, entry, changed)   // Apply, after every entry
//	if planner.WaitsNoMore(profile) {          // its entity is gone, placed, or needs something else than room
//		planner.End(profile)
//	}
//	planner.Passes(e), planner.HasRoom(e)      // asked by the queue
//	planner.Refusal(pod)                       // asked by each scheduling cycle
//
// Reservations are state. All else is a function of them and of the View.
//
// Start reading at planner.go, then lane.go (which is the first, and what blocks), reservation.go and beside.go (what
// is free beside a reservation).
package backfill
