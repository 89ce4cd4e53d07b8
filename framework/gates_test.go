package framework

import (
	"bytes"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// TestTheGatesOfGenericWorkloadChangeNoConfiguration: where they are on, kube-scheduler's defaults have its own gang
// plugins, which are not compiled in, and a scheduler that was given the gates would not start.
func TestTheGatesOfGenericWorkloadChangeNoConfiguration(t *testing.T) {
	const body = "profiles:\n- schedulerName: default-scheduler\n- schedulerName: other\n"
	encoded := func() []byte {
		text, err := EncodeConfig(load(t, body))
		if err != nil {
			t.Fatal(err)
		}
		more, err := EncodeConfig(DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		return append(text, more...)
	}
	without := encoded()
	gates := utilfeature.DefaultMutableFeatureGate
	on := map[string]bool{string(features.GenericWorkload): true, string(features.TopologyAwareWorkloadScheduling): true}
	off := map[string]bool{string(features.GenericWorkload): false, string(features.TopologyAwareWorkloadScheduling): false}
	if err := gates.SetFromMap(on); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := gates.SetFromMap(off); err != nil {
			t.Error(err)
		}
	}()
	if with := encoded(); !bytes.Equal(with, without) {
		t.Errorf("with the gates the configuration is\n%s\nwithout\n%s", with, without)
	}
}
