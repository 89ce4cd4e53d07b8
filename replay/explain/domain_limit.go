package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// emptyDomains compares the needs of a gang within one domain with the amounts of domains without pods.
type emptyDomains struct {
	a       *askers
	c       *cluster.State
	levels  []domainLevel
	members int
	needs   []cluster.Need // the least that so many members request
	uniform bool
}

// emptyDomain is one of them.
type emptyDomain struct {
	key   string
	nodes []fwk.NodeInfo
	holds int64 // how many members, if these are alike
	worst cluster.Need
	all   int64 // of the worst resource
}

// domainLimit returns the proof that no domain can ever hold a gang; nil if one may, or if that is not certain.
// Cordons and taints do not count, because they can end; nodes that the members do not select hold none.
func domainLimit(r *rerun, g *cluster.Group) *answer.DomainLimit {
	e := emptyDomains{c: r.machine.Cluster(), levels: requiredLevels(g)}
	missing := g.Lacking(gang.Assigned)
	if len(e.levels) == 0 || missing <= 0 {
		return nil
	}
	pods := missingOf(g)
	if len(pods) < missing {
		return nil
	}
	placed := 0
	for _, p := range g.Members() {
		if p.Node != "" && p.Stage != cluster.Waiting && !p.Leaving() {
			placed++
			pods = append(pods, p)
		}
	}
	e.members = placed + missing
	e.a = asking(r.machine, e.members, refusal{}, pods...)
	e.uniform = len(e.a.kinds) == 1
	e.needs = smallestNeeds(pods, e.members)
	domains := e.find()
	if len(domains) == 0 || !slices.ContainsFunc(domains, func(d *emptyDomain) bool { return d.all > 0 }) {
		return nil // that no node has the labels, or the resource, is said otherwise
	}
	for _, d := range domains {
		if !e.tooSmall(d) {
			return nil
		}
	}
	return e.told(r.at, domains)
}

// smallestNeeds returns the least that so many of the pods request: for each resource the sum of the smallest requests.
func smallestNeeds(pods []*cluster.Pod, members int) (needs []cluster.Need) {
	amounts := map[v1.ResourceName][]int64{}
	for _, p := range pods {
		for _, need := range podNeeds(p) {
			if need.Amount > 0 {
				amounts[need.Resource] = append(amounts[need.Resource], need.Amount)
			}
		}
	}
	// any order: sorted below
	for name, of := range amounts {
		slices.Sort(of)
		sum := int64(0)
		for _, amount := range of[:max(0, members-(len(pods)-len(of)))] { // the others request none
			sum = cluster.AddUpTo(sum, amount)
		}
		if sum > 0 {
			needs = append(needs, cluster.Need{Resource: name, Amount: sum})
		}
	}
	slices.SortFunc(needs, func(a, b cluster.Need) int { return cmp.Compare(a.Resource, b.Resource) })
	return needs
}

// find returns the domains with the nodes that a member may use, sorted by name.
func (e *emptyDomains) find() (domains []*emptyDomain) {
	nodes, _ := e.c.Nodes().List()
	byKey := map[string]*emptyDomain{}
	for _, n := range nodes {
		key, ok := domainOf(n.Node(), e.levels)
		if !ok {
			continue
		}
		d := byKey[key]
		if d == nil {
			d = &emptyDomain{key: key}
			byKey[key] = d
			domains = append(domains, d)
		}
		if slices.ContainsFunc(e.a.kinds, func(k *asker) bool { return selects(k, n.Node()) }) {
			d.nodes = append(d.nodes, n)
		}
	}
	slices.SortFunc(domains, func(a, b *emptyDomain) int { return strings.Compare(a.key, b.key) })
	for _, d := range domains {
		e.measure(d)
	}
	return domains
}

// selects reports whether a node meets what a kind of pods requires of its labels and name.
func selects(k *asker, node *v1.Node) bool {
	if k.requires == nil {
		return true
	}
	match, err := k.requires.Match(node)
	return err == nil && match
}

// measure finds out how many members a domain holds, and its worst resource. For members that are alike this is the
// resource that leaves room for the fewest.
func (e *emptyDomains) measure(d *emptyDomain) {
	for _, n := range d.nodes {
		d.holds += e.holds(n)
	}
	fewest := int64(0)
	for _, need := range e.needs {
		if e.c.Devices().Stands(need.Resource) {
			continue
		}
		all, fits := offeredBy(d.nodes, need.Resource, need.Amount/int64(e.members))
		worse := worseThan(all, need.Amount, d.all, d.worst.Amount)
		if e.uniform && fits != fewest {
			worse = fits < fewest
		}
		if d.worst.Amount == 0 || worse {
			d.worst, d.all, fewest = need, all, fits
		}
	}
}

// offeredBy returns how much of a resource nodes offer, and how many members with such a request fit by it: at least 1
// counts as the request. Sums stop at the largest that cluster.AddUpTo gives.
func offeredBy(nodes []fwk.NodeInfo, resource v1.ResourceName, request int64) (all, fits int64) {
	for _, n := range nodes {
		allocatable, _ := cluster.AmountOn(n, resource)
		all = cluster.AddUpTo(all, allocatable)
		fits = cluster.AddUpTo(fits, allocatable/max(1, request))
	}
	return all, fits
}

// holds returns how many members an empty node holds, if they are alike.
func (e *emptyDomains) holds(n fwk.NodeInfo) int64 {
	least := int64(e.members)
	for _, need := range e.a.kinds[0].needs {
		allocatable, _ := cluster.AmountOn(n, need.Resource)
		if need.Amount > 0 && !e.c.Devices().Stands(need.Resource) {
			least = min(least, allocatable/need.Amount)
		}
	}
	return least
}

// tooSmall reports whether it is certain that a domain cannot hold the members.
func (e *emptyDomains) tooSmall(d *emptyDomain) bool {
	return e.uniform && d.holds < int64(e.members) || d.all < d.worst.Amount
}

// told describes the largest domain.
func (e *emptyDomains) told(at answer.Point, domains []*emptyDomain) *answer.DomainLimit {
	largest := slices.MaxFunc(domains, func(a, b *emptyDomain) int {
		byHolds := 0
		if e.uniform {
			byHolds = cmp.Compare(a.holds, b.holds)
		}
		byWorst := 0
		switch {
		case worseThan(a.all, a.worst.Amount, b.all, b.worst.Amount):
			byWorst = -1
		case worseThan(b.all, b.worst.Amount, a.all, a.worst.Amount):
			byWorst = 1
		}
		return cmp.Or(byHolds, byWorst, strings.Compare(b.key, a.key))
	})
	x := &answer.DomainLimit{AsOf: at, Labels: labelsOf(e.levels), Domains: len(domains), Members: e.members,
		Resource: largest.worst.Resource, Needed: largest.worst.Amount, Largest: largest.key,
		Nodes: len(largest.nodes), Allocatable: largest.all}
	if e.uniform {
		holds := int(largest.holds)
		x.Holds = &holds
	}
	return x
}

// addLimits adds the limits that only a change of nodes or of the gang can remove. No domain is large enough for it,
// or no node meets the requirements of a member. The message names them before the free room.
func addLimits(x *answer.Reason, r *rerun, g *cluster.Group) {
	now := x.Now
	if now == nil || now.Fits {
		return
	}
	own := now.Group == "" || now.Group == x.Group
	never := len(now.Shortfall) > 0 && now.Shortfall[0].NeverFits()
	if x.DomainLimit = domainLimit(r, g); x.DomainLimit != nil && own && !never {
		now.Message = phrase.DomainLimit(x.DomainLimit)
		x.NextRetry = answer.NextRetry{Words: phrase.DomainAwaited(x.DomainLimit)}
	} else if own && now.Code == answer.Unplaceable && ofDomains(now.Shortfall) {
		s := &now.Shortfall[0]
		now.Message += fmt.Sprintf("; %s %s free%s", phrase.Amount(s.Resource, s.Free), s.Resource,
			phrase.NotUsable(&s.ResourceUse))
	}
	if x.Unmatched = unmatchedOf(r, g); x.Unmatched != nil && own {
		if x.DomainLimit == nil && now.Member == x.Unmatched.Pod && now.Code == answer.Unplaceable {
			now.Message += ": " + phrase.Unmatched(x.Unmatched, false)
		} else {
			now.Message += "; " + phrase.Unmatched(x.Unmatched, true)
		}
	}
}

// ofDomains reports whether the domain that a gang would go to has too little of a resource.
func ofDomains(short []answer.Shortfall) bool {
	return len(short) > 0 && short[0].Of == "Gang" && short[0].Domains != nil && len(short[0].Domains.Domains) > 0
}
