package scheduler

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
)

// newProfile makes the i-th profile's plugins and gives them the Machine's state to look at.
func (m *Machine) newProfile(cfg *config.KubeSchedulerConfiguration, i int) (*framework.Profile, error) {
	// Whether NodeResourcesFit filters is known only once the profile is there, and the plugins are made with it.
	view := &gangsOfProfile{cluster: m.cluster}
	prof, err := framework.NewProfile(m.ctx, m.registry, cfg.Profiles[i], framework.World{
		Lister:    m.cluster,
		Informers: m.cluster.Informers().Factory(),
		CSI:       m.cluster.Informers().CSI(),
		DRA:       m.cluster.Informers().DRA(),
		Waiting:   m.waiting,
		Version:   m.cluster.Version,
		Now:       func() time.Time { return m.now.Std() },
		Extra:     view,
	})
	if err != nil {
		return nil, err
	}
	view.fits = checksRoom(prof)
	recorder, ok, err := cluster.RecordVolumes(prof.Plugin(volumebinding.Name))
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w", prof.Name(), err)
	}
	if ok {
		m.volumes[prof.Name()] = recorder
	}
	return prof, nil
}

// volumesReserved returns what the cycle's Reserve has settled about the pod's claims.
func (m *Machine) volumesReserved(prof *framework.Profile) []eventlog.VolumeClaim {
	if recorder, ok := m.volumes[prof.Name()]; ok {
		return recorder.Captured()
	}
	return nil
}

// forgetVolumes has the next cycle begin with nothing settled.
func (m *Machine) forgetVolumes(prof *framework.Profile) {
	if recorder, ok := m.volumes[prof.Name()]; ok {
		recorder.Reset()
	}
}

// plansGangs says whether the profile treats the members of a group as one.
func plansGangs(p *framework.Profile) bool {
	return p != nil && p.Has(framework.Permit, coscheduling.Name)
}

// checksRoom says whether the profile filters nodes by free resources, so that too little free in all means
// that a gang cannot be placed.
func checksRoom(p *framework.Profile) bool {
	return p != nil && p.Has(framework.Filter, noderesources.Name)
}

var _ coscheduling.Groups = (*gangsOfProfile)(nil)

// gangsOfProfile is what the gang plugin of one profile sees of the cluster.
type gangsOfProfile struct {
	cluster *cluster.State
	fits    bool
}

// GroupOf implements coscheduling.Groups.
func (g *gangsOfProfile) GroupOf(pod *v1.Pod) *cluster.Group { return g.cluster.GroupOf(pod) }

// Lacks implements coscheduling.Groups.
func (g *gangsOfProfile) Lacks(group *cluster.Group) (cluster.Shortfall, bool) {
	if !g.fits {
		return cluster.Shortfall{}, false
	}
	return g.cluster.Lacks(group)
}
