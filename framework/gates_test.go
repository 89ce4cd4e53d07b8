package framework

import (
	"bytes"
	"testing"

	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/framework/gates"
)

// TestTheGatesOfGenericWorkloadChangeNoConfiguration: with these gates, kube-scheduler's defaults have its own gang
// plugins. They are not compiled in, so a scheduler that used these defaults would not start.
func TestTheGatesOfGenericWorkloadChangeNoConfiguration(t *testing.T) {
	const body = "profiles:\n- schedulerName: default-scheduler\n- schedulerName: other\n"
	both := func(named map[string]bool) []byte {
		var all []byte
		file, err := ReadOptions{FeatureGates: named}.LoadConfig([]byte(header+body), "file")
		if err != nil {
			t.Fatal(err)
		}
		none, err := ReadOptions{FeatureGates: named}.DefaultConfig()
		if err != nil {
			t.Fatal(err)
		}
		for _, cfg := range []*Config{file, none} {
			cfg.FeatureGates = gates.Set{} // what is compared is the rest
			all = append(all, encoded(t, cfg)...)
		}
		return all
	}
	without := both(nil)
	on := map[string]bool{
		string(features.GenericWorkload): true, string(features.TopologyAwareWorkloadScheduling): true,
	}
	if with := both(on); !bytes.Equal(with, without) {
		t.Errorf("with the gates the configuration is\n%s\nwithout\n%s", with, without)
	}
}
