package framework

import configv1 "k8s.io/kube-scheduler/config/v1"

// defaultParallelism is kube-scheduler's, which its defaults written out have.
const defaultParallelism int32 = 16

// noteParallelism says that parallelism is heeded by one order. With kube-scheduler it is how many nodes plugins are
// asked about at the same time; what they gather then comes in the order in which that happens.
func noteParallelism(cfg *configv1.KubeSchedulerConfiguration, note func(format string, args ...any)) {
	if p := cfg.Parallelism; p != nil && *p != defaultParallelism {
		note("parallelism %d has no effect: plugins are asked about one node after the other, always in the same "+
			"order, so that decisions can be replayed", *p)
	}
}

// noteConnection says what has no effect where no API server is reached.
func noteConnection(cfg *configv1.KubeSchedulerConfiguration, note func(format string, args ...any)) {
	if cfg.ClientConnection != (configv1.KubeSchedulerConfiguration{}).ClientConnection {
		note("clientConnection has no effect: no API server is reached")
	}
	if cfg.DelayCacheUntilActive {
		note("delayCacheUntilActive has no effect: there is no other scheduler to wait for")
	}
}
