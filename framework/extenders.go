package framework

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// ExtenderName is the name under which HTTP extenders refuse nodes, as in kube-scheduler.
const ExtenderName = upstream.ExtenderName

// notAsked is the reason for which a node is refused that fits by now, and about which no extender was asked.
const notAsked = "the extenders were not asked about the node: it fits only since they were asked"

// IsNotAsked reports whether a rejection says that the extenders were not asked about nodes that fit: the pod is tried
// again after its backoff, and they are asked about these too.
func IsNotAsked(r eventlog.Rejection) bool { return r.Plugin == ExtenderName && r.Reason == notAsked }

// ExtenderOrder returns the places of a configuration's extenders in the order in which they are asked: those that may
// be ignored come last, as in kube-scheduler.
func ExtenderOrder(list []config.Extender) []int {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case list[a].Ignorable == list[b].Ignorable:
			return 0
		case list[b].Ignorable:
			return -1
		}
		return 1
	})
	return order
}

// ExtenderResources returns the resources that an extender manages, nil if it is for all pods.
func ExtenderResources(e *config.Extender) map[v1.ResourceName]bool {
	if len(e.ManagedResources) == 0 {
		return nil
	}
	managed := map[v1.ResourceName]bool{}
	for _, r := range e.ManagedResources {
		managed[v1.ResourceName(r.Name)] = true
	}
	return managed
}

// ExtenderInterested reports whether an extender that manages these resources (nil: it is for all pods) has to do with
// a pod: one of its containers or init containers asks for one of them.
func ExtenderInterested(managed map[v1.ResourceName]bool, pod *v1.Pod) bool {
	if managed == nil {
		return true
	}
	for _, containers := range [...][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			amounts := &containers[i].Resources
			for _, list := range [...]v1.ResourceList{amounts.Requests, amounts.Limits} {
				for name := range list { // any order: one is enough
					if managed[name] {
						return true
					}
				}
			}
		}
	}
	return false
}

// checkExtenders refuses what extenders cannot be asked here, and credentials in their URLs, which are logged.
func checkExtenders(list []configv1.Extender) error {
	for i := range list {
		e := &list[i]
		u, err := url.Parse(e.URLPrefix)
		if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("extenders[%d]: urlPrefix is no URL, or one with a user, a query or a fragment: the log "+
				"keeps it, and everybody who has the log reads it", i)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("extenders[%d]: urlPrefix %q: want http://HOST or https://HOST", i, e.URLPrefix)
		}
		if e.HTTPTimeout.Duration < 0 {
			return fmt.Errorf("extenders[%d]: httpTimeout %s is negative", i, e.HTTPTimeout.Duration)
		}
	}
	return nil
}

// ignoreManaged has NodeResourcesFit ignore the resources that extenders manage and want ignored, as kube-scheduler
// does: they take the place of those that its arguments name.
func ignoreManaged(cfg *config.KubeSchedulerConfiguration) {
	var ignored []string
	for i := range cfg.Extenders {
		for _, r := range cfg.Extenders[i].ManagedResources {
			if r.IgnoredByScheduler {
				ignored = append(ignored, r.Name)
			}
		}
	}
	if len(ignored) == 0 {
		return
	}
	for i := range cfg.Profiles {
		for _, c := range cfg.Profiles[i].PluginConfig {
			if args, ok := c.Args.(*config.NodeResourcesFitArgs); ok {
				args.IgnoredResources = slices.Clone(ignored)
			}
		}
	}
}

// Verdict is what HTTP extenders have answered about a pod, for one cycle.
type Verdict struct {
	// Asked are the nodes about which they were asked.
	Asked map[string]bool
	// Refused are those of them that they left out, with the status.
	Refused map[string]*fwk.Status
	// Scores are the sums of their weighted scores, on the scale of the scheduler's own.
	Scores map[string]int64
	// Failed names the extender whose filter gave no answer, and which may not be ignored; "" if there is none.
	Failed string
	// Ratings returns the scores that each of them gave, for a trace; nil if there is nothing to tell.
	Ratings func() []Rating
}

// Rating is what one extender gave to nodes.
type Rating struct {
	// Extender is its urlPrefix, Weight its weight.
	Extender string
	Weight   int64
	// Nodes are the nodes that it gave a score other than 0.
	Nodes map[string]RatedNode
}

// RatedNode is the score of a node, 0 to 10 by kube-scheduler's documentation, and what it weighs.
type RatedNode struct{ Score, Weighted int64 }

// ratings returns Ratings.
func (v *Verdict) ratings() []Rating {
	if v == nil || v.Ratings == nil {
		return nil
	}
	return v.Ratings()
}

// refusal returns why the pod may not go to a node that the filters let pass, nil if it may.
func (v *Verdict) refusal(node string) *fwk.Status {
	if !v.Asked[node] {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, notAsked).WithPlugin(ExtenderName)
	}
	return v.Refused[node]
}

// score returns the node's score by extenders, 0 without any.
func (v *Verdict) score(node string) int64 {
	if v == nil {
		return 0
	}
	return v.Scores[node]
}

// PreemptVerdict is what HTTP extenders that support preemption have answered about the pods that would be evicted for
// a pod.
type PreemptVerdict struct {
	// Asked are the candidates about which they were asked, by node; none if they are still to be asked.
	Asked []eventlog.Candidate
	// Answers are those of the extenders that were asked, in that order.
	Answers []PreemptAnswer
}

// PreemptAnswer is what one of them said.
type PreemptAnswer struct {
	// Extender is its urlPrefix.
	Extender string
	// Ignorable says that preemption goes on without the extender if it fails. Failed says that it gave no answer.
	Ignorable, Failed bool
	// Candidates are the nodes that it leaves, by name, with the victims that it wants there.
	Candidates []eventlog.Candidate
}

// Candidates returns the names of the nodes about which extenders are to be asked for a pod, in the order in which they
// were filtered: those that pass PreFilter and Filter. It is the first part of Place, and no more. If anyway is set and
// no node passes Filter, they are all that PreFilter left: other members of the pod's gang may make them fit.
func (p *Profile) Candidates(ctx context.Context, state fwk.CycleState, pod *v1.Pod, start int, anyway bool,
	trace *Trace) []string {
	c := &p.search
	c.setPod(ctx, state, pod, trace)
	trace.begin()
	nodes, err := c.p.stage.NodeInfos().List()
	if err != nil || len(nodes) == 0 {
		return nil // Place says so
	}
	c.verdict = &Verdict{}
	c.template = c.templateOf(nodes)
	if !c.preFilter(nodes).IsSuccess() {
		return nil
	}
	c.classify(len(nodes))
	status := c.filterAll(nodes, start%len(nodes))
	c.trace.refused(c.refused)
	c.trace.feasible(c.feasible)
	of := c.feasible
	switch {
	case status != nil:
		return nil
	case len(of) > 0 || !anyway:
	case c.preFilters.AllNodes():
		of = nodes
	default:
		of = c.narrowed
	}
	names := make([]string, len(of))
	for i, node := range of {
		names[i] = node.Node().Name
	}
	return names
}

// placeExtended is place, from the nominated node on, for a pod about which extenders have a say. What they were asked
// about and have not refused is what is left of the nodes that the filters let pass now.
func (c *search) placeExtended(nodes []fwk.NodeInfo, out Placement) Placement {
	if c.nominated() {
		if node := c.feasible[0]; c.verdict.Failed == "" && c.verdict.refusal(node.Node().Name) == nil {
			out.Evaluated, out.Feasible = 1, 1
			c.trace.feasible(c.feasible)
			return c.choose(out)
		}
		c.feasible = c.feasible[:0]
	}
	c.classify(len(nodes))
	status := c.filterAll(nodes, out.Next)
	evaluated := len(c.feasible) + len(c.refused)
	out.Next = (out.Next + evaluated) % len(nodes)
	if status == nil && len(c.feasible) > 0 {
		if c.verdict.Failed != "" {
			status = fwk.AsStatus(fmt.Errorf("extender %s gave no answer", c.verdict.Failed)).WithPlugin(ExtenderName)
		}
		c.class = nil // the extenders' scores are known to choose alone
		c.survey.reset()
		c.leaveOut()
	}
	out.Evaluated, out.Feasible = int64(evaluated), int64(len(c.feasible))
	for _, r := range c.refused {
		c.tally.add(r.status, 1)
	}
	c.trace.refused(c.refused)
	c.trace.feasible(c.feasible)
	switch {
	case status != nil:
		return c.fail(status, out)
	case len(c.feasible) == 0:
		return c.refuseAll(out)
	}
	return c.choose(out)
}

// leaveOut takes the nodes out of the feasible ones that the extenders refuse.
func (c *search) leaveOut() {
	left := c.feasible[:0]
	for _, node := range c.feasible {
		if status := c.verdict.refusal(node.Node().Name); status != nil {
			c.refused = append(c.refused, refusal{node, status})
			continue
		}
		left = append(left, node)
	}
	clear(c.feasible[len(left):])
	c.feasible = left
}
