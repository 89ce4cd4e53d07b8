package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
)

// chart is the folder of the Helm chart.
const chart = manifests + "/helm/rollcall"

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTheChartsValuesAreCheckedByItsSchema holds the schema to the values that the chart has, and to mistakes.
func TestTheChartsValuesAreCheckedByItsSchema(t *testing.T) {
	schema := &spec.Schema{}
	if err := json.Unmarshal(readFile(t, filepath.Join(chart, "values.schema.json")), schema); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(readFile(t, filepath.Join(chart, "values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	check := func(values any) *validate.Result {
		return validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(values)
	}
	if r := check(values); !r.IsValid() {
		t.Errorf("the chart's own values: %v", r.Errors)
	}
	for name := range values {
		if _, ok := schema.Properties[name]; !ok {
			t.Errorf("the schema does not have the value %s", name)
		}
	}
	const format = `{"log": {"size": %q, "accessMode": %q, "segmentSize": "1MiB", "retainSize": "1GiB", "stream": {%s}}}`
	log := func(size, mode string) string { return fmt.Sprintf(format, size, mode, `"url": ""`) }
	stream := func(text string) string { return fmt.Sprintf(format, "20Gi", "ReadWriteOnce", text) }
	const taken = `"url": "tls://a:4222,b/jobs", "secretName": "nats", "nkey": "nkey", "ca": "ca.crt"`
	if r := check(changed(t, values, stream(taken))); !r.IsValid() {
		t.Errorf("a stream with TLS and an NKey: %v", r.Errors)
	}
	if r := check(changed(t, values, `{"recorder": true, "schedulerNames": ["default-scheduler"]}`)); !r.IsValid() {
		t.Errorf("a recorder of kube-scheduler's pods: %v", r.Errors)
	}
	mistakes := map[string]string{
		"a name that nothing reads":  `{"schedulerName": "a"}`,
		"no names":                   `{"schedulerNames": []}`,
		"kube-scheduler's name":      `{"schedulerNames": ["default-scheduler"]}`,
		"a size without a unit":      log("20", "ReadWriteOnce"),
		"a volume of many writers":   log("20Gi", "ReadWriteMany"),
		"a grace below zero":         `{"shutdownGraceSeconds": -1}`,
		"an argument that is a word": `{"extraArgs": ["v"]}`,
		"a port that there is not":   `{"networkPolicy": {"enabled": true, "apiServerPorts": [70000]}}`,
		"a stream with a password":   stream(`"url": "nats://me:secret@a:4222/jobs"`),
		"a stream without its name":  stream(`"url": "nats://a:4222"`),
		"a seed without a secret":    stream(`"url": "nats://a/jobs", "nkey": "nkey"`),
		"two that ask":               stream(`"url": "nats://a/jobs", "secretName": "s", "nkey": "n", "creds": "c"`),
		"a certificate without key":  stream(`"url": "nats://a/jobs", "secretName": "s", "cert": "tls.crt"`),
	}
	for name, text := range mistakes {
		if check(changed(t, values, text)).IsValid() {
			t.Errorf("%s: taken: %s", name, text)
		}
	}
}

// changed returns values, overridden by the values in text, which is JSON.
func changed(t *testing.T, values map[string]any, text string) map[string]any {
	t.Helper()
	var change map[string]any
	if err := json.Unmarshal([]byte(text), &change); err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(values)
	maps.Copy(all, change)
	return all
}

// TestTheChartHasTheRightsOfTheBase compares the rules that the chart repeats, and has every template parse.
func TestTheChartHasTheRightsOfTheBase(t *testing.T) {
	role := string(readFile(t, filepath.Join(chart, "templates/clusterrole.yaml")))
	_, rules, found := strings.Cut(role, "\nrules:\n")
	if !found {
		t.Fatal("the chart's ClusterRole has no rules")
	}
	var theirs, ours rbacv1.ClusterRole
	reads, changes, found := strings.Cut(strings.TrimSuffix(rules, "{{- end }}\n"), "{{- if not .Values.recorder }}\n")
	if !found {
		t.Fatal("the rules of a recorder are not marked in the chart's ClusterRole")
	}
	var recorders rbacv1.ClusterRole
	for rules, into := range map[string]*rbacv1.ClusterRole{reads + changes: &theirs, reads: &recorders} { // any order
		if err := yaml.UnmarshalStrict([]byte("rules:\n"+rules), into); err != nil {
			t.Fatal(err)
		}
	}
	var overlay rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(readFile(t, filepath.Join(manifests, "overlays/recorder/clusterrole.yaml")),
		&overlay); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(recorders.Rules, overlay.Rules) {
		t.Errorf("a recorder of the chart has other rules than the overlay:\n%+v\n%+v", recorders.Rules, overlay.Rules)
	}
	text := readFile(t, filepath.Join(manifests, "base/rbac/clusterrole.yaml"))
	if err := yaml.UnmarshalStrict(text, &ours); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(theirs.Rules, ours.Rules) {
		t.Errorf("the chart has other rules than the base:\n%+v\n%+v", theirs.Rules, ours.Rules)
	}

	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil || len(files) < 10 {
		t.Fatalf("the templates are %q: %v", files, err)
	}
	known := template.FuncMap{}
	for _, name := range []string{
		"include", "toYaml", "nindent", "quote", "trunc", "trimSuffix", "contains", "add", "int", "sha256sum",
	} {
		known[name] = func(...any) string { return "" }
	}
	for _, file := range files {
		text := readFile(t, file)
		if _, err := template.New(file).Funcs(known).Parse(string(text)); err != nil {
			t.Error(err)
		}
		if bytes.Contains(text, []byte("\t")) {
			t.Errorf("%s has a tab", file)
		}
	}
}

// helmPrints runs helm, which is built at the first use, and returns its standard output. The test is skipped only when
// helm's modules cannot be downloaded: the schema, the rights and the form of the templates are checked without it.
func helmPrints(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	helm, err := binaries.Path(t.Context(), binaries.Helm)
	if errors.Is(err, binaries.ErrNotDownloaded) {
		t.Skipf("the chart is not rendered, because helm is not there: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), helm, args...)
	home := t.TempDir() // without the user's own settings
	cmd.Env = []string{"HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("helm %s: %w\n%s", args[0], err, exit.Stderr)
	}
	return out, err
}

// rendered are the chart's objects with a file of values.
func rendered(t *testing.T, values string) ([]byte, error) {
	t.Helper()
	return renderedFor(t, "1.37.0", values)
}

// renderedFor is rendered for a version of Kubernetes.
func renderedFor(t *testing.T, version, values string) ([]byte, error) {
	t.Helper()
	return helmPrints(t, "template", "rollcall", chart, "--namespace", "rollcall-system", "--kube-version", version,
		"--values", values)
}

// valuesIn are the files of values in a folder of testdata/chart.
func valuesIn(t *testing.T, folder string, least int) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata/chart", folder, "*.yaml"))
	if err != nil || len(files) < least {
		t.Fatalf("the values are %q: %v", files, err)
	}
	return files
}

// chartIsAccepted has the API server look at the chart with several values, and Rollcall at the configuration and the
// command line that it makes.
func chartIsAccepted(t *testing.T, client dynamic.Interface, dry metav1.CreateOptions) {
	for _, values := range valuesIn(t, "taken", 4) {
		t.Run(filepath.Base(values), func(t *testing.T) {
			if out, err := helmPrints(t, "lint", "--strict", chart, "--values", values); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			out, err := rendered(t, values)
			if err != nil {
				t.Fatal(err)
			}
			objects := objectsOf(t, out)
			if len(objects) < 10 {
				t.Errorf("the chart has %d objects", len(objects))
			}
			apply(t, client, objects, dry)
			for _, o := range objects {
				if o.GetKind() != "ConfigMap" {
					continue
				}
				text, _, err := unstructured.NestedString(o.Object, "data", "scheduler.yaml")
				if err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(t.TempDir(), "scheduler.yaml")
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				configurationIsTaken(t, file)
			}
			podsAreInOrder(t, objects)
		})
	}
}

// mistakesAreRefused has helm refuse values, before anything is sent to a cluster, and say what is wrong with them.
func mistakesAreRefused(t *testing.T) {
	for _, values := range valuesIn(t, "refused", 10) {
		out, err := rendered(t, values)
		if err == nil {
			t.Errorf("%s is taken:\n%s", values, out)
		} else if !strings.Contains(err.Error(), "schema") {
			t.Errorf("%s: %v", values, err)
		}
	}
}
