// Package order audits the order in which a log placed pods and gangs: whether one that stood behind another in the
// queue was placed before it, and by which rule.
//
// It reads the record alone: the inputs, and the Decisions as facts. It never asks what this binary would decide. The
// order is stated here a second time, from the queue's documentation and not from its code: a higher priority first,
// then whichever was active first. What each entity waited for comes from the state that the entries make, as it does
// in recovery, and from the Decision that refused it last.
//
// An overtaking is judged at the entry that begins the attempt of the entity that is placed, since that is where it was
// chosen. It is allowed if the one that stood before it could not be attempted then: it was gated, in backoff, waited
// after a refusal, or its lane let nothing be attempted. It is a violation if that one was active, or if a queue policy
// said that none may pass it.
//
// Start reading at Audit.
package order
