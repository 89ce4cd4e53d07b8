package framework

import configv1 "k8s.io/kube-scheduler/config/v1"

// defaultParallelism is the value in kube-scheduler's written-out defaults.
const defaultParallelism int32 = 16

// noteParallelism notes that the setting has no effect. In kube-scheduler it is the number of nodes that plugins see at
// the same time, so the order of their results varies. Here the order is always the same.
func noteParallelism(cfg *configv1.KubeSchedulerConfiguration, note func(format string, args ...any)) {
	if p := cfg.Parallelism; p != nil && *p != defaultParallelism {
		note("parallelism %d has no effect: plugins are asked about one node after the other, always in the same "+
			"order, so that decisions can be replayed", *p)
	}
}

// noteConnection notes the settings that have no effect without an API server.
func noteConnection(cfg *configv1.KubeSchedulerConfiguration, note func(format string, args ...any)) {
	if cfg.ClientConnection != (configv1.KubeSchedulerConfiguration{}).ClientConnection {
		note("clientConnection has no effect: no API server is reached")
	}
	if cfg.DelayCacheUntilActive {
		note("delayCacheUntilActive has no effect: there is no other scheduler to wait for")
	}
}
