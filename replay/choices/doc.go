// Package choices rates the binds that somebody else made: was the node feasible by the plugins of a configuration, how
// many others were, and which one would Rollcall have chosen?
//
// A Reader sees the entries of a log in order, each with the state just before it, and returns an answer.Choice for
// each bind that no Decision of the log made. Summary counts these choices. Compare reads a whole log with both.
//
// The package owns what counts as such a bind, and the comparison. It runs plugins on the state, and changes it as
// little as Decide does. It never claims that a Decision existed, and it cannot know on which state the other scheduler
// decided.
//
// Start reading at Reader.
package choices
