// Package queue has the pods and gangs that wait to be scheduled, with the reasons and times. It has activeQ, backoffQ,
// the unschedulable and gated entities, the ones in flight, and the ones whose pods all have a node. It is
// kube-scheduler 1.37's scheduling queue as a pure state. Every method is a function of the calls made before it. Time
// comes in through SetTime. There is no goroutine, lock, clock or I/O.
//
// It never decides a placement, never looks at nodes, and never reads the cluster. Its inputs are the calls, and the
// answers of the plugins in Options (PreEnqueue, QueueingHints, the order).
//
// # The loop that drives it
//
//	q.SetTime(entry.Time)     // before every entry: backoffs that expired, flushes that are due
//	q.Add / Update / Delete   // unscheduled pods of the entry
//	q.Move(event, old, new)   // retries entities for which it matters
//	q.ChooseHead()            // makes the head an entity that is worth an attempt
//	e := q.Head()             // pure; a decision is made for it, and logged
//	q.Unpick()                // before the next entry is applied: ChooseHead is no part of the state
//
// and when that decision is applied:
//
//	q.StartAttempt(key)       // an attempt begins
//	q.MarkPlaced(key, uid)    // a member got its node
//	q.Refuse(key, failure)    // a member got none, and e.Next() is the next one
//	q.MarkPending(key, uid)   // a member lost its node again
//	q.Finish(key)             // the attempt ends, or
//	q.Park(key, failure)      // it failed
//	q.Retry / Recheck(key)    // something about the entity itself changed
//	t, ok := q.Wake()         // the time at which time alone will make work
//
// # Entities
//
// An Entity is one pod, or a whole gang with its pods as members. A member is pending until it is placed on a node, and
// again when it loses that node. A pending member is ready if every PreEnqueue plugin passed it, otherwise gated. An
// entity without a ready member is never attempted: it is Gated if a member is gated, and Placed if all are placed.
//
// # Differences from kube-scheduler, and their reasons
//
//   - The end of a backoff is not rounded to whole seconds. A gang backs off as long as a pod does. (Upstream: maximum
//     times the square root of its size, a float.)
//   - When activeQ is empty, backoffQ is popped early only with Options.PopEarly, which is off by default. Each entity
//     is popped early at most once in the time of one backoff: see early.go. Upstream pops at once and repeatedly. Here
//     each attempt is a durable decision.
//   - The flush of entities that stayed unschedulable for long skips entities if nothing has changed since their last
//     attempt, because the same state gives the same decision. So an idle cluster with pending pods has no timers (see
//     SetTime and Wake).
//   - An entity that failed and whose turn comes again waits while Options.Room reports that an attempt would certainly
//     fail (see ChooseHead).
//   - The hints are asked about an event at once if an entity is in flight, and not when its attempt fails. So the
//     answer, a set of plugin names, is state that can be encoded, and old objects need not be kept. Events from Finish
//     to a later Park are only counted, for example while a pod waits in Permit. If there was any, the entity is
//     retried
//     after its backoff.
//   - A gang is ready when any member passes PreEnqueue. Upstream requires all of them to pass. The gang plugin
//     decides,
//     member by member, whether enough members exist.
//   - Gang members have no counters and backoffs of their own, because a gang fails or succeeds as one. Each member has
//     only two marks: whether the attempt has come to it, and whether it was refused. So the attempt visits each member
//     once, and hints are asked for the members that need them.
//
// Start reading at queue.go (the places of entities), then attempt.go, hints.go (events), room.go (ChooseHead) and
// timers.go.
package queue
