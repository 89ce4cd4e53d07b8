package extender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

const (
	// maxReason is the largest length of a reason, in bytes, and maxReasons the number of different ones in an answer.
	maxReason, maxReasons = 512, 64
	otherReasons          = "other reasons"
	// leftOut is the reason of a node that an extender left out without a word.
	leftOut = "the extender left the node out"
	goneNow = "the node was gone when the extender was asked"
)

// Ask asks the extenders that are interested in a pod about nodes, by name and sorted. It returns their answers, in the
// order in which they were asked. It returns within the sum of their timeouts, if few enough are asked about.
func (c *Client) Ask(ctx context.Context, pod *v1.Pod, nodes []string) []eventlog.ExtenderAnswer {
	var asked []*extender
	for _, e := range c.list {
		if (e.FilterVerb != "" || e.PrioritizeVerb != "") && e.interested(pod) {
			asked = append(asked, e)
		}
	}
	answers, whole := c.begin(ctx, asked, pod, func(a *eventlog.ExtenderAnswer, why string) { a.FilterError = why })
	if whole == nil {
		return answers
	}
	defer c.end()
	left, ok := c.filterAll(ctx, asked, answers, whole, nodes)
	if ok && len(left) > 1 {
		c.prioritizeAll(ctx, asked, answers, whole, left)
	}
	return answers
}

// begin begins to ask about a pod: it returns answers to be filled in, and the whole pod. If the pod is nil, nobody is
// to be asked, and end is not to be called. That is so if no extender is interested, if ctx has ended (its owner does
// not read the answers), or if the pod cannot be read. begin then passes that error to fail for each answer.
func (c *Client) begin(ctx context.Context, asked []*extender, pod *v1.Pod,
	fail func(a *eventlog.ExtenderAnswer, why string)) (answers []eventlog.ExtenderAnswer, whole *v1.Pod) {
	if len(asked) == 0 {
		return nil, nil
	}
	select {
	case c.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, nil
	}
	answers = make([]eventlog.ExtenderAnswer, len(asked))
	for i, e := range asked {
		answers[i] = eventlog.ExtenderAnswer{Extender: e.place, Name: e.URLPrefix}
	}
	if c.opts.Pod == nil {
		return answers, pod
	}
	whole, err := c.opts.Pod(ctx, pod.Namespace, pod.Name, pod.UID)
	if err == nil {
		return answers, whole
	}
	c.end()
	for i := range answers {
		fail(&answers[i], cut(fmt.Sprintf("the pod that it is to be told of cannot be read: %v", err)))
	}
	return answers, nil
}

// end has another pod be asked about.
func (c *Client) end() { <-c.asking }

// filterAll asks one filter after the other. ok is false if one failed that may not be ignored.
func (c *Client) filterAll(
	ctx context.Context, asked []*extender, answers []eventlog.ExtenderAnswer, pod *v1.Pod, nodes []string,
) (left []string, ok bool) {
	left = nodes
	for i, e := range asked {
		if e.FilterVerb == "" || len(left) == 0 {
			continue
		}
		kept, refused, err := c.filter(ctx, e, pod, left)
		switch {
		case err == nil:
			left, answers[i].Refused = kept, refused
		case e.Ignorable:
			answers[i].FilterError = errorText(err)
		default:
			answers[i].FilterError = errorText(err)
			return nil, false
		}
	}
	return left, true
}

// filter asks one filter about nodes, and returns which of them it keeps, and why it refuses the others.
func (c *Client) filter(ctx context.Context, e *extender, pod *v1.Pod, nodes []string) (
	kept []string, refused []eventlog.ExtenderRefusal, err error,
) {
	var result extenderv1.ExtenderFilterResult
	if err := e.send(ctx, e.FilterVerb, c.args(e, pod, nodes), &result); err != nil {
		return nil, nil, err
	}
	if result.Error != "" {
		return nil, nil, errors.New(result.Error)
	}
	keeps := map[string]bool{}
	keep := func(name string) error {
		if _, ok := slices.BinarySearch(nodes, name); !ok {
			return fmt.Errorf("it keeps node %q, about which it was not asked", cut(name))
		}
		keeps[name] = true
		return nil
	}
	switch {
	case e.NodeCacheCapable && result.NodeNames != nil:
		for _, name := range *result.NodeNames {
			if err := keep(name); err != nil {
				return nil, nil, err
			}
		}
	case result.Nodes != nil:
		for i := range result.Nodes.Items {
			if err := keep(result.Nodes.Items[i].Name); err != nil {
				return nil, nil, err
			}
		}
	}
	var reasons reasons
	for _, name := range nodes {
		if keeps[name] {
			kept = append(kept, name)
			continue
		}
		unresolvable, isUnresolvable := result.FailedAndUnresolvableNodes[name]
		failed, isFailed := result.FailedNodes[name]
		switch {
		case isUnresolvable:
			reasons.add(fwk.UnschedulableAndUnresolvable, unresolvable, name)
		case isFailed:
			reasons.add(fwk.Unschedulable, failed, name)
		case !e.NodeCacheCapable && c.node(name) == nil:
			reasons.add(fwk.UnschedulableAndUnresolvable, goneNow, name)
		default:
			reasons.add(fwk.UnschedulableAndUnresolvable, leftOut, name)
		}
	}
	return kept, reasons.sorted(), nil
}

// reasons gathers why nodes are refused.
type reasons struct{ list []eventlog.ExtenderRefusal }

func (r *reasons) add(code fwk.Code, reason, node string) {
	if reason = cut(reason); reason == "" {
		reason = leftOut
	}
	at := func(reason string) int {
		return slices.IndexFunc(r.list, func(x eventlog.ExtenderRefusal) bool {
			return x.Code == code.String() && x.Reason == reason
		})
	}
	i := at(reason)
	if i < 0 && len(r.list) >= maxReasons {
		reason = otherReasons
		i = at(reason)
	}
	if i < 0 {
		i = len(r.list)
		r.list = append(r.list, eventlog.ExtenderRefusal{Code: code.String(), Reason: reason})
	}
	r.list[i].Nodes = append(r.list[i].Nodes, node)
}

func (r *reasons) sorted() []eventlog.ExtenderRefusal {
	slices.SortFunc(r.list, func(a, b eventlog.ExtenderRefusal) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason))
	})
	return r.list
}

// prioritizeAll asks all that give scores at the same time.
func (c *Client) prioritizeAll(
	ctx context.Context, asked []*extender, answers []eventlog.ExtenderAnswer, pod *v1.Pod, nodes []string,
) {
	var all sync.WaitGroup
	for i, e := range asked {
		if e.PrioritizeVerb == "" {
			continue
		}
		all.Go(func() {
			scores, err := c.prioritize(ctx, e, pod, nodes)
			if err != nil {
				answers[i].PrioritizeError = errorText(err)
				return
			}
			answers[i].Scores = scores
		})
	}
	all.Wait()
}

// prioritize asks for scores. It ignores the scores of other nodes, and adds the scores of a node that comes more than
// once, as in kube-scheduler.
func (c *Client) prioritize(ctx context.Context, e *extender, pod *v1.Pod, nodes []string) (
	[]eventlog.ExtenderScore, error,
) {
	var result extenderv1.HostPriorityList
	if err := e.send(ctx, e.PrioritizeVerb, c.args(e, pod, nodes), &result); err != nil {
		return nil, err
	}
	sums := make([]int64, len(nodes))
	for _, s := range result {
		i, ok := slices.BinarySearch(nodes, s.Host)
		if !ok {
			continue
		}
		// Neither of the two is beyond 32 bits: the sum cannot overflow.
		if beyond(s.Score) || beyond(sums[i]+s.Score) {
			return nil, fmt.Errorf("it gives node %s a score beyond %d", s.Host, eventlog.MaxExtenderScore)
		}
		sums[i] += s.Score
	}
	var scores []eventlog.ExtenderScore
	for i, name := range nodes {
		if sums[i] != 0 {
			scores = append(scores, eventlog.ExtenderScore{Node: name, Score: sums[i]})
		}
	}
	return scores, nil
}

func beyond(score int64) bool {
	return score > eventlog.MaxExtenderScore || score < -eventlog.MaxExtenderScore
}

// errorText is an error as it is logged.
func errorText(err error) string { return cmp.Or(cut(err.Error()), "error") }

// cut shortens a server's words.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + " ..."
}
