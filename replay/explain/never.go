package explain

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// bounds finds what cannot be placed in a state, even if all other pods end.
type bounds struct {
	r      *rerun
	offers map[v1.ResourceName]offer
}

// bound says why an entity cannot be placed whatever ends; it is empty if that is not certain. until says when it is
// tried again, to follow "tried"; it is "" if the queue's words hold.
type bound struct{ why, until string }

// offer is the allocatable amount of a resource: on all nodes, and on the node with the most.
type offer struct{ sum, most int64 }

func boundsOf(r *rerun) bounds { return bounds{r, map[v1.ResourceName]offer{}} }

// gang returns the bound of a gang.
func (b *bounds) gang(g *cluster.Group) bound {
	m := b.r.machine
	if short, lacks := m.Cluster().Lacks(g); lacks && short.Needed > b.offered(short.Resource).sum {
		if rows := shortNow(b.r.at, m, g); len(rows) > 0 && rows[0].NeverFits() {
			return bound{phrase.Shortfall(&rows[0], b.r.at), moreNodes(&rows[0])}
		}
	}
	pods := missingOf(g)
	if len(pods) == 0 {
		return bound{}
	}
	if u := unmatchedOf(b.r, g); u != nil {
		return bound{why: phrase.Unmatched(u, false)}
	}
	if limit := domainLimit(b.r, g); limit != nil {
		return bound{phrase.DomainLimit(limit), phrase.DomainAwaited(limit)}
	}
	tooLarge, last := 0, bound{}
	for _, p := range pods {
		if x := b.tooLarge(p); x.why != "" {
			tooLarge, last = tooLarge+1, x
		}
	}
	if len(pods)-tooLarge < max(1, g.Lacking(gang.Assigned)) {
		return last
	}
	return bound{}
}

// pod returns the bound of a pod of no gang.
func (b *bounds) pod(p *cluster.Pod) bound {
	if x := b.tooLarge(p); x.why != "" {
		return x
	}
	if u := unmatchedPod(b.r, p); u != nil {
		return bound{why: phrase.Unmatched(u, false)}
	}
	return bound{}
}

// tooLarge says that no node, even without pods, has enough of a resource for a pod.
func (b *bounds) tooLarge(p *cluster.Pod) bound {
	if !scheduler.FiltersBy(b.r.machine, p.Object, names.NodeResourcesFit) {
		return bound{}
	}
	for _, need := range podNeeds(p) {
		offers := b.offered(need.Resource)
		if offers.most > 0 && need.Amount > offers.most && need.Resource != v1.ResourcePods {
			return bound{fmt.Sprintf("no node is large enough: a pod needs %s %s, the largest node has %s",
				phrase.Amount(need.Resource, need.Amount), need.Resource, phrase.Amount(need.Resource, offers.most)),
				"not before there is a larger node"}
		}
	}
	return bound{}
}

// offered returns the allocatable amount of a resource.
func (b *bounds) offered(resource v1.ResourceName) offer {
	if o, known := b.offers[resource]; known {
		return o
	}
	o := offer{}
	nodes, _ := b.r.machine.Cluster().Nodes().List()
	for _, n := range nodes {
		allocatable, _ := cluster.AmountOn(n, resource)
		o.sum, o.most = cluster.AddUpTo(o.sum, allocatable), max(o.most, allocatable)
	}
	b.offers[resource] = o
	return o
}

// refusedWhole returns the words with which a plugin refused a pod whatever the nodes have, such as a claim that does
// not exist.
func refusedWhole(f *failure) bound {
	if f.decision == nil || f.decision.Evaluated > 0 {
		return bound{}
	}
	for _, r := range f.decision.Rejections {
		if r.Nodes == 0 && r.Code == "UnschedulableAndUnresolvable" && r.Plugin != gangPlugin && r.Reason != "" {
			return bound{why: r.Plugin + ": " + r.Reason}
		}
	}
	return bound{}
}

// sayIfItNeverFits notes that a gang, or a unit of gangs that are admitted together, needs more than all nodes have:
// the end of other pods does not help it.
func sayIfItNeverFits(x *answer.Reason) {
	if x.Now == nil || len(x.Now.Shortfall) == 0 {
		return
	}
	if s := &x.Now.Shortfall[0]; s.NeverFits() {
		x.NextRetry = answer.NextRetry{Words: moreNodes(s)}
	}
}

func moreNodes(s *answer.Shortfall) string {
	return fmt.Sprintf("not before there are more nodes: it needs %s of %s %s in the cluster",
		phrase.Amount(s.Resource, s.Needed), phrase.Amount(s.Resource, s.Allocatable), s.Resource)
}

// addNever gives the reason the bound of its entity. The message begins with it. own is false if the entity waits for
// another gang.
func (x *bound) addNever(to *answer.Reason, own bool) {
	if to.Never = x.why; x.why == "" || !own {
		return
	}
	switch {
	case to.Group == "":
		to.Now.Message = "it cannot be placed as it is: " + x.why
	case !strings.HasPrefix(x.why, "cannot "): // the words of too few nodes begin so
		to.Now.Message = "cannot be placed as it is: " + x.why
	default:
		to.Now.Message = x.why
	}
	if x.until != "" {
		to.NextRetry = answer.NextRetry{Words: x.until}
	}
}

// setCode gives a reason the code of an attempt at the point in question, if the last attempt found no nodes. The
// message is made before, because it compares the two.
func setCode(x *answer.Reason) {
	if x.Now == nil || x.Code != answer.LacksRoom && x.Code != answer.Unplaceable {
		return
	}
	now := x.Now.Code
	switch {
	case x.Now.Fits:
		now = answer.FitsNow
	case x.Never != "":
		now = answer.NeverFits
	}
	if now != x.Code && x.Failed != nil {
		x.LastCode = x.Code
	}
	x.Code = now
}
