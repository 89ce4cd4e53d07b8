package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// How long the lists of an answer about a node are at most. Each episode costs a state of the log.
const (
	maxNodeChanges = 100
	maxEpisodes    = 3
)

const gone = "Gone"

// Node explains the state of a node at a point of the log: up, down or cordoned. It tells the node's changes, and the
// fates of the pods that were on it when it went down. The error is a *NotFoundError if the log has no such node up to
// there. Other errors are about reading the log.
func Node(ctx context.Context, log *history.Log, name string, opts Options) (*answer.Node, error) {
	at, err := log.Locate(ctx, opts.bound())
	if err != nil {
		return nil, err
	}
	base, err := log.Base()
	if err != nil {
		return nil, err
	}
	m, err := log.At(ctx, at.Seq)
	if err != nil {
		return nil, err
	}
	x := &answer.Node{Node: name, At: answer.Point{Seq: m.Seq(), Time: answer.Instant(m.Now())},
		Pods: []answer.NodePod{}, Changes: []answer.NodeChange{}, Episodes: []answer.NodeEpisode{}}
	n := &nodeHistory{ctx: ctx, log: log, x: x}
	if base > 0 {
		x.KnownFrom = base + 1
		first, err := log.Nearest(base)
		if err != nil {
			return nil, err
		}
		if node := first.Cluster().Nodes().Object(name); node != nil {
			n.status, n.known = NodeStatus(node), true
		}
	}
	if err := n.read(base); err != nil {
		return nil, err
	}
	if !n.known {
		return nil, n.notFound(m)
	}
	x.Status = n.status
	if len(x.Changes) > 0 {
		x.Since = &x.Changes[len(x.Changes)-1].Point
	}
	x.Omitted = max(0, len(x.Changes)-maxNodeChanges)
	x.Changes = x.Changes[x.Omitted:]
	if node := m.Cluster().Nodes().Object(name); node != nil {
		for i := range node.Spec.Taints {
			x.Taints = append(x.Taints, node.Spec.Taints[i].ToString())
		}
	}
	for _, p := range podsOn(m, name) {
		pod := nodePodOf(p)
		if pod.Fate = "Stays"; p.Leaving() || p.Ending() {
			pod.Fate = "Leaving"
		}
		x.Pods = append(x.Pods, pod)
	}
	if err := n.addEpisodes(); err != nil {
		return nil, err
	}
	x.Message = n.message()
	return x, nil
}

// podsOn returns the pods on a node, by name.
func podsOn(m *scheduler.Machine, node string) []*cluster.Pod {
	pods := slices.Clone(m.Cluster().PodsOn(node))
	slices.SortFunc(pods, func(a, b *cluster.Pod) int { return strings.Compare(nameOf(a.Object), nameOf(b.Object)) })
	return pods
}

func nodePodOf(p *cluster.Pod) answer.NodePod {
	x := answer.NodePod{Pod: nameOf(p.Object), UID: p.Object.UID, Stage: p.Stage.String(),
		Since: answer.Instant(p.Since)}
	if p.Group != nil {
		x.Group = p.Group.String()
	}
	return x
}

// nodeHistory collects the changes of a node.
type nodeHistory struct {
	ctx    context.Context
	log    *history.Log
	x      *answer.Node
	status []string // the last one
	known  bool     // the node has been seen
	ends   []episodeSpan
}

// episodeSpan is an episode by the numbers of its changes. to is -1 if it has not ended.
type episodeSpan struct{ from, to int }

// read reads the entries that bring the node or take it away.
func (n *nodeHistory) read(base uint64) error {
	query := history.Query{From: base + 1, To: history.Bound{Seq: n.x.At.Seq},
		Keys: []index.Key{index.Node(n.x.Node)}, Kinds: []eventlog.Kind{eventlog.KindUpserted, eventlog.KindDeleted}}
	for e, err := range n.log.Entries(n.ctx, query) {
		if err != nil {
			return err
		}
		n.take(e)
	}
	return nil
}

// take takes in an entry that may be about the node.
func (n *nodeHistory) take(e eventlog.Entry) {
	status, what := []string(nil), ""
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		node, ok := p.Object.(*v1.Node)
		if !ok || node.Name != n.x.Node {
			return
		}
		if status = NodeStatus(node); !n.known || slices.Equal(n.status, []string{gone}) {
			what = "joined"
			if !isUp(status) {
				what += ": " + strings.Join(status, ", ")
			}
		}
	case *eventlog.Deleted:
		if p.Resource != eventlog.Nodes || p.Name != n.x.Node {
			return
		}
		status, what = []string{gone}, "deleted"
	}
	if n.known && slices.Equal(status, n.status) {
		return
	}
	if what == "" {
		what = strings.Join(status, ", ")
	}
	was := n.status
	n.status = status
	n.x.Changes = append(n.x.Changes, answer.NodeChange{Point: pointOf(e), What: what})
	last := len(n.x.Changes) - 1
	switch {
	case isUp(status):
		if k := len(n.ends); k > 0 && n.ends[k-1].to < 0 {
			n.ends[k-1].to = last
		}
	case n.known && isUp(was):
		n.ends = append(n.ends, episodeSpan{last, -1})
	}
	n.known = true
}

func isUp(status []string) bool { return len(status) == 1 && status[0] == Ready }

// notFound returns the error for a node that the log does not have up to the point in question.
func (n *nodeHistory) notFound(m *scheduler.Machine) error {
	missing := &NotFoundError{Kind: "node", Name: n.x.Node, At: n.x.At, KnownFrom: n.x.KnownFrom}
	query := history.Query{From: n.x.At.Seq + 1, Keys: []index.Key{index.Node(n.x.Node)}}
	for e, err := range n.log.Entries(n.ctx, query) {
		if err != nil {
			return err
		}
		if n.take(e); n.known {
			first := pointOf(e)
			missing.First = &first
			return missing
		}
	}
	nodes, _ := m.Cluster().Nodes().List()
	var names []string
	for _, each := range nodes {
		names = append(names, each.Node().Name)
	}
	missing.Similar = Near(n.x.Node, names)
	return missing
}

// addEpisodes adds the last episodes, with the pods that were on the node when each began.
func (n *nodeHistory) addEpisodes() error {
	all := n.ends
	n.x.OmittedEpisodes = max(0, len(all)-maxEpisodes)
	for _, span := range all[n.x.OmittedEpisodes:] {
		from, to := span.from-n.x.Omitted, span.to-n.x.Omitted
		if from < 0 {
			n.x.OmittedEpisodes++
			continue
		}
		episode := answer.NodeEpisode{From: n.x.Changes[from], Pods: []answer.NodePod{}}
		last := len(n.x.Changes)
		if span.to >= 0 {
			until := n.x.Changes[to]
			episode.Until, last = &until, to
		}
		episode.Worst = worstOf(n.x.Changes[from:last])
		m, err := n.log.At(n.ctx, episode.From.Seq-1)
		if err != nil {
			return err
		}
		f := newFates(n, episode.From.Point)
		for _, p := range podsOn(m, n.x.Node) {
			f.add(p)
		}
		if err := f.read(); err != nil {
			return err
		}
		episode.Pods = f.list()
		n.x.Episodes = append(n.x.Episodes, episode)
	}
	return nil
}

// worstOf returns the worst status of changes.
func worstOf(changes []answer.NodeChange) string {
	for _, worst := range []string{"deleted", Unreachable, NotReady, Tainted, Cordoned} {
		for i := range changes {
			if strings.Contains(changes[i].What, worst) {
				if worst == "deleted" {
					return gone
				}
				return worst
			}
		}
	}
	return ""
}

// message says how the node is, and since when.
func (n *nodeHistory) message() string {
	words := map[string]string{gone: "is gone: its Node object was deleted", Ready: "is ready",
		NotReady: "is not ready", Unreachable: "is unreachable",
		Tainted: "has a taint that evicts pods", Cordoned: "is cordoned"}
	var parts []string
	for _, status := range n.x.Status {
		if status != Ready || len(n.x.Status) == 1 {
			parts = append(parts, words[status])
		}
	}
	text := fmt.Sprintf("Node %s %s", n.x.Node, strings.Join(parts, ", and "))
	if n.x.Since != nil {
		text += fmt.Sprintf(" since %s (entry %d)", n.x.Since.Time, n.x.Since.Seq)
	} else {
		text += fmt.Sprintf(" since before entry %d", n.x.KnownFrom)
	}
	if pods := len(n.x.Pods); n.x.Status[0] != gone || pods > 0 {
		text += fmt.Sprintf(", with %d pods", pods)
		if pods == 1 {
			text = strings.TrimSuffix(text, "s")
		}
	}
	return text
}
