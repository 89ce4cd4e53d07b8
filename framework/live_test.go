package framework

import "testing"

// TestASchedulerExcludesWhateverSchedulesTheSamePods: a scheduler with or without a configuration competes for pods
// only with schedulers that use the same lease.
func TestASchedulerExcludesWhateverSchedulesTheSamePods(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	for _, tc := range []struct{ name, file, scheduler, lease string }{
		{"no file", "", "rollcall", "rollcall"},
		{"an empty configuration", head, "default-scheduler", "kube-scheduler"},
		{"another name", head + "profiles:\n- schedulerName: batch\n", "batch", "rollcall"},
		{"kube-scheduler's name", head + "profiles:\n- schedulerName: default-scheduler\n", "default-scheduler",
			"kube-scheduler"},
		{"both", head + "profiles:\n- schedulerName: batch\n- schedulerName: default-scheduler\n", "batch",
			"kube-scheduler"},
		{"a lease of its own", head + "leaderElection:\n  resourceName: mine\n", "default-scheduler", "mine"},
	} {
		live := LiveOptions{Note: func(string) {}}
		cfg, err := live.DefaultConfig()
		if tc.file != "" {
			cfg, err = live.LoadConfig([]byte(tc.file), "a file")
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Profiles[0].SchedulerName; got != tc.scheduler {
			t.Errorf("%s: the scheduler is %s, want %s", tc.name, got, tc.scheduler)
		}
		if e := cfg.LeaderElection; e.ResourceName != tc.lease || e.ResourceNamespace != "kube-system" {
			t.Errorf("%s: the lease is %s/%s, want kube-system/%s", tc.name, e.ResourceNamespace, e.ResourceName,
				tc.lease)
		}
	}
}
