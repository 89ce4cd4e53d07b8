package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Profile is one profile of the configuration with its plugins, in order, and the code that runs them. It holds no
// scheduler state, only memory that is reused from cycle to cycle. Only one goroutine at a time may use it.
type Profile struct {
	name       string
	percentage int32
	world      World
	handle     *handle
	plugins    map[string]fwk.Plugin
	at         map[ExtensionPoint][]string // plugin names by extension point, in order

	preEnqueue []fwk.PreEnqueuePlugin
	queueSort  fwk.QueueSortPlugin
	preFilter  []entry[fwk.PreFilterPlugin]
	filter     []entry[fwk.FilterPlugin]
	postFilter []entry[fwk.PostFilterPlugin]
	preScore   []entry[fwk.PreScorePlugin]
	score      []scorer
	reserve    []entry[fwk.ReservePlugin]
	lasting    []entry[fwk.ReservePlugin] // the part of reserve that keeps its own reservations
	permit     []entry[fwk.PermitPlugin]
	preBind    []entry[fwk.PreBindPlugin]
	bind       []entry[fwk.BindPlugin]
	postBind   []entry[fwk.PostBindPlugin]
	signers    []entry[fwk.SignPlugin]
	unsigned   []int // ids of plugins that cannot sign: if there is any, no pod is signed

	ids          map[string]int // plugin ids by name
	prepared     []bool         // by plugin id: it is in preparesByTemplate
	claimless    []bool         // by plugin id: it is in skipsClaimless
	groupClaims  bool           // pods may have the claims of their PodGroup
	apart        []bool         // by plugin id: the plugin is outside every class
	bindingCycle bool           // some plugin takes part in binding cycles
	// unranked: some plugin's answer about a node may change although the node does not.
	unranked bool
	// uncounted: the same, or a plugin's PreFilter may change its answer about a pod; see Count.
	uncounted bool

	placeSurveyors []PlaceSurveyor

	stage   stage
	search  search
	classes classes

	evaluations, apartEvaluations int
	reservedAsked                 int // calls of Reserved.Why about ranked nodes
	ranked                        int // nodes filtered and scored for a ranking
	grouped                       int // searches that used groups
}

// entry is a plugin with its name and its number among the profile's plugins. Asking the plugin again would cost a
// call, or a map look-up.
type entry[T any] struct {
	plugin T
	name   string
	id     int
}

// scorer is a Score plugin and its weight.
type scorer struct {
	entry[fwk.ScorePlugin]
	weight int64
}

// NewProfile builds the plugins of cfg with the registry's factories, in the order of their names. cfg comes from
// LoadConfig. ctx lives as long as the plugins; see WithoutLogger.
//
// It returns an error where kube-scheduler does:
//
//   - a plugin does not exist, fails to start, is enabled twice, or does not implement the extension point;
//   - a plugin has arguments twice;
//   - weights could overflow;
//   - there is not exactly one QueueSort plugin, or no Bind plugin.
func NewProfile(ctx context.Context, registry Registry, cfg config.KubeSchedulerProfile, world World) (*Profile,
	error) {
	p, err := newProfile(ctx, registry, &cfg, world)
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w", cfg.SchedulerName, err)
	}
	return p, nil
}

func newProfile(ctx context.Context, registry Registry, cfg *config.KubeSchedulerProfile, world World) (*Profile,
	error) {
	if cfg.Plugins == nil {
		return nil, errors.New("it has no plugins: load it with LoadConfig")
	}
	if err := validateProfilePlugins(cfg, registry); err != nil {
		return nil, err
	}
	p := &Profile{
		name:       cfg.SchedulerName,
		percentage: defaultPercentage,
		world:      world,
		plugins:    make(map[string]fwk.Plugin),
		at:         make(map[ExtensionPoint][]string),
	}
	p.stage.SharedLister = world.Lister
	if cfg.PercentageOfNodesToScore != nil {
		p.percentage = *cfg.PercentageOfNodesToScore
	}
	var err error
	if p.handle, err = newHandle(p, registry.Outside); err != nil {
		return nil, err
	}
	if err := p.build(ctx, registry, cfg); err != nil {
		return nil, err
	}
	if err := p.arrange(cfg.Plugins); err != nil {
		return nil, err
	}
	p.bindingCycle = len(p.lasting) > 0 || p.callsBehind()
	p.prepareClasses(registry.NoClasses)
	p.findSigners()
	p.search.init(p)
	return p, nil
}

// build creates an instance of every plugin that is enabled for any extension point.
func (p *Profile) build(ctx context.Context, registry Registry, cfg *config.KubeSchedulerProfile) error {
	args := make(map[string]runtime.Object, len(cfg.PluginConfig))
	for _, c := range cfg.PluginConfig {
		if _, ok := args[c.Name]; ok {
			return fmt.Errorf("repeated config for plugin %q", c.Name)
		}
		args[c.Name] = c.Args
	}
	for _, name := range enabledNames(cfg.Plugins) {
		plugin, err := registry.Factories[name](ctx, args[name], p.handle)
		if err != nil {
			return fmt.Errorf("start plugin %q: %w", name, err)
		}
		if plugin.Name() != name {
			return fmt.Errorf("plugin %q calls itself %q: the log could not name it", name, plugin.Name())
		}
		p.plugins[name] = plugin
	}
	return nil
}

// enabledNames returns the names of the plugins that are enabled for any extension point, sorted.
func enabledNames(plugins *config.Plugins) []string {
	names := make(map[string]bool)
	for _, e := range plugins.MultiPoint.Enabled {
		names[e.Name] = true
	}
	for _, s := range pluginSets(plugins) {
		for _, e := range s.set.Enabled {
			names[e.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// arrange fills the list of plugins of each extension point.
func (p *Profile) arrange(cfg *config.Plugins) error {
	t := pluginTable{built: p.plugins, multi: cfg.MultiPoint.Enabled}
	ids := make(map[string]int, len(p.plugins))
	for i, name := range slices.Sorted(maps.Keys(p.plugins)) {
		ids[name] = i
	}
	p.ids = ids
	var scores []entry[fwk.ScorePlugin]
	var preEnqueue []entry[fwk.PreEnqueuePlugin]
	var queueSort []entry[fwk.QueueSortPlugin]
	err := errors.Join(
		fill(p, t, ids, PreEnqueue, cfg.PreEnqueue, &preEnqueue),
		fill(p, t, ids, QueueSort, cfg.QueueSort, &queueSort),
		fill(p, t, ids, PreFilter, cfg.PreFilter, &p.preFilter),
		fill(p, t, ids, Filter, cfg.Filter, &p.filter),
		fill(p, t, ids, PostFilter, cfg.PostFilter, &p.postFilter),
		fill(p, t, ids, PreScore, cfg.PreScore, &p.preScore),
		fill(p, t, ids, Score, cfg.Score, &scores),
		fill(p, t, ids, Reserve, cfg.Reserve, &p.reserve),
		fill(p, t, ids, Permit, cfg.Permit, &p.permit),
		fill(p, t, ids, PreBind, cfg.PreBind, &p.preBind),
		fill(p, t, ids, Bind, cfg.Bind, &p.bind),
		fill(p, t, ids, PostBind, cfg.PostBind, &p.postBind),
	)
	if err != nil {
		return err
	}
	p.orderPermit()
	p.findLasting()
	for _, e := range preEnqueue {
		p.preEnqueue = append(p.preEnqueue, e.plugin)
	}
	if len(queueSort) != 1 {
		return fmt.Errorf("exactly one QueueSort plugin is needed, it has %d %v: "+
			"disable the others under plugins.queueSort",
			len(queueSort), p.at[QueueSort])
	}
	p.queueSort = queueSort[0].plugin
	if len(p.bind) == 0 {
		return errors.New("at least one Bind plugin is needed, it has none")
	}
	weights, err := scoreWeights(t, cfg.Score)
	if err != nil {
		return err
	}
	for _, e := range scores {
		p.score = append(p.score, scorer{e, weights[e.name]})
	}
	return nil
}

// orderPermit moves the plugins that implement PermitsLast behind the others.
func (p *Profile) orderPermit() {
	last := func(e entry[fwk.PermitPlugin]) int {
		if _, ok := e.plugin.(PermitsLast); ok {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(p.permit, func(a, b entry[fwk.PermitPlugin]) int { return last(a) - last(b) })
	for i, e := range p.permit {
		p.at[Permit][i] = e.name
	}
}

func fill[T fwk.Plugin](
	p *Profile,
	t pluginTable,
	ids map[string]int,
	point ExtensionPoint,
	set config.PluginSet,
	to *[]entry[T],
) error {
	plugins, err := pick[T](t, point, set)
	if err != nil {
		return err
	}
	for _, plugin := range plugins {
		name := plugin.Name()
		*to = append(*to, entry[T]{plugin, name, ids[name]})
		p.at[point] = append(p.at[point], name)
	}
	return nil
}

// scoreWeights returns the weight of every Score plugin. A weight of 0 counts as 1. The weight in the Score list
// precedes the weight in MultiPoint. It returns an error if a total score could overflow an int64.
func scoreWeights(t pluginTable, set config.PluginSet) (map[string]int64, error) {
	weights := make(map[string]int64)
	var total int64
	for _, e := range slices.Concat(set.Enabled, t.multi) {
		if _, ok := t.built[e.Name].(fwk.ScorePlugin); !ok {
			continue
		}
		if _, ok := weights[e.Name]; ok {
			continue
		}
		w := int64(e.Weight)
		if w == 0 {
			w = 1
		}
		var err error
		if total, err = addWeight(total, w); err != nil {
			return nil, err
		}
		weights[e.Name] = w
	}
	return weights, nil
}

// addWeight returns the highest total that a node can reach with one more plugin of weight w.
func addWeight(total, w int64) (int64, error) {
	if w*fwk.MaxScore > fwk.MaxTotalScore-total {
		return 0, errors.New("total score of Score plugins could overflow")
	}
	return total + w*fwk.MaxScore, nil
}

// Name returns the schedulerName with which pods choose the profile.
func (p *Profile) Name() string { return p.name }

// PercentageOfNodesToScore returns the percentage of nodes that must be feasible before the search stops, 0 to 100. 0
// selects kube-scheduler's formula, which depends on the number of nodes.
func (p *Profile) PercentageOfNodesToScore() int32 { return p.percentage }

// Less returns the order of the scheduling queue.
func (p *Profile) Less() fwk.LessFunc { return p.queueSort.Less }

// PreEnqueue returns the plugins that decide whether a pod may enter the queue, in order.
func (p *Profile) PreEnqueue() []fwk.PreEnqueuePlugin { return p.preEnqueue }

// Plugins returns the names of the plugins of an extension point, in the order in which they run.
func (p *Profile) Plugins(point ExtensionPoint) []string { return slices.Clone(p.at[point]) }

// Has reports whether the plugin runs at the extension point.
func (p *Profile) Has(point ExtensionPoint, plugin string) bool {
	return slices.Contains(p.at[point], plugin)
}

// Plugin returns the instance with that name, nil if the profile has none.
func (p *Profile) Plugin(name string) fwk.Plugin { return p.plugins[name] }

// Evaluations returns two counts since the profile was created, for tests and benchmarks. filters counts the nodes on
// which the filters ran. apart counts the nodes about which a filter outside the class was asked.
func (p *Profile) Evaluations() (filters, apart int) { return p.evaluations, p.apartEvaluations }

// Handle returns the handle that the profile's plugins received.
func (p *Profile) Handle() Handle { return p.handle }

// Hints returns, by plugin name, the events that may make pods schedulable that the plugin refused. It has an entry for
// each plugin that can refuse a pod. An entry without events means that the plugin waits for none. A nil QueueingHintFn
// means that the event always may help. A plugin without EventsToRegister gets every event.
func (p *Profile) Hints() (map[string][]fwk.ClusterEventWithHint, error) {
	hints := make(map[string][]fwk.ClusterEventWithHint)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(p.plugins)) {
		plugin := p.plugins[name]
		ext, ok := plugin.(fwk.EnqueueExtensions)
		switch plugin.(type) {
		case fwk.PreEnqueuePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.ReservePlugin, fwk.PermitPlugin:
		case fwk.PreBindPlugin, fwk.BindPlugin:
			if p.isCarriedOut(name) {
				continue
			}
		case fwk.PostFilterPlugin:
			if !ok {
				continue
			}
		default:
			continue
		}
		if !ok {
			hints[name] = upstream.UnrollWildCardResource()
			continue
		}
		events, err := ext.EventsToRegister(WithoutLogger(context.Background()))
		if err != nil {
			errs = append(errs, fmt.Errorf("profile %q: events of plugin %q: %w", p.name, name, err))
			continue
		}
		hints[name] = events
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return hints, nil
}
