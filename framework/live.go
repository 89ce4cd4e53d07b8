package framework

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/rollcall-sched/rollcall/framework/gates"
)

// LiveOptions say how the configuration of a scheduler is read that runs in a cluster.
type LiveOptions struct {
	// RaiseZeroBackoff takes a backoff of 0 seconds, which validation refuses, for 1.
	RaiseZeroBackoff bool
	// FeatureGates go before those of the file. If neither says anything of gates.PopFromBackoffQ, it is on, as with
	// kube-scheduler.
	FeatureGates map[string]bool
	// Note is told of each change to what the file says, and of settings that have no effect.
	Note func(message string)
}

// LoadConfig is the function of that name for a scheduler that runs in a cluster. A configuration that was written for
// kube-scheduler in full is understood (adaptForeign), and there are defaults for how the API server is reached.
func (o LiveOptions) LoadConfig(data []byte, name string) (*Config, error) {
	adapt := func(external *configv1.KubeSchedulerConfiguration) { o.adapt(external, name) }
	cfg, err := loadConfig(data, o.FeatureGates, gates.WithPopFromBackoffQ, adapt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return cfg, nil
}

// liveName is the name of the scheduler that no configuration names: beside kube-scheduler, it takes none of its pods.
const liveName = "rollcall"

// DefaultConfig returns the configuration of a scheduler with the name rollcall, for a cluster that has kube-scheduler.
func (o LiveOptions) DefaultConfig() (*Config, error) {
	name := liveName
	external := &configv1.KubeSchedulerConfiguration{
		Profiles: []configv1.KubeSchedulerProfile{{SchedulerName: &name}},
	}
	o.adapt(external, "")
	return completeUnder(gates.WithPopFromBackoffQ(o.FeatureGates), external)
}

func (o LiveOptions) adapt(external *configv1.KubeSchedulerConfiguration, name string) {
	setConnectionDefaults(external)
	note := func(format string, args ...any) { o.Note(name + ": " + fmt.Sprintf(format, args...)) }
	adaptForeign(external, note)
	noteParallelism(external, note)
	if !o.RaiseZeroBackoff {
		return
	}
	for _, seconds := range []*int64{external.PodInitialBackoffSeconds, external.PodMaxBackoffSeconds} {
		if seconds != nil {
			*seconds = max(*seconds, 1)
		}
	}
}

// How many requests a second the scheduler makes, and how many at once, where nothing is configured. With
// kube-scheduler's 50 and 100 it would bind 50 pods a second. An API server keeps its own priority and fairness.
const (
	defaultQPS   = 1000
	defaultBurst = 2000
)

// setConnectionDefaults sets how the API server is talked to. No decision depends on it. The lease has a name of its
// own, since two schedulers of different names may well work side by side. A scheduler of the name default-scheduler
// has kube-scheduler's lease: the two exclude each other.
func setConnectionDefaults(cfg *configv1.KubeSchedulerConfiguration) {
	if cfg.ClientConnection.QPS == 0 {
		cfg.ClientConnection.QPS = defaultQPS
		if cfg.ClientConnection.Burst == 0 {
			cfg.ClientConnection.Burst = defaultBurst
		}
	}
	if cfg.LeaderElection.ResourceName == "" && !schedulesDefault(cfg) {
		cfg.LeaderElection.ResourceName = liveName
	} // otherwise its default is kube-scheduler
}

// schedulesDefault reports whether a profile has the name default-scheduler, which is also that of a profile without
// one.
func schedulesDefault(cfg *configv1.KubeSchedulerConfiguration) bool {
	return len(cfg.Profiles) == 0 || slices.ContainsFunc(cfg.Profiles, func(p configv1.KubeSchedulerProfile) bool {
		return p.SchedulerName == nil || *p.SchedulerName == "" || *p.SchedulerName == corev1.DefaultSchedulerName
	})
}
