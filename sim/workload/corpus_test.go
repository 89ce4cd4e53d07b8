package workload

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// corpusFiles is the number of manifests in the style of other projects' examples. Each project has some.
const corpusFiles = 60

// corpusProjects are the projects with a directory in testdata/corpus.
var corpusProjects = []string{"argo", "jobset", "kai", "kueue", "kubeflow", "kuberay", "lws", "spark", "volcano"}

// expectation is the outcome that the comments at the beginning of a manifest state. They have one of
//
//	# reads: 5 pods, 1 gang of 5
//	# refused: "12: the text of the error, with the line in front"
//
// and as many of the following as there are:
//
//	# requests: 16 nvidia.com/gpu, 64 cpu
//	# profile: the name of a scheduler in the configuration, in place of default-scheduler
//	# notes: "the text of a note"
//
// A text that is too long for a line continues in quotes on the next ones. Requests are sums over all pods.
type expectation struct {
	reads, refused, profile string
	requests                map[corev1.ResourceName]string
	notes                   []string
}

var (
	expectationLine = regexp.MustCompile(`^# (reads|refused|requests|profile|notes): (.+)$`)
	continuedLine   = regexp.MustCompile(`^#   "(.*)"$`)
	readsForm       = regexp.MustCompile(`^[0-9]+ pods?(, [0-9]+ gangs? of [0-9]+)*$`)
)

// parseExpectation reads the comments at the beginning of a manifest.
func parseExpectation(text string) (e expectation, err error) {
	e.requests = map[corev1.ResourceName]string{}
	var last *string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "#") {
			break
		}
		if m := continuedLine.FindStringSubmatch(line); m != nil && last != nil {
			*last += m[1]
			continue
		}
		m := expectationLine.FindStringSubmatch(line)
		if m == nil {
			last = nil
			continue
		}
		switch value := strings.TrimSuffix(strings.TrimPrefix(m[2], `"`), `"`); m[1] {
		case "reads":
			e.reads, last = value, nil
		case "profile":
			e.profile, last = value, nil
		case "refused":
			e.refused, last = value, &e.refused
		case "notes":
			e.notes = append(e.notes, value)
			last = &e.notes[len(e.notes)-1]
		case "requests":
			for each := range strings.SplitSeq(value, ", ") {
				amount, name, _ := strings.Cut(each, " ")
				e.requests[corev1.ResourceName(name)] = amount
			}
		}
	}
	switch {
	case (e.reads == "") == (e.refused == ""):
		err = fmt.Errorf("want one of # reads: and # refused: at the beginning")
	case e.reads != "" && !readsForm.MatchString(e.reads):
		err = fmt.Errorf("# reads: %q is not of the form N pods, N gangs of N", e.reads)
	case e.refused != "" && len(e.notes)+len(e.requests) > 0:
		err = fmt.Errorf("a refused file has no notes and no requests")
	}
	return e, err
}

// corpusReads describes a workload as # reads: does. A gang is a PodGroup, or pods that name one and state its size.
func corpusReads(w *Workload) string {
	sizes := map[string]int{}
	for _, o := range w.Objects {
		if minimum, gang := GroupMinimum(o.Object); gang {
			sizes[ObjectName(o.Object)] = minimum
		}
	}
	for i := range w.Pods {
		if name, ok := w.Pods[i].Group(); ok && sizes[name.String()] == 0 {
			sizes[name.String()] = cluster.GangSize(eventlog.Pods, w.Pods[i].Template)
		}
	}
	plural := func(n int, noun string) string {
		if n != 1 {
			noun += "s"
		}
		return strconv.Itoa(n) + " " + noun
	}
	counts := map[int]int{}
	for _, size := range sizes { // any order: they are counted
		counts[size]++
	}
	text := plural(len(w.Pods), "pod")
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(counts))) {
		text += fmt.Sprintf(", %s of %d", plural(counts[size], "gang"), size)
	}
	return text
}

// corpusRequests is the sum of the pods' requests of a resource.
func corpusRequests(w *Workload, name corev1.ResourceName) string {
	var sum corev1.ResourceList
	for i := range w.Pods {
		requests := resourcehelper.PodRequests(w.Pods[i].Template, resourcehelper.PodResourcesOptions{})
		if sum == nil {
			sum = corev1.ResourceList{}
		}
		q := sum[name]
		q.Add(requests[name])
		sum[name] = q
	}
	q := sum[name]
	return q.String()
}

// check compares the outcome of reading a file with the expectation.
func (e *expectation) check(t *testing.T, file string) {
	w, err := Sources{Paths: []string{file}}.Workload()
	if err == nil {
		profile := "default-scheduler"
		if e.profile != "" {
			profile = e.profile
		}
		err = w.CheckProfiles([]string{profile})
	}
	if err != nil {
		text := strings.TrimSpace(strings.TrimPrefix(err.Error(), file+":"))
		if text != e.refused {
			t.Errorf("refused:\n got %q\nwant %q", text, e.refused)
		}
		return
	}
	if e.refused != "" {
		t.Errorf("it reads %s\nwant the refusal %q", corpusReads(w), e.refused)
		return
	}
	if got := corpusReads(w); got != e.reads {
		t.Errorf("reads:\n got %s\nwant %s\npods %s", got, e.reads, told(w))
	}
	for _, name := range slices.Sorted(maps.Keys(e.requests)) {
		if got := corpusRequests(w, name); got != e.requests[name] {
			t.Errorf("requests of %s: %s, want %s", name, got, e.requests[name])
		}
	}
	if !slices.Equal(w.Notes, e.notes) {
		t.Errorf("notes:\n got %q\nwant %q", w.Notes, e.notes)
	}
	for i := range w.Pods {
		if err := w.Pods[i].Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestCorpus reads manifests in the style of the public examples of other projects. Each is read, or refused with
// advice, as its first lines state.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	projects := map[string]int{}
	for _, file := range files {
		dir, name := filepath.Split(file)
		project := filepath.Base(dir)
		if project == "dump" {
			continue
		}
		projects[project]++
		t.Run(project+"/"+name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			e, err := parseExpectation(string(text))
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir) // texts have the name of the file alone
			e.check(t, name)
		})
	}
	total := 0
	for _, project := range corpusProjects {
		if projects[project] < 3 {
			t.Errorf("%d manifests of %s", projects[project], project)
		}
		total += projects[project]
	}
	if total < corpusFiles || len(projects) != len(corpusProjects) {
		t.Errorf("%d manifests of the projects %v, want %d of %v", total, slices.Sorted(maps.Keys(projects)),
			corpusFiles, corpusProjects)
	}
}

// TestCorpusExpectations: a manifest whose outcome is missing, or not understood, is an error and not a pass.
func TestCorpusExpectations(t *testing.T) {
	for _, text := range []string{
		"", "apiVersion: v1\n", "# A comment.\nkind: Pod\n# reads: 1 pod\n", "# reads: some pods\n",
		"# reads: 1 pod\n# refused: \"x\"\n", "# refused: \"x\"\n# notes: \"y\"\n", "# read: 1 pod\n",
	} {
		if e, err := parseExpectation(text); err == nil {
			t.Errorf("%q is taken: %+v", text, e)
		}
	}
	e, err := parseExpectation("# About it.\n# reads: 2 pods, 1 gang of 2\n# requests: 4 cpu\n# notes: \"a \"\n" +
		"#   \"b\"\n# notes: \"c\"\n# profile: volcano\n---\n# notes: \"d\"\n")
	if err != nil || e.reads != "2 pods, 1 gang of 2" || !slices.Equal(e.notes, []string{"a b", "c"}) ||
		e.profile != "volcano" || e.requests["cpu"] != "4" {
		t.Errorf("read as %+v, %v", e, err)
	}
}
