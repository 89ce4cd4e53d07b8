package app

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// placement is the script command "placement CAT POD JSON TEXT": it compares the output of log check about the proof of
// a pod's placement with the lines of log cat.
func placement(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: placement CAT POD JSON TEXT")
	}
	l, text := readNaively(ts, ts.ReadFile(args[0]), time.Time{}), ts.ReadFile(args[3])
	var told toldPlacement
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[2])), &told))
	compared(ts, neg, func() { l.comparePlacement(l.named(args[1]), &told, text) })
}

// toldPlacement is the part of an output of log check that is compared.
type toldPlacement struct {
	Proven    string
	Placement struct {
		Pod, UID, Group, Node    string
		Decided, Released, Bound struct {
			Seq  uint64
			Time time.Time
		}
	}
	Entries []map[string]any
}

func (l *naiveLog) comparePlacement(p *naivePod, told *toldPlacement, text string) {
	r := &told.Placement
	l.want("what is proven", told.Proven, "placement")
	l.want("of which pod", r.Pod+" "+r.UID, p.name+" "+p.uid)
	l.want("of which gang", r.Group, p.group)
	l.want("by which Decision", r.Decided.Seq, p.decided)
	l.want("released by", r.Released.Seq, p.released)
	l.want("bound by", r.Bound.Seq, p.bound)
	l.want("bound at", r.Bound.Time, p.boundAt)
	seqs := slices.DeleteFunc([]uint64{p.decided, p.released, p.bound}, func(seq uint64) bool { return seq == 0 })
	l.want("how many entries are shown", len(told.Entries), len(seqs))
	for i, seq := range seqs {
		line := map[string]any{}
		if err := json.Unmarshal([]byte(l.lines[seq]), &line); err != nil {
			l.ts.Fatalf("entry %d: %v", seq, err)
		}
		if d, ok := line["decision"].(map[string]any); ok {
			delete(d, "allowedPods") // log cat adds names, which are not in the log
			if seq == p.decided {
				l.want("the node of the Decision", d["node"], r.Node)
			}
		} else {
			l.want("the node of the bind", line["node"], r.Node)
		}
		delete(line, "pod")
		l.want(fmt.Sprintf("entry %d", seq), told.Entries[i], line)
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^  (decided|released|bound) +entry %d, `, seq)).MatchString(text) {
			disagree("entry %d is not said:\n%s", seq, text)
		}
	}
	want := fmt.Sprintf("and place pod %s (UID %s) on node %s\n", p.name, p.uid, r.Node)
	if !strings.Contains(text, want) {
		disagree("it does not say %q:\n%s", want, text)
	}
}

// jumps is the script command "jumps CAT JSON TEXT": it compares the overtakings and verdicts of audit order with the
// ones that a naive reader finds in the lines of log cat. No two entities in these worlds have the same priority. So in
// every overtaking, one of lower priority passes one of higher priority.
func jumps(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: jumps CAT JSON TEXT")
	}
	l, text := readNaively(ts, ts.ReadFile(args[0]), time.Time{}), ts.ReadFile(args[2])
	var told toldOrder
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &told))
	found := l.jumps()
	if len(found) == 0 {
		ts.Fatalf("by log cat no lower priority was placed before a higher one: nothing is tested")
	}
	compared(ts, neg, func() { l.compareJumps(found, &told, text) })
}

// toldOrder is the part of an output of audit order that is compared.
type toldOrder struct {
	Allowed, Violations int
	Overtakings         []struct {
		Verdict       string
		Overtaken, By struct {
			Kind, Name string
			Priority   int32
		}
		Chosen, Placed uint64
	}
}

func (l *naiveLog) compareJumps(found map[naiveJump]bool, told *toldOrder, text string) {
	said := map[naiveJump]bool{}
	for _, o := range told.Overtakings {
		said[naiveJump{
			o.Chosen, o.Placed, o.By.Kind + " " + o.By.Name, o.Overtaken.Kind + " " + o.Overtaken.Name,
			o.By.Priority, o.Overtaken.Priority, o.Verdict == "allowed",
		}] = true
	}
	says := func(line string) {
		if !strings.Contains(text, line) {
			disagree("it does not say %q:\n%s", line, text)
		}
	}
	allowed := 0
	for j := range maps.Keys(found) {
		if !said[j] {
			disagree("by log cat there is %+v, which is not among %+v", j, said)
		}
		verdict := "VIOLATION"
		if j.allowed {
			verdict = "allowed  "
			allowed++
		}
		says(fmt.Sprintf("%s entry %d: %s (priority %d) was placed before %s (priority %d)\n", verdict, j.placed,
			inWords(j.by), j.byPriority, inWords(j.overtaken), j.overtakenPriority))
	}
	says(fmt.Sprintf(" %d overtakings allowed, %d in VIOLATION\n", allowed, len(found)-allowed))
	l.want("how many overtakings there are", len(said), len(found))
	l.want("how many are allowed", told.Allowed, allowed)
	l.want("how many are violations", told.Violations, len(found)-allowed)
}

// inWords is an entity as an audit's text has it.
func inWords(entity string) string { return strings.Replace(entity, "podgroup ", "gang ", 1) }

// naiveJump is a lower priority that was placed before a higher one.
type naiveJump struct {
	chosen, placed                uint64
	by, overtaken                 string
	byPriority, overtakenPriority int32
	allowed                       bool
}

// jumps returns all overtakings of a log. One is allowed if the overtaken entity could not be tried, or if it had been
// tried and refused and no room was freed since then. Under StrictFIFO the latter is no excuse. That is stricter than
// the product's rules: in these worlds no entity is in backoff when another is placed.
func (l *naiveLog) jumps() map[naiveJump]bool {
	strict := strings.Contains(l.lines[1], `"queuePolicy":"StrictFIFO"`)
	found := map[naiveJump]bool{}
	for _, try := range l.tries {
		if try.placed == 0 {
			continue
		}
		for _, w := range try.before {
			own, others := l.priorityOf(try.entity), l.priorityOf(w.entity)
			if own >= others {
				continue
			}
			allowed := w.gated || w.refused && !strict
			found[naiveJump{try.first, try.placed, try.entity, w.entity, own, others, allowed}] = true
		}
	}
	return found
}

// tampered is the script command "tampered PROOF KEY": it changes the proof of a placement in each of the ways that
// would make it say something else. Each time log check must refuse it. The tampering program knows the format of
// records: it computes their checksums again.
func tampered(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tampered PROOF KEY")
	}
	proof := ts.ReadFile(args[0])
	entry := regexp.MustCompile(`(?s)      \{\n        "seq": \d+,\n        "hashes": \[.*?\n      \}`)
	record := regexp.MustCompile(`"record": "([^"]+)"`)
	entries := entry.FindAllString(proof, -1)
	if len(entries) != 3 {
		ts.Fatalf("the proof has %d entries, want three", len(entries))
	}
	decided, released, bound := entries[0], entries[1], entries[2]
	changes := map[string]string{
		"the Decision left out":            strings.Replace(proof, decided+",\n", "", 1),
		"the release left out":             strings.Replace(proof, released+",\n", "", 1),
		"the Decision in the bind's place": strings.Replace(proof, bound, decided, 1),
		"the other way round":              strings.NewReplacer(decided, released, released, decided).Replace(proof),
		"one entry more in the log":        strings.Replace(proof, `"size": `, `"size": 1`, 1),
	}
	for name, whole := range map[string]string{"Decision": decided, "release": released, "bind": bound} {
		text := record.FindStringSubmatch(whole)[1]
		changes["another node in the "+name] = strings.Replace(proof, text, onAnotherNode(ts, text), 1)
	}
	if len(changes) < 8 {
		ts.Fatalf("only these changes were made: %v", slices.Sorted(maps.Keys(changes)))
	}
	for name, changed := range changes {
		ts.Check(os.WriteFile(ts.MkAbs("tampered.proof"), []byte(changed), 0o600))
		err := ts.Exec("rollcall", "log", "check", "tampered.proof", "--key", args[1])
		var exit *exec.ExitError
		said := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		if changed == proof || !errors.As(err, &exit) || exit.ExitCode() != exitFailed ||
			!strings.Contains(said, "not proven") {
			ts.Fatalf("%s: want that nothing is proven, and it says (%v):\n%s", name, err, said)
		}
	}
	// The rest without the bind is true, and it is no placement.
	ts.Check(os.WriteFile(ts.MkAbs("tampered.proof"), []byte(strings.Replace(proof, ",\n"+bound, "", 1)), 0o600))
	ts.Check(ts.Exec("rollcall", "log", "check", "tampered.proof", "--key", args[1]))
	if said := ts.ReadFile("stdout"); strings.Contains(said, "place pod") ||
		!strings.Contains(said, "that it was bound there is not shown") {
		ts.Fatalf("without the bind it says\n%s", said)
	}
}

// onAnotherNode returns a record, in base64, in which the node is another, with its checksum computed again.
func onAnotherNode(ts *testscript.TestScript, record string) string {
	raw, err := base64.StdEncoding.DecodeString(record)
	ts.Check(err)
	body, sum := raw[:len(raw)-4], binary.BigEndian.Uint32(raw[len(raw)-4:])
	table := crc32.MakeTable(crc32.Castagnoli)
	if crc32.Checksum(body, table) != sum {
		ts.Fatalf("a record does not end with its checksum: this test knows another format")
	}
	changed := strings.NewReplacer("\x02n1", "\x02n2", "\x02n2", "\x02n1").Replace(string(body))
	if changed == string(body) {
		ts.Fatalf("a record has no node: this test knows another format")
	}
	body = []byte(changed)
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(body, crc32.Checksum(body, table)))
}
