package auditor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// stage is a stage of a pod's life.
type stage int

const (
	pending stage = iota
	held          // on a node, by a Decision of outcome Waiting
	going         // on a node permanently: scheduled, or allowed to continue
	bound         // and its bind is known to have succeeded, or it arrived with a node
	ended         // it has succeeded or failed, and holds nothing
)

// pod is a pod as far as the log has described it.
type pod struct {
	object    *podObject
	uid, name string // name is namespace/name
	gang      string // namespace/name of its gang, "" for none
	naming    naming // the way in which it names its gang
	requests  amounts
	arrived   time.Time
	arrivedAt uint64    // the entry
	ready     time.Time // the time at which it first had no scheduling gates

	stage     stage
	node      string // "" without one
	placed    time.Time
	placedAt  uint64
	waitUntil time.Time
	nominated string // the node where room is kept for it
	own       bool   // a Decision nominated it there, and not its object alone
	came      bool   // it arrived with its node, or its end was checked
	boundAt   time.Time
	overstays bool // it was found on a node that should have evicted it
	leaving   bool // a Decision requested its eviction
	succeeded bool
	settles   map[string]string      // claims that its placement settles, with their volumes
	devices   map[string]*allocation // ResourceClaims, namespace/name, that its placement allocates devices to
}

// onNode reports whether the pod holds room on a node.
func (p *pod) onNode() bool { return p.node != "" && p.stage != ended }

// gated reports whether scheduling gates or its deletion keep the pod from being scheduled.
func (p *pod) gated() bool {
	return len(p.object.Spec.SchedulingGates) > 0 || p.object.Metadata.DeletionTimestamp != nil
}

// group is the knowledge about a gang, from its objects and its members.
type group struct {
	name        string
	core, extra *groupObject // the PodGroup of scheduling.k8s.io and of scheduling.x-k8s.io
	complete    time.Time    // the time at which it first had its minimum of members; zero if never
	wasPlaced   bool         // its minimum had nodes permanently since its members came
	succeeded   int          // members that succeeded since then
}

// state is the knowledge of a reader of the log.
type state struct {
	now        time.Time
	seq        uint64
	profiles   map[string]*profile
	backoff    time.Duration // the longest there is
	nodes      map[string]*nodeObject
	pods       map[string]*pod // by UID, the existing ones
	going      *pod            // the pod on a node whose deletion the present entry tells
	groups     map[string]*group
	composites map[string]*groupObject
	claims     map[string]*claimObject

	resourceClaims map[string]*resourceClaimObject
	slices         map[string]*sliceObject
	deviceClasses  map[string]*deviceClassObject
	inFlight       map[string]map[string]*allocation // the possible writes of binds whose pods have ended, by UID

	volumes    map[string]*volumeObject
	classes    map[string]*classObject
	priorities map[string]int32
	budgets    map[string]*budgetObject
}

// profile is the configuration for the pods of one scheduler name.
type profile struct {
	plugins map[string]bool
	policy  string        // BestEffort, StrictFIFO or Backfill
	hold    time.Duration // backfillHoldSeconds
}

func newState() *state {
	return &state{
		profiles: map[string]*profile{}, nodes: map[string]*nodeObject{}, pods: map[string]*pod{},
		groups: map[string]*group{}, composites: map[string]*groupObject{}, claims: map[string]*claimObject{},
		resourceClaims: map[string]*resourceClaimObject{}, slices: map[string]*sliceObject{},
		deviceClasses: map[string]*deviceClassObject{}, inFlight: map[string]map[string]*allocation{},
		volumes: map[string]*volumeObject{}, classes: map[string]*classObject{}, priorities: map[string]int32{},
		budgets: map[string]*budgetObject{},
	}
}

// sortedPods are the pods, by name and UID.
func (s *state) sortedPods() []*pod {
	var all []*pod
	for _, p := range s.pods {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pod) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.uid, b.uid))
	})
	return all
}

// sortedNodes are the names of the nodes.
func (s *state) sortedNodes() []string {
	var names []string
	for name := range s.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// on returns the pods that hold room on a node.
func (s *state) on(node string) (pods []*pod) {
	for _, p := range s.pods {
		if p.node == node && p.onNode() {
			pods = append(pods, p)
		}
	}
	return pods
}

// epoch adds the configuration of an epoch.
func (s *state) epoch(e *entry) error {
	var config configuration
	if err := json.Unmarshal(e.Config, &config); err != nil {
		return err
	}
	s.profiles = map[string]*profile{}
	s.backoff = time.Duration(max(config.PodMaxBackoffSeconds, config.PodInitialBackoffSeconds)) * time.Second
	for _, c := range config.Profiles {
		p := &profile{plugins: map[string]bool{}, policy: "BestEffort", hold: 15 * time.Minute}
		for _, plugin := range c.Plugins["multiPoint"].Enabled {
			p.plugins[plugin.Name] = true
		}
		for _, plugin := range c.Plugins["filter"].Disabled {
			p.plugins[plugin.Name] = false
		}
		for _, c := range c.PluginConfig {
			if c.Name != "Coscheduling" {
				continue
			}
			if c.Args.QueuePolicy != "" {
				p.policy = c.Args.QueuePolicy
			}
			s.backoff = max(s.backoff, time.Duration(c.Args.PodGroupBackoffSeconds)*time.Second)
			if n := c.Args.BackfillHoldSeconds; n != nil {
				p.hold = time.Duration(*n) * time.Second
			}
		}
		s.profiles[c.SchedulerName] = p
	}
	return nil
}

// upserted adds an object that came or changed.
func (s *state) upserted(e *entry) error {
	if e.Resource == "pods" {
		var o podObject
		if err := json.Unmarshal(e.Object, &o); err != nil {
			return err
		}
		s.podUpserted(&o)
		return nil
	}
	var err error
	switch e.Resource {
	case "nodes":
		err = keep(s.nodes, e.Object, func(o *nodeObject) string { return o.Metadata.Name })
	case "podgroups.scheduling.k8s.io", "podgroups.scheduling.x-k8s.io":
		var o groupObject
		if err = json.Unmarshal(e.Object, &o); err == nil {
			*s.groupAt(o.Metadata.fullName()).declared(e.Resource) = &o
		}
	case "compositepodgroups.scheduling.k8s.io":
		err = keep(s.composites, e.Object, func(o *groupObject) string { return o.Metadata.fullName() })
	case "resourceclaims.resource.k8s.io":
		err = keep(s.resourceClaims, e.Object, func(o *resourceClaimObject) string { return o.Metadata.fullName() })
	case "deviceclasses.resource.k8s.io":
		err = keep(s.deviceClasses, e.Object, func(o *deviceClassObject) string { return o.Metadata.Name })
	case "resourceslices.resource.k8s.io":
		err = keep(s.slices, e.Object, func(o *sliceObject) string { return o.Metadata.Name })
	case "persistentvolumeclaims":
		err = keep(s.claims, e.Object, func(o *claimObject) string { return o.Metadata.fullName() })
	case "persistentvolumes":
		err = keep(s.volumes, e.Object, func(o *volumeObject) string { return o.Metadata.Name })
	case "storageclasses.storage.k8s.io":
		err = keep(s.classes, e.Object, func(o *classObject) string { return o.Metadata.Name })
	case "poddisruptionbudgets.policy":
		err = keep(s.budgets, e.Object, func(o *budgetObject) string { return o.Metadata.fullName() })
	case "priorityclasses.scheduling.k8s.io":
		var o priorityClassObject
		if err = json.Unmarshal(e.Object, &o); err == nil {
			s.priorities[o.Metadata.Name] = o.Value
		}
	}
	return err
}

// keep reads an object and keeps it under its name.
func keep[T any](all map[string]*T, data []byte, name func(*T) string) error {
	o := new(T)
	if err := json.Unmarshal(data, o); err != nil {
		return err
	}
	all[name(o)] = o
	return nil
}

func (m *meta) fullName() string { return m.Namespace + "/" + m.Name }

// declared is the object of one of the two APIs.
func (g *group) declared(resource string) **groupObject {
	if resource == "podgroups.scheduling.k8s.io" {
		return &g.core
	}
	return &g.extra
}

func (s *state) groupAt(name string) *group {
	if s.groups[name] == nil {
		s.groups[name] = &group{name: name}
	}
	return s.groups[name]
}

// podUpserted adds a pod that came or changed.
func (s *state) podUpserted(o *podObject) {
	p := s.pods[o.Metadata.UID]
	if p == nil {
		p = &pod{uid: o.Metadata.UID, name: o.Metadata.fullName(), arrived: s.now, arrivedAt: s.seq}
		if naming, name := gangOf(o); name != "" {
			p.naming, p.gang = naming, o.Metadata.Namespace+"/"+name
			s.groupAt(p.gang)
		}
		s.pods[p.uid] = p
	}
	if p.object != nil && p.object.Metadata.DeletionTimestamp == nil && o.Metadata.DeletionTimestamp != nil &&
		p.node != "" {
		s.going = p
	}
	p.object, p.requests = o, requestsOf(&o.Spec)
	p.requests["pods"] = quantity{one}
	if p.ready.IsZero() && !p.gated() {
		p.ready = s.now
	}
	if o.Spec.NodeName != "" && p.stage < bound {
		p.stage, p.node, p.came, p.boundAt = bound, o.Spec.NodeName, true, s.now
	}
	if phase := o.Status.Phase; phase == "Succeeded" || phase == "Failed" {
		if p.stage != ended && phase == "Succeeded" && p.gang != "" {
			s.groups[p.gang].succeeded++
		}
		p.stage, p.succeeded = ended, phase == "Succeeded"
	}
}

// deleted adds the deletion of an object. It returns the pod, if it was an existing one.
func (s *state) deleted(e *entry) *pod {
	name := e.Namespace + "/" + e.Name
	switch e.Resource {
	case "pods":
		return s.deletedPod(e.UID)
	case "nodes":
		delete(s.nodes, e.Name)
		for _, p := range s.pods {
			if p.nominated == e.Name {
				p.nominated, p.own = "", false
			}
		}
	case "podgroups.scheduling.k8s.io", "podgroups.scheduling.x-k8s.io":
		*s.groupAt(name).declared(e.Resource) = nil
	case "compositepodgroups.scheduling.k8s.io":
		delete(s.composites, name)
	case "resourceclaims.resource.k8s.io":
		delete(s.resourceClaims, name)
	case "deviceclasses.resource.k8s.io":
		delete(s.deviceClasses, e.Name)
	case "resourceslices.resource.k8s.io":
		delete(s.slices, e.Name)
	case "persistentvolumeclaims":
		delete(s.claims, name)
	case "persistentvolumes":
		delete(s.volumes, e.Name)
	case "storageclasses.storage.k8s.io":
		delete(s.classes, e.Name)
	case "poddisruptionbudgets.policy":
		delete(s.budgets, name)
	case "priorityclasses.scheduling.k8s.io":
		delete(s.priorities, e.Name)
	}
	return nil
}

func (s *state) deletedPod(uid string) *pod {
	p := s.pods[uid]
	delete(s.pods, uid)
	if p != nil && p.stage == going && len(p.devices) > 0 {
		s.inFlight[p.uid] = p.devices
	}
	if p != nil && p.gang != "" && len(s.members(p.gang)) == 0 {
		g := s.groups[p.gang]
		g.wasPlaced, g.succeeded, g.complete = false, 0, time.Time{}
	}
	return p
}

// members are the pods of a gang that exist, by name.
func (s *state) members(gang string) (members []*pod) {
	for _, p := range s.sortedPods() {
		if gang != "" && p.gang == gang {
			members = append(members, p)
		}
	}
	return members
}

// release takes a pod off its node.
func (p *pod) release() {
	p.stage, p.node, p.waitUntil, p.settles, p.devices = pending, "", time.Time{}, nil, nil
}

// podOf returns the pod of a UID. The error names the UID if there is none.
func (s *state) podOf(uid string) (*pod, error) {
	if p := s.pods[uid]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("pod with UID %s is not there", uid)
}
