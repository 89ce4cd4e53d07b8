package workload

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// readText reads text as a file called F.
func readText(text string) (*input, error) {
	var r reader
	if err := r.read("F", strings.NewReader(text)); err != nil {
		return nil, err
	}
	in, err := r.finish()
	return &in, err
}

// files writes files into a directory and returns it.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // a buffer takes everything
	_ = w.Close()
	return b.String()
}

const (
	plainPod  = pod + "spec: {containers: [{name: c}]}\n"
	classyPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\n" +
		"spec: {priorityClassName: high, containers: [{name: c}]}\n"
	highClass = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 7\n"
	oneSWFJob = "1 0 -1 5 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n"
)

// TestSourcesAdd reads files, a directory, standard input and compressed files into one workload. A class of a later
// file is known to a pod of an earlier one.
func TestSourcesAdd(t *testing.T) {
	dir := files(t, map[string]string{
		"set/1.yaml": plainPod, "set/2.yml": classyPod, "set/README.md": "x", "set/sub/3.yaml": plainPod,
		"jobs.swf.gz": zipped(oneSWFJob), "class.json": `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}, "spec": {"containers": [{"name": "c"}]}}` +
			"\n---\n" + `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}, "spec": {"containers": [{"name": "d"}]}}` + "\n",
	})
	w, err := Sources{
		Paths: []string{filepath.Join(dir, "set"), "-", filepath.Join(dir, "jobs.swf.gz"),
			filepath.Join(dir, "class.json")},
		Stdin: strings.NewReader(highClass),
	}.Workload()
	if err != nil {
		t.Fatal(err)
	}
	names := podNames(w)
	if len(names) != 5 || !slices.Equal(names[:4], []string{"a", "b", "c", "d"}) {
		t.Errorf("the pods are %v, want a, b, c, d and a job's", names)
	}
	if p := w.Pods[1].Template.Spec.Priority; p == nil || *p != 7 {
		t.Errorf("the priority of b is %v, want 7", p)
	}
	want := "2 of its entries are not read, README.md first"
	if !slices.ContainsFunc(w.Notes, func(note string) bool { return strings.Contains(note, want) }) {
		t.Errorf("the notes %q do not say %q", w.Notes, want)
	}
}

func TestSourcesOfNodesAdd(t *testing.T) {
	dir := files(t, map[string]string{"n.yaml": "apiVersion: v1\nkind: Node\nmetadata: {name: special}\n"})
	nodes, err := Sources{Paths: []string{"2x4cpu", filepath.Join(dir, "n.yaml"), "1x8cpu"}}.Nodes()
	if err != nil || len(nodes) != 4 {
		t.Fatalf("there are %d nodes, %v; want 4", len(nodes), err)
	}
}

func TestFaultsOfSourcesNameThePlace(t *testing.T) {
	dir := files(t, map[string]string{"a.yaml": plainPod, "b.yaml": "# first\n" + plainPod, "j.swf": oneSWFJob,
		"k.swf": oneSWFJob, "docs/x.md": "x", "broken.yaml.gz": zipped(plainPod)[:30]})
	at := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
		return paths
	}
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{at("a.yaml", "b.yaml"), "b.yaml:4: pods default/a stands twice, first at " + dir + "/a.yaml:1"},
		{at("j.swf", "k.swf"), "k.swf: "},
		{at("docs"), "docs: a directory without a file that ends in .yaml"},
		{at("broken.yaml.gz"), "broken.yaml.gz: "},
		{[]string{"-", "-"}, "standard input can be read once"},
	} {
		_, err := Sources{Paths: c.paths, Stdin: strings.NewReader(plainPod)}.Workload()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("of %v the error is %v, want %s", c.paths, err, c.want)
		}
	}
}

func TestDurationsHaveDays(t *testing.T) {
	for text, want := range map[string]time.Duration{"1d": 24 * time.Hour, "1.5d": 36 * time.Hour,
		"2d12h": 60 * time.Hour, "90s": 90 * time.Second, "-1d": -24 * time.Hour} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"d", "1d-2h", "1dd", "1000000000d", "NaNd", "Infd", "1d5"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%s is %s, want an error", text, got)
		}
	}
}

func TestObjectsWithoutMeaningAreLeftOutWithOneNote(t *testing.T) {
	object := func(version, kind string) string {
		return "---\napiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: x}\n"
	}
	in, err := readText(object("v1", "ConfigMap") + object("v1", "ConfigMap") + object("v1", "ServiceAccount") +
		object("networking.k8s.io/v1", "Ingress") + object("rbac.authorization.k8s.io/v1", "Role") + "---\n" + plainPod)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"objects that play no part in scheduling are left out: ConfigMap (2), Ingress (1), Role (1), " +
		"ServiceAccount (1)"}
	if got := in.workload.Notes; !slices.Equal(got, want) {
		t.Errorf("the notes are %q, want %q", got, want)
	}
	for _, kind := range []string{"DaemonSet", "Namespaces"} { // these have a meaning, or are unknown
		if _, err := readText(object("v1", kind)); err == nil {
			t.Errorf("%s is left out", kind)
		}
	}
}
