package framework

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/rollcall-sched/rollcall/framework/gates"
)

// LiveOptions are options for reading the configuration of a scheduler that runs in a cluster.
type LiveOptions struct {
	// RaiseZeroBackoff replaces a backoff of 0 seconds, which validation refuses, by 1.
	RaiseZeroBackoff bool
	// FeatureGates override the gates of the file. If neither names gates.PopFromBackoffQ, it is on, as in
	// kube-scheduler.
	FeatureGates map[string]bool
	// SchedulerName is the name in the default configuration; "" means rollcall.
	SchedulerName string
	// Note receives a message for each change to the file's settings, and for each setting without effect.
	Note func(message string)
}

// LoadConfig is the package's LoadConfig for a scheduler that runs in a cluster. It accepts a configuration that was
// written for kube-scheduler in full (adaptForeign), and sets defaults for the connection to the API server.
func (o LiveOptions) LoadConfig(data []byte, name string) (*Config, error) {
	adapt := func(external *configv1.KubeSchedulerConfiguration) { o.adapt(external, name) }
	cfg, err := loadConfig(data, o.FeatureGates, gates.WithPopFromBackoffQ, adapt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return cfg, nil
}

// liveName is the default name of the scheduler. A scheduler of this name takes no pods from kube-scheduler.
const liveName = "rollcall"

// DefaultConfig returns the configuration of a scheduler of that name. One named rollcall is for a cluster that has
// kube-scheduler.
func (o LiveOptions) DefaultConfig() (*Config, error) {
	name := cmp.Or(o.SchedulerName, liveName)
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

// The default limits for requests to the API server, per second and in a burst. With kube-scheduler's 50 and 100 the
// scheduler would bind 50 pods a second. The API server has its own priority and fairness.
const (
	defaultQPS   = 1000
	defaultBurst = 2000
)

// setConnectionDefaults sets the defaults for the connection to the API server. No decision depends on them. The lease
// has its own name, because schedulers of different names can work side by side. A scheduler named default-scheduler
// uses kube-scheduler's lease, so that only one of the two runs.
func setConnectionDefaults(cfg *configv1.KubeSchedulerConfiguration) {
	if cfg.ClientConnection.QPS == 0 {
		cfg.ClientConnection.QPS = defaultQPS
		if cfg.ClientConnection.Burst == 0 {
			cfg.ClientConnection.Burst = defaultBurst
		}
	}
	if cfg.LeaderElection.ResourceName == "" && !schedulesDefault(cfg) {
		cfg.LeaderElection.ResourceName = liveName
	} // otherwise the default is kube-scheduler's
}

// schedulesDefault reports whether a profile has the name default-scheduler, which is also the name of a profile
// without one.
func schedulesDefault(cfg *configv1.KubeSchedulerConfiguration) bool {
	return len(cfg.Profiles) == 0 || slices.ContainsFunc(cfg.Profiles, func(p configv1.KubeSchedulerProfile) bool {
		return p.SchedulerName == nil || *p.SchedulerName == "" || *p.SchedulerName == corev1.DefaultSchedulerName
	})
}
