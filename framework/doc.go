// Package framework runs scheduler plugins written against k8s.io/kube-scheduler/framework.
//
// It owns the configuration (a KubeSchedulerConfiguration, config.go), a profile's plugins and the order in which they
// are called at each extension point (profile.go, points.go), what plugins see of the world (handle.go), the search for
// a pod's node (place.go, and in the order of the search prefilter.go, nodeloop.go, score.go), what is remembered from
// one search to the next (template.go, classes.go, ranking.go, and survey.go for what is not), the extension points
// after it (cycle.go), the pods held by Permit (waiting.go), and the trace by which a decision is explained (trace.go).
// Status codes, skip rules, weights and the order of plugins are those of kube-scheduler 1.37; a test runs both and
// compares.
//
// It never decides by chance, real time, map order or goroutine order: plugins are called one after the
// other, nodes are walked in order, and of nodes of equal score the one with the smallest name wins. It
// never reaches outside: the Handle's client fails every request. Nothing is measured or logged inside a
// cycle. A Profile keeps no state of the scheduler's: what it remembers
// is memos, and without them the same comes out.
//
// Start reading at Place.
package framework
