package dump

import (
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/rollcall-sched/rollcall/framework"
)

// maxProfiles is the number of schedulers that get a profile of their own.
const maxProfiles = 100

// defaultConfig returns the default configuration, with a profile for each scheduler that pods name.
func defaultConfig(schedulers map[string]bool) ([]byte, error) {
	cfg := framework.DefaultConfig()
	usual := cfg.Profiles[0]
	var names []string
	for name := range schedulers { // any order: they are sorted
		if name != "" && name != usual.SchedulerName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(maxProfiles, len(names))] {
		profile := config.KubeSchedulerProfile{SchedulerName: name}
		usual.DeepCopyInto(&profile)
		profile.SchedulerName = name
		cfg.Profiles = append(cfg.Profiles, profile)
	}
	return encodeConfig(cfg)
}

// encodeConfig returns a configuration as the log has it. It says that others decide.
func encodeConfig(cfg *framework.Config) ([]byte, error) {
	cfg.Recording = true
	return framework.EncodeConfig(cfg)
}
