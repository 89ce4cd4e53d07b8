package gang

// MatchPolicy says which members with a node count toward a gang's minimum.
type MatchPolicy uint8

const (
	// WaitingAndRunning: all of them.
	WaitingAndRunning MatchPolicy = iota
	// OnlyWaiting: members that wait or are being bound, and not members that are known to be bound.
	OnlyWaiting
	// OnceSatisfied: all of them. As long as one keeps its node, the minimum asks for no other.
	OnceSatisfied
)

// String returns the policy as Koordinator writes it.
func (p MatchPolicy) String() string {
	return [...]string{"waiting-and-running", "only-waiting", "once-satisfied"}[p]
}

// Terms are the conditions of a gang.
type Terms struct {
	// Declared: the minimum is known.
	Declared bool
	// Refused: the gang contradicts itself, so that its conditions are unknown.
	Refused bool
	// Min is the number of members that are placed together or not at all, at least 1.
	Min int
	// Policy says which members with a node count toward Min.
	Policy MatchPolicy
	// NonStrict: members that wait on nodes stay there until their deadline when others find no node. Otherwise they
	// are released.
	NonStrict bool
	// Lasting: an object declares the gang, or controllers made all its members. Members that ended well count as long
	// as the object exists, or a pod of these controllers comes, also while no other member does.
	Lasting bool
}

// Counts says how many members of a gang are in which state. A member is counted in one of Pending, Waiting, Binding,
// Bound and Leaving; the other numbers add details.
type Counts struct {
	// Pending members have no node.
	Pending int
	// Waiting members are held on nodes by Permit.
	Waiting int
	// Binding members have a node that they keep; the result of their bind is not known yet.
	Binding int
	// Bound members are known to be on their nodes.
	Bound int
	// Leaving members have a node and are giving it up: they are being deleted, or asked to leave, or the node is gone.
	Leaving int

	// Ready are the Pending members that a cycle could place.
	Ready int
	// Untried are the members that the attempt under way has still to try, the one included whose cycle is running.
	// It is 0 unless the scheduler has filled it in.
	Untried int
	// Cleared are the Waiting members that no plugin but the gang plugin holds. It is 0 unless the scheduler has
	// filled it in.
	Cleared int

	// Met: the gang had its minimum, and is not all gone since.
	Met bool
	// Succeeded are the members that have ended well since the gang first came to its minimum.
	Succeeded int
	// Lost are the members that have gone otherwise since it last came to its minimum, and that the gang needed.
	Lost int
	// Missing are the members that the gang needs, that still exist, and that will not have a node again.
	Missing int
}

// Placed returns the number of members that keep their node, whether or not they count toward the minimum.
func (c *Counts) Placed() int { return c.Binding + c.Bound }

// Members returns the number of all members.
func (c *Counts) Members() int { return c.Pending + c.Waiting + c.Binding + c.Bound + c.Leaving }

// Fail notes that the member whose cycle is running finds no node: this attempt does not try it again.
func (c *Counts) Fail() { c.Untried-- }

// Hold notes that the member whose cycle is running would wait for its gang alone.
func (c *Counts) Hold() { c.Cleared++ }

// Release notes that a member that waits gives its node back.
func (c *Counts) Release() { c.Waiting-- }

// GiveUp notes that the attempt is over for this gang: it releases its waiting members, and tries no further member.
func (c *Counts) GiveUp() { c.Waiting, c.Cleared, c.Untried = 0, 0, 0 }

// Count says which members count toward the minimum in a question.
type Count uint8

const (
	// Assigned members keep their node, as far as the MatchPolicy counts them, or have ended well since the gang first
	// came to its minimum.
	Assigned Count = iota
	// Free members are Assigned, or only the gang plugin holds them on a node.
	Free
	// OnNodes members are Assigned or Waiting, whatever holds them.
	OnNodes
	// Possible members are OnNodes, or the attempt under way has still to try them.
	Possible
	// Present members are OnNodes, or a cycle could place them.
	Present
	// Kept members keep their node or have ended well, whatever the MatchPolicy is. In a gang of the policy
	// OnceSatisfied they are at least the minimum once one exists.
	Kept
)

// Gang has the conditions and the counts of one gang.
type Gang struct {
	Terms
	Counts
}

// Count returns the number of members that count.
func (g *Gang) Count(by Count) int {
	n := g.assigned()
	switch by {
	case Free:
		n += g.Cleared
	case OnNodes:
		n += g.Waiting
	case Possible:
		n += g.Waiting + g.Untried
	case Present:
		n += g.Waiting + g.Ready
	case Kept:
		n = max(n, g.Placed()+g.Succeeded)
	}
	return n
}

// assigned counts by the policy. With OnlyWaiting, bound members count again when the gang had its minimum, has lost no
// member, and is below it all the same: a bind has failed. Example: of 3 members 2 are bound and the bind of the third
// fails. It is tried again as one of 3, and not as the first of another 3.
func (g *Gang) assigned() int {
	placed, ended := g.Placed(), g.Succeeded
	switch {
	case g.Policy == OnceSatisfied && placed > 0:
		return max(placed, g.Min)
	case g.Policy == OnlyWaiting && !(g.Met && g.Lost+g.Missing == 0 && placed+ended < g.Min):
		return g.Binding
	}
	return placed + ended
}

// Known reports whether the gang's conditions are known.
func (t *Terms) Known() bool { return t.Declared && !t.Refused }

// Enough reports whether n members that count are the minimum. They never are if the gang's conditions are unknown.
func (t *Terms) Enough(n int) bool { return t.Known() && n >= t.Min }

// HasMinimum reports whether the members that count are the minimum.
func (g *Gang) HasMinimum(by Count) bool { return g.Enough(g.Count(by)) }

// Lacking returns the number of members that are missing from the minimum; 0 or less if none is.
func (g *Gang) Lacking(by Count) int { return g.Min - g.Count(by) }

// LackingAnew returns the number of members that have to find a node when the attempt starts over. Waiting members
// release their nodes first, except with NonStrict.
func (g *Gang) LackingAnew() int {
	if g.NonStrict {
		return g.Lacking(OnNodes)
	}
	return g.Lacking(Assigned)
}

// KeepsNodes reports whether members stay on their nodes when the attempt starts over.
func (g *Gang) KeepsNodes() bool { return g.Placed() > 0 || g.NonStrict && g.Waiting > 0 }

// Beyond reports whether the members without a node are beyond the minimum, so that each is placed by itself.
func (g *Gang) Beyond() bool { return g.Lacking(Assigned) <= 0 }

// Untouched reports whether no member is on a node, bound or waiting. Members that are leaving do not count.
func (c *Counts) Untouched() bool { return c.Placed()+c.Waiting == 0 }

// Complete reports whether at least Min members are bound or being bound. From then on a member that goes counts as
// lost. Complete counts them whatever the MatchPolicy is.
func (g *Gang) Complete() bool { return g.Declared && g.Placed() >= g.Min }

// Over reports whether all of the gang is gone or done, so that members that come now are another gang of the same
// name. While some members ended well and the last one did not, a member that takes its place belongs to them; so does
// one whose bind failed.
func (g *Gang) Over() bool {
	if g.Placed() > 0 || g.Lasting && g.Met && g.Succeeded > 0 && g.Succeeded < g.Min {
		return false
	}
	return g.Lost > 0 && g.Succeeded == 0 || g.Succeeded >= g.Min || g.Members() == 0 || g.Leaving > 0
}

// Fallen reports whether the gang had its minimum, has lost a member that it needs, and no longer has the minimum. A
// member whose bind failed is not lost: it is tried again.
func (g *Gang) Fallen() bool {
	return g.Met && g.Lost+g.Missing > 0 && g.Placed()+g.Succeeded < g.Min
}
