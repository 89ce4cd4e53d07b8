// Package gang is the arithmetic of gangs: where members are, how many are enough, whether an attempt can still
// succeed, when it ends, and when a gang falls below its minimum. It answers from counts alone. All code that asks such
// a question (the gang plugin, preemption, the scheduler, explanations) asks this package, so that all of them get one
// answer.
//
// It knows no pods, no nodes and no queue. It has no goroutine, no clock and does no I/O. Package cluster keeps the
// counts and makes a Gang or a Unit of them. The scheduler adds the counts that only it knows: the members to try, and
// the Cleared members.
//
// # Words
//
// A Gang is a PodGroup with a minimum. A Unit is admitted in one step: one gang, or several gangs that are admitted
// together, because their PodGroups are below one CompositePodGroup or name each other. A Count says which members
// count in a question:
//
//	Assigned  members that keep their node, as the gang's MatchPolicy counts them
//	Free      and members that wait on a node and that nothing except the gang plugin holds
//	OnNodes   and all others that wait on a node
//	Possible  and members that the attempt under way has still to try
//	Present   OnNodes, and members without a node that a cycle could place
//	Kept      members that keep their node, or kept it until they ended well, whatever the MatchPolicy is
//
// # Invariants
//
// A test of this package holds each of them.
//
// Each of Assigned, Free, OnNodes and Possible counts at least as many members as the one before it. A number that
// suffices by one of them suffices by the next. Example: of a gang with the minimum 3, one member is bound, one waits
// for the gang alone, one waits for another plugin too, and one is still to be tried. The counts are 1, 2, 3 and 4: its
// members are on nodes (OnNodes is enough), and none may be bound yet (Free is not).
//
// A gang is admitted if it suffices: it has its minimum, and so have enough of the gangs that it is admitted together
// with. Example: a unit of three gangs needs two. Two gangs are complete and one lacks a member: the two are admitted,
// and the third is not. With one complete gang, none is admitted.
//
// Composites may be below each other. A gang is admitted if each composite above it has as many as it needs of the
// members directly below: gangs with their minimum, and composites that have enough themselves. Example: a unit needs
// one of two composites. One has both of the gangs that it needs, the other has one of two. The gangs of the first are
// admitted. The gang of the second is not, though it has its minimum.
//
// A gang that has had its minimum no longer needs the others. Example: a gang was admitted together with another one,
// which ended well and is gone since. One of its own members failed and is replaced: the new member is admitted.
//
// A gang that is not declared, or that contradicts itself, never suffices. Example: its members ask for minimums of 2
// and
// 3. Four members on nodes are not admitted, whichever minimum was meant.
//
// A unit can be completed as long as one of its gangs has members to try and would suffice if all members to try found
// a node. Example: a gang needs 3, has 1 on a node and 2 to try. The next one finds no node, so 1 + 1 is all that is
// possible: the attempt ends, and the one on the node is released.
//
// A unit with gangs of the mode NonStrict continues until all its members were tried: its members stay on their nodes
// until their deadline, whatever the others find. Whether it can be completed does not depend on the mode: preemption
// does not wait for the last try.
//
// If one of several gangs that are admitted together is refused as a whole, the attempt continues if the others are
// enough without it. Example: a unit needs one of two gangs, and the nodes lack room for the first. The second is
// tried.
//
// A member beyond the minimum is placed by itself. Example: of a gang with the minimum 2 two members are bound. A third
// one that finds no node waits alone, and takes no other member's node with it.
//
// A gang falls below its minimum when it had it, has lost a member permanently, and fewer than the minimum are left,
// including the members that ended well. Example: a gang with the minimum 3 has 3 members. One ends well: 2 + 1, the
// gang has not fallen. Another one fails: 1 + 1, the gang has fallen. A failed bind would not count: that member is
// tried again.
//
// Start reading at gang.go, then unit.go.
package gang
