package scheduler

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/framework/gates"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/internal/canonical"
	"github.com/rollcall-sched/rollcall/internal/room"
	"github.com/rollcall-sched/rollcall/queue"
)

// startEpoch begins an epoch. If the configuration differs from the one before, plugins are made again.
func (m *Machine) startEpoch(p *eventlog.EpochStarted) error {
	if err := m.setBehaviour(p.Behaviour); err != nil {
		return err
	}
	switch {
	case m.queue == nil:
		if err := m.configure(p.Config); err != nil {
			return &ConfigError{err}
		}
	case string(p.Config) != string(m.profiles.config):
		return m.reconfigure(p.Config)
	}
	return nil
}

// ConfigError means that an epoch's configuration cannot be started, for example because it names a plugin that the
// registry does not have. It says something about the program, not about the log.
type ConfigError struct{ Err error }

// Error implements error.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// configure puts the configuration's feature gates in force, and makes the profiles and an empty queue over a new
// cluster, which is empty.
func (m *Machine) configure(data []byte) error {
	cfg, err := framework.LoadConfig(data, "the log's configuration")
	if err != nil {
		return err
	}
	if err := checkSeconds(cfg.KubeSchedulerConfiguration); err != nil {
		return err
	}
	// The cluster and the plugins heed gates when they are made, and while they work.
	if err := gates.Put(cfg.FeatureGates); err != nil {
		return err
	}
	m.gates = cfg.FeatureGates
	m.cluster = cluster.New()
	m.waits = newWaits(m.cluster, &m.effects, m.bindings, m.Now)
	m.cluster.Informers().Declare(cfg.PluginResources)
	m.profiles = noProfiles(data)
	m.entities = &entities{cluster: m.cluster, profiles: m.profiles}
	m.forgetQuestions()
	m.extenders = newExtenders(cfg.Extenders, m.Now)
	profiles, err := m.newProfiles(cfg.KubeSchedulerConfiguration)
	if err != nil {
		return err
	}
	table := room.NewTable(m.cluster)
	table.CompareTolerations(comparesTolerations())
	check := &roomCheck{cluster: m.cluster, table: table, profiles: m.profiles, entities: m.entities,
		nominated: m.nominated, guard: m.guard}
	options := queue.Options{
		InitialBackoff: time.Duration(cfg.PodInitialBackoffSeconds) * time.Second,
		MaxBackoff:     time.Duration(cfg.PodMaxBackoffSeconds) * time.Second,
		Profiles:       map[string]queue.Profile{},
		Outside:        []string{framework.ExtenderName},
		Priority:       m.entities.priorityOf,
		Room:           check.has,
		RoomVersion:    check.version,
		Part:           m.entities.partOf,
		PopEarly:       m.gates.On(gates.PopFromBackoffQ),
		Need:           check.needOf,
		MayHaveRoom:    check.mayHave,
	}
	m.planLanes(profiles, table, check)
	policies := &lanePolicies{made: m.registry.LanePolicies, view: policyView{m}, planner: m.backfill,
		byName: map[string]lanePolicy{}}
	for _, prof := range profiles {
		hints, err := prof.Hints()
		if err != nil {
			return err
		}
		m.profiles.add(prof)
		options.Outside = append(options.Outside, prof.ByTime()...)
		options.GatesByTime = options.GatesByTime || prof.GatesByTime()
		policy, err := policies.of(prof)
		if err != nil {
			return err
		}
		options.Profiles[prof.Name()] = queue.Profile{
			PreEnqueue: prof.PreEnqueue(), Hints: hints, GroupBackoff: groupBackoff(prof), Lanes: policy,
		}
		options.Less = prof.Less()
	}
	if m.queue, err = queue.New(options); err != nil {
		return err
	}
	m.entities.queue, m.topology.queue = m.queue, m.queue
	m.nominated.entities, m.waits.entities = m.entities, m.entities
	m.cluster.SetMine(func(schedulerName string) bool { return m.profiles.byName[schedulerName] != nil })
	return nil
}

// planLanes makes the Planner of the profiles' lanes, and what it asks.
func (m *Machine) planLanes(profiles []*framework.Profile, table *room.Table, check *roomCheck) {
	m.topology = &topology{cluster: m.cluster, nominated: m.nominated, table: table, now: m.Now, guard: m.guard}
	var lanes []backfill.Lane
	for _, prof := range profiles {
		if lane, ok := plannedLane(prof); ok {
			lanes = append(lanes, lane)
		}
	}
	m.backfill = backfill.New(m.planView(check), table, lanes...)
	m.nominated.planner = m.backfill
	check.topology, check.planner = m.topology, m.backfill
}

// reconfigure begins an epoch with another configuration. The cluster and the waiting pods stay as they are, and so do
// the times, attempts and backoffs of pods and gangs. Entities that were unschedulable are tried again, since other
// plugins may answer differently. An attempt under way is broken off.
func (m *Machine) reconfigure(data []byte) error {
	state, err := m.cluster.AppendState(nil)
	if err != nil {
		return fmt.Errorf("change the configuration: %w", err)
	}
	waiting, old, before := m.cluster.Waits().AppendState(nil), m.queue, m.cluster
	// Plugins are made over an empty cluster and then receive its objects, as when the log began.
	if err := m.configure(data); err != nil {
		return &ConfigError{err}
	}
	if err := m.cluster.TakeOver(before); err != nil {
		return fmt.Errorf("change the configuration: %w", err)
	}
	if err := m.cluster.Restore(canonical.NewReader(state)); err != nil {
		return fmt.Errorf("change the configuration: %w", err)
	}
	m.noteReturned()
	if err := m.cluster.RestoreWaits(canonical.NewReader(waiting)); err != nil {
		return fmt.Errorf("change the configuration: %w", err)
	}
	m.queue.SetTime(m.at.now)
	for _, p := range m.cluster.Pods().All() {
		if m.entities.awaitsResize(p) {
			m.queue.Add(resizeKey(p), p.Object)
		}
		if p.Stage == cluster.Bound || m.profiles.of(p.Object) == nil ||
			p.Stage == cluster.Pending && !p.MayBePlaced() {
			continue
		}
		key := m.entities.keyOf(p)
		m.queue.Add(key, p.Object)
		if p.Stage != cluster.Pending {
			m.queue.MarkPlaced(key, p.Object.UID)
		}
	}
	m.queue.Inherit(old)
	m.nominated.forgetStrangers()
	m.bindings.reopen(true)
	return nil
}

// objectIn returns a function that returns the pod of a UID, nil if there is none.
func objectIn(c *cluster.State) func(types.UID) *v1.Pod {
	return func(uid types.UID) *v1.Pod {
		if p := c.Pods().Get(uid); p != nil {
			return p.Object
		}
		return nil
	}
}
