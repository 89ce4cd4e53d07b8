package gang

// MatchPolicy says which members with a node count toward a gang's minimum.
type MatchPolicy uint8

const (
	// WaitingAndRunning: all of them.
	WaitingAndRunning MatchPolicy = iota
	// OnlyWaiting: those that wait or are being bound; not those that are known to be bound.
	OnlyWaiting
	// OnceSatisfied: all of them; and as long as one has its node for good, the minimum asks for no other.
	OnceSatisfied
)

// String returns the policy as Koordinator writes it.
func (p MatchPolicy) String() string {
	return [...]string{"waiting-and-running", "only-waiting", "once-satisfied"}[p]
}

// Terms are what a gang asks for.
type Terms struct {
	// Declared: it is known how many members are enough.
	Declared bool
	// Refused: the gang contradicts itself, so that it is not known what it asks for.
	Refused bool
	// Min is how many members are placed together or not at all, at least 1.
	Min int
	// Policy says which members with a node count toward Min.
	Policy MatchPolicy
	// NonStrict: members that wait on nodes stay there until their deadline when others find no node. Otherwise they
	// are released.
	NonStrict bool
}

// Counts says how many members of a gang are where. A member is counted in one of Pending, Waiting, Binding, Bound and
// Leaving; the other numbers say more of these.
type Counts struct {
	// Pending members have no node.
	Pending int
	// Waiting members are held on nodes by Permit.
	Waiting int
	// Binding members have been given their node for good; whether they are bound is not known yet.
	Binding int
	// Bound members are known to be on their nodes.
	Bound int
	// Leaving members have a node for good and are giving it up: they are being deleted, or asked to go, or the node
	// is gone.
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
	// Missing are the members that the gang needs, that are still there, and that will not have a node again.
	Missing int
}

// Placed returns how many members have their node for good, whether or not they count toward the minimum.
func (c *Counts) Placed() int { return c.Binding + c.Bound }

// Members returns how many members there are.
func (c *Counts) Members() int { return c.Pending + c.Waiting + c.Binding + c.Bound + c.Leaving }

// Fail notes that the member whose cycle is running finds no node: it is not to be tried any more in this attempt.
func (c *Counts) Fail() { c.Untried-- }

// Hold notes that the member whose cycle is running would wait for nothing but its gang.
func (c *Counts) Hold() { c.Cleared++ }

// Release notes that a member that waits gives its node back.
func (c *Counts) Release() { c.Waiting-- }

// GiveUp notes that the attempt is over for this gang: it gives back what waits, and none of its members is tried any
// more.
func (c *Counts) GiveUp() { c.Waiting, c.Cleared, c.Untried = 0, 0, 0 }

// Count says which members count toward the minimum in a question.
type Count uint8

const (
	// Assigned members have their node for good, as far as the MatchPolicy counts them, or have ended well since the
	// gang first came to its minimum.
	Assigned Count = iota
	// Free members are Assigned, or nothing but the gang plugin holds them on a node.
	Free
	// OnNodes members are Assigned or Waiting, whatever holds them.
	OnNodes
	// Possible members are OnNodes, or the attempt under way has still to try them.
	Possible
	// Present members are OnNodes, or a cycle could place them.
	Present
	// Kept members have their node for good or have ended well, whatever the MatchPolicy is. Of a gang of the policy
	// OnceSatisfied they are at least the minimum once one is there.
	Kept
)

// Gang is what the arithmetic knows of one gang.
type Gang struct {
	Terms
	Counts
}

// Count returns how many members count.
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

// assigned counts by the policy. With OnlyWaiting, members that are bound count again when the gang had its minimum,
// has lost none, and is below it all the same: a bind has failed. Example: of 3 members 2 are bound and the bind of
// the third fails. It is tried again as one of 3, and not as the first of another 3.
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

// Known reports whether it is known what the gang asks for.
func (t *Terms) Known() bool { return t.Declared && !t.Refused }

// Enough reports whether n members that count are the minimum. They never are if it is not known what the gang asks
// for.
func (t *Terms) Enough(n int) bool { return t.Known() && n >= t.Min }

// HasMinimum reports whether the members that count are the minimum.
func (g *Gang) HasMinimum(by Count) bool { return g.Enough(g.Count(by)) }

// Lacking returns how many members more have to count for the minimum; 0 or less if it is there.
func (g *Gang) Lacking(by Count) int { return g.Min - g.Count(by) }

// LackingAnew returns how many members have to find a node when the attempt starts over: those that wait give their
// nodes back first, except with NonStrict.
func (g *Gang) LackingAnew() int {
	if g.NonStrict {
		return g.Lacking(OnNodes)
	}
	return g.Lacking(Assigned)
}

// KeepsNodes reports whether members stay on their nodes when the attempt starts over.
func (g *Gang) KeepsNodes() bool { return g.Placed() > 0 || g.NonStrict && g.Waiting > 0 }

// Beyond reports whether the members that have no node for good are beyond the minimum, so that each is placed by
// itself.
func (g *Gang) Beyond() bool { return g.Lacking(Assigned) <= 0 }

// Untouched reports whether no member is on a node, for good or waiting. Members that are leaving do not count.
func (c *Counts) Untouched() bool { return c.Placed()+c.Waiting == 0 }

// Complete reports whether the minimum has nodes for good, so that from now on the gang misses members that it loses.
// The MatchPolicy is no part of it: the pods are there.
func (g *Gang) Complete() bool { return g.Declared && g.Placed() >= g.Min }

// Over reports whether all of the gang is gone or done, so that members that come now are another gang of the same
// name. While some members ended well and the last one did not, a member that takes its place belongs to them; so
// does one whose bind failed.
func (g *Gang) Over() bool {
	if g.Placed() > 0 {
		return false
	}
	return g.Lost > 0 && g.Succeeded == 0 || g.Succeeded >= g.Min || g.Members() == 0 || g.Leaving > 0
}

// Fallen reports whether the gang had its minimum, has lost a member that it needs, and has not the minimum any more.
// A member whose bind failed is not lost: it is tried again.
func (g *Gang) Fallen() bool {
	return g.Met && g.Lost+g.Missing > 0 && g.Placed()+g.Succeeded < g.Min
}
