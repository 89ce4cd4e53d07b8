package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"iter"
	"regexp"
	"strings"
	"unicode"
)

// phrase is a turn of speech that a reader has to read twice.
type phrase struct {
	// has is in every match: looking for it first is ten times as fast.
	has     string
	pattern *regexp.Regexp
	// advice says what to write in its place.
	advice string
}

// phrases are the turns of speech that may not be in comments and pages. Each is at least fifteen times as frequent in
// this module (2026-11-25) as in etcd-io/raft, Pebble, client-go and kube-scheduler, and most never occur there.
var phrases = []phrase{
	{"of", regexp.MustCompile(`\b(that|those) of\b`),
		`repeat the noun: "the candidate's time", not "that of the candidate"`},
	{"hose ", regexp.MustCompile(`\b[Tt]hose (that|which|who)\b`),
		`name them: "the pods that wait", not "those that wait"`},
	{" what", regexp.MustCompile(`(^| )(is|are|was|were|has|have|had|gets?|holds?|keeps?|returns?|takes?|gives?) ` +
		`what\b`),
		`name the thing, or say what it does: "stays reports whether", not "stays is what says"`},
	{"what", regexp.MustCompile(`\b(of|for|by|with|than|in|from|to|on|at|after|before|as|without|into) what\b`),
		`name the thing: "of the pods that failed", not "of what failed"`},
	{"What ", regexp.MustCompile(`^What [a-z]`),
		`begin with the subject: "A pod that is bound keeps its node", not "What is bound keeps its node"`},
	{"", regexp.MustCompile(`\b(is|are|was|were) (how|when|where|which|who|why)\b`),
		`name the quantity: "count is the number of", "since is the time at which", not "count is how many"`},
	{"of", regexp.MustCompile(`\b(say|says|said|tells?|told|knows?|known|asks?|asked|thought|hears?|heard) of\b`),
		`say who does it: "the log has no entry about the pod", not "nothing is said of the pod"`},
	{"told", regexp.MustCompile(`\b(is|are|was|were|be|been|being) told\b`),
		`say who does it: "Apply tells the queue", not "the queue is told"`},
	{"let", regexp.MustCompile(`\b(is|are|was|were|be|been|being) let\b`),
		`say who lets or permits it: "Open admits one writer", not "one writer is let in"`},
	{"", regexp.MustCompile(`\b(has|have|having|had) (the|a|its|their|it|them|all) ([a-z]+ )?` +
		`(looked|tried|told|asked|sorted|checked|dropped|forgotten|considered|made|sent|written|moved)` +
		`( at| anew| again)*([.,;:]|$)`),
		`use the plain verb: "retries the pods", not "has the pods tried again"`},
	{"new", regexp.MustCompile(`\b[Aa]new\b`),
		`write "again"`},
	{"no more", regexp.MustCompile(`\bno more([.,;:)]|$| (is|are|was|were)\b)`),
		`write "no longer", or "nothing else"`},
	{"quals", regexp.MustCompile(`\b[Oo]f equals\b`),
		`write "ties go to the first"`},
	{"thought away", regexp.MustCompile(`\bthought away\b`),
		`write "without"`},
	{"", regexp.MustCompile(`\b[Ss](tands?|tood|tanding) ` +
		`(in|at|for|on|behind|before|here|there|between|below|above|with|by|as|to|and)\b`),
		`write "is", "is stored in" or "means"`},
	{" on", regexp.MustCompile(`\b(goes|go|went|gone|going) on\b`),
		`write "continues" or "resumes"`},
	{" of", regexp.MustCompile(`\b(came|comes?|coming) of\b`),
		`write "the result of" or "follows from"`},
	{"looked", regexp.MustCompile(`\blooked (at|for)\b`),
		`say who examines, visits or searches: "Filter visits the node", not "the node is looked at"`},
	{"over", regexp.MustCompile(`\bpass(ed|es|ing)? over\b`),
		`write "skips" or "ignores"`},
	{"", regexp.MustCompile(`\b(taken|takes?|taking|took) \w+( \w+)? for ` +
		`(a|an|the|one|none|it|them|damage|granted)\b|\btaken for\b`),
		`write "treats as" or "mistakes for"`},
	{"for good", regexp.MustCompile(`\bfor good\b`),
		`write "permanently" or "for ever"`},
	{"nothing", regexp.MustCompile(`\bnothing (of|comes|came)\b`),
		`make a full sentence with a subject: "the watcher ignores the entry", not "nothing of the entry is told"`},
	{"in vain", regexp.MustCompile(`\bin vain\b`),
		`write "without success", or "fails"`},
	{"by chance", regexp.MustCompile(`\bby chance\b`),
		`write "random" or "at random"`},
	{"but for", regexp.MustCompile(`\b(all )?but for\b`),
		`write "except"`},
	{"hoever", regexp.MustCompile(`\b[Ww]hoever\b`),
		`name the actor: "the caller", "a reader of the log"`},
	{"the one of", regexp.MustCompile(`\b(is|are) the one of\b`),
		`repeat the noun: "code is the code of", not "code is the one of"`},
	{"Of ", regexp.MustCompile(`^Of [a-z]`),
		`begin with the subject: "The first of several nodes wins", not "Of several nodes the first wins"`},
	{"by which", regexp.MustCompile(`\bby which\b`),
		`write "that identifies", "with which" or a verb: "the key of the index", not "by which it is found"`},
	{"there", regexp.MustCompile(`\bthat (is|are|was|were) there\b`),
		`write "that exist"`},
}

// privateNouns are words with a meaning that only this project gave them. They may not be in comments, pages, or the
// words that the name of a declaration consists of.
var privateNouns = map[string]string{
	"gist":     `"summary", "template" or "class"`,
	"spot":     `"node" or "position"`,
	"spots":    `"nodes" or "positions"`,
	"sociable": `"with affinity to other pods"`,
	"spare":    `"free" or "unreserved"`,
	"quiet":    `"unchanged" or "idle"`,
	"doubt":    `"uncertain" or "unknown outcome"`,
	"doubted":  `"uncertain" or "to be checked"`,
	"doubts":   `"uncertain" or "to be checked"`,
	"vacate":   `"evict"`,
	"vacated":  `"after eviction" or "evicted"`,
	"roomy":    `"with free capacity"`,
	"foremost": `"first" or "head"`,
	"withheld": `"held back" or "deferred"`,
	"goeswith": `"group member" or "co-scheduled with"`,
	"midst":    `"middle" or "during"`,
	"owed":     `"pending"`,
	"leapt":    `"skipped"`,
	"untried":  `"not attempted"`,
	"uncalled": `"not called"`,
	"setback":  `"rejection" or "failure"`,
	"setbacks": `"rejections" or "failures"`,
	"standin":  `"fake" or "stub"`,
	"mend":     `"fix"`,
	"mended":   `"fixed"`,
}

// quotation matches quoted text, which may be in any language, and the targets of links.
var quotation = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|“[^”]*”|\\]\\([^)]*\\)")

// checkPhrases reports the phrases and private nouns in paragraphs. It ignores quoted text.
func checkPhrases(name string, prose []paragraph) (out []finding) {
	for _, p := range prose {
		text := quotation.ReplaceAllStringFunc(p.text, func(s string) string { return strings.Repeat("~", len(s)) })
		for _, s := range sentencesOf(text) {
			for at, phrase := range phrasesIn(s.text) {
				out = append(out, finding{name, p.lineAt(s.start + at), "phrase", phrase})
			}
		}
		for _, m := range word.FindAllStringIndex(text, -1) {
			if advice, ok := privateNouns[strings.ToLower(text[m[0]:m[1]])]; ok {
				out = append(out, finding{name, p.lineAt(m[0]), "private-noun",
					fmt.Sprintf("%q: write %s", text[m[0]:m[1]], advice)})
			}
		}
	}
	return out
}

// phrasesIn yields where in a sentence the phrases are, with the phrase and the advice.
func phrasesIn(sentence string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for _, p := range phrases {
			if !strings.Contains(sentence, p.has) {
				continue
			}
			for _, m := range p.pattern.FindAllStringIndex(sentence, -1) {
				found := strings.TrimSpace(sentence[m[0]:m[1]])
				if !yield(m[0], fmt.Sprintf("%q: %s", found, p.advice)) {
					return
				}
			}
		}
	}
}

// word matches one word of a text.
var word = regexp.MustCompile(`[A-Za-z]+`)

// checkIdentifiers reports the declared names of a file that have a private noun or a pronoun among their words.
func checkIdentifiers(f *file) (out []finding) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		for _, id := range declaredBy(n) {
			words := wordsOfName(id.Name)
			if whole := strings.ToLower(id.Name); len(words) > 1 {
				words = append(words, whole)
			}
			for _, w := range words {
				if advice := privateNouns[w]; advice != "" {
					out = append(out, f.at(id, "private-noun",
						fmt.Sprintf("%s: instead of %q use %s", id.Name, w, advice)))
				}
			}
		}
		return true
	})
	return out
}

// declaredBy returns the names that a node declares.
func declaredBy(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		var names []*ast.Ident
		for _, expr := range n.Lhs {
			if id, ok := expr.(*ast.Ident); ok && n.Tok == token.DEFINE {
				names = append(names, id)
			}
		}
		return names
	}
	return nil
}

// wordsOfName splits a name at underscores, digits and capital letters.
func wordsOfName(name string) (words []string) {
	start := 0
	runes := []rune(name)
	end := func(i int) {
		if i > start {
			words = append(words, strings.ToLower(string(runes[start:i])))
		}
		start = i
	}
	for i, r := range runes {
		switch {
		case r == '_' || unicode.IsDigit(r):
			end(i)
			start = i + 1
		case unicode.IsUpper(r) && i > 0 && unicode.IsLower(runes[i-1]):
			end(i)
		}
	}
	end(len(runes))
	return words
}

// maxWords is the largest number of words of a sentence: the 98th percentile is 30 in kube-scheduler's doc comments, 32
// in client-go's, 35 in Pebble's and 37 in raft's.
const maxWords = 32

// checkSentences reports sentences of doc comments and pages that are too long.
func checkSentences(name string, prose []paragraph, docOnly bool) (out []finding) {
	for _, p := range prose {
		if docOnly && !p.doc {
			continue
		}
		for _, s := range sentencesOf(p.text) {
			if n := wordsOf(s.text); n > maxWords {
				out = append(out, finding{name, p.lineAt(s.start), "sentence", fmt.Sprintf(
					"a sentence of %d words, at most %d are allowed: one idea a sentence, the subject first",
					n, maxWords)})
			}
		}
	}
	return out
}
