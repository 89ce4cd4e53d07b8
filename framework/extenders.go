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

// ExtenderName is the plugin name in refusals by HTTP extenders, as in kube-scheduler.
const ExtenderName = upstream.ExtenderName

// notAsked is the reason for refusing a node that has started to fit after the extenders were asked.
const notAsked = "the extenders were not asked about the node: it fits only since they were asked"

// IsNotAsked reports whether the reason of a rejection is that the extenders were not asked about a node. The pod is
// tried again after its backoff, and they are then asked about the node as well.
func IsNotAsked(r eventlog.Rejection) bool { return r.Plugin == ExtenderName && r.Reason == notAsked }

// ExtenderOrder returns the indices of a configuration's extenders in the order in which they are asked. Ignorable
// extenders come last, as in kube-scheduler.
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

// ExtenderResources returns the resources that an extender manages, nil if it is interested in all pods.
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

// ExtenderInterested reports whether an extender that manages these resources is interested in a pod: a container or
// init container requests one of them. If managed is nil, it is interested in all pods.
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

// checkExtenders returns an error for settings of extenders that do not work here, and for credentials in their URLs,
// because the URLs are logged.
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

// ignoreManaged makes NodeResourcesFit ignore the resources that extenders manage with ignoredByScheduler. As in
// kube-scheduler, they replace the list in the plugin's arguments.
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

// Verdict has the answers of HTTP extenders about a pod, for one cycle.
type Verdict struct {
	// Asked has the nodes about which the extenders were asked.
	Asked map[string]bool
	// Refused has the status of each node of Asked that they refused.
	Refused map[string]*fwk.Status
	// Scores has the sum of their weighted scores, on the scale of the scheduler's own scores.
	Scores map[string]int64
	// Failed names an extender that is not ignorable and whose filter gave no answer; "" if there is none.
	Failed string
	// Ratings returns the scores of each extender, for a trace. It is nil if there are none.
	Ratings func() []Rating
}

// Rating has one extender's scores.
type Rating struct {
	// Extender is the extender's urlPrefix, and Weight its weight.
	Extender string
	Weight   int64
	// Nodes has the nodes with a score other than 0.
	Nodes map[string]RatedNode
}

// RatedNode has a node's score, 0 to 10 by kube-scheduler's documentation, and the weighted score.
type RatedNode struct{ Score, Weighted int64 }

// ratings returns the result of Ratings, nil if there is none.
func (v *Verdict) ratings() []Rating {
	if v == nil || v.Ratings == nil {
		return nil
	}
	return v.Ratings()
}

// refusal returns the status with which the extenders refuse a node that passed Filter, nil if they accept it.
func (v *Verdict) refusal(node string) *fwk.Status {
	if !v.Asked[node] {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, notAsked).WithPlugin(ExtenderName)
	}
	return v.Refused[node]
}

// score returns the node's score from extenders, 0 without any.
func (v *Verdict) score(node string) int64 {
	if v == nil {
		return 0
	}
	return v.Scores[node]
}

// PreemptVerdict has the answers of HTTP extenders that support preemption, about the pods to evict for a pod.
type PreemptVerdict struct {
	// Asked are the candidates about which they were asked, by node. It is empty if they were not asked yet.
	Asked []eventlog.Candidate
	// Answers has the answer of each extender that was asked, in the order of asking.
	Answers []PreemptAnswer
}

// PreemptAnswer is the answer of one extender.
type PreemptAnswer struct {
	// Extender is the extender's urlPrefix.
	Extender string
	// Ignorable is set if preemption continues without the extender when it fails. Failed is set if it gave no answer.
	Ignorable, Failed bool
	// Candidates are the nodes that the extender accepts, by name, with the victims that it chose there.
	Candidates []eventlog.Candidate
}

// Candidates returns the names of the nodes about which to ask extenders for a pod: the nodes that pass PreFilter and
// Filter, in the order of filtering. It is the first part of Place. If anyway is set and no node passes Filter, it
// returns all nodes that PreFilter left, because other members of the pod's gang may make them fit.
func (p *Profile) Candidates(ctx context.Context, state fwk.CycleState, pod *v1.Pod, start int, anyway bool,
	trace *Trace) []string {
	c := &p.search
	c.setPod(ctx, state, pod, trace)
	trace.begin()
	nodes, err := c.p.stage.NodeInfos().List()
	if err != nil || len(nodes) == 0 {
		return nil // Place returns the error
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

// placeExtended is place, from the nominated node on, for a pod that extenders are interested in. A node must pass the
// filters now, and the extenders must have been asked about it and not have refused it.
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
		c.class = nil // only choose knows the extenders' scores
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

// leaveOut removes the nodes that the extenders refuse from the feasible ones.
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
