package eventlog_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// secretive are the resources for whose objects the test searches the disk.
var secretive = []eventlog.Resource{
	eventlog.Nodes, eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups,
	eventlog.Pods,
}

// The test makes pods, nodes and groups of both kinds, with a marker of its own in every text for which the API has
// room. They go the way of a cluster's objects: into an engine, its log, and its snapshots. Then it searches every
// file. testdata/kept.txt, which people read, says which fields may be there, and not the table that Trim uses.
func TestNoMarkerOutsideOfTheListReachesTheDisk(t *testing.T) {
	objects := map[eventlog.Resource][]eventlog.Object{}
	markers := 0
	next := func() string { markers++; return fmt.Sprintf("marker-%d-x", markers) }
	for _, res := range secretive {
		full := eventlog.NewObject(res)
		fillAll(full, next)
		objects[res] = append(objects[res], logged(full))
		for seed := range int64(8) {
			obj := eventlog.NewObject(res)
			filler(seed, func(randfill.Continue) string { return next() }).Fill(obj)
			objects[res] = append(objects[res], obj)
		}
		for _, obj := range objects[res] {
			fixOperators(reflect.ValueOf(obj).Elem())
		}
	}
	dir := filepath.Join(t.TempDir(), "a.log")
	runWith(t, dir, objects)
	disk := readDisk(t, dir)
	if bytes.Contains(disk, []byte("marker-0-x")) || !bytes.Contains(disk, []byte(`Post "https://api.example": refused`)) {
		t.Error("the message of a bind is not there without its credential")
	}
	allowed := keptPaths(t)
	found, forbiddenMarkers := 0, 0
	for _, res := range secretive {
		for _, obj := range objects[res] {
			for path, values := range jsonLeaves(t, obj) {
				for _, m := range marker.FindAllString(strings.Join(values, " "), -1) {
					there := bytes.Contains(disk, []byte(m))
					switch may := allowed[string(res)+path]; {
					case may && there:
						found++
					case !may && there:
						t.Errorf("%s: the value of %s is on the disk", res, strings.TrimPrefix(path, "."))
					case !may:
						forbiddenMarkers++
					}
				}
			}
		}
	}
	// The search must be able to find what is there.
	t.Logf(
		"%d markers in %d bytes of files: %d of listed fields found, %d of others not",
		markers,
		len(disk),
		found,
		forbiddenMarkers,
	)
	if found < 1000 || forbiddenMarkers < 3000 {
		t.Errorf("%d markers of listed fields were found, and %d of others were looked for", found, forbiddenMarkers)
	}
}

// fixOperators gives selectors an operator that there is: the API server lets no others in.
func fixOperators(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		switch p := v.Addr().Interface().(type) {
		case *metav1.LabelSelectorOperator:
			*p = metav1.LabelSelectorOpIn
		case *corev1.NodeSelectorOperator:
			*p = corev1.NodeSelectorOpIn
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fixOperators(v.Elem())
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]string]() && v.Len() == 0 {
			v.Set(reflect.ValueOf([]string{"x"})) // and a value at least
		}
		for i := range v.Len() {
			fixOperators(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fixOperators(v.Field(i))
			}
		}
	}
}

// runWith has an engine take the objects in, with a log and snapshots in dir as the product has them.
func runWith(t *testing.T, dir string, objects map[eventlog.Resource][]eventlog.Object) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log, err := boltlog.Create(dir)
	check(err)
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	check(err)
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var reports []string
	e, err := engine.Open(context.Background(), log, now, engine.Options{
		Registry:      plugins.NewRegistry(),
		Config:        config,
		Version:       "test",
		Snapshots:     snapshot.NewDir(filepath.Join(dir, "snapshots"), 3),
		SnapshotEvery: 1,
		Report:        func(message string) { reports = append(reports, message) },
	})
	check(err)
	for _, res := range secretive {
		for _, obj := range objects[res] {
			now = now.Add(time.Minute)
			_, err := e.Step(
				context.Background(),
				now,
				[]eventlog.Payload{&eventlog.Upserted{Resource: res, Object: obj}},
			)
			check(err)
		}
	}
	_, err = e.Step(context.Background(), now, []eventlog.Payload{&eventlog.BindResult{
		UID: "nobody", Outcome: eventlog.BindUnknown, Message: `Post "https://robot:marker-0-x@api.example": refused`,
	}})
	check(err)
	e.Close()
	check(log.Close())
	for _, message := range reports {
		if strings.HasPrefix(message, "no snapshot") {
			t.Error(message)
		}
	}
}

// readDisk returns all bytes of all files below dir, with the uncompressed bytes of a snapshot behind its file's.
func readDisk(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	snapshots := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all = append(all, content...)
		if at := bytes.Index(content, []byte{0x1f, 0x8b, 8}); strings.HasSuffix(path, ".snapshot") && at >= 0 {
			z, err := gzip.NewReader(bytes.NewReader(content[at:]))
			if err != nil {
				return err
			}
			z.Multistream(false)
			state, err := io.ReadAll(z)
			if err != nil {
				return err
			}
			snapshots++
			all = append(all, state...)
			if !marker.Match(state) {
				t.Errorf("%s has no marker at all", path)
			}
		}
		return err
	})
	if err != nil || snapshots == 0 {
		t.Fatalf("%d snapshots, error %v", snapshots, err)
	}
	return all
}

// keptPaths returns the lines of testdata/kept.txt: resource and path.
func keptPaths(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "kept.txt"))
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]bool{}
	resource := ""
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "  ") {
			resource = line
			continue
		}
		kept[resource+"."+strings.TrimSpace(line)] = true
	}
	return kept
}
