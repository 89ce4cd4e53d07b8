package e2e_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

// ticketConfig enables the plugin of the program binaries.Plugin.
const ticketConfig = `profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Ticket}]}}
`

// TestAPluginTakesPartInTheBindingCycle has a program with a plugin of its own bind a gang, whose members it writes to
// before and after the bind, and refuse the binds of another pod. Its log is replayed by the same program. The product
// names the plugin that it lacks.
func TestAPluginTakesPartInTheBindingCycle(t *testing.T) {
	needsRollcall(t, "the plugin is compiled into rollcall")
	w := newWorld(t, true, cluster.Options{})
	program, err := binaries.Path(t.Context(), binaries.Plugin)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(w.c.Dir(), "plugin-log")
	o := w.options()
	o.Choice, o.Config = program+" run --secure-port=0 --log="+log, ticketConfig
	w.start(o)
	w.gang("g", 8, "1")
	refused := w.pod("refused", "", "1")
	refused.Labels = map[string]string{"ticket": "none"}
	w.create(refused)
	w.waitFor("g-", 8, func(p *v1.Pod) bool {
		node := p.Spec.NodeName
		return node != "" && p.Annotations["ticket"] == node && p.Annotations["arrived"] == node
	})
	w.waitFor("refused", 1, func(p *v1.Pod) bool {
		return strings.Contains(fmt.Sprint(p.Status.Conditions), "there is no ticket for it")
	})
	w.none("refused", bound)
	if err := w.scheduler.Terminate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program string
		args    []string
		want    []string
	}{
		{program, []string{"replay", log}, []string{"identical"}},
		{program, []string{"explain", log, "pod", "default/refused"}, []string{"Ticket", "there is no ticket for it"}},
		{"", []string{"replay", log}, []string{`plugin "Ticket" is not compiled into this program`}},
	} {
		if c.program == "" {
			if c.program, err = binaries.Path(t.Context(), binaries.Rollcall); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.CommandContext(t.Context(), c.program, c.args...).CombinedOutput()
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s %q says, without %q (%v):\n%s", filepath.Base(c.program), c.args, want, err, out)
			}
		}
	}
}
