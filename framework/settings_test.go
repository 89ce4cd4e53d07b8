package framework

import (
	"slices"
	"strings"
	"testing"
)

// TestSettingsWithoutEffectAreSaidToHaveNone reads configurations as a simulation and as a live scheduler.
// kube-scheduler's written-out defaults cause no message.
func TestSettingsWithoutEffectAreSaidToHaveNone(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	for _, tc := range []struct {
		file            string
		simulated, live []string // how the notes begin
	}{
		{"", nil, nil},
		{"parallelism: 16\ndelayCacheUntilActive: false\npercentageOfNodesToScore: 30\n", nil, nil},
		{"parallelism: 32\n", []string{"parallelism 32 has no effect"}, []string{"parallelism 32 has no effect"}},
		{"clientConnection: {qps: 5}\n", []string{"clientConnection has no effect"}, nil},
		{"clientConnection: {kubeconfig: /home/me/config}\n", []string{"clientConnection has no effect"}, nil},
		{"delayCacheUntilActive: true\n", []string{"delayCacheUntilActive has no effect"}, nil},
	} {
		var simulated, live []string
		read := ReadOptions{Note: func(message string) { simulated = append(simulated, message) }}
		if _, err := read.LoadConfig([]byte(head+tc.file), "a file"); err != nil {
			t.Fatal(err)
		}
		run := LiveOptions{Note: func(message string) { live = append(live, message) }}
		if _, err := run.LoadConfig([]byte(head+tc.file), "a file"); err != nil {
			t.Fatal(err)
		}
		begins := func(message, with string) bool { return strings.HasPrefix(message, "a file: "+with) }
		if !slices.EqualFunc(simulated, tc.simulated, begins) || !slices.EqualFunc(live, tc.live, begins) {
			t.Errorf("%q: a simulation says %q, a live scheduler %q", tc.file, simulated, live)
		}
		if _, err := LoadConfig([]byte(head+tc.file), "a file"); err != nil {
			t.Errorf("%q: without notes it is refused: %v", tc.file, err)
		}
	}
}
