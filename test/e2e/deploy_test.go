package e2e_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// manifests is the folder of the installed manifests, in the checkout.
const manifests = "../../deploy"

// objectsOf reads the objects of YAML documents.
func objectsOf(t *testing.T, text []byte) (objects []*unstructured.Unstructured) {
	t.Helper()
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

func objectsOfFile(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	objects := objectsOf(t, text)
	if len(objects) == 0 {
		t.Fatalf("%s has no objects", path)
	}
	return objects
}

// baseFiles are the files of the kustomize base that have objects.
func baseFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(manifests, "base"), func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if err == nil && !d.IsDir() && name != "kustomization.yaml" && name != "scheduler.yaml" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 10 {
		t.Fatalf("the base has the files %q: %v", files, err)
	}
	return files
}

// apply creates objects; namespaced ones without a namespace come into default.
func apply(t *testing.T, client dynamic.Interface, objects []*unstructured.Unstructured, o metav1.CreateOptions) {
	t.Helper()
	o.FieldValidation = metav1.FieldValidationStrict
	for _, object := range objects {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		namespace := object.GetNamespace()
		if namespace == "" && slices.Contains([]string{"Job", "PodGroup"}, object.GetKind()) {
			namespace = metav1.NamespaceDefault
		}
		var err error
		if namespace == "" {
			_, err = client.Resource(resource).Create(t.Context(), object, o)
		} else {
			_, err = client.Resource(resource).Namespace(namespace).Create(t.Context(), object, o)
		}
		if err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// dynamicClient is a client of a cluster for objects of all kinds.
func dynamicClient(c *cluster.Cluster) dynamic.Interface {
	config := rest.CopyConfig(c.Config())
	config.ContentConfig = rest.ContentConfig{}
	return dynamic.NewForConfigOrDie(config)
}

// TestTheManifestsAreAccepted asks the API server whether it would accept the manifests in deploy, with every field
// known.
func TestTheManifestsAreAccepted(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{GenericWorkload: true})
	client := dynamicClient(c)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	apply(t, client, objectsOfFile(t, filepath.Join(manifests, "namespace.yaml")), metav1.CreateOptions{})
	if _, err := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().Namespaces().Get(
		t.Context(), "rollcall-system", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, file := range baseFiles(t) {
		apply(t, client, objectsOfFile(t, file), dry)
	}
	apply(t, client, objectsOfFile(t, filepath.Join(manifests,
		"overlays/in-place-of-kube-scheduler/static-pod/rollcall.yaml")), dry)
	examples, err := filepath.Glob(filepath.Join(manifests, "examples", "*.yaml"))
	if err != nil || len(examples) < 5 {
		t.Fatalf("the examples are %q: %v", examples, err)
	}
	for _, file := range examples {
		apply(t, client, objectsOfFile(t, file), dry)
	}
	t.Run("overlays", func(t *testing.T) { overlaysAreAccepted(t, client, dry) })
	t.Run("chart", func(t *testing.T) { chartIsAccepted(t, client, dry) })
	t.Run("mistakes", mistakesAreRefused)
}

// overlaysAreAccepted needs kubectl, which has kustomize.
func overlaysAreAccepted(t *testing.T, client dynamic.Interface, dry metav1.CreateOptions) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not installed: the base's files are checked without their overlays")
	}
	for _, overlay := range []string{"second-scheduler", "in-place-of-kube-scheduler", "jetstream", "recorder"} {
		out, err := exec.CommandContext(t.Context(), kubectl, "kustomize",
			filepath.Join(manifests, "overlays", overlay)).Output()
		if err != nil {
			t.Fatalf("kubectl kustomize %s: %v", overlay, err)
		}
		apply(t, client, objectsOf(t, out), dry)
	}
}

// rollcallRun are the first words of the command line that runs the scheduler.
func rollcallRun(t *testing.T) []string {
	t.Helper()
	switch choice := schedulers.Choice(); choice {
	case binaries.KubeScheduler, binaries.Rollcall:
		file, err := binaries.Path(t.Context(), binaries.Rollcall)
		if err != nil {
			t.Fatal(err)
		}
		return []string{file, "run"}
	default:
		return strings.Fields(choice)
	}
}

// TestTheConfigurationsAreTaken schedules a gang on a virtual cluster with each configuration of deploy/.
func TestTheConfigurationsAreTaken(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(manifests, "examples/configurations", "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("the configurations are %q: %v", files, err)
	}
	for _, file := range append(files, filepath.Join(manifests, "base/scheduler.yaml")) {
		configurationIsTaken(t, file)
	}
}

// configurationIsTaken schedules a gang on a virtual cluster with a configuration. The gang's pods name the profile
// rollcall, or default-scheduler if only that one is there: a recorder's configuration is of kube-scheduler.
func configurationIsTaken(t *testing.T, file string) {
	t.Helper()
	job := string(readFile(t, filepath.Join(manifests, "examples/job-kueue-labels.yaml")))
	if config := string(readFile(t, file)); !strings.Contains(config, "schedulerName: rollcall") {
		job = strings.ReplaceAll(job, "schedulerName: rollcall", "schedulerName: "+v1.DefaultSchedulerName)
	}
	workload := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(workload, []byte(job), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), rollcallRun(t)[0], "simulate", "--config", file, "--nodes", "4x16cpu",
		"--workload", workload).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "4 completed") && !strings.Contains(string(out), "4 running") {
		t.Errorf("%s: %v\n%s", file, err, out)
	}
}

// TestThePodsOfTheManifestsAreInOrder checks the pods that run Rollcall: of the base, and of the control plane.
func TestThePodsOfTheManifestsAreInOrder(t *testing.T) {
	podsAreInOrder(t, objectsOfFile(t, filepath.Join(manifests, "base/statefulset.yaml")))
	podsAreInOrder(t, objectsOfFile(t, filepath.Join(manifests,
		"overlays/in-place-of-kube-scheduler/static-pod/rollcall.yaml")))
}

// podsAreInOrder checks each pod that runs Rollcall: it has no privileges, rollcall accepts its command line, its only
// writable places are volumes, and Go respects the memory limit.
func podsAreInOrder(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	found := 0
	for _, o := range objects {
		var spec v1.PodSpec
		at := map[string][]string{"Pod": {"spec"}, "StatefulSet": {"spec", "template", "spec"}}[o.GetKind()]
		if at == nil {
			continue
		}
		found++
		m, _, err := unstructured.NestedMap(o.Object, at...)
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(m, &spec)
		}
		if err != nil {
			t.Fatal(err)
		}
		podIsInOrder(t, o.GetKind()+" "+o.GetName(), &spec)
	}
	if found != 1 {
		t.Errorf("%d pods run Rollcall, wanted 1", found)
	}
}

func podIsInOrder(t *testing.T, name string, spec *v1.PodSpec) {
	t.Helper()
	c := &spec.Containers[0]
	inPod, inContainer := spec.SecurityContext, c.SecurityContext
	if !*inPod.RunAsNonRoot || inPod.SeccompProfile.Type != v1.SeccompProfileTypeRuntimeDefault ||
		*inContainer.AllowPrivilegeEscalation || !*inContainer.ReadOnlyRootFilesystem ||
		!slices.Equal(inContainer.Capabilities.Drop, []v1.Capability{"ALL"}) {
		t.Errorf("%s has rights that it does not need: %v %v", name, inPod, inContainer)
	}
	writable := map[string]bool{}
	for _, m := range c.VolumeMounts {
		writable[m.MountPath] = !m.ReadOnly
	}
	if !writable["/tmp"] {
		t.Errorf("%s lacks a volume for /tmp: %v", name, c.VolumeMounts)
	}
	logIsInOrder(t, name, c)
	if c.LivenessProbe == nil || c.ReadinessProbe == nil {
		t.Errorf("%s lacks a probe", name)
	}
	if limit := c.Resources.Limits.Memory(); !limit.IsZero() {
		var heeded resource.Quantity
		for _, e := range c.Env {
			if e.Name == "GOMEMLIMIT" {
				heeded = resource.MustParse(strings.TrimSuffix(e.Value, "B"))
			}
		}
		if share := heeded.AsApproximateFloat64() / limit.AsApproximateFloat64(); share < 0.85 || share > 0.95 {
			t.Errorf("%s: Go heeds %v of the memory limit %v", name, &heeded, limit)
		}
	}
	args := append(slices.Clone(c.Args), "--help") // at the end: what is before it is parsed
	if out, err := exec.CommandContext(t.Context(), rollcallRun(t)[0], args...).CombinedOutput(); err != nil {
		t.Errorf("%s: rollcall does not take %q: %v\n%s", name, c.Args, err, out)
	}
	grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second
	for _, arg := range c.Args {
		if text, ok := strings.CutPrefix(arg, "--shutdown-grace="); ok {
			if drain, err := time.ParseDuration(text); err != nil || drain+5*time.Second >= grace {
				t.Errorf("%s is killed after %v, and %s", name, grace, arg)
			}
		}
	}
}

// logIsInOrder checks that the log is on a volume, or, if it is in a stream, that its name is taken and the files that
// it names are mounted.
func logIsInOrder(t *testing.T, name string, c *v1.Container) {
	t.Helper()
	under := func(file string, readOnly bool) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool {
			return m.ReadOnly == readOnly && strings.HasPrefix(file, m.MountPath+"/")
		})
	}
	found := 0
	for _, arg := range c.Args {
		log, ok := strings.CutPrefix(arg, "--log=")
		if !ok {
			continue
		}
		found++
		if !jetstream.Is(log) {
			if !under(log, false) {
				t.Errorf("%s lacks a volume for the log %s: %v", name, log, c.VolumeMounts)
			}
			continue
		}
		at, err := jetstream.Parse(log)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, file := range []string{at.NKey, at.Creds, at.CA, at.Cert, at.Key} {
			if file != "" && !under(file, true) {
				t.Errorf("%s lacks a volume for %s: %v", name, file, c.VolumeMounts)
			}
		}
	}
	if found != 1 {
		t.Errorf("%s has %d logs: %q", name, found, c.Args)
	}
}
