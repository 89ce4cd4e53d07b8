package scheduler

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/cluster/volumes"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
)

// profiles are the plugins of one configuration.
type profiles struct {
	config  []byte // the configuration, as logged
	byName  map[string]*framework.Profile
	volumes map[string]*volumes.Recorder // by profile; what the running cycle reserves
	// otherPermits says that some profile has a Permit plugin beside the gang plugin.
	otherPermits bool
	// By profile: it filters nodes by all resources, so that too little free in all means no place.
	roomChecked map[string]bool
	victims     map[string]framework.VictimPolicy // by profile
}

func noProfiles(config []byte) *profiles {
	return &profiles{
		config: config, byName: map[string]*framework.Profile{},
		volumes: map[string]*volumes.Recorder{}, roomChecked: map[string]bool{},
		victims: map[string]framework.VictimPolicy{},
	}
}

func (all *profiles) add(prof *framework.Profile) {
	all.byName[prof.Name()] = prof
	all.otherPermits = all.otherPermits || plansGangs(prof) && len(prof.Plugins(framework.Permit)) > 1
}

// of returns the profile that schedules pod, nil if that is another scheduler's.
func (all *profiles) of(pod *v1.Pod) *framework.Profile { return all.byName[pod.Spec.SchedulerName] }

// newProfiles makes the plugins of all profiles of a configuration. The context that they are made with ends when
// others are made in their place.
func (m *Machine) newProfiles(cfg *config.KubeSchedulerConfiguration) ([]*framework.Profile, error) {
	if m.unmake != nil {
		m.unmake()
	}
	made, unmake := context.WithCancel(m.ctx)
	m.unmake = unmake
	profiles := make([]*framework.Profile, len(cfg.Profiles))
	m.cluster.Devices().ScoreBy(scoredResources(cfg))
	for i := range cfg.Profiles {
		var err error
		if profiles[i], err = m.newProfile(made, cfg, i); err != nil {
			return nil, err
		}
	}
	return profiles, sameQueueSort(profiles, cfg)
}

// scoredResources returns the resources that the plugins of a configuration use to score nodes, sorted.
func scoredResources(cfg *config.KubeSchedulerConfiguration) (names []v1.ResourceName) {
	add := func(specs []config.ResourceSpec) {
		for _, r := range specs {
			names = append(names, v1.ResourceName(r.Name))
		}
	}
	for _, profile := range cfg.Profiles {
		for _, plugin := range profile.PluginConfig {
			switch args := plugin.Args.(type) {
			case *config.NodeResourcesFitArgs:
				if args.ScoringStrategy != nil {
					add(args.ScoringStrategy.Resources)
				}
			case *config.NodeResourcesBalancedAllocationArgs:
				add(args.Resources)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// newProfile makes the i-th profile's plugins and gives them the Machine's state to look at. made is for the life of
// the plugins.
func (m *Machine) newProfile(made context.Context, cfg *config.KubeSchedulerConfiguration, i int) (*framework.Profile,
	error) {
	// Whether NodeResourcesFit filters is known only once the profile is there, and the plugins are made with it.
	view := &gangsOfProfile{machine: m}
	var apart bool
	prof, err := framework.NewProfile(made, m.registry, cfg.Profiles[i], framework.World{
		Lister:    m.cluster,
		Informers: m.cluster.Informers().Factory(),
		CSI:       m.cluster.Informers().CSI(),
		DRA:       m.cluster.Devices(),
		Waiting:   m.waits.pods,
		Nominator: m.nominated,
		Version:   func() uint64 { return m.cluster.Changed(cluster.PluginInputs) },
		Changed:   m.cluster.Nodes().ChangedSince,
		Claims:    m.cluster.Devices().AppendClaims,
		Removed:   cluster.KeepPorts,
		Now:       func() time.Time { return m.at.now.Std() },
		Reserved:  func(pod *v1.Pod) *framework.Reserved { return m.refusalOf(pod, apart) },
		Gangs:     view,
		Evictions: view,
		Victims:   func() framework.VictimPolicy { return m.profiles.victims[cfg.Profiles[i].SchedulerName] },
		Activate:  m.wanted.add,
		Events:    m.recorded.events,
		Extenders: func(pod *v1.Pod) *framework.Verdict { return m.extenders.verdict(pod) },
	})
	if err != nil {
		return nil, err
	}
	if err := wholeGangPlugin(prof); err != nil {
		return nil, err
	}
	if plugin, ok := prof.Plugin(coscheduling.Name).(*coscheduling.Coscheduling); ok &&
		plugin.MostSeconds() > mostSeconds {
		return nil, fmt.Errorf("profile %q: CoschedulingArgs: podGroupBackoffSeconds or backfillHoldSeconds is %d: "+
			"want %d "+
			"or less", prof.Name(), plugin.MostSeconds(), mostSeconds)
	}
	if m.profiles.victims[prof.Name()], err = m.victimPolicyOf(prof); err != nil {
		return nil, fmt.Errorf("profile %q: CoschedulingArgs: %w", prof.Name(), err)
	}
	apart = prof.Plugin(interpodaffinity.Name) != nil
	view.gangs = plansGangs(prof)
	view.fits = checksRoom(prof, &cfg.Profiles[i])
	lacks := func(name string) bool { return !prof.Has(framework.Filter, name) }
	view.byNode = !slices.ContainsFunc(filtersByNode, lacks)
	m.profiles.roomChecked[prof.Name()] = view.fits
	recorder, ok, err := volumes.Record(prof.Plugin(volumebinding.Name))
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w", prof.Name(), err)
	}
	if ok {
		m.profiles.volumes[prof.Name()] = recorder
	}
	return prof, nil
}

// mostSeconds is the longest time that a configuration can ask for: 100 years.
const mostSeconds = 100 * 365 * 24 * 60 * 60

// checkSeconds refuses times that could leave the range of a log's time.
func checkSeconds(cfg *config.KubeSchedulerConfiguration) error {
	for _, row := range []struct {
		name    string
		seconds int64
	}{
		{"podInitialBackoffSeconds", cfg.PodInitialBackoffSeconds}, {"podMaxBackoffSeconds", cfg.PodMaxBackoffSeconds},
	} {
		if row.seconds > mostSeconds {
			return fmt.Errorf("%s is %d: want %d or less", row.name, row.seconds, mostSeconds)
		}
	}
	return nil
}

// groupBackoff is the gang plugin's podGroupBackoffSeconds.
func groupBackoff(p *framework.Profile) time.Duration {
	if plugin, ok := p.Plugin(coscheduling.Name).(*coscheduling.Coscheduling); ok {
		return plugin.PodGroupBackoff()
	}
	return 0
}

// wholeGangPlugin checks that a profile runs the gang plugin at all the points that make gangs, or at none. With only
// some of them, members would wait for a gang that is never placed.
func wholeGangPlugin(p *framework.Profile) error {
	points := []framework.ExtensionPoint{
		framework.PreEnqueue,
		framework.PostFilter,
		framework.Reserve,
		framework.Permit,
	}
	runs := func(point framework.ExtensionPoint) bool { return p.Has(point, coscheduling.Name) }
	i := slices.IndexFunc(points, runs)
	j := slices.IndexFunc(points, func(point framework.ExtensionPoint) bool { return !runs(point) })
	if i >= 0 && j >= 0 {
		return fmt.Errorf(
			"profile %q runs %s at %s but not at %s: enable it at all of %v, or at none of them",
			p.Name(),
			coscheduling.Name,
			points[i],
			points[j],
			points,
		)
	}
	return nil
}

// volumesReserved returns the decisions of the cycle's Reserve about the pod's claims.
func (all *profiles) volumesReserved(prof *framework.Profile) []eventlog.VolumeClaim {
	if recorder, ok := all.volumes[prof.Name()]; ok {
		return recorder.Captured()
	}
	return nil
}

// forgetVolumes makes the next cycle start with no volumes reserved.
func (all *profiles) forgetVolumes(prof *framework.Profile) {
	if recorder, ok := all.volumes[prof.Name()]; ok {
		recorder.Reset()
	}
}

// plansGangs reports whether the profile treats the members of a group as one.
func plansGangs(p *framework.Profile) bool {
	return p != nil && p.Has(framework.Permit, coscheduling.Name)
}

// checksRoom reports whether the profile filters nodes by all free resources, so that too little free in all means
// that a gang cannot be placed.
func checksRoom(p *framework.Profile, cfg *config.KubeSchedulerProfile) bool {
	args, ok := argsOf(cfg, noderesources.Name).(*config.NodeResourcesFitArgs)
	ignores := ok && len(args.IgnoredResources)+len(args.IgnoredResourceGroups) > 0
	return !ignores && p.Has(framework.Filter, noderesources.Name)
}

func argsOf(cfg *config.KubeSchedulerProfile, plugin string) runtime.Object {
	for _, c := range cfg.PluginConfig {
		if c.Name == plugin {
			return c.Args
		}
	}
	return nil
}

// sameQueueSort holds, as kube-scheduler does, that all profiles order the one queue by the same plugin with the
// same arguments.
func sameQueueSort(profiles []*framework.Profile, cfg *config.KubeSchedulerConfiguration) error {
	first := profiles[0].Plugins(framework.QueueSort)[0]
	for i, p := range profiles {
		name := p.Plugins(framework.QueueSort)[0]
		if name != first {
			return fmt.Errorf(
				"profile %q orders the queue by %s, profile %q by %s: all profiles must have the same QueueSort plugin",
				profiles[0].Name(),
				first,
				p.Name(),
				name,
			)
		}
		if _, ok := p.Plugin(name).(framework.OrdersWithoutArgs); ok {
			continue
		}
		if !reflect.DeepEqual(argsOf(&cfg.Profiles[0], first), argsOf(&cfg.Profiles[i], first)) {
			return fmt.Errorf(
				"profiles %q and %q give the QueueSort plugin %s different arguments: they must be the same",
				profiles[0].Name(),
				p.Name(),
				name,
			)
		}
	}
	return nil
}

var (
	_ framework.Gangs     = (*gangsOfProfile)(nil)
	_ framework.Evictions = (*gangsOfProfile)(nil)
)

// gangsOfProfile is the view of the cluster for the gang plugin of one profile, and for preemption.
type gangsOfProfile struct {
	machine     *Machine
	gangs, fits bool
	byNode      bool // it has filtersByNode
}

// State implements framework.Evictions.
func (g *gangsOfProfile) State() *cluster.State { return g.machine.cluster }

// GangPlugin implements framework.Evictions.
func (g *gangsOfProfile) GangPlugin() string {
	if g.gangs {
		return coscheduling.Name
	}
	return ""
}

// DomainsAnew implements framework.Evictions.
func (g *gangsOfProfile) DomainsAnew(group *cluster.Group, within []string) (nodes [][]string, limited bool) {
	required, _ := group.Topology()
	if len(required) == 0 {
		return nil, false
	}
	domains := g.machine.topology.domainsWithin(required, within)
	if counted := group.Gang(); counted.KeepsNodes() {
		own := holding(group, domains)
		domains = slices.DeleteFunc(domains, func(d *domain) bool { return d != own })
	}
	return namesOf(domains), true
}

// DomainsBelow implements framework.Evictions.
func (g *gangsOfProfile) DomainsBelow(c *cluster.Composite, within []string) (nodes [][]string, limited bool) {
	required := c.Topology()
	if len(required) == 0 {
		return nil, false
	}
	domains := g.machine.topology.domainsWithin(required, within)
	for _, group := range c.Gangs() {
		if counted := group.Gang(); counted.KeepsNodes() {
			own := holding(group, domains)
			domains = slices.DeleteFunc(domains, func(d *domain) bool { return d != own })
		}
	}
	return namesOf(domains), true
}

func namesOf(domains []*domain) (nodes [][]string) {
	for _, d := range domains {
		nodes = append(nodes, d.names)
	}
	return nodes
}

// filtersByNode are the plugins that refuse a node which package room excludes for a pod, besides the plugin for
// resources.
var filtersByNode = []string{nodeaffinity.Name, nodeunschedulable.Name, tainttoleration.Name}

// TakesEmpty implements framework.Evictions.
func (g *gangsOfProfile) TakesEmpty(pods []*cluster.Pod, wanted int) bool {
	m := g.machine
	if !g.fits || !g.byNode || m.registry.NoClasses {
		return true
	}
	return m.backfill.TakesEmpty(pods, wanted)
}

// TakesCleared implements framework.Evictions. Pods that were asked to go leave as well, and are not counted if they
// are as important: while there is one of these, the answer is yes.
func (g *gangsOfProfile) TakesCleared(pods []*cluster.Pod, wanted int, priority int32, count bool) bool {
	m := g.machine
	if !g.fits || !g.byNode || m.registry.NoClasses {
		return true
	}
	if m.backfill.TakesCleared(pods, wanted, priority, count) {
		return true
	}
	// any order: one is enough
	for uid := range m.effects.evicting {
		if p := m.cluster.Pods().Get(uid); p != nil && p.Node != "" && p.CountedPriority() >= priority {
			return true
		}
	}
	return false
}

// KeepsMemos implements framework.Evictions.
func (g *gangsOfProfile) KeepsMemos() bool { return !g.machine.registry.NoClasses }

// Going implements framework.Evictions.
func (g *gangsOfProfile) Going(uid types.UID) bool { return g.machine.effects.has(uid, Evict) }

// Spared implements framework.Evictions.
func (g *gangsOfProfile) Spared(uid types.UID) bool {
	return g.machine.effects.spared(uid, g.machine.at.now)
}

// NominatedNode implements framework.Evictions.
func (g *gangsOfProfile) NominatedNode(uid types.UID) string { return g.machine.nominated.nodeOf(uid) }

// Extended implements framework.Evictions.
func (g *gangsOfProfile) Extended(pod *v1.Pod) *framework.PreemptVerdict {
	return g.machine.preemptVerdict(pod)
}

// InVain implements framework.Evictions.
func (g *gangsOfProfile) InVain(uid types.UID) (nodes []string, exhausted bool) {
	nodes = g.machine.extenders.vain[uid]
	return nodes, len(nodes) >= maxVain
}

// GroupOf implements framework.Gangs.
func (g *gangsOfProfile) GroupOf(pod *v1.Pod) *cluster.Group {
	return g.machine.cluster.Gangs().OfPod(pod)
}

// Left implements framework.Gangs.
func (g *gangsOfProfile) Left(group *cluster.Group) int { return g.machine.entities.left(group) }

// HeldByOthers implements framework.Gangs.
func (g *gangsOfProfile) HeldByOthers() bool { return g.machine.waits.pods.HeldInCycle() }

// Cleared implements framework.Gangs.
func (g *gangsOfProfile) Cleared(group *cluster.Group) int { return g.machine.waits.cleared(group) }

// Lacks implements framework.Gangs.
func (g *gangsOfProfile) Lacks(group *cluster.Group) (cluster.Shortfall, bool) {
	if !g.fits {
		return cluster.Shortfall{}, false
	}
	return g.machine.cluster.Lacks(group)
}

// LacksTogether implements framework.Gangs.
func (g *gangsOfProfile) LacksTogether(c *cluster.Composite) (cluster.Shortfall, bool) {
	if !g.fits {
		return cluster.Shortfall{}, false
	}
	return g.machine.cluster.LacksTogether(c)
}
