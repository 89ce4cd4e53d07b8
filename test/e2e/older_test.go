package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// onAnOlderServer skips a test if there is no time to compile a second API server, or no way to get its modules.
func onAnOlderServer(t *testing.T) {
	t.Helper()
	if os.Getenv("ROLLCALL_SOAK") == "" {
		t.Skip("skipped: an API server of Kubernetes 1.31 is compiled only with ROLLCALL_SOAK=1 (make soak-e2e)")
	}
	if schedulers.Choice() != binaries.Rollcall {
		t.Skip("skipped: the test is of Rollcall alone")
	}
	switch _, err := binaries.Path(t.Context(), binaries.OlderAPIServer); {
	case errors.Is(err, binaries.ErrNotDownloaded):
		t.Skipf("skipped: there is no API server of Kubernetes 1.31: %v", err)
	case err != nil:
		t.Fatal(err)
	}
}

// TestAnOlderAPIServerIsRecorded has the history of TestARecorderHasWhatTheAuditLogHas on Kubernetes 1.31. The recorder
// uses each of its rights, except those on resources that the server lacks.
func TestAnOlderAPIServerIsRecorded(t *testing.T) {
	onAnOlderServer(t)
	size := recordedWorld{nodes: 20, pods: 48}
	w := newInstalledWorldOf(t, size.nodes, cluster.Options{APIServer: binaries.OlderAPIServer})
	rights := w.onlyRecords()
	// As of 1.34 kube-scheduler waits for resource.k8s.io/v1, and as of 1.35 that cannot be turned off.
	scheduler := schedulers.ForTest(t, w.c, schedulers.Options{
		Choice: binaries.KubeScheduler, User: "kube-scheduler", Args: []string{"--emulated-version=1.34"},
		FeatureGates: map[string]bool{
			"DynamicResourceAllocation": false, "DRAAdminAccess": false, "DRAPrioritizedList": false,
			"DRASchedulerFilterTimeout": false,
		},
	})
	w.scheduler = scheduler
	w.recordedHistory(size, scheduler.User)
	w.rightsAreNeeded(without(rights, lackedBy(t, w.release()), "list", "watch"))
}

// TestTheChartIsAcceptedByAnOlderAPIServer renders the chart for Kubernetes 1.31, and asks the API server whether it
// would accept the objects, with every field known. newInstalledWorldOf has it accept the base.
func TestTheChartIsAcceptedByAnOlderAPIServer(t *testing.T) {
	onAnOlderServer(t)
	w := newInstalledWorldOf(t, 1, cluster.Options{APIServer: binaries.OlderAPIServer})
	for _, values := range valuesIn(t, "taken", 4) {
		out, err := renderedFor(t, "1.31.14", values)
		if err != nil {
			t.Fatal(err)
		}
		var others []*unstructured.Unstructured
		for _, object := range objectsOf(t, out) {
			if object.GetKind() != "CustomResourceDefinition" { // the base has installed it
				object.SetName("another-" + object.GetName())
				others = append(others, object)
			}
		}
		if len(others) < 10 {
			t.Errorf("%s: the chart has %d objects", values, len(others))
		}
		apply(t, w.dynamic, others, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
}

// TestARecorderGoesOnWhenTheAPIServerIsUpgraded has the API server of 1.31 replaced by one of 1.37. The recorder begins
// with each API that was lacking, and records on.
func TestARecorderGoesOnWhenTheAPIServerIsUpgraded(t *testing.T) {
	onAnOlderServer(t)
	w := newInstalledWorldOf(t, 2, cluster.Options{APIServer: binaries.OlderAPIServer})
	rights := w.onlyRecords()
	lacked := lackedBy(t, w.release())
	recorder := w.process("the recorder", w.recorder()...)
	w.saysWhatTheServerLacks(recorder)
	place := func(pod string) {
		w.create(w.pod(pod, "", "1"))
		if err := w.bind(pod, w.nodes.Names()[0]); err != nil {
			t.Fatal(err)
		}
	}
	place("before")
	if err := w.c.ReplaceAPIServer(t.Context(), withAllGangs()); err != nil {
		t.Fatal(err)
	}
	if w.release() != 37 {
		t.Fatalf("the API server is of 1.%d", w.release())
	}
	place("after")
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "device"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{
		Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "any"},
	}}
	claims := w.client.ResourceV1().ResourceClaims("default")
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.native = true
	w.group("gang", 2)
	w.until("the recorder has begun with all APIs", func(context.Context) (bool, error) {
		text := string(readFile(t, recorder.Output))
		for name := range lacked { // any order
			if !strings.Contains(text, name+": the API server has them now: they are watched") {
				return false, errors.New(name)
			}
		}
		return true, nil
	})
	for _, want := range []string{`"name":"before"`, `"name":"after"`, `"name":"device"`, `"name":"gang"`} {
		w.until("the recording has "+want, func(context.Context) (bool, error) {
			return strings.Contains(w.rollcall("log", "cat", w.recording()), want), nil
		})
	}
	if err := recorder.Terminate(t.Context()); err != nil {
		t.Errorf("the recorder ended: %v", err)
	}
	w.rightsAreNeeded(without(rights, lacked, "list")) // 1.37 streams the lists of its resources
	t.Logf("%s%s", w.rollcall("replay", w.recording()), w.rollcall("events", w.recording()))
}

// without takes verbs on resources from rights.
func without(rights map[right]bool, resources map[string]string, verbs ...string) map[right]bool {
	for name := range resources { // any order
		resource, group, _ := strings.Cut(name, ".")
		for _, verb := range verbs {
			delete(rights, right{verb, group, resource})
		}
	}
	return rights
}

// TestGangsAreScheduledOnAnOlderAPIServer has gangs on Kubernetes 1.31, by scheduling.x-k8s.io and by annotations: some
// that fit, one that does not, and one that waits for a member.
func TestGangsAreScheduledOnAnOlderAPIServer(t *testing.T) {
	onAnOlderServer(t)
	w := newWorldOf(t, false, cluster.Options{APIServer: binaries.OlderAPIServer}, nodes.Options{
		Count: 4, Capacity: nodes.Capacity("4", "64Gi", "5000"), WithoutPods: true,
	})
	w.start(w.options())
	w.gang("fits", 8, "1")
	w.waitFor("fits-", 8, bound)
	w.gang("large", 5, "3")
	w.waitFor("large-", 5, unschedulable)
	w.group("late", 2)
	w.create(w.pod("late-0", "late", "1"), w.pod("single", "", "1"))
	w.waitFor("single", 1, bound)
	w.none("late-", bound)
	w.none("large-", bound)
	w.create(w.pod("late-1", "late", "1"))
	w.waitFor("late-", 2, bound)
	for i := range 3 {
		w.none("annotated-", bound)
		p := w.pod(fmt.Sprintf("annotated-%d", i), "", "1")
		p.Annotations = map[string]string{
			"gang.scheduling.koordinator.sh/name": "annotated", "gang.scheduling.koordinator.sh/min-available": "3",
		}
		w.create(p)
	}
	w.waitFor("annotated-", 3, bound)
	w.audit(14)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.scheduler.Terminate(ctx); err != nil {
		t.Errorf("the scheduler ended: %v", err)
	}
	w.saysWhatTheServerLacks(w.scheduler.Process, gangsOfOthers...)
	out, err := w.scheduler.Rollcall(ctx, "replay", w.scheduler.Log)
	if err != nil || !strings.Contains(string(out), "identical") {
		t.Errorf("replay: %v\n%s", err, out)
	}
}

// withAllGangs are the options of a cluster with all gangs of the API server's own.
func withAllGangs() cluster.Options {
	return cluster.Options{
		GenericWorkload: true,
		FeatureGates:    map[string]bool{"CompositePodGroup": true, "TopologyAwareWorkloadScheduling": true},
		RuntimeConfig:   map[string]bool{"scheduling.k8s.io/v1alpha3": true},
	}
}

// gangsOfOthers are the resources of other schedulers, which newWorld does not install.
var gangsOfOthers = []string{"podgroups.scheduling.volcano.sh", "podgroups.scheduling.run.ai"}

// release is the minor version of the API server: 37 of 1.37.
func (w *world) release() int {
	w.Helper()
	v, err := w.client.Discovery().ServerVersion()
	if err != nil {
		w.Fatal(err)
	}
	minor, err := strconv.Atoi(v.Minor)
	if err != nil {
		w.Fatalf("the API server has version %+v", v)
	}
	return minor
}

// lackRow is a row of the table of APIs in docs/INSTALL.md.
var lackRow = regexp.MustCompile(`\| 1\.(\d+) to 1\.(\d+) \| ([^|]+) \|`)

// lackedBy returns the resources that docs/INSTALL.md says a release lacks, with the release that they came with.
func lackedBy(t *testing.T, minor int) map[string]string {
	t.Helper()
	lacked, rows := map[string]string{}, 0
	for _, row := range lackRow.FindAllStringSubmatch(string(readFile(t, "../../docs/INSTALL.md")), -1) {
		rows++
		from, _ := strconv.Atoi(row[1])
		to, _ := strconv.Atoi(row[2])
		if minor < from || minor > to {
			continue
		}
		var group string
		for _, words := range strings.Split(row[3], ", ") {
			version, kind, both := strings.Cut(words, " ")
			switch g, _, named := strings.Cut(version, "/"); {
			case !both:
				kind = version
			case named:
				group = g
			}
			lacked[strings.ToLower(kind)+"."+group] = fmt.Sprintf("1.%d", to+1)
		}
	}
	if rows < 3 {
		t.Fatalf("docs/INSTALL.md has %d rows of APIs that older API servers lack", rows)
	}
	return lacked
}

// Messages about resources that the API server lacks.
var (
	saidToCome = regexp.MustCompile(
		`([a-z0-9.-]+): the API server does not have them(?:, which came with Kubernetes (1\.\d+))?: they are waited`)
	saidToBeOff = regexp.MustCompile(
		`([a-z0-9.-]+) \(the API server's feature gate GenericWorkload is off, or it is older than (1\.\d+)\)`)
	saidToBeCustom = regexp.MustCompile(`([a-z0-9.-]+) \(the custom resource definition is not installed\)`)
)

// saysWhatTheServerLacks compares what a process says at its start with docs/INSTALL.md. The cluster also lacks some
// custom resources.
func (w *world) saysWhatTheServerLacks(p *cluster.Process, custom ...string) {
	w.Helper()
	want := lackedBy(w.T, w.release())
	for _, name := range custom {
		want[name] = ""
	}
	said := map[string]string{}
	w.untilTrue("the process says which gangs there are", func() (bool, error) {
		text := string(readFile(w.T, p.Output))
		for _, message := range []*regexp.Regexp{saidToCome, saidToBeOff, saidToBeCustom} {
			for _, m := range message.FindAllStringSubmatch(text, -1) {
				said[m[1]] = strings.Join(m[2:], "")
			}
		}
		return strings.Contains(text, "gangs are declared by ") && len(said) >= len(want), nil
	})
	if !maps.Equal(said, want) {
		w.Errorf("on Kubernetes 1.%d %s says that there are no %v; docs/INSTALL.md has %v",
			w.release(), p.Name, said, want)
	}
	w.Logf("on Kubernetes 1.%d %s says that there are no %v", w.release(), p.Name, slices.Sorted(maps.Keys(said)))
}
