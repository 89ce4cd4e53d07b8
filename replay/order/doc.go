// Package order audits the order in which a log placed pods and gangs. It finds each that was placed before another
// that was ahead of it in the queue, and the rule that allowed it.
//
// It reads the record alone: the inputs, and the Decisions as facts. It never asks what this binary would decide. The
// order is stated here a second time, from the queue's documentation and not from its code: a higher priority first,
// then whichever was active first. The reason for which an entity waited comes from the state that the entries make, as
// it does in recovery, and from the Decision that refused it last.
//
// An overtaking is judged at the entry that begins the attempt of the entity that is placed, since it was chosen there.
// It is allowed if the overtaken entity could not be attempted then: it was gated, in backoff, waited after a refusal,
// or its lane let nothing be attempted. It is a violation if the overtaken entity was active, or if a queue policy said
// that none may pass it.
//
// Start reading at Audit.
package order
