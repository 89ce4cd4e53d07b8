package auditor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Inputs are the inputs of a simulation.
type Inputs struct {
	// Workload is the file of that name: JSON objects between lines of three dashes, which is also YAML, or the output
	// of `rollcall log cat` for another log.
	Workload []byte
	// Nodes is the file of that name, in the same format.
	Nodes []byte
	// Until is the end of the simulation as an offset from its start; 0 for none.
	Until time.Duration
}

// expected is a pod of a workload.
type expected struct {
	name    string
	arrives time.Duration
	surely  bool // it arrives in any case
	// letters says that more letters follow the name, which the auditor cannot know.
	letters bool
}

// start is the time at which every simulation begins.
var start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// workload reads the pods of a workload.
func (in Inputs) workload() ([]expected, error) {
	if in.isLog() {
		return in.recorded()
	}
	var pods []expected
	for i, text := range strings.Split("\n"+string(in.Workload), "\n---\n") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		var o struct {
			Kind     string `json:"kind"`
			Metadata meta   `json:"metadata"`
			Spec     struct {
				Parallelism, Completions, Replicas int
			} `json:"spec"`
		}
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return nil, fmt.Errorf("document %d of the workload: %w", i, err)
		}
		var arrives time.Duration
		if text := o.Metadata.Annotations["rollcall.dev/arrival"]; text != "" {
			var err error
			if arrives, err = time.ParseDuration(text); err != nil {
				return nil, fmt.Errorf("document %d of the workload: %w", i, err)
			}
		}
		if o.Metadata.Namespace == "" {
			o.Metadata.Namespace = "default"
		}
		switch o.Kind {
		case "Pod":
			pods = append(pods, expected{name: o.Metadata.fullName(), arrives: arrives, surely: true})
		case "Job":
			atOnce := max(1, o.Spec.Parallelism)
			for k := range max(o.Spec.Completions, atOnce) {
				name := fmt.Sprintf("%s-%d", o.Metadata.fullName(), k)
				pods = append(pods, expected{name: name, arrives: arrives, surely: k < atOnce})
			}
		case "StatefulSet":
			for k := range o.Spec.Replicas {
				name := fmt.Sprintf("%s-%d", o.Metadata.fullName(), k)
				pods = append(pods, expected{name: name, arrives: arrives, surely: true})
			}
		case "ReplicaSet", "Deployment":
			for range o.Spec.Replicas {
				name := o.Metadata.fullName() + "-"
				pods = append(pods, expected{name: name, arrives: arrives, surely: true, letters: true})
			}
		}
	}
	return pods, nil
}

// isLog reports whether the workload is the output of log cat.
func (in Inputs) isLog() bool { return bytes.HasPrefix(in.Workload, []byte(`{"seq":`)) }

// recorded reads the pods of another log.
func (in Inputs) recorded() (pods []expected, err error) {
	seen := map[string]bool{}
	for line := range bytes.Lines(in.Workload) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("the workload, which is a log: %w", err)
		}
		if e.Kind != "Upserted" || e.Resource != "pods" {
			continue
		}
		var o podObject
		if err := json.Unmarshal(e.Object, &o); err != nil {
			return nil, fmt.Errorf("the workload, which is a log: entry %d: %w", e.Seq, err)
		}
		if !seen[o.Metadata.UID] {
			seen[o.Metadata.UID] = true
			pods = append(pods, expected{name: o.Metadata.fullName(), arrives: e.Time.Sub(start), surely: true})
		}
	}
	return pods, nil
}

// gather counts the pods whose names begin with a prefix under the prefix.
func (a *auditor) gather(prefix string) {
	for _, counts := range []map[string]int{a.seen, a.lost} {
		for name, n := range counts {
			if name != prefix && strings.HasPrefix(name, prefix) {
				counts[prefix] += n
				delete(counts, name)
			}
		}
	}
}

// ownerOf is the name of the controller that makes a lost pod again: the pod's name up to its last dash.
func ownerOf(name string) string { return name[:max(0, strings.LastIndexByte(name, '-'))] }

// accounted checks that each pod of the input has arrived, as many times as it is there, and no other pods but
// replacements of lost ones.
func (a *auditor) accounted(in Inputs) error {
	const check = "accounted"
	pods, err := in.workload()
	if err != nil {
		return err
	}
	sure, most := map[string]int{}, map[string]int{}
	for _, p := range pods {
		if p.letters {
			a.gather(p.name)
		}
		most[p.name]++
		if p.surely && (in.Until == 0 || p.arrives <= in.Until) {
			sure[p.name]++
		}
	}
	for name, n := range sure {
		a.asked(check)
		if a.seen[name] < n {
			a.find(check, "pod %s stands in the workload %d times, and arrived %d times", name, n, a.seen[name])
		}
	}
	again, lost := map[string]int{}, map[string]int{}
	for name, n := range a.lost {
		lost[ownerOf(name)] += n
	}
	for name, n := range a.seen {
		if most[name] == 0 {
			again[ownerOf(name)] += n
		} else if n > most[name]+a.lost[name] {
			a.find(check, "pod %s stands in the workload %d times, was lost %d times, and arrived %d times", name,
				most[name], a.lost[name], n)
		}
	}
	for owner, n := range again {
		if n > lost[owner] {
			a.find(check, "%d pods named %s-… stand not in the workload, and %d of such a name were lost", n, owner,
				lost[owner])
		}
	}
	return nil
}
