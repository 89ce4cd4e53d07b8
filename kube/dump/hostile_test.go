package dump_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/dump"
	"github.com/rollcall-sched/rollcall/kube/dump/dumptest"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// open reads a dump from a stream.
func open(ctx context.Context, in io.Reader) (*dump.Dump, error) {
	return dump.Options{Stdin: in, Now: func() time.Time { return time.Unix(1e9, 0) }}.Open(ctx, dump.Stdin)
}

// applied applies all entries of a dump to a new state.
func applied(ctx context.Context, d *dump.Dump) (*scheduler.Machine, error) {
	m := scheduler.New(plugins.NewRegistry())
	for e, err := range d.Read(ctx, 1) {
		if err == nil {
			err = m.Apply(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// FuzzOpen reads anything as a dump. Either that is an error, or a state can be made of the entries.
func FuzzOpen(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b"}}]}`,
		`{"items":[{"metadata":{"name":"a"}}],"kind":"NodeList","apiVersion":"v1"}`,
		"apiVersion: v1\nkind: NodeList\nitems:\n- metadata:\n    name: n\n",
		"kind: Node\napiVersion: v1\nmetadata: {name: \"\\u0007\"}\nstatus: {allocatable: {cpu: -1}}\n---\n",
		`{"pods":[{"metadata":{"name":"a","namespace":"b"},"spec":{"containers":[{"resources":{"requests":{"cpu":"-9"}}}]}}]}`,
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"1","stage":"ResponseComplete","verb":"create","objectRef":` +
			`{"resource":"nodes","name":"n"},"responseObject":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}},` +
			`"stageTimestamp":"2026-11-28T07:00:00Z"}`,
		`{"kind":"Pod","metadata":{"managedFields":[{"fieldsV1":{"f:spec":{"f:nodeName":{}}}}]},"spec":{"nodeName":"n"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := open(t.Context(), bytes.NewReader(data))
		if err != nil {
			return
		}
		if _, err := applied(t.Context(), d); err != nil {
			t.Errorf("the entries of\n%q\nmake no state: %v", data, err)
		}
	})
}

// TestHostileDumpsAreErrors has inputs that want to exhaust the reader, or that break its assumptions.
func TestHostileDumpsAreErrors(t *testing.T) {
	pod := func(field string) string {
		return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b"},` + field + `}`
	}
	for _, c := range []struct{ name, text, want string }{
		{"deep nesting", `{"a":` + strings.Repeat("[", 1_000_000), "nested more than 200 deep"},
		{"deep nesting in an item", `{"items":[` + strings.Repeat(`{"a":`, 1000), "(item 0 of the list)"},
		{"deep nesting in YAML", "kind: Pod\nspec: " + strings.Repeat("[", 100_000), "standard input: at line 1: "},
		{"aliases in YAML", "kind: &a [x,x,x,x,x,x,x,x,x]\n" + strings.Repeat("b: &b [*a,*a,*a,*a,*a]\n", 40),
			"at line 1"},
		{"a huge string", pod(`"x":"` + strings.Repeat("y", 17<<20) + `"`), "an object of more than 16 MiB"},
		{"a huge line of YAML", "kind: " + strings.Repeat("y", 33<<20), "of more than 16 MiB"},
		{"a list of something else", `{"items":[7]}`, "want an object in the list (item 0)"},
		{"no JSON", `{"items":[{"kind":"Pod","apiVersion":"v1",}]}`, "into the object"},
		{"a wrong type", pod(`"spec":[]`), `at byte 0: Pod "b/a": `},
		{"a wrong time", pod(`"status":{"startTime":"yesterday"}`), `Pod "b/a": `},
		{"no name", `{"kind":"Node","apiVersion":"v1","metadata":{}}`, "a Node without a name"},
		{"no namespace", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, `Pod "a" has no namespace`},
		{"nothing", "", "standard input is empty"},
		{"text", "Error from server (Forbidden)", "want objects of Kubernetes as JSON or YAML"},
		{"cut", `{"kind":"List","items":[{"kind":"Pod"`, "the file ends within "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(t.Context(), strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %.300v, want %q in it", err, c.want)
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestADumpIsTheSameStateHoweverItsItemsAreCut compares the entries of a dump that is read a few bytes at a time, or
// is compressed, with the entries of the same dump in one piece.
func TestADumpIsTheSameStateHoweverItsItemsAreCut(t *testing.T) {
	var text bytes.Buffer
	if err := (dumptest.Cluster{Nodes: 5, Pods: 60, Pending: 3}).Write(&text); err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(text.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var want [32]byte
	for i, in := range []io.Reader{bytes.NewReader(text.Bytes()), slow{bytes.NewReader(text.Bytes())}, &zipped} {
		d, err := open(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		m, err := applied(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		last, _ := d.Last()
		got, err := d.RecordHash(t.Context(), last)
		if err != nil || m.Cluster().Pods().Len() != 60 {
			t.Fatalf("%d pods, %v", m.Cluster().Pods().Len(), err)
		}
		if i > 0 && got != want {
			t.Error("the entries differ")
		}
		want = got
	}
}

// slow returns a few bytes at a time.
type slow struct{ in io.Reader }

func (s slow) Read(p []byte) (int, error) { return s.in.Read(p[:min(len(p), 7)]) }

// TestEntriesAreWhatTheLogWouldHave compares each entry with the one that a recorder would make of the object: sharing
// the parts of pods, and not decoding what is not logged, must not show.
func TestEntriesAreWhatTheLogWouldHave(t *testing.T) {
	var text bytes.Buffer
	if err := (dumptest.Cluster{Nodes: 3, Pods: 40, Pending: 3}).Write(&text); err != nil {
		t.Fatal(err)
	}
	d, err := open(t.Context(), &text)
	if err != nil {
		t.Fatal(err)
	}
	encoder := eventlog.Encoder{Recording: true}
	seen := 0
	for e, err := range d.Read(t.Context(), 2) {
		if err != nil {
			t.Fatal(err)
		}
		p := e.Payload.(*eventlog.Upserted)
		_, want, err := encoder.Logged(&eventlog.Upserted{Resource: p.Resource, Object: p.Object})
		if err != nil {
			t.Fatal(err)
		}
		got, err := encoder.Encode(p)
		if err != nil || got.Sum() != want.Sum() {
			t.Errorf("entry %d: %v", e.Seq, err)
		}
		seen++
	}
	if seen != 43 {
		t.Errorf("%d entries", seen)
	}
}

// TestAGigabyteTakesBoundedMemory reads a list of many large objects that scheduling does not read: they pass
// through, and none stays in memory. ROLLCALL_DUMP_BYTES is the size, 64 MB without it.
func TestAGigabyteTakesBoundedMemory(t *testing.T) {
	size := int64(64 << 20)
	if text := os.Getenv("ROLLCALL_DUMP_BYTES"); text != "" {
		if _, err := fmt.Sscan(text, &size); err != nil {
			t.Fatal(err)
		}
	}
	d, err := open(t.Context(), io.MultiReader(
		strings.NewReader(`{"apiVersion":"v1","kind":"List",
			"items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`),
		&repeated{left: size, text: []byte(`,{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},
			"data":{"a":"` + strings.Repeat("x", 100_000) + `"}}`)},
		strings.NewReader("]}")))
	if err != nil {
		t.Fatal(err)
	}
	if last, _ := d.Last(); last != 2 {
		t.Errorf("%d entries", last)
	}
}

// repeated is a text, again and again, until so many bytes were read. It ends with a whole one.
type repeated struct {
	left int64
	text []byte
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.at == 0 && r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	r.left -= int64(n)
	return n, nil
}

func TestIsKnowsDumpsByTheirContent(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.json": "{}", "b.txt": " \n[", "c": "# comment\n---\napiVersion: v1\n", "d": "key: value", "e": "",
		"f":         "\x00",
		"log/1.seg": "", "log/a.json": "{}", "folder/x/y.yaml": "kind: Pod", "none/readme.txt": "{}",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"a.json": true, "b.txt": true, "c": true, "d": false, "e": false,
		"f": false, "log": false, "folder": true, "none": false, "missing": false} {
		if got := dump.Is(filepath.Join(dir, name)); got != want {
			t.Errorf("Is(%s) = %t", name, got)
		}
	}
	if !dump.Is(dump.Stdin) {
		t.Error("the standard input is no dump")
	}
}
