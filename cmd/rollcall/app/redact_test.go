package app

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/test/incident"
	"github.com/rollcall-sched/rollcall/test/worlds"
)

// TestRandomWorldsAreRedacted simulates random worlds, and redacts their logs as a whole and from the middle on. Each
// bundle must be replayed as identical, with the decisions of the log by other names, and no name may be left in it.
// "make soak" tries 200 worlds, and make test 12. ROLLCALL_WORLD=SEED tries one.
func TestRandomWorldsAreRedacted(t *testing.T) {
	first, count := uint64(firstWorld), uint64(12)
	if os.Getenv("ROLLCALL_SOAK") == "1" {
		count = 200
	}
	if text := os.Getenv("ROLLCALL_WORLD"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		must(t, err)
		first, count = seed, 1
	}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			world := worlds.Generate(seed)
			args, err := world.Write(dir)
			must(t, err)
			log := filepath.Join(dir, "log.db")
			if succeeds(t, slices.Concat([]string{"simulate"}, args, []string{"--log", log})) {
				wantRedacted(t, log)
			}
		})
	}
}

// TestTheIncidentIsRedacted redacts the log of package incident.
func TestTheIncidentIsRedacted(t *testing.T) {
	dir := t.TempDir()
	must(t, incident.Write(dir))
	log := filepath.Join(dir, "log.db")
	rollcall(t, "simulate", "--nodes", filepath.Join(dir, "nodes.yaml"), "--workload",
		filepath.Join(dir, "workload.yaml"), "--log", log)
	if n := wantRedacted(t, log); n < 500 {
		t.Errorf("%d texts were searched: want more", n)
	}
}

// wantRedacted redacts a log twice and examines the bundles. It returns the number of texts that it has searched.
func wantRedacted(t *testing.T, log string) (searched int) {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(rollcall(t, "log", "cat", log)), []byte("\n"))
	for _, from := range []int{1, len(lines)/2 + 1} {
		file, names := fmt.Sprintf("%s.%d.bundle", log, from), fmt.Sprintf("%s.%d.names", log, from)
		rollcall(t, "log", "export", log, "--redact", "--from", fmt.Sprint(from), "--out", file, "--map", names)
		wants(t, exitDone, []string{"identical"}, "replay", file)
		again := bytes.Split(bytes.TrimSpace(rollcall(t, "log", "cat", file)), []byte("\n"))
		if len(again) != len(lines)-from+1 {
			t.Fatalf("%s has %d entries, want %d", file, len(again), len(lines)-from+1)
		}
		of := pseudonymsIn(t, names)
		for i := range again {
			wantSameFacts(t, lines[from-1+i], again[i], of)
		}
		searched += wantNoTextLeft(t, lines, file)
	}
	return searched
}

// pseudonymsIn reads the file that --map writes.
func pseudonymsIn(t *testing.T, file string) map[string]string {
	t.Helper()
	info, err := os.Stat(file)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has the mode %o", file, info.Mode().Perm())
	}
	text, err := os.ReadFile(file)
	must(t, err)
	of := map[string]string{}
	for line := range bytes.Lines(text) {
		var one struct{ Pseudonym, Text string }
		must(t, json.Unmarshal(line, &one))
		of[one.Text] = one.Pseudonym
	}
	return of
}

// decisionFacts are the facts of a decision that pseudonyms do not change, or change by the map.
type decisionFacts struct {
	Decision *struct {
		Pod, UID, Group, Node, Nominated, Outcome, WaitUntil string

		Score, Feasible           int64
		Victims, Allowed, WaitFor []string
		Rejections                []struct {
			Plugin, Code string
			Nodes        int64
		}
	}
	Kind string
	Time string
}

// wantSameFacts compares an entry with its redacted form.
func wantSameFacts(t *testing.T, line, redacted []byte, of map[string]string) {
	t.Helper()
	var was, is decisionFacts
	must(t, json.Unmarshal(line, &was))
	must(t, json.Unmarshal(redacted, &is))
	if d := was.Decision; d != nil {
		for _, field := range []*string{&d.UID, &d.Node, &d.Nominated} {
			*field = of[*field]
		}
		for _, field := range []*string{&d.Pod, &d.Group} {
			if namespace, name, ok := strings.Cut(*field, "/"); ok {
				*field = of[namespace] + "/" + of[name]
			}
		}
		for _, list := range [][]string{d.Victims, d.Allowed} {
			for i := range list {
				list[i] = of[list[i]]
			}
		}
	}
	a, err := json.Marshal(was)
	must(t, err)
	b, err := json.Marshal(is)
	must(t, err)
	if !bytes.Equal(a, b) {
		t.Errorf("%s\nhas become %s\nwant %s", line, redacted, a)
	}
}

// namingFields are the fields of the JSON form of entries with names, free texts and values of labels. Below the last
// row are maps whose values are such.
var namingFields = map[string]bool{"name": true, "namespace": true, "uid": true, "node": true, "nodeName": true,
	"image": true, "names": true, "values": true, "value": true, "schedulerName": true, "priorityClassName": true,
	"storageClassName": true, "volumeName": true, "claimName": true, "group": true, "podGroupName": true,
	"message": true, "pod": true, "resourceClaimName": true, "deviceClassName": true, "pool": true, "device": true,
	"labels": true, "matchLabels": true, "nodeSelector": true, "selector": true, "annotations": true}

// wantNoTextLeft searches the unpacked bytes of a bundle for the names in lines, and returns their number.
func wantNoTextLeft(t *testing.T, lines [][]byte, file string) (searched int) {
	t.Helper()
	names, keys := map[string]bool{}, map[string]bool{}
	for _, line := range lines {
		var tree any
		must(t, json.Unmarshal(line, &tree))
		namesIn(tree, "", names, keys)
	}
	raw, text := unpackedBundle(t, file), rollcall(t, "log", "cat", file)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		hasLetter := strings.ContainsAny(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz")
		if len(name) < 4 || keys[name] || !hasLetter || amount.MatchString(name) ||
			strings.HasSuffix(name, ".io") || strings.HasSuffix(name, ".com") || keptWords[name] {
			continue
		}
		searched++
		all := raw
		if len(name) < longEnough {
			all = text
		}
		if at := wholeWord(all, name); at >= 0 {
			t.Errorf("%s: %q is left: %q", file, name, all[max(0, at-60):min(len(all), at+60)])
		}
	}
	return searched
}

// longEnough is the length of a name that the random bytes of hashes do not have in a large bundle. A shorter name is
// searched in the text of log cat.
const longEnough = 7

// keptWords are names in worlds that are also resources or words of the API.
var keptWords = map[string]bool{"memory": true, "pods": true, "metadata.name": true}

// amount is an amount of a resource.
var amount = regexp.MustCompile(`^[0-9.]+[KMGT]i$`)

// namesIn collects names, and the keys of maps.
func namesIn(value any, field string, names, keys map[string]bool) {
	switch value := value.(type) {
	case string:
		if namingFields[field] {
			names[value] = true
		}
	case []any:
		for _, v := range value {
			namesIn(v, field, names, keys)
		}
	case map[string]any:
		isMap := field == "labels" || field == "matchLabels" || field == "nodeSelector" || field == "annotations"
		for key, v := range value {
			keys[key] = true
			switch {
			case key == "config": // names of plugins
			case field == "annotations" && strings.HasPrefix(key, "rollcall.dev/"):
			case isMap:
				namesIn(v, field, names, keys)
			default:
				namesIn(v, key, names, keys)
			}
		}
	}
}

// unpackedBundle returns the bytes of a bundle's manifest, state and records.
func unpackedBundle(t *testing.T, file string) []byte {
	t.Helper()
	b, err := bundle.Open(file, nil)
	must(t, err)
	defer b.Close()
	manifest, err := json.Marshal(b.Manifest())
	must(t, err)
	raw := manifest
	for rec, err := range b.Records(t.Context(), b.First()) {
		must(t, err)
		raw = append(raw, rec.Bytes...)
	}
	packed, err := b.Snapshot()
	must(t, err)
	if len(packed) == 0 {
		return raw
	}
	return append(raw, unpackedState(t, packed)...)
}

// wholeWord returns where a name is in bytes, but not within a longer word, -1 for nowhere. In front of it may be its
// length.
func wholeWord(raw []byte, name string) int {
	isLetter := func(b byte) bool { return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }
	for from := 0; ; {
		at := bytes.Index(raw[from:], []byte(name))
		if at < 0 {
			return -1
		}
		at += from
		end := at + len(name)
		begins := at == 0 || !isLetter(raw[at-1]) || int(raw[at-1]) == len(name)
		if begins && (end == len(raw) || !isLetter(raw[end])) {
			return at
		}
		from = at + 1
	}
}

// unpackedState returns the state in a snapshot.
func unpackedState(t *testing.T, packed []byte) []byte {
	t.Helper()
	const headerSize = 108 // see package snapshot
	zip, err := gzip.NewReader(bytes.NewReader(packed[headerSize:]))
	must(t, err)
	zip.Multistream(false)
	state, err := io.ReadAll(zip)
	must(t, err)
	return state
}
