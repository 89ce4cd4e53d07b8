package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
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
	mistakes := map[string]string{
		"a name that nothing reads":  `{"schedulerName": "a"}`,
		"no names":                   `{"schedulerNames": []}`,
		"kube-scheduler's name":      `{"schedulerNames": ["default-scheduler"]}`,
		"a size without a unit":      `{"log": {"size": "20", "accessMode": "ReadWriteOnce", "segmentSize": "1MiB"}}`,
		"a volume of many writers":   `{"log": {"size": "20Gi", "accessMode": "ReadWriteMany", "segmentSize": "1MiB"}}`,
		"a grace below zero":         `{"shutdownGraceSeconds": -1}`,
		"an argument that is a word": `{"extraArgs": ["v"]}`,
		"a port that there is not":   `{"networkPolicy": {"enabled": true, "apiServerPorts": [70000]}}`,
	}
	for name, text := range mistakes {
		var mistake map[string]any
		if err := json.Unmarshal([]byte(text), &mistake); err != nil {
			t.Fatal(err)
		}
		wrong := map[string]any{}
		for k, v := range values {
			wrong[k] = v
		}
		for k, v := range mistake {
			wrong[k] = v
		}
		if check(wrong).IsValid() {
			t.Errorf("%s: taken: %s", name, text)
		}
	}
}

// TestTheChartHasTheRightsOfTheBase compares the rules that the chart repeats, and has every template parse.
func TestTheChartHasTheRightsOfTheBase(t *testing.T) {
	role := string(readFile(t, filepath.Join(chart, "templates/clusterrole.yaml")))
	_, rules, found := strings.Cut(role, "\nrules:\n")
	if !found {
		t.Fatal("the chart's ClusterRole has no rules")
	}
	var theirs, ours rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte("rules:\n"+rules), &theirs); err != nil {
		t.Fatal(err)
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
