// Package gang is the arithmetic of gangs: how many members are where, what is enough, what can still be completed,
// when an attempt ends, and what falls below the minimum. It answers from counts alone. Everybody that asks such a
// question (the gang plugin, preemption, the scheduler, explanations) asks it here, so that all of them give one
// answer.
//
// It knows no pods, no nodes and no queue. It has no goroutine, no clock and does no I/O. Package cluster keeps the
// counts and makes a Gang or a Unit of them; the scheduler adds what only it knows, the Untried and the Cleared
// members.
//
// # Words
//
// A Gang is a PodGroup with a minimum. A Unit is what is admitted in one step: one gang, or several gangs that are
// admitted together, because their PodGroups are below one CompositePodGroup or name each other. A Count says which
// members count in a question:
//
//	Assigned  those that have their node for good, as the gang's MatchPolicy counts them
//	Free      and those that wait on a node and that nothing but the gang plugin holds
//	OnNodes   and all others that wait on a node
//	Possible  and those that the attempt under way has still to try
//	Present   OnNodes, and those without a node that a cycle could place
//	Kept      those that have, or had until they ended well, their node for good, whatever the MatchPolicy is
//
// # Invariants
//
// Each is held by a test of this package.
//
// Each of Assigned, Free, OnNodes and Possible counts at least as many members as the one before it, and what
// suffices by one of them suffices by the next. Example: of a gang with the minimum 3, one member is bound, one waits
// for the gang alone, one waits for another plugin too, and one is still to be tried. The counts are 1, 2, 3 and 4:
// its members are on nodes (OnNodes is enough), and none may go yet (Free is not).
//
// A gang is admitted if it suffices: it has its minimum, and so have enough of the gangs that it is admitted together
// with. Example: a unit of three gangs needs two. Two gangs are there as a whole and one lacks a member: the two may
// go, and the third may not. With one gang there as a whole, none may go.
//
// Composites may be below each other. A gang is admitted if each composite above it has as many as it needs of what is
// directly below: gangs with their minimum, and composites that have what they need. Example: a unit needs one of two
// composites. One has both of the gangs that it needs, the other has one of two. The gangs of the first may go; the
// gang of the second may not, though it has its minimum.
//
// A gang that has had its minimum needs the others no more. Example: a gang was admitted together with another one,
// which ended well and is gone since. One of its own members failed and is replaced: the new member may go.
//
// A gang that is not declared, or that contradicts itself, never suffices. Example: its members ask for minimums of 2
// and 3. Whichever of them were meant, four members on nodes are not admitted.
//
// A unit can be completed as long as one of its gangs has members to try and would suffice if all that are untried
// found a node. Example: a gang needs 3, has 1 on a node and 2 untried. The next one finds no node, so 1 + 1 is all
// that there can be: the attempt ends, and the one on the node is released.
//
// A unit that has gangs of the mode NonStrict goes on until all its members were tried: its members stay on their
// nodes until their deadline, whatever the others find. It can be completed, or not, all the same: preemption does
// not wait for the last try.
//
// Of gangs that are admitted together, one that is refused as a whole does not end the attempt if the others are enough
// without it. Example: a unit needs one of two gangs, and the nodes lack room for the first. The second is tried.
//
// A member beyond the minimum is placed by itself. Example: of a gang with the minimum 2 two members are bound. A
// third one that finds no node waits alone, and takes no other member's node with it.
//
// A gang falls below its minimum when it had it, has lost a member for good, and those that are left, with those that
// ended well, are fewer than the minimum. Example: a gang with the minimum 3 has 3 members. One ends well: 2 + 1,
// nothing has fallen. Another one fails: 1 + 1, the gang has fallen. If it had been a bind that failed, nothing had
// fallen: that member is tried again.
//
// Start reading at gang.go, then unit.go.
package gang
