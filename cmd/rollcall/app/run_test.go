package app

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/engine/live"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/lease"
	"github.com/rollcall-sched/rollcall/kube/watch"
	"github.com/rollcall-sched/rollcall/scheduler"
)

func TestABindIsSentOnlyWhileItFits(t *testing.T) {
	for _, c := range []struct {
		name        string
		kind        scheduler.EffectKind
		pod         watch.Pod
		there, node bool
		want        string
	}{
		{"it fits", scheduler.Bind, watch.Pod{}, true, true, ""},
		{"no pod", scheduler.Bind, watch.Pod{}, false, true, "the pod is gone"},
		{"a pod that leaves", scheduler.Bind, watch.Pod{Terminating: true}, true, true, "the pod is being deleted"},
		{"a pod with a node", scheduler.Bind, watch.Pod{NodeName: "n2"}, true, true, "the pod is on node n2"},
		{"no node", scheduler.Bind, watch.Pod{}, true, false, "node n1 is gone"},
		{"a victim", scheduler.Evict, watch.Pod{NodeName: "n1"}, true, true, ""},
		{"no victim", scheduler.Evict, watch.Pod{}, false, true, "the pod is gone"},
	} {
		got := ""
		if err := fits(scheduler.Effect{Kind: c.kind, Node: "n1"}, c.pod, c.there, c.node); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestARunIsGivenThePluginsOfItsProgram checks the plugins with which a run makes decisions, and those with which it
// restores snapshots before it removes the entries behind them.
func TestARunIsGivenThePluginsOfItsProgram(t *testing.T) {
	compiled, err := compile([]Option{WithPlugin("SiteFilter", newSiteFilter)})
	must(t, err)
	r := &running{registry: compiled.registry, classes: "off"}
	p := &clusterProcess{running: r}
	want := slices.Sorted(maps.Keys(compiled.registry.Factories))
	for use, registry := range map[string]framework.Registry{
		"decisions": p.engine(nil, nil).Registry, "retention": r.retained().Registry,
	} {
		if got := slices.Sorted(maps.Keys(registry.Factories)); !slices.Equal(got, want) || !registry.NoClasses {
			t.Errorf("%s: plugins %q, want %q, without classes", use, got, want)
		}
	}
	r.config = filepath.Join(t.TempDir(), "site.yaml")
	must(t, os.WriteFile(r.config, []byte(siteConfig), 0o600))
	r.flags = &cobra.Command{}
	if _, err := r.configuration(); err != nil {
		t.Errorf("the configuration is refused: %v", err)
	}
}

func TestReadinessSaysWhatTheSchedulerIsDoing(t *testing.T) {
	for _, c := range []struct {
		leads, elects, delays bool
		stage                 live.Stage
		want                  string
	}{
		{false, false, false, live.Recovering, "the scheduler is on standby: it waits for the lease"},
		{false, true, false, live.Recovering, ""}, // as kube-scheduler's
		{false, true, true, live.Recovering, "the scheduler is on standby: it waits for the lease"},
		{true, true, false, live.Recovering, "the scheduler is recovering"},
		{true, false, false, live.Syncing, "the scheduler is syncing"},
		{true, true, true, live.Scheduling, ""},
		{true, false, false, live.Ended, "the scheduler is ended"},
	} {
		p := &clusterProcess{running: &running{}, config: framework.DefaultConfig()}
		p.config.DelayCacheUntilActive = c.delays
		if c.elects {
			p.election = &lease.Election{}
		}
		p.leads.Store(c.leads)
		p.stage.Store(int32(c.stage))
		got := ""
		if err := p.readiness(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	p := &clusterProcess{running: &running{}, config: framework.DefaultConfig(), election: &lease.Election{}}
	away := errors.New("no server answers")
	p.astray.Store(&away)
	if err := p.readiness(); !errors.Is(err, away) {
		t.Errorf("a standby that cannot follow its log: %v, want why", err)
	}
	p.leads.Store(true)
	p.stage.Store(int32(live.Scheduling))
	if err := p.readiness(); err != nil {
		t.Errorf("it leads: %v", err)
	}
}
