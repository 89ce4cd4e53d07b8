package auditor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// period is a time in which the kubelet of a node does not answer; without until, for ever.
type period struct{ from, until time.Time }

// silences reads the periods in which kubelets do not answer, by node, from the file of nodes.
func (in Inputs) silences() (map[string][]period, error) {
	silences := map[string][]period{}
	if bytes := string(in.Nodes); strings.HasPrefix(bytes, `{"seq":`) || bytes == "" {
		return silences, nil
	}
	for i, text := range strings.Split("\n"+string(in.Nodes), "\n---\n") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		var o struct {
			Metadata meta `json:"metadata"`
		}
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return nil, fmt.Errorf("document %d of the nodes: %w", i, err)
		}
		from, until, found := strings.Cut(o.Metadata.Annotations["rollcall.dev/unreachable"], "..")
		if !found {
			continue
		}
		var p period
		for at, text := range map[*time.Time]string{&p.from: from, &p.until: until} {
			if text == "" {
				continue
			}
			d, err := time.ParseDuration(text)
			if err != nil {
				return nil, fmt.Errorf("document %d of the nodes: %w", i, err)
			}
			*at = start.Add(d)
		}
		silences[o.Metadata.Name] = append(silences[o.Metadata.Name], p)
	}
	return silences, nil
}

// outages are the times at which nodes do not work as they should.
type outages struct {
	// silences are the periods in which kubelets do not answer, and evicting the taints that evict pods, by node.
	silences map[string][]period
	evicting map[string]evicting
}

// silent reports whether nobody hears at a time that a pod on a node has ended, and until when; zero for ever.
func (o *outages) silent(node string, at time.Time) (until time.Time, yes bool) {
	for _, p := range o.silences[node] {
		if at.After(p.from) && (p.until.IsZero() || at.Before(p.until)) {
			return p.until, true
		}
	}
	return time.Time{}, false
}

// heardEnd returns the time at which the end of a pod that was to run until end is heard; ok is false for never.
func (o *outages) heardEnd(p *pod, end time.Time) (heard time.Time, ok bool) {
	until, silent := o.silent(p.node, end)
	switch {
	case !silent:
		return end, true
	case until.IsZero():
		return time.Time{}, false
	}
	return until, true
}

// patience is the time for which a pod tolerates the taints of a node that evict pods; forever without such a taint.
// The first toleration that matches a taint counts, as in the taint eviction controller.
func patience(p *pod, node *nodeObject) (d time.Duration, forever bool) {
	forever = true
	for _, t := range node.Spec.Taints {
		if t.Effect != "NoExecute" {
			continue
		}
		i := slices.IndexFunc(p.object.Spec.Tolerations, func(o toleration) bool { return o.matches(t) })
		if i < 0 {
			return 0, false
		}
		seconds := p.object.Spec.Tolerations[i].TolerationSeconds
		if seconds == nil {
			continue
		}
		if limit := time.Duration(max(0, *seconds)) * time.Second; forever || limit < d {
			d, forever = limit, false
		}
	}
	return d, forever
}

// noteTaints notes when the taints of a node that evict pods have last changed.
func (o *outages) noteTaints(node *nodeObject, now time.Time) {
	text := ""
	for _, t := range node.Spec.Taints {
		if t.Effect == "NoExecute" {
			text += t.Key + "=" + t.Value + " "
		}
	}
	name := node.Metadata.Name
	if last, known := o.evicting[name]; !known || last.taints != text {
		o.evicting[name] = evicting{text, now}
	}
}

// evicting are the taints of a node that evict pods, as a text, and the time from which it has had them.
type evicting struct {
	taints string
	since  time.Time
}

// disrupted checks the eviction of a pod that is deleted now, by the reason that it names. It returns the fault, "" for
// none. asked is false if no rule is about the reason.
func (o *outages) disrupted(p *pod, node *nodeObject, now time.Time) (wrong string, asked bool) {
	for _, c := range p.object.Status.Conditions {
		if c.Type != "DisruptionTarget" || node == nil {
			continue
		}
		switch c.Reason {
		case "DeletionByTaintManager":
			asked = true
			wait, forever := patience(p, node)
			if e := o.evicting[p.node]; forever || now.Before(e.since.Add(wait)) {
				wrong = fmt.Sprintf(
					"pod %s on %s is evicted by its taints (%s since %s), and tolerates them for %s (%t)",
					p.name, p.node, e.taints, e.since, wait, forever)
			}
		case "EvictionByEvictionAPI":
			asked = true
			if !node.Spec.Unschedulable {
				wrong = fmt.Sprintf("pod %s on %s is evicted, and the node is not cordoned", p.name, p.node)
			}
		}
	}
	return wrong, asked
}

// overstays says that a pod is still on its node after it has tolerated the taints; "" if it is not so.
func (o *outages) overstays(p *pod, node *nodeObject, next time.Time) string {
	if node == nil || p.stage != bound || p.object.Metadata.DeletionTimestamp != nil || p.overstays {
		return ""
	}
	wait, forever := patience(p, node)
	since := o.evicting[p.node].since
	if p.boundAt.After(since) {
		since = p.boundAt
	}
	if forever || !since.Add(wait).Before(next) {
		return ""
	}
	p.overstays = true
	return fmt.Sprintf("pod %s is on %s after %s, and tolerates its taints (%s since %s) for %s", p.name, p.node,
		since.Add(wait), o.evicting[p.node].taints, since, wait)
}
