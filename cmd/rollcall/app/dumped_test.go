package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// dumpOf is the script command "dumpof CAT TIME FILE": it writes the objects of a log at a time as kubectl get -o json
// prints them. It reads the lines of log cat. A pod that the log has bound has its node, as in an API server.
func dumpOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: dumpof CAT TIME FILE")
	}
	until, err := time.Parse(time.RFC3339, args[1])
	ts.Check(err)
	cat := ts.ReadFile(args[0])
	log := readNaively(ts, cat, until)
	objects := map[string]map[string]any{}
	var names []string
	for line := range strings.Lines(cat) {
		var e struct {
			Seq                       uint64
			Kind, Resource, Namespace string
			Name                      string
			Object                    map[string]any
		}
		ts.Check(json.Unmarshal([]byte(line), &e))
		if e.Seq > log.seq {
			break
		}
		switch e.Kind {
		case "Upserted":
			meta := e.Object["metadata"].(map[string]any)
			namespace, _ := meta["namespace"].(string)
			name := e.Resource + " " + namespace + "/" + meta["name"].(string)
			names = append(names, name)
			objects[name] = e.Object
		case "Deleted":
			delete(objects, e.Resource+" "+e.Namespace+"/"+e.Name)
		}
	}
	for _, p := range log.pods {
		if o := objects["pods "+p.name]; o != nil && p.node != "" && p.bound > 0 && p.goneAt.IsZero() {
			o["spec"].(map[string]any)["nodeName"] = p.node
		}
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	items := []any{}
	for _, name := range names {
		if o := objects[name]; o != nil {
			items = append(items, o)
		}
		delete(objects, name)
	}
	list["items"] = items
	text, err := json.MarshalIndent(list, "", "    ")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), text, 0o600))
}

// sameReasons is the script command "samereasons A B [EXCEPT]": two answers of get pending in JSON have the same
// entities, with the same codes. An entity that would find nodes has a code of its history, which B need not have.
func sameReasons(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: samereasons A B [EXCEPT]")
	}
	type row struct {
		Kind, Name, Code, Never string
		Fits                    bool
	}
	read := func(file string) map[string]row {
		var list struct{ Items []row }
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(file)), &list))
		rows := map[string]row{}
		for _, r := range list.Items {
			if r.Fits {
				r.Code = "fits"
			}
			rows[r.Kind+" "+r.Name] = r
		}
		return rows
	}
	a, b := read(args[0]), read(args[1])
	for _, name := range args[2:] {
		delete(a, name)
		delete(b, name)
	}
	if len(a) < 3 {
		ts.Fatalf("only %d entities are pending", len(a))
	}
	compared(ts, neg, func() {
		var differences []string
		for _, name := range slices.Sorted(maps.Keys(a)) {
			if y, ok := b[name]; !ok || a[name] != y {
				differences = append(differences, fmt.Sprintf("%s: %+v and %+v", name, a[name], y))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(b)) {
			if _, ok := a[name]; !ok {
				differences = append(differences, name+" is pending in the second alone")
			}
		}
		if len(differences) > 0 {
			disagree("%s", strings.Join(differences, "\n"))
		}
	})
}
