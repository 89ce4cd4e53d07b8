package lint

import (
	"slices"
	"strings"
	"testing"
)

// TestEachPhraseIsFound has an example of every phrase, and a plain sentence beside it that is allowed.
func TestEachPhraseIsFound(t *testing.T) {
	examples := []struct{ bad, good string }{
		{"earliest is that of the Outlook", "earliest is the Outlook's time"},
		{"Those that wait are listed.", "The pods that wait are listed."},
		{"stays returns what keeps its devices", "stays reports whether the claim keeps its devices"},
		{"the pods of what failed", "the pods of the failed gang"},
		{"What is bound keeps its node.", "A bound pod keeps its node."},
		{"count is how many nodes there are", "count is the number of nodes"},
		{"what the log says of a pod", "the entries about a pod"},
		{"the queue is told", "Apply tells the queue"},
		{"one writer is let in", "Open admits one writer"},
		{"has the gangs looked at again.", "retries the gangs."},
		{"It is read anew.", "It is read again."},
		{"A pod that is no more.", "A pod that no longer exists, and no more than that."},
		{"of equals the first", "ties go to the first"},
		{"with the pods thought away", "without the pods"},
		{"It stands in the log.", "It is in the log, with a stand-in."},
		{"The scan goes on.", "The scan continues."},
		{"what came of it", "the result"},
		{"every node looked at", "every visited node"},
		{"such entries are passed over", "such entries are ignored"},
		{"this is taken for damage", "this is treated as damage"},
		{"lost for good", "lost permanently"},
		{"nothing of it is kept", "the log keeps no part of it"},
		{"waits in vain", "waits without success"},
		{"a name by chance", "a random name"},
		{"all but for the first", "all except the first"},
		{"whoever reads it", "a reader"},
		{"code is the one of a pod", "code is the code of a pod"},
		{"Of several nodes the first wins.", "The first of several nodes wins."},
		{"the key by which it is found", "its key in the index"},
		{"the nodes that are there", "the nodes that exist"},
	}
	used := map[string]bool{}
	for _, e := range examples {
		found := checkPhrases("a.go", []paragraph{textAsParagraph(e.bad)})
		if len(found) == 0 {
			t.Errorf("not found: %s", e.bad)
		}
		for _, f := range found {
			_, advice, _ := strings.Cut(f.advice, `": `)
			used[advice] = true
		}
		if found := checkPhrases("a.go", []paragraph{textAsParagraph(e.good)}); len(found) > 0 {
			t.Errorf("found in %q: %v", e.good, found)
		}
	}
	for _, p := range phrases {
		if !used[p.advice] {
			t.Errorf("no example of %s", p.pattern)
		}
	}
}

// textAsParagraph is a paragraph of one line, the first of its file.
func textAsParagraph(text string) paragraph {
	p := paragraph{line: 1, doc: true}
	p.add(text)
	return p
}

// TestProseIsFoundWhereItStands holds which texts of a Go file are prose, with the line of each finding.
func TestProseIsFoundWhereItStands(t *testing.T) {
	module := parseModule(t, "-- queue/a.go --\n"+`// Package queue is fine.
package queue

// gist is the gist of "the gist", and
// that of a pod.
//
//	code that is anew
//
// - an item
//   that is anew
//
//go:anew
type gist struct {
	goesWith int // anew
}

/*
 * It is
 * anew.
 */
func vacateNode(spare int) { // read anew
	for foremost := range spare { _ = foremost }
	quietPeriod := "anew"
	_ = quietPeriod
}
`)
	f := module.packages[0].files[0]
	got := places(append(checkPhrases(f.name, proseOfGo(f)), checkIdentifiers(f)...))
	want := []string{
		"queue/a.go:5: phrase", "queue/a.go:10: phrase", "queue/a.go:14: phrase", "queue/a.go:19: phrase",
		"queue/a.go:21: phrase", "queue/a.go:4: private-noun",
		"queue/a.go:13: private-noun", "queue/a.go:14: private-noun", "queue/a.go:21: private-noun",
		"queue/a.go:21: private-noun", "queue/a.go:23: private-noun",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestPhrasesOfAPageAreFound has every kind of block that a page consists of.
func TestPhrasesOfAPageAreFound(t *testing.T) {
	page := "# A title anew\n\nA paragraph\nread anew, and `anew`.\n\n```text\nanew\n```\n\n    anew\n\n" +
		"- an item\n  anew\n\n| a | anew |\n|---|---|\n| b | c |\n\n<!-- anew -->\n"
	var got []int
	for _, f := range checkPhrases("docs/a.md", proseOfMarkdown([]byte(page))) {
		got = append(got, f.line)
	}
	if want := []int{1, 4, 13, 15}; !slices.Equal(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
}

// TestLongSentencesAreFound has sentences at the limit and above it.
func TestLongSentencesAreFound(t *testing.T) {
	words := func(n int) string { return "A" + strings.Repeat(" word", n-1) + "." }
	for _, c := range []struct {
		text string
		doc  bool
		want int
	}{
		{words(maxWords), true, 0},
		{words(maxWords + 1), true, 1},
		{words(maxWords+1) + " " + words(maxWords+1), true, 2},
		{words(20) + " " + words(20), true, 0},
		{words(20)[:80] + " i.e. " + words(20), true, 1},
		{words(maxWords+1) + " It ends.", true, 1},
		{words(20) + " lower names " + words(20), true, 0},
		{words(20) + " “" + words(20) + "”", true, 0},
		{words(maxWords + 1), false, 0},
	} {
		p := textAsParagraph(c.text)
		p.doc = c.doc
		if got := len(checkSentences("a.go", []paragraph{p}, true)); got != c.want {
			t.Errorf("%q: %d findings, want %d", c.text, got, c.want)
		}
	}
}
