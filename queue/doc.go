// Package queue owns which pods and gangs wait to be scheduled, why, and since when: activeQ, backoffQ,
// the unschedulable, the gated, the ones in flight and the ones whose pods all have a node. It is
// kube-scheduler 1.37's scheduling queue as a pure state: every method is a function of the calls made
// before it, time comes in through SetTime, and there is no goroutine, lock, clock or I/O in it.
//
// It never decides a placement, never looks at nodes, and never reads the cluster: what it needs to know it
// is told by a call, or asks of the plugins given in Options (PreEnqueue, QueueingHints, the order).
//
// # The loop that drives it
//
//	q.SetTime(entry.Time)     // before every entry: backoffs that expired, flushes that are due
//	q.Add / Update / Delete   // what the entry says of unscheduled pods
//	q.Move(event, old, new)   // and what it means for the ones that failed
//	q.ChooseHead()            // before Head: the head is now worth an attempt
//	e := q.Head()             // pure; a decision is made for it, and logged
//	q.Unpick()                // before the next entry is applied: ChooseHead is no part of the state
//
// and when that decision is applied:
//
//	q.StartAttempt(key)       // an attempt begins
//	q.MarkPlaced(key, uid)    // a member got its node
//	q.Refuse(key, failure)    // a member got none, and the attempt goes on with e.Next()
//	q.MarkPending(key, uid)   // a member lost its node again
//	q.Finish(key)             // it has come to its end, or
//	q.Park(key, failure)      // it failed
//	q.Retry / Recheck(key)    // something about the entity itself changed
//	t, ok := q.Wake()         // nothing to do: when will time alone change that?
//
// # Entities
//
// What is queued is an Entity: one pod, or a whole gang with its pods as members. A member is pending
// until it is placed (it was given a node), and pending again when it loses that node. A pending member is ready
// if every PreEnqueue plugin passed it, otherwise gated. An entity with no ready member is never attempted:
// it is Gated if a member is gated, Placed if all are placed.
//
// # Where it differs from kube-scheduler, and why
//
//   - Expiry of a backoff is not rounded to whole seconds. A gang backs off as long as a pod does (upstream: maximum
//     times the square root of its size, a float).
//   - When activeQ is empty, backoffQ is popped early only if Options.PopEarly says so, which is off by default, and
//     each entity at most once in the time of one backoff: see early.go. Upstream pops at once whatever is there, as
//     often as it comes back; here each attempt is a durable decision.
//   - The flush of what stayed unschedulable for long skips entities when nothing at all changed since
//     their last attempt: from the same state the same decision follows. So an idle cluster with pending
//     pods has no timers (see SetTime and Wake).
//   - An entity that failed and whose turn came again is held back while Options.Room says that an attempt
//     would certainly fail (see ChooseHead).
//   - An event that comes while an entity is in flight is put to the hints at once, not when the attempt
//     fails: so the answer, a set of plugin names, is state that can be written down, and old objects need
//     not be kept. Events during the time from Finish to a later Park (a bind that failed, a Permit that
//     timed out) are only counted: if there was any, the entity is retried after its backoff.
//   - A gang is ready when any member passes PreEnqueue; upstream wants all of them to pass. Whether enough
//     members exist is for the gang plugin to say, member by member.
//   - Gang members have no counters and backoffs of their own: a gang fails or succeeds as one, so it has one
//     set. Of a member is known only whether the attempt has come to it and whether it was refused, so that the
//     attempt goes over it and events are put to the hints for those that need them.
//
// Start reading at queue.go (the places, and what comes and goes), then attempt.go, hints.go (events), room.go
// (ChooseHead) and timers.go.
package queue
