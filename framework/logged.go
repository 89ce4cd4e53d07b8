package framework

import (
	"encoding/json"
	"maps"
	"slices"
)

// loggedProfiles is the part of a logged configuration that names plugins. The program may not know the rest.
type loggedProfiles struct {
	Profiles []struct {
		SchedulerName string
		Plugins       map[string]struct {
			Enabled, Disabled []struct{ Name string }
		}
		PluginConfig []struct {
			Name string
			Args struct{ QueuePolicy, VictimPolicy any }
		}
	}
}

// LoggedPlugins returns the names of the plugins that a logged configuration enables, sorted, whether or not this
// program has them. It returns nil if it cannot read the configuration.
func LoggedPlugins(logged []byte) []string {
	names := map[string]bool{}
	var config loggedProfiles
	if err := json.Unmarshal(logged, &config); err != nil {
		return nil
	}
	for _, profile := range config.Profiles {
		for _, set := range profile.Plugins { // any order: they are sorted
			for _, plugin := range set.Enabled {
				names[plugin.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// LoggedPolicies returns the names of the lane policies and the victim policies that a logged configuration names,
// sorted, whether or not this program has them. A profile that names none has Rollcall's default policy.
func LoggedPolicies(logged []byte) (lanes, victims []string) {
	var config loggedProfiles
	if err := json.Unmarshal(logged, &config); err != nil {
		return nil, nil
	}
	for _, profile := range config.Profiles {
		for _, plugin := range profile.PluginConfig {
			if plugin.Name != coscheduling {
				continue
			}
			if name, ok := plugin.Args.QueuePolicy.(string); ok && !slices.Contains(lanes, name) {
				lanes = append(lanes, name)
			}
			if name, ok := plugin.Args.VictimPolicy.(string); ok && !slices.Contains(victims, name) {
				victims = append(victims, name)
			}
		}
	}
	slices.Sort(lanes)
	slices.Sort(victims)
	return lanes, victims
}

// A LoggedProfile is a profile of a logged configuration. QueuePolicy is "" if it names none.
type LoggedProfile struct {
	SchedulerName string `json:"schedulerName"`
	QueuePolicy   string `json:"queuePolicy,omitempty"`
}

// LoggedProfiles returns the profiles of a logged configuration, nil if it cannot read it.
func LoggedProfiles(logged []byte) (all []LoggedProfile) {
	var config loggedProfiles
	if err := json.Unmarshal(logged, &config); err != nil {
		return nil
	}
	for _, profile := range config.Profiles {
		p := LoggedProfile{SchedulerName: profile.SchedulerName}
		for _, plugin := range profile.PluginConfig {
			if name, ok := plugin.Args.QueuePolicy.(string); ok && plugin.Name == coscheduling {
				p.QueuePolicy = name
			}
		}
		all = append(all, p)
	}
	return all
}

// Missing returns the names of the plugins that a logged configuration names and the registry does not have, sorted.
// Such a configuration cannot start (MissingPluginError), even if it only disables the plugins or gives them arguments.
// Disabled plugins of kube-scheduler are an exception.
func (r Registry) Missing(logged []byte) []string {
	missing := map[string]bool{}
	var config loggedProfiles
	if err := json.Unmarshal(logged, &config); err != nil {
		return nil
	}
	note := func(name string) {
		if r.Factories[name] == nil {
			missing[name] = true
		}
	}
	for _, profile := range config.Profiles {
		for _, set := range profile.Plugins { // any order: they are sorted
			for _, plugin := range set.Enabled {
				note(plugin.Name)
			}
			for _, plugin := range set.Disabled {
				if plugin.Name != "*" && !inTree(plugin.Name) {
					note(plugin.Name)
				}
			}
		}
		for _, plugin := range profile.PluginConfig {
			note(plugin.Name)
		}
	}
	return slices.Sorted(maps.Keys(missing))
}
