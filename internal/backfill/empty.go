package backfill

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/room"
)

// emptyRoom is how many pods of each shape all nodes would take together if nothing ran there. Most gangs that can
// never fit ask for pods of one shape: for those the answer needs no Outlook, and is found for all gangs of the shape
// at once. When a node changes, that node alone is looked at again. It is a memo only.
type emptyRoom struct {
	known       bool
	version     uint64     // View.Version
	changes     uint64     // of the View's ChangedSince, when version was met
	listVersion uint64     // View.ListVersion then
	nodes       []*v1.Node // as they were counted
	shapes      map[string]*shape
	counted     int // how often a node was looked at for a shape, see Work
}

// shape is pods that ask for the same.
type shape struct {
	like      *cluster.Pod // one of them
	resources []v1.ResourceName
	needs     []int64
	devices   []bool // by resource: whether it stood for devices
	on        []int64
	total     int64
	// passed is the fewest pods that some entity wants which was passed over for want of room, 0 for none.
	passed int64
}

// maxShapes bounds the shapes that are remembered.
const maxShapes = 4096

// shapeOf returns the shape of pods that are alike; ok is false for others.
func (p *Planner) shapeOf(pods []*cluster.Pod) (s *shape, ok bool) {
	if len(pods) == 0 || !room.Interchangeable(pods) {
		return nil, false
	}
	first, names := pods[0], room.ResourcesOf(pods[:1])
	var key strings.Builder
	for _, name := range names {
		key.WriteString(string(name) + "=" + strconv.FormatInt(first.Amount(name), 10) + " ")
	}
	spec := &first.Object.Spec
	var affinity *v1.NodeSelector
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	asks, err := json.Marshal([]any{spec.NodeSelector, affinity, spec.Tolerations})
	if err != nil {
		return nil, false
	}
	key.Write(asks)
	e := &p.empty
	if s = e.shapes[key.String()]; s != nil {
		return s, true
	}
	if len(e.shapes) >= maxShapes {
		return nil, false
	}
	if e.shapes == nil {
		e.shapes = map[string]*shape{}
	}
	like := *first // its object may become another one
	s = &shape{like: &like, resources: names}
	for _, name := range names {
		s.needs = append(s.needs, first.Amount(name))
	}
	e.shapes[key.String()] = s
	return s, true
}

// emptyFor returns how many pods of a shape all nodes would take if nothing ran there.
func (p *Planner) emptyFor(s *shape) int64 {
	p.refreshEmpty()
	if s.on == nil {
		p.countShape(s)
	}
	return s.total
}

// TakesEmpty reports whether all nodes together might take so many of the pods if nothing ran there. A no is certain,
// as far as requests, selectors, required affinity and taints say; of pods that are not alike the answer is yes.
func (p *Planner) TakesEmpty(pods []*cluster.Pod, wanted int) bool {
	if len(p.empty.shapes) >= maxShapes {
		p.forgetEmpty()
	}
	if slices.ContainsFunc(pods, comparesTaints) {
		return true // whether such a toleration counts depends on a feature gate
	}
	s, ok := p.shapeOf(pods)
	return !ok || p.emptyFor(s) >= int64(wanted)
}

// comparesTaints reports whether a pod has a toleration that is neither for a value nor for any.
func comparesTaints(pod *cluster.Pod) bool {
	return slices.ContainsFunc(pod.Object.Spec.Tolerations, func(t v1.Toleration) bool {
		return t.Operator != "" && t.Operator != v1.TolerationOpEqual && t.Operator != v1.TolerationOpExists
	})
}

// refreshEmpty brings all shapes up to date.
func (p *Planner) refreshEmpty() {
	e, version := &p.empty, p.view.Version()
	if e.known && e.version == version {
		return
	}
	list, _ := p.view.Nodes().List()
	changed, same := p.changedNodes(list)
	e.known, e.version = true, version
	// any order: each by itself
	for _, s := range e.shapes {
		switch {
		case s.on == nil:
		case !same || p.standsOtherwise(s):
			p.countShape(s)
		default:
			for _, i := range changed {
				p.countOn(s, i, list[i])
			}
		}
	}
}

// changedNodes takes note of the nodes as they are, and returns the places of those that were others. It returns false
// if nodes have come or gone.
func (p *Planner) changedNodes(list []fwk.NodeInfo) (changed []int, same bool) {
	e, listVersion := &p.empty, p.view.ListVersion()
	places, now, told := p.view.Nodes().ChangedSince(e.changes)
	told = told && e.known && listVersion == e.listVersion // otherwise the places may be those of another list
	e.changes, e.listVersion = now, listVersion
	look := func(i int) {
		if node := list[i].Node(); e.nodes[i] != node {
			changed = append(changed, i)
			e.nodes[i] = node
		}
	}
	if told {
		for _, i := range places {
			look(int(i))
		}
		return changed, true
	}
	if e.known && slices.EqualFunc(list, e.nodes, func(info fwk.NodeInfo, node *v1.Node) bool {
		return info.Node().Name == node.Name
	}) {
		for i := range list {
			look(i)
		}
		return changed, true
	}
	e.nodes = e.nodes[:0]
	for _, info := range list {
		e.nodes = append(e.nodes, info.Node())
	}
	return nil, false
}

// standsOtherwise reports whether one of the shape's resources has come to stand for devices, or to do so no more.
func (p *Planner) standsOtherwise(s *shape) bool {
	for k, name := range s.resources {
		if p.view.Devices().Stands(name) != s.devices[k] {
			return true
		}
	}
	return false
}

func (p *Planner) countShape(s *shape) {
	list, _ := p.view.Nodes().List()
	s.on, s.total, s.devices = make([]int64, len(list)), 0, make([]bool, len(s.resources))
	for k, name := range s.resources {
		s.devices[k] = p.view.Devices().Stands(name)
	}
	for i, info := range list {
		p.countOn(s, i, info)
	}
}

// countOn counts a node anew.
func (p *Planner) countOn(s *shape, i int, info fwk.NodeInfo) {
	p.empty.counted++
	takes := int64(0)
	if p.table.MayRunOn(s.like, info.Node()) {
		takes = -1
		for k, name := range s.resources {
			allocatable, _ := p.view.AmountOn(info, name)
			if need := s.needs[k]; need > 0 && (takes < 0 || allocatable/need < takes) {
				takes = max(0, allocatable/need)
			}
		}
		takes = max(0, takes)
	}
	s.total = cluster.AddUpTo(s.total-s.on[i], takes)
	s.on[i] = takes
}

// forgetEmpty forgets all shapes, and which entities were passed over because of one.
func (p *Planner) forgetEmpty() {
	p.empty = emptyRoom{counted: p.empty.counted}
	clear(p.cleared)
	// any order: each by itself
	for profile, l := range p.lanes {
		l.room = nil
		p.view.ForgetPassed(profile)
	}
}

// recallPassed has entities that were passed over looked at again, if there may be room for some of them by now.
func (p *Planner) recallPassed() {
	if len(p.empty.shapes) >= maxShapes {
		p.forgetEmpty() // most of them may be of entities that are gone
	}
	p.refreshEmpty()
	again := false
	// any order: each by itself
	for _, s := range p.empty.shapes {
		if s.passed > 0 && s.on != nil && s.total >= s.passed {
			again = true
		}
	}
	if !again {
		return
	}
	// any order: each by itself
	for _, s := range p.empty.shapes {
		s.passed = 0
	}
	// any order: each by itself
	for profile := range p.lanes {
		p.view.ForgetPassed(profile)
	}
}
