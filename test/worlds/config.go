package worlds

import (
	"encoding/json"
	"fmt"
)

// config makes a configuration, or nothing, for the default one. It must not be asked for twice.
func (b *builder) config() []byte {
	if len(b.profiles) == 1 && !b.chance(45) {
		return nil
	}
	var profiles list
	for _, name := range b.profiles {
		policy := ""
		if len(b.args) == 0 || b.args[0] != "--queue-policy" {
			policy = one(b, "", "StrictFIFO", "Backfill", "BestEffort")
		}
		profiles = append(profiles, b.profile(name, policy))
	}
	config := object{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles,
	}
	if b.chance(30) {
		config["percentageOfNodesToScore"] = b.between(5, 100)
	}
	if b.chance(30) {
		initial := b.between(1, 5)
		config["podInitialBackoffSeconds"], config["podMaxBackoffSeconds"] = initial, initial+b.below(60)
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("a configuration is no JSON: %v", err))
	}
	return append(text, '\n')
}

// profile makes a profile: some scores, some arguments, now and then without one of the default plugins.
func (b *builder) profile(name, policy string) object {
	strategy := one(b, "LeastAllocated", "MostAllocated", "MostAllocated")
	resources := list{object{"name": "cpu", "weight": b.between(1, 5)}, object{"name": "memory", "weight": 1}}
	pluginConfig := list{object{
		"name": "NodeResourcesFit",
		"args": object{"scoringStrategy": object{"type": strategy, "resources": resources}},
	}}
	args := object{}
	if policy != "" {
		args["queuePolicy"] = policy
	}
	if policy == "Backfill" && b.chance(50) {
		args["backfillHoldSeconds"] = one(b, 0, 30, 600)
	}
	if b.chance(30) {
		args["permitWaitingTimeSeconds"] = one(b, 10, 90)
	}
	if b.chance(30) {
		args["podGroupBackoffSeconds"] = one(b, 5, 30)
	}
	if len(args) > 0 {
		pluginConfig = append(pluginConfig, object{"name": "Coscheduling", "args": args})
	}
	profile := object{"schedulerName": name, "pluginConfig": pluginConfig}
	var enabled, disabled list
	if b.chance(25) {
		plugin := one(b, "NodeAffinity", "TaintToleration", "ImageLocality", "InterPodAffinity", "PodTopologySpread")
		disabled = append(disabled, object{"name": plugin})
		if b.chance(60) {
			enabled = append(enabled, object{"name": plugin, "weight": b.between(1, 9)})
		}
	}
	if b.chance(20) {
		disabled = append(disabled, object{"name": one(b, "DefaultPreemption", "NodePorts",
			"NodeResourcesBalancedAllocation")})
	}
	if disabled != nil {
		multi := object{"disabled": disabled}
		if enabled != nil {
			multi["enabled"] = enabled
		}
		profile["plugins"] = object{"multiPoint": multi}
	}
	return profile
}
