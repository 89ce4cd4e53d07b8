// Package backfill plans which entities may be attempted before which in a lane.
//
// A lane has the entities of one profile in queue order, under the queue policy StrictFIFO or Backfill. An entity is a
// pod, a gang, or the gangs that are admitted together. The first entity of a lane that lacks something it needs is
// called the first below.
//
// Under StrictFIFO no entity passes the first. Under Backfill others pass it as long as they do not delay it:
//
//   - The first has failed, and the running pods declare their durations, so that package room knows when there will
//     be room for it. It gets a reservation: a time, and a place for each of its pods. Others may use the rest. They
//     may use everything if they declare to be gone by that time.
//   - It is not known when there will be room. Then the first blocks its lane after a while (Lane.Hold). No entity
//     passes it, so that the room that comes free collects for it.
//   - No room can help the entity: it fits on no empty cluster, or fails although it fits. The next one is the first.
//
// The Planner owns the lanes' rules, the reservations with their encoding, and memos of costly answers. It never
// decides and never changes the queue. The scheduler calls it in this order:
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
// Start reading at planner.go, then lane.go (the first entity, and blocked lanes), reservation.go and beside.go (the
// room beside a reservation).
package backfill
