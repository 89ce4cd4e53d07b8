package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// gracePeriod is the time without an answer after which the node lifecycle controller calls a node unreachable: the
// default of kube-controller-manager's --node-monitor-grace-period.
const gracePeriod = 50 * time.Second

// nodeChange is a planned change of a node: object replaces the node, or edit changes the present one.
type nodeChange struct {
	at     time.Duration
	object *corev1.Node
	edit   func(*corev1.Node)
	// answers says that the kubelet answers again.
	answers bool
}

// liveNode is a node that exists.
type liveNode struct {
	plan   int32
	object *corev1.Node
	pods   map[int32]struct{}
	// silent says that the kubelet does not answer: nobody hears that a pod has ended, and deleted pods stay.
	silent bool
	// leaving are the pods that were deleted in that time, in the order of their deletion.
	leaving []leavingPod
	// evictions are the coming evictions of pods that do not tolerate the node's taints.
	evictions map[int32]taintEviction
	// drain is the drain of the node; nil before it begins.
	drain *drain
}

// nodes are the nodes of the cluster, and their plans.
type nodes struct {
	plans   []workload.NodePlan
	changes [][]nodeChange
	uids    []types.UID
	// live are the nodes that exist, by name.
	live map[string]*liveNode
	// leaving are the deleted pods that stay until the kubelet of their node answers.
	leaving map[types.UID]struct{}
}

func newNodes(plans []workload.NodePlan) nodes {
	return nodes{
		plans: plans, changes: make([][]nodeChange, len(plans)), uids: make([]types.UID, len(plans)),
		live: map[string]*liveNode{}, leaving: map[types.UID]struct{}{},
	}
}

// plan checks the plans, and returns the events of the nodes.
func (n *nodes) plan() ([]event, error) {
	var events []event
	stays := map[string]int{}
	// fails is the time at which the earlier plan for the same name ends; 0 is never.
	fails := map[string]time.Duration{}
	for i, p := range n.plans {
		name := p.Node.Name
		if err := workload.CheckOffset(p.Joins, p.Fails, p.Cordoned, p.Uncordoned, p.Drained); err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		if p.Fails != 0 && p.Fails <= p.Joins {
			return nil, fmt.Errorf("node %s: fails at %s, not after it joins at %s", name, p.Fails, p.Joins)
		}
		if earlier, again := fails[name]; again && (earlier == 0 || earlier >= p.Joins) {
			return nil, fmt.Errorf("node %s: joins at %s while a node of that name is there", name, p.Joins)
		}
		fails[name] = p.Fails
		stays[name]++
		n.uids[i] = p.Node.UID
		if p.Node.UID == "" {
			key := name
			if n := stays[name]; n > 1 {
				key += "#" + strconv.Itoa(n)
			}
			n.uids[i] = workload.UID(eventlog.Nodes, "", key)
		}
		more, err := n.planNode(int32(i), p)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		events = append(events, more...)
	}
	return events, nil
}

// planNode plans the changes of one node, and returns its events.
func (n *nodes) planNode(i int32, p workload.NodePlan) ([]event, error) {
	events := []event{{at: p.Joins, kind: nodeJoins, index: i}}
	if p.Fails != 0 {
		events = append(events, event{at: p.Fails, kind: nodeFails, index: i})
	}
	var changes []nodeChange
	for _, u := range p.Updates {
		if err := workload.CheckOffset(u.At); err != nil {
			return nil, err
		}
		changes = append(changes, nodeChange{at: u.At, object: u.Node})
	}
	for _, at := range []time.Duration{p.Cordoned, p.Drained} {
		if at != 0 {
			changes = append(changes, nodeChange{at: at, edit: func(n *corev1.Node) { n.Spec.Unschedulable = true }})
		}
	}
	if p.Drained != 0 {
		events = append(events, event{at: p.Drained, kind: nodeDrains, index: i})
	}
	if p.Uncordoned != 0 {
		changes = append(changes,
			nodeChange{at: p.Uncordoned, edit: func(n *corev1.Node) { n.Spec.Unschedulable = false }})
	}
	if err := checkOutages(p.Outages); err != nil {
		return nil, err
	}
	for _, o := range p.Outages {
		if o.Unreachable {
			events = append(events, event{at: o.From, kind: nodeSilent, index: i})
		}
		changes = append(changes, outageChanges(o)...)
	}
	slices.SortStableFunc(changes, func(a, b nodeChange) int { return cmp.Compare(a.at, b.at) })
	for k, change := range changes {
		events = append(events, event{at: change.at, kind: nodeChanges, index: i, sub: int32(k)})
	}
	n.changes[i] = changes
	return events, nil
}

// checkOutages checks that each outage ends after it begins, and that no two of them overlap.
func checkOutages(outages []workload.Outage) error {
	inOrder := slices.SortedFunc(slices.Values(outages), func(a, b workload.Outage) int {
		return cmp.Compare(a.From, b.From)
	})
	for i, o := range inOrder {
		if err := workload.CheckOffset(o.From, o.Until); err != nil {
			return err
		}
		if o.Until != 0 && o.Until <= o.From {
			return fmt.Errorf("the outage from %s ends at %s", o.From, o.Until)
		}
		if i > 0 && !inOrder[i-1].EndsBefore(o.From) {
			return fmt.Errorf("the outage from %s has not ended before the one from %s", inOrder[i-1].From, o.From)
		}
	}
	return nil
}

// outageChanges returns the changes of a node's object in an outage.
func outageChanges(o workload.Outage) (changes []nodeChange) {
	tainted, status, taint := o.From, corev1.ConditionFalse, corev1.TaintNodeNotReady
	if o.Unreachable {
		tainted, status, taint = o.From+gracePeriod, corev1.ConditionUnknown, corev1.TaintNodeUnreachable
	}
	noticed := o.Until == 0 || o.Until > tainted
	if noticed {
		changes = append(changes, nodeChange{at: tainted, edit: func(n *corev1.Node) {
			becomeUnready(n, status, taint, tainted)
		}})
	}
	if o.Until != 0 {
		back := nodeChange{at: o.Until, answers: o.Unreachable}
		if noticed {
			back.edit = func(n *corev1.Node) { becomeReady(n, taint) }
		}
		changes = append(changes, back)
	}
	return changes
}

// identified returns the node of a plan with UID and creation time.
func (n *nodes) identified(i int32, planned *corev1.Node) *corev1.Node {
	node := *planned
	if node.UID == "" {
		node.UID = n.uids[i]
	}
	if node.CreationTimestamp.IsZero() {
		node.CreationTimestamp = metav1.NewTime(workload.Start.Add(n.plans[i].Joins))
	}
	return &node
}

// exists returns the node of a plan while it exists, nil at other times.
func (n *nodes) exists(i int32) *liveNode {
	if live := n.live[n.plans[i].Node.Name]; live != nil && live.plan == i {
		return live
	}
	return nil
}

// becomeUnready gives a node the condition and the taints that the node lifecycle controller gives it at a time.
func becomeUnready(node *corev1.Node, status corev1.ConditionStatus, taint string, at time.Duration) {
	setReady(node, status)
	since := metav1.NewTime(workload.Start.Add(at))
	node.Spec.Taints = append(slices.Clone(node.Spec.Taints),
		corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &since},
		corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoExecute, TimeAdded: &since})
}

// becomeReady undoes becomeUnready.
func becomeReady(node *corev1.Node, taint string) {
	setReady(node, corev1.ConditionTrue)
	node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return t.Key == taint
	})
}

func setReady(node *corev1.Node, status corev1.ConditionStatus) {
	conditions := slices.DeleteFunc(slices.Clone(node.Status.Conditions), func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady
	})
	node.Status.Conditions = append(conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: status})
}

// nodeJoins lets a node join.
func (c *Cluster) nodeJoins(i int32) []eventlog.Payload {
	node := c.nodes.identified(i, c.nodes.plans[i].Node)
	c.nodes.live[node.Name] = &liveNode{plan: i, object: node, pods: map[int32]struct{}{}}
	c.account.NodeJoined(node)
	return []eventlog.Payload{upserted(eventlog.Nodes, node)}
}

// changeNode carries out a planned change of a node.
func (c *Cluster) changeNode(i, k int32) []eventlog.Payload {
	live := c.nodes.exists(i)
	if live == nil {
		return nil
	}
	change := c.nodes.changes[i][k]
	var inputs []eventlog.Payload
	if change.object != nil || change.edit != nil {
		var node *corev1.Node
		if change.object != nil {
			node = c.nodes.identified(i, change.object)
		} else {
			edited := *live.object
			change.edit(&edited)
			node = &edited
		}
		c.account.Offer(live.object, -1)
		c.account.Offer(node, +1)
		if isReady(node) != isReady(live.object) {
			c.drains.retry(c, nil)
		}
		live.object = node
		inputs = append(inputs, upserted(eventlog.Nodes, node))
		c.planEvictions(live)
	}
	if change.answers {
		inputs = append(inputs, c.nodeAnswers(live)...)
	}
	return inputs
}

// nodeAnswers lets a kubelet answer again. It ends the pods that were deleted meanwhile, and the ones whose time
// was over.
func (c *Cluster) nodeAnswers(live *liveNode) []eventlog.Payload {
	live.silent = false
	inputs := c.endLeaving(live)
	for _, i := range slices.Sorted(maps.Keys(live.pods)) {
		if p := &c.pods[i]; p.ends != 0 && p.ends <= c.now {
			inputs = append(inputs, c.endPod(i, ending{how: plannedEnd(&c.work.Pods[i])})...)
		}
	}
	return inputs
}

// nodeFails removes a node and its pods.
func (c *Cluster) nodeFails(i int32) []eventlog.Payload {
	live := c.nodes.live[c.nodes.plans[i].Node.Name]
	delete(c.nodes.live, live.object.Name)
	c.account.Offer(live.object, -1)
	live.silent = false
	inputs := []eventlog.Payload{
		&eventlog.Deleted{Resource: eventlog.Nodes, Name: live.object.Name, UID: live.object.UID}}
	inputs = append(inputs, c.endLeaving(live)...)
	for _, pod := range slices.Sorted(maps.Keys(live.pods)) {
		inputs = append(inputs, c.endPod(pod, ending{how: report.Lost})...)
	}
	return inputs
}
