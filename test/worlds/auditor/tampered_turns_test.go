package auditor

import (
	"fmt"
	"time"
)

// until is the deadline of pods that are held.
const until = "{'waitUntil': '2026-01-01T00:01:00Z'%s}"

// storiesOfGangs are about pods that are placed together.
var storiesOfGangs = []told{
	{"gang-minimum", "the first member is let go by itself", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		s.gang("g", 2, 2, "")
		if tampered {
			s.in("g", 0, "Scheduled", "n", "")
			s.in("g", 1, "Scheduled", "n", "")
		} else {
			s.in("g", 0, "Waiting", "n", until, "")
			s.in("g", 1, "Scheduled", "n", "{'allowed': ['g-0']}")
		}
		s.bind("g-0", "n")
		s.bind("g-1", "n")
	}},
	{"gang-minimum", "members that are lost count", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		s.gang("g", 2, 3, "")
		s.in("g", 0, "Waiting", "n", until, "")
		s.in("g", 1, "Scheduled", "n", "{'allowed': ['g-0']}")
		s.bind("g-0", "n")
		s.bind("g-1", "n")
		s.gone("pods", "g-0")
		if tampered {
			s.gone("pods", "g-1")
		}
		s.in("g", 2, "Scheduled", "n", "")
		s.bind("g-2", "n")
	}},
	{"gangs-together", "one without the other", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		groups := `'gang.scheduling.koordinator.sh/groups': '[\"d/g\",\"d/h\"]'`
		s.gang("g", 1, 1, groups)
		s.gang("h", 1, 1, groups)
		if tampered {
			s.in("g", 0, "Scheduled", "n", "")
			s.in("h", 0, "Scheduled", "n", "")
		} else {
			s.in("g", 0, "Waiting", "n", until, "")
			s.in("h", 0, "Scheduled", "n", "{'allowed': ['g-0']}")
		}
		s.bind("g-0", "n")
		s.bind("h-0", "n")
	}},
	{"held", "a release is missing", "", func(s *story, tampered bool) {
		s.node("n", "1", "x", "")
		s.gang("g", 2, 2, "")
		s.pod("a", "0", "", "")
		s.in("g", 0, "Waiting", "n", until, "")
		s.in("g", 1, "Unschedulable", "", pick(tampered, "", "{'rejected': ['g-0']}"))
		s.place("a", "n")
	}},
	{"held", "inputs come while a pod is held", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		s.gang("g", 2, 2, "")
		s.in("g", 0, "Waiting", "n", until, "")
		if tampered {
			s.tick(0)
			s.in("g", 0, "Waiting", "n", until, "")
		}
		s.in("g", 1, "Scheduled", "n", "{'allowed': ['g-0']}")
		s.bind("g-0", "n")
		s.bind("g-1", "n")
	}},
	{"deadline", "held for too long", "", func(s *story, tampered bool) {
		s.node("n", "1", "x", "")
		s.gang("g", 2, 2, "'gang.scheduling.koordinator.sh/mode': 'NonStrict'")
		s.in("g", 0, "Waiting", "n", until, "")
		s.tick(time.Minute)
		if !tampered {
			s.in("g", 0, "Unschedulable", "", "{'rejected': ['g-0']}")
		}
		s.tick(time.Second)
	}},
	{"topology", "a member is in another zone", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		s.node("m", "9", "x", "")
		s.node("o", "9", "y", "")
		s.gang("g", 2, 2, "'rollcall.dev/topology-required': 'zone'")
		s.in("g", 0, "Waiting", "n", until, "")
		s.in("g", 1, "Scheduled", pick(tampered, "o", "m"), "{'allowed': ['g-0']}")
		s.bind("g-0", "n")
		s.bind("g-1", pick(tampered, "o", "m"))
	}},
	{"below-minimum", "nobody asked for it", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		s.gang("g", 2, 2, fmt.Sprintf("'rollcall.dev/below-minimum': '%s'", pick(tampered, "Keep", "Evict")))
		s.in("g", 0, "Waiting", "n", until, "")
		s.in("g", 1, "Scheduled", "n", "{'allowed': ['g-0']}")
		s.bind("g-0", "n")
		s.bind("g-1", "n")
		s.gone("pods", "g-0")
		s.in("g", 1, "Evicted", "", "{'victims': ['g-1']}")
		s.gone("pods", "g-1")
	}},
	{"below-minimum", "the gang has its minimum", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		s.gang("g", 2, 2, "'rollcall.dev/below-minimum': 'Evict'")
		s.in("g", 0, "Waiting", "n", until, "")
		s.in("g", 1, "Scheduled", "n", "{'allowed': ['g-0']}")
		s.bind("g-0", "n")
		s.bind("g-1", "n")
		if !tampered {
			s.gone("pods", "g-0")
		}
		s.in("g", 1, "Evicted", "", "{'victims': ['g-1']}")
		s.gone("pods", "g-1")
	}},
}

// storiesOfTurns are about who comes first.
var storiesOfTurns = []told{
	{"fifo", "a small pod passes a large one", "StrictFIFO", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("first", "1", "", "")
		s.place("first", "n")
		s.pod("large", "2", "", "")
		s.tick(time.Second)
		s.pod("small", "1", "", "")
		if tampered {
			s.place("small", "n")
		}
	}},
	{"fifo", "a pod passes a gang of higher priority", "StrictFIFO", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("first", "1", fmt.Sprintf("'priority': %d", pick(tampered, -1, 1)), "")
		s.gang("g", 3, 3, "")
		s.place("first", "n")
	}},
	{"fifo", "a nominated pod passes on another node", "StrictFIFO", func(s *story, tampered bool) {
		passesNominated(s, pick(tampered, "m", "n"), pick(tampered, "n", "m"))
	}},
	{"fifo", "a member beyond the minimum passes where no room is kept for it", "StrictFIFO",
		func(s *story, tampered bool) {
			gangPasses(s, "{'victims': ['v'], 'nominated': 'n', 'nominations': [{'uid': 'g-1', 'node': 'n'}]}", "")
			s.in("g", 1, "Scheduled", "n", "{'allowed': ['g-0']}")
			s.bind("g-0", "n")
			s.bind("g-1", "n")
			if tampered {
				s.in("g", 2, "Scheduled", "o", "")
				s.bind("g-2", "o")
			}
		}},
	{"fifo", "a gang passes that is nominated in part", "StrictFIFO", func(s *story, tampered bool) {
		gangPasses(s, pick(tampered, "{'victims': ['v'], 'nominated': 'n'}",
			"{'victims': ['v'], 'nominated': 'n', 'nominations': [{'uid': 'g-1', 'node': 'n'}]}"), "")
		s.in("g", 1, "Scheduled", "n", "{'allowed': ['g-0']}")
		s.bind("g-0", "n")
		s.bind("g-1", "n")
	}},
	{"fifo", "a gang passes that its objects nominate", "StrictFIFO", func(s *story, tampered bool) {
		gangPasses(s, pick(tampered, "{'nominated': 'n'}",
			"{'victims': ['v'], 'nominated': 'n', 'nominations': [{'uid': 'g-1', 'node': 'n'}]}"),
			pick(tampered, "n", ""))
		s.in("g", 1, "Scheduled", "n", "{'allowed': ['g-0']}")
		s.bind("g-0", "n")
		s.bind("g-1", "n")
	}},
	{"reservation", "a pod is in the way", "Backfill", func(s *story, tampered bool) {
		s.node("n", "3", "x", "")
		s.node("m", "1", "x", "")
		s.pod("a", "2", "", "'annotations': {'rollcall.dev/duration': '10s'}")
		s.place("a", "n")
		s.pod("large", "3", "", "")
		s.decide("large", "Reserved", "",
			"{'waitUntil': '2026-01-01T00:00:10Z', 'places': [{'uid': 'large', 'node': 'n'}]}")
		s.pod("c", "1", "", "'annotations': {'rollcall.dev/duration': '11s'}")
		s.place("c", pick(tampered, "n", "m"))
	}},
	{"reservation", "its time goes by", "Backfill", func(s *story, tampered bool) {
		s.node("n", "3", "x", "")
		s.pod("a", "2", "", "'annotations': {'rollcall.dev/duration': '10s'}")
		s.place("a", "n")
		s.pod("large", "3", "", "")
		s.decide("large", "Reserved", "",
			"{'waitUntil': '2026-01-01T00:00:10Z', 'places': [{'uid': 'large', 'node': 'n'}]}")
		s.tick(10 * time.Second)
		s.gone("pods", "a")
		s.tick(pick(tampered, 2*time.Second, time.Second))
		s.place("large", "n")
	}},
	{"reservation", "it is of room that will not be there", "Backfill", func(s *story, tampered bool) {
		s.node("n", "3", "x", "")
		s.pod("a", "2", "", fmt.Sprintf("'annotations': {'rollcall.dev/duration': '%s'}", pick(tampered, "11s", "10s")))
		s.place("a", "n")
		s.pod("large", "3", "", "")
		s.decide("large", "Reserved", "",
			"{'waitUntil': '2026-01-01T00:00:10Z', 'places': [{'uid': 'large', 'node': 'n'}]}")
	}},
}

// storiesOfVictims are about preemption.
var storiesOfVictims = []told{
	{"preemption", "for no node", "", func(s *story, tampered bool) {
		preempts(s, "'priority': 10", "'priority': 0", pick(tampered, "", "n"))
	}},
	{"priority", "a victim is as important", "", func(s *story, tampered bool) {
		preempts(s, "'priority': 10", fmt.Sprintf("'priority': %d", pick(tampered, 10, 9)), "n")
	}},
	{"never", "the preemptor says Never", "", func(s *story, tampered bool) {
		policy := pick(tampered, "Never", "PreemptLowerPriority")
		preempts(s, fmt.Sprintf("'priority': 10, 'preemptionPolicy': '%s'", policy), "'priority': 0", "n")
	}},
	{"victims-needed", "one could have stayed", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		for _, name := range []string{"v", "w"} {
			s.pod(name, "1", "", "")
			s.place(name, "n")
		}
		s.pod("high", pick(tampered, "1", "2"), "'priority': 10", "")
		s.decide("high", "Unschedulable", "", "{'victims': ['v', 'w'], 'nominated': 'n'}")
		s.gone("pods", "v")
		s.gone("pods", "w")
		s.place("high", "n")
	}},
	{"victims-needed", "they are not enough", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		for _, name := range []string{"v", "w"} {
			s.pod(name, "1", "", "")
			s.place(name, "n")
		}
		s.pod("high", pick(tampered, "2", "1"), "'priority': 10", "")
		s.decide("high", "Unschedulable", "", "{'victims': ['v'], 'nominated': 'n'}")
		s.gone("pods", "v")
		if !tampered {
			s.place("high", "n")
		}
	}},
	{"whole-groups", "half of a group", "", func(s *story, tampered bool) {
		s.node("n", "1", "x", "")
		s.node("m", "1", "x", "")
		s.object("podgroups.scheduling.k8s.io", "g",
			"{'spec': {'schedulingPolicy': {'gang': {'minCount': 2}}, 'disruptionMode': {'all': {}}}}")
		for _, name := range []string{"g-0", "g-1"} {
			s.pod(name, "1", "'schedulingGroup': {'podGroupName': 'g'}", "")
		}
		s.in("g", 0, "Waiting", "n", until, "")
		s.in("g", 1, "Scheduled", "m", "{'allowed': ['g-0']}")
		s.bind("g-0", "n")
		s.bind("g-1", "m")
		s.pod("high", "1", "'priority': 10", "")
		s.decide("high", "Unschedulable", "", "{'victims': [%s], 'nominated': 'n'}",
			pick(tampered, "'g-0'", "'g-0', 'g-1'"))
		s.gone("pods", "g-0")
		if !tampered {
			s.gone("pods", "g-1")
		}
		s.place("high", "n")
	}},
	{"budgets", "a budget is violated for nothing", "", func(s *story, tampered bool) {
		s.node("n", "1", "x", "")
		s.node("m", "1", "x", "")
		s.object("poddisruptionbudgets.policy", "p",
			"{'spec': {'selector': {'matchLabels': {'app': 'b'}}}, 'status': {'disruptionsAllowed': 0}}")
		s.pod("v", "1", "", "'labels': {'app': 'b'}")
		s.place("v", "n")
		s.pod("w", "1", "", "")
		s.place("w", "m")
		s.pod("high", "1", "'priority': 10", "")
		s.decide("high", "Unschedulable", "", "{'victims': ['%s'], 'nominated': '%s'}", pick(tampered, "v", "w"),
			pick(tampered, "n", "m"))
		s.gone("pods", pick(tampered, "v", "w"))
		s.place("high", pick(tampered, "n", "m"))
	}},
	{"nominations", "room that is kept is taken", "", func(s *story, tampered bool) {
		s.node("n", "1", "x", "")
		s.node("m", "1", "x", "")
		s.pod("v", "1", "", "")
		s.place("v", "n")
		s.pod("w", "1", "'priority': 20", "")
		s.place("w", "m")
		s.pod("high", "1", "'priority': 10", "")
		s.decide("high", "Unschedulable", "", "{'victims': ['v'], 'nominated': 'n'}")
		s.gone("pods", "v")
		s.gone("pods", "w")
		s.pod("low", "0", "", "")
		s.place("low", "n")
		s.pod("other", "1", "", "")
		s.place("other", pick(tampered, "n", "m"))
		s.place("high", pick(tampered, "m", "n"))
	}},
}

// passesNominated tells about the pod high, which is nominated to n, and passes the pod first of its own priority.
func passesNominated(s *story, node, other string) {
	s.node("n", "1", "x", "")
	s.node("m", "1", "x", "")
	s.pod("v", "1", "", "")
	s.place("v", "n")
	s.pod("w", "1", "'priority': 20", "")
	s.place("w", "m")
	s.pod("first", "1", "'priority': 10, 'preemptionPolicy': 'Never'", "")
	s.tick(time.Second)
	s.pod("high", "1", "'priority': 10", "")
	s.decide("high", "Unschedulable", "", "{'victims': ['v'], 'nominated': 'n'}")
	s.gone("pods", "v")
	s.gone("pods", "w")
	s.place("high", node)
	s.place("first", other)
}

// gangPasses writes the story of the gang g of three with a minimum of two. It is refused with some facts, and passes
// the pod first of its own priority, up to the member that waits for the next one. named is the node that objects
// nominate to.
func gangPasses(s *story, facts, named string) {
	s.node("n", "2", "x", "")
	s.node("o", "1", "x", "")
	s.pod("v", "2", "", "")
	s.place("v", "n")
	s.pod("first", "4", "'priority': 10, 'preemptionPolicy': 'Never'", "")
	s.tick(time.Second)
	s.object("podgroups.scheduling.k8s.io", "g", "{'spec': {'schedulingPolicy': {'gang': {'minCount': 2}}}}")
	for i := range 3 {
		fmt.Fprintf(&s.workload, "---\n{\"kind\": \"Pod\", \"metadata\": {\"name\": \"g-%d\", \"namespace\": \"d\"}}\n",
			i)
		s.object("pods", fmt.Sprintf("g-%d", i), `{'spec': {'schedulerName': 'default-scheduler', 'priority': 10,
			'schedulingGroup': {'podGroupName': 'g'}, 'containers': [{'resources': {'requests': {'cpu': '1'}}}]},
			'status': {'nominatedNodeName': '%s'}}`, pick(i < 2, named, ""))
	}
	s.in("g", 0, "Unschedulable", "", facts)
	s.gone("pods", "v")
	s.in("g", 0, "Waiting", "n", until, "")
}

// preempts tells about a pod that has another one evicted, which has all of the node n.
func preempts(s *story, high, low, nominated string) {
	s.node("n", "1", "x", "")
	s.pod("v", "1", low, "")
	s.place("v", "n")
	s.pod("high", "1", high, "")
	s.decide("high", "Unschedulable", "", "{'victims': ['v'], 'nominated': '%s'}", nominated)
	s.gone("pods", "v")
	s.place("high", "n")
}

// storiesOfEnds are about what is done and what is left.
var storiesOfEnds = []told{
	{"refused", "there was room", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("a", "1", "", "")
		s.place("a", "n")
		s.pod("b", "2", "", "")
		if tampered {
			s.gone("pods", "a")
		}
		s.decide("b", "Unschedulable", "",
			"{'feasible': 0, 'rejections': [{'plugin': 'NodeResourcesFit', 'nodes': 1}]}")
		if !tampered {
			s.gone("pods", "a")
		}
		s.place("b", "n")
	}},
	{"effects", "a bind before its Decision", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("a", "1", "", "")
		if tampered {
			s.bind("a", "n")
		}
		s.place("a", "n")
	}},
	{"effects", "a bind to another node", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.node("m", "2", "x", "")
		s.pod("a", "1", "", "")
		s.decide("a", "Scheduled", "n", "")
		s.bind("a", pick(tampered, "m", "n"))
	}},
	{"effects", "a bind that never comes", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("a", "1", "", "")
		s.pod("b", "1", "", "")
		s.place("b", "n")
		s.decide("a", "Scheduled", "n", "")
		if !tampered {
			s.bind("a", "n")
		}
		s.tick(time.Second)
	}},
	{"effects", "an eviction that never comes", "", func(s *story, tampered bool) {
		s.node("n", "1", "x", "")
		s.pod("v", "1", "", "")
		s.place("v", "n")
		s.pod("high", "1", "'priority': 10", "")
		s.decide("high", "Unschedulable", "", "{'victims': ['v'], 'nominated': 'n'}")
		if !tampered {
			s.gone("pods", "v")
			s.place("high", "n")
		}
		s.tick(time.Second)
	}},
	{"effects", "a pod is placed twice", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.node("m", "2", "x", "")
		s.pod("a", "1", "", "")
		s.place("a", "n")
		if tampered {
			s.decide("a", "Scheduled", "m", "")
		}
	}},
	{"effects", "a held member has another turn", "", func(s *story, tampered bool) {
		s.node("n", "3", "x", "")
		groups := `'gang.scheduling.koordinator.sh/groups': '[\"d/g\",\"d/h\"]'`
		s.gang("g", 1, 1, groups)
		s.gang("h", 1, 1, groups)
		s.in("g", 0, "Waiting", "n", until, "")
		s.in("h", 0, "Unschedulable", "", pick(tampered, "", "{'rejected': ['g-0']}"))
		s.in("h", 0, "Waiting", "n", until, "")
		s.in("g", 0, "Scheduled", "n", "{'allowed': ['h-0'], 'evaluated': 1}")
		s.bind("g-0", "n")
		s.bind("h-0", "n")
	}},
	{"endings", "a pod goes before its time", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("a", "1", "", "'annotations': {'rollcall.dev/duration': '10s'}")
		s.place("a", "n")
		s.tick(pick(tampered, 9*time.Second, 10*time.Second))
		s.gone("pods", "a")
	}},
	{"evictions", "a pod is evicted before its time", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "'taints': [{'key': 'k', 'effect': 'NoExecute'}]")
		s.pod("a", "1", patient, "")
		s.tick(pick(tampered, 9*time.Second, 10*time.Second))
		s.disrupted("a", "DeletionByTaintManager")
		s.gone("pods", "a")
	}},
	{"evictions", "a pod is not evicted at its time", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "'taints': [{'key': 'k', 'effect': 'NoExecute'}]")
		s.pod("a", "1", patient, "")
		s.tick(10 * time.Second)
		if !tampered {
			s.disrupted("a", "DeletionByTaintManager")
			s.gone("pods", "a")
		}
		s.tick(time.Second)
	}},
	{"evictions", "a drain evicts from a node that is not cordoned", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", pick(tampered, "", "'unschedulable': true"))
		s.pod("a", "1", patient, "")
		s.disrupted("a", "EvictionByEvictionAPI")
		s.gone("pods", "a")
	}},
	{"endings", "a pod stays beyond its time", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("b", "1", "", "'annotations': {'rollcall.dev/duration': '10s'}")
		s.place("b", "n")
		s.tick(10 * time.Second)
		if !tampered {
			s.gone("pods", "b")
		}
		s.tick(time.Second)
		if tampered {
			s.gone("pods", "b")
		}
	}},
	{"accounted", "a pod never comes", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("a", "1", "", "")
		s.place("a", "n")
		if tampered {
			fmt.Fprintln(&s.workload, `---
{"kind": "Job", "metadata": {"name": "j", "namespace": "d"}, "spec": {"parallelism": 1, "completions": 2}}`)
		}
	}},
	{"accounted", "a pod that nobody made", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("a", "1", "", "")
		s.place("a", "n")
		if tampered {
			s.object("pods", "b", "{'spec': {'schedulerName': 'nobody'}}")
		}
	}},
	{"forgotten", "a pod waits and there is room", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("a", pick(tampered, "2", "3"), "", "")
	}},
	{"forgotten", "a gang waits and there is room", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.node("m", pick(tampered, "2500m", "1"), "y", "")
		s.gang("g", 4, 4, "")
	}},
	{"forgotten", "a gang waits and there is room in a zone", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.node("m", "2", pick(tampered, "x", "y"), "")
		s.gang("g", 4, 4, "'rollcall.dev/topology-required': 'zone'")
	}},
}
