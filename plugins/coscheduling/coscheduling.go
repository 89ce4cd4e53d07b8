package coscheduling

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// Name is the plugin's name in configurations and in recorded rejections.
const Name = "Coscheduling"

// GroupsHandle is the part of the handle for questions about gangs.
type GroupsHandle interface {
	fwk.Handle
	// Gangs returns the view for gang plugins, nil if there is none.
	Gangs() framework.Gangs
}

var _ GroupsHandle = framework.Handle(nil)

// Coscheduling is the plugin.
type Coscheduling struct {
	handle fwk.Handle
	groups framework.Gangs
	args   Args
}

var (
	_ fwk.PreEnqueuePlugin  = (*Coscheduling)(nil)
	_ fwk.QueueSortPlugin   = (*Coscheduling)(nil)
	_ fwk.PreFilterPlugin   = (*Coscheduling)(nil)
	_ fwk.PostFilterPlugin  = (*Coscheduling)(nil)
	_ fwk.ReservePlugin     = (*Coscheduling)(nil)
	_ fwk.PermitPlugin      = (*Coscheduling)(nil)
	_ fwk.EnqueueExtensions = (*Coscheduling)(nil)
	_ fwk.SignPlugin        = (*Coscheduling)(nil)

	_ framework.OrdersWithoutArgs = (*Coscheduling)(nil)
)

// New makes the plugin. With the handle of this project's runtime its framework.Gangs come from the log. With another
// handle, such as a stock kube-scheduler's, they come from informers (see standalone). It fails on unknown arguments,
// and on a handle that has neither framework.Gangs nor informers.
func New(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := decodeArgs(obj)
	if err != nil {
		return nil, err
	}
	gh, ok := h.(GroupsHandle)
	if !ok {
		return newStock(ctx, h, args)
	}
	groups := gh.Gangs()
	if groups == nil {
		return nil, fmt.Errorf("handle %T offers no view of pod groups", h)
	}
	return &Coscheduling{handle: h, groups: groups, args: args}, nil
}

// Name implements fwk.Plugin.
func (c *Coscheduling) Name() string { return Name }

// PreEnqueue keeps a member out of the queue until its gang can be complete, and one whose gang contradicts itself.
// Members of a NonStrict gang need not wait for each other here: they do so on their nodes.
func (c *Coscheduling) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	g := c.groups.GroupOf(pod)
	if g == nil || isOnNode(pod) {
		return nil
	}
	if why := g.Refusal(); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("pod group %s is refused: %s", g, why))
	}
	if !g.Declared() {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, undeclared(g, pod))
	}
	if have := g.Count(gang.Present); have < g.Min() && g.Mode() != cluster.NonStrict {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("pod group %s has %d of the %d members it needs", g, have, g.Min()))
	}
	if why := incomplete(g); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil
}

// undeclared says what is missing for g to be a gang.
func undeclared(g *cluster.Group, pod *v1.Pod) string {
	why := fmt.Sprintf("pod group %s does not exist yet", g)
	if minimum := cluster.MinimumAnnotation(pod); minimum != "" {
		why += fmt.Sprintf(", and no member has the annotation %s", minimum)
	}
	return why
}

// Less orders by priority, higher first, then by when the entity was first queued. The queue breaks what
// ties are left by namespace and name.
func (c *Coscheduling) Less(a, b fwk.QueuedEntityInfo) bool {
	if pa, pb := a.GetPriority(), b.GetPriority(); pa != pb {
		return pa > pb
	}
	return firstQueued(a).Before(firstQueued(b))
}

func firstQueued(e fwk.QueuedEntityInfo) time.Time {
	if t := e.GetInitialAttemptTimestamp(); t != nil {
		return *t
	}
	return e.GetTimestamp()
}

// PreFilter refuses the gang's first member when the cluster as a whole has too little free for the gang, or for all
// gangs that must be admitted with it. It refuses a member whose gang cannot be complete any more in the current
// attempt. It limits the nodes to the gang's domain.
func (c *Coscheduling) PreFilter(
	_ context.Context,
	_ fwk.CycleState,
	pod *v1.Pod,
	_ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	g := c.groups.GroupOf(pod)
	if g == nil || isOnNode(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if why := c.hopeless(g); why != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, why)
	}
	if !g.HasTopology() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	switch d := c.groups.Domain(g); {
	case d.Refusal != "":
		return nil, fwk.NewStatus(fwk.Unschedulable, d.Refusal)
	case d.Limited:
		return &fwk.PreFilterResult{NodeNames: sets.New(d.Nodes...)}, nil
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// isOnNode reports whether the cycle is for a member that keeps its node, and is resized there. The gang does not
// matter then.
func isOnNode(pod *v1.Pod) bool { return pod.Spec.NodeName != "" }

// hopeless says why the member's cycle need not look at nodes, "" if it must.
func (c *Coscheduling) hopeless(g *cluster.Group) string {
	if g.Mode() == cluster.NonStrict {
		return ""
	}
	composite := g.Composite()
	if composite != nil {
		if u := c.tally(g); !u.OwnSuffices(gang.Possible) {
			return fmt.Sprintf("pod group %s has too few members left that could be placed", g)
		}
	}
	if anyWaits(g) {
		return ""
	}
	if short, lacks := c.groups.Lacks(g); lacks {
		why := fmt.Sprintf(
			"needs %s %s for %d members",
			amount(short.Resource, short.Needed),
			short.Resource,
			g.Lacking(gang.Assigned),
		)
		if short.Asked {
			why = fmt.Sprintf("asks for %s %s in minResources", amount(short.Resource, short.Needed), short.Resource)
		}
		return fmt.Sprintf("pod group %s %s; %s free", g, why, amount(short.Resource, short.Free))
	}
	if composite != nil {
		if short, lacks := c.groups.LacksTogether(composite); lacks {
			return fmt.Sprintf("%s need %s %s; %s free", title(composite),
				amount(short.Resource, short.Needed), short.Resource, amount(short.Resource, short.Free))
		}
	}
	return ""
}

// PreFilterExtensions implements fwk.PreFilterPlugin: there are none.
func (c *Coscheduling) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter handles the unit's held members when one of them has found no node. They stay where they are as long as
// the members that were not tried yet are enough without it, or the gang is NonStrict. They are allowed if the gang has
// become complete without it (the minimum was lowered, or another scheduler placed a member). Otherwise the gang cannot
// be completed now, and they are released.
func (c *Coscheduling) PostFilter(
	_ context.Context,
	_ fwk.CycleState,
	pod *v1.Pod,
	_ fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	g := c.groups.GroupOf(pod)
	if g == nil || isOnNode(pod) || !anyWaits(g) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	u := c.tally(g)
	if u.OwnSuffices(gang.Free) {
		c.allow(g, &u, gang.Free)
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if u.OwnGang().Fail(); u.OwnGang().NonStrict || u.OwnSuffices(gang.Possible) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	why := fmt.Sprintf("pod group %s placed %d of the %d members it needs", g, g.Count(gang.OnNodes), g.Min())
	c.release(g, &u, gang.Possible)
	return nil, fwk.NewStatus(fwk.Unschedulable, why)
}

// Reserve implements fwk.ReservePlugin: capacity is booked by the scheduler itself.
func (c *Coscheduling) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return nil
}

// ReservesNothing implements framework.ReservesNothing of this project.
func (c *Coscheduling) ReservesNothing() {}

// Unreserve releases the unit's other held members if a member that waited with them loses its place and leaves too
// few. It also does if the gang cannot be completed without the member whose cycle just failed. It is idempotent.
func (c *Coscheduling) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	g := c.groups.GroupOf(pod)
	if g == nil {
		return
	}
	u := c.tally(g)
	if w := c.handle.GetWaitingPod(pod.UID); w != nil {
		if u.OwnGang().Release(); slices.Contains(w.GetPendingPlugins(), Name) && !u.OwnSuffices(gang.OnNodes) {
			c.release(g, &u, gang.OnNodes)
		}
		return
	}
	if u.OwnGang().Fail(); !u.OwnGang().NonStrict && !u.OwnSuffices(gang.Possible) {
		c.release(g, &u, gang.Possible)
	}
}

// PermitsLast implements framework.PermitsLast of this project: whether the gang is complete with the pod depends on
// whether another plugin holds it.
func (c *Coscheduling) PermitsLast() {}

// Permit holds a member until its gang has its minimum on nodes, and enough of the gangs that it is admitted with have
// theirs. Then it allows all waiting members. A member that another plugin holds does not count, because that plugin
// may still turn it away. Example: of a gang with the minimum 2 one member waits for the gang alone, and the second one
// is held by another plugin. The gang plugin holds the second one too, and the first one stays.
func (c *Coscheduling) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	g := c.groups.GroupOf(pod)
	if g == nil {
		return nil, 0
	}
	u := c.tally(g)
	byOthers := c.groups.HeldByOthers()
	if !byOthers {
		u.OwnGang().Hold()
	}
	if u.OwnSuffices(gang.Free) {
		c.allow(g, &u, gang.Free)
		return nil, 0
	}
	if byOthers {
		if u.OwnGang().Hold(); u.OwnSuffices(gang.Free) {
			return fwk.NewStatus(fwk.Wait), maxPermitWait // nothing but that plugin is waited for: its deadline counts
		}
	}
	timeout := c.args.permitWaitingTime()
	if t := g.Timeout(); t > 0 {
		timeout = t
	}
	return fwk.NewStatus(fwk.Wait), timeout
}

// SignPod implements fwk.SignPlugin. The plugin's refusals in PreFilter concern the gang, not a node, so it adds
// nothing to a pod's signature.
func (c *Coscheduling) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}
