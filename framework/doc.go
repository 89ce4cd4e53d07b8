// Package framework runs scheduler plugins written against k8s.io/kube-scheduler/framework.
//
// It owns the plugins of a profile and calls them at each extension point, and it owns the configuration that names
// them. Its status codes, skip rules, weights and order of plugins are kube-scheduler 1.37's; a test runs both and
// compares.
//
// It never decides by randomness, real time, map order or goroutine order. It calls plugins one after the other and
// visits nodes in order. If several nodes have the highest score, the one with the smallest name wins. It never reaches
// outside within a cycle: the requests of the Handle's client fail then. It keeps no state of the scheduler. A Profile
// only has memos, and decisions are the same without them.
//
// Read the files in this order:
//
//   - handle.go, view.go, reserved.go: the World that plugins see, and the Handle that they get;
//   - points.go, registry.go, profile.go: the plugins of a profile, in order, by extension point;
//   - place.go: Place, the search for a pod's node, and its parts prefilter.go, nodeloop.go and score.go;
//   - cycle.go, waiting.go, binding.go, prebind.go, lasting.go: the extension points after the search;
//   - runner.go, rehearsal.go, refit.go, count.go: other questions to the plugins, for preemption and resizes;
//   - extenders.go: HTTP extenders;
//   - template.go, classes.go: the memos of plugins' answers;
//   - survey.go, places.go, ranking.go, usual.go, groups.go: the search on top of them that visits only
//     changed nodes;
//   - state.go, statuses.go, rejection.go, refusals.go, maxtree.go, trace.go: data types of the search;
//   - config.go, defaults.go, live.go, foreign.go, settings.go, featuregates.go, pluginresources.go, credentials.go,
//     logged.go: the configuration.
package framework
