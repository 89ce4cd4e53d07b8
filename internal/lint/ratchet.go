package lint

import (
	"bufio"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ratchetFile has the findings that are still allowed. Each line has a rule, a name and a number. For the prose rules,
// the name is a package's directory or a page, and the number counts the findings there. For the limits of size, the
// name is a type, function or file, and the number is its size. No number may rise, and the aim is an empty file.
const ratchetFile = "ratchet.txt"

// counted is a rule and the name of the thing that breaks it.
type counted struct{ rule, name string }

// ratchet has the number of each counted thing.
type ratchet map[counted]int

// readRatchet parses a ratchet file.
func readRatchet(name string) (ratchet, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	out := ratchet{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s: %q: want a rule, a name and a number", name, lines.Text())
		}
		n, err := strconv.Atoi(fields[2])
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("%s: %q: want a number above 0", name, lines.Text())
		}
		out[counted{fields[0], fields[1]}] = n
	}
	return out, lines.Err()
}

// text returns the contents of a ratchet file, sorted by rule and name.
func (r ratchet) text() string {
	var out strings.Builder
	out.WriteString("# Findings that are still allowed: rule, place, number. Numbers only go down. To lower them:\n" +
		"#   go test ./internal/lint -run TestRatchet -lower\n")
	for _, k := range slices.SortedFunc(maps.Keys(r), func(a, b counted) int {
		if c := strings.Compare(a.rule, b.rule); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	}) {
		fmt.Fprintf(&out, "%s %s %d\n", k.rule, k.name, r[k])
	}
	return out.String()
}

// totals adds the numbers up by rule.
func (r ratchet) totals() map[string]int {
	out := map[string]int{}
	for k, n := range r {
		out[k.rule] += n
	}
	return out
}

// measured is the present state of everything that the ratchet counts.
type measured struct {
	ratchet
	// findings are the single findings of each count, for the message when it is too high.
	findings map[counted][]finding
}

// measure applies the prose rules and the limits of size to modules and the pages in their directories. Each module is
// named by its directory inside the first.
func measure(root string, modules []string) (measured, error) {
	m := measured{ratchet{}, map[counted][]finding{}}
	for _, dir := range modules {
		t, err := readTree(filepath.Join(root, dir))
		if err != nil {
			return m, err
		}
		m.addTree(filepath.ToSlash(dir), t)
		if err := m.addPages(root, filepath.Join(root, dir)); err != nil {
			return m, err
		}
	}
	return m, nil
}

// addTree adds the findings in one module's Go files. Sizes count themselves; prose counts by package.
func (m measured) addTree(dir string, t *tree) {
	for _, s := range sizesOf(t) {
		if s.n > s.most {
			s.name, s.file = path.Join(dir, s.name), path.Join(dir, s.file)
			m.ratchet[counted{s.rule, s.name}] = s.n
			m.findings[counted{s.rule, s.name}] = []finding{s.finding()}
		}
	}
	for _, p := range t.packages {
		for _, f := range p.files {
			name, prose := path.Join(dir, f.name), proseOfGo(f)
			m.add(path.Join(dir, p.dir), checkPhrases(name, prose))
			m.add(path.Join(dir, p.dir), checkSentences(name, prose, true))
			for _, found := range checkIdentifiers(f) {
				found.file = name
				m.add(path.Join(dir, p.dir), []finding{found})
			}
		}
	}
}

// addPages adds the findings in README and the pages of docs. The changelog is left out: it is history.
func (m measured) addPages(root, dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != dir && skipped(p, d.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(p) != ".md" || d.Name() == "CHANGELOG.md" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		name, prose := relative(root, p), proseOfMarkdown(text)
		m.add(name, checkPhrases(name, prose))
		m.add(name, checkSentences(name, prose, false))
		return nil
	})
}

// add counts findings at a place.
func (m measured) add(place string, found []finding) {
	for _, f := range found {
		k := counted{f.rule, place}
		m.ratchet[k]++
		m.findings[k] = append(m.findings[k], f)
	}
}

// maxShown is the largest number of single findings that a message lists.
const maxShown = 10

// compareWith returns a message for each number that differs from the one allowed.
func (m measured) compareWith(allowed ratchet) (out []string) {
	all := maps.Clone(allowed)
	maps.Copy(all, m.ratchet)
	for k := range all {
		now, before := m.ratchet[k], allowed[k]
		switch {
		case now > before:
			message := fmt.Sprintf("%s of %s: %d are allowed, there are %d. A new one is among these:",
				k.rule, k.name, before, now)
			found := m.findings[k]
			for _, f := range found[:min(len(found), maxShown)] {
				message += "\n\t" + f.String()
			}
			if len(found) > maxShown {
				message += fmt.Sprintf("\n\tand %d more: ROLLCALL_LINT=%s prints all", len(found)-maxShown, k.name)
			}
			out = append(out, message)
		case now < before:
			out = append(out, fmt.Sprintf("%s of %s: %d are allowed, there are %d: lower the number with "+
				"go test ./internal/lint -run TestRatchet -lower", k.rule, k.name, before, now))
		}
	}
	slices.Sort(out)
	return out
}
