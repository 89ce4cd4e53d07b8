package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Kind says what a text is.
type Kind uint8

// The kinds, in the order of reports.
const (
	Namespace Kind = iota
	Pod
	Gang
	Node
	Object
	LabelValue
	UID
	Image
	Scheduler
	Annotation
	Part
	Free
	kinds
)

// kindNames are the names of the kinds in reports.
var kindNames = [kinds]string{
	"namespaces", "pods", "gangs", "nodes", "other objects", "label values", "UIDs", "images", "schedulers",
	"annotations", "parts of objects", "free texts",
}

// String returns the kind's name in reports, a plural.
func (k Kind) String() string { return kindNames[k] }

const (
	// letters are the letters of pseudonyms, in their order. There is no vowel and no digit, so a pseudonym spells no
	// word and looks like no number.
	letters = "bcdfghjkmnpqrstvwxz"
	// tagLength is the number of letters that depend on the key and the text alone.
	tagLength = 4
	// minRank is the least number of letters that say the place of the text in its order.
	minRank = 3
	// longest is the length of the longest pseudonym: no label value may be longer.
	longest = 63
)

// Names are the texts of a log and their pseudonyms.
//
// A pseudonym has letters for the rank of the text among all texts, then letters that follow from the key. So a < b
// holds for two texts if and only if it holds for their pseudonyms, and the pseudonyms of one key are alike in two
// logs behind their rank.
//
// A text that begins with a namespace is longer: "ml-0" is the pseudonym of the namespace "ml", "-", and a rest. For
// decisions also compare keys such as "ml/a" and "ml-0/a": "/" sorts between "-" and letters.
type Names struct {
	key []byte
	// seen has the texts.
	seen map[string]struct{}
	// stems are the texts that other texts begin with.
	stems map[string]struct{}
	out   map[string]string
	// made has the pseudonyms of names that a decision makes.
	made map[string]string
	// used has the kinds, as bits, in which each text was replaced.
	used map[string]uint32
}

// NewNames returns an empty set of names. The key makes the pseudonyms.
func NewNames(key []byte) *Names {
	return &Names{key: key, seen: map[string]struct{}{}, stems: map[string]struct{}{}, made: map[string]string{},
		used: map[string]uint32{}}
}

// Add adds a text.
func (n *Names) Add(text string) {
	if _, known := n.seen[text]; !known {
		n.seen[strings.Clone(text)] = struct{}{}
	}
}

// AddStem adds a text whose pseudonym other pseudonyms begin with, if their texts begin with it and a character that
// sorts before the digits.
func (n *Names) AddStem(text string) {
	n.Add(text)
	n.stems[text] = struct{}{}
}

// divides reports whether a character may follow a stem. Every character that sorts before one of these is one too.
func divides(c byte) bool { return c < '0' }

// stemOf returns the length of the longest stem that text begins with, 0 for none.
func (n *Names) stemOf(text string) int {
	for i := len(text) - 1; i > 0; i-- {
		if divides(text[i]) {
			if _, known := n.stems[text[:i]]; known {
				return i
			}
		}
	}
	return 0
}

// Assign gives each text its pseudonym. No text can be added afterwards. It fails if a pseudonym would be too long for
// a label value.
func (n *Names) Assign() error {
	texts := slices.Sorted(maps.Keys(n.seen))
	groups := map[string]int{} // the number of texts behind each stem and its divider
	begins := make([]string, len(texts))
	for i, text := range texts {
		if stem := n.stemOf(text); stem > 0 {
			begins[i] = text[:stem+1]
		}
		groups[begins[i]]++
	}
	width := map[string]int{}
	// any order: each by itself
	for begin, count := range groups {
		width[begin] = widthOf(count)
	}
	n.out = make(map[string]string, len(texts))
	next := map[string]int{}
	for i, text := range texts {
		if text == "" {
			n.out[text] = ""
			continue
		}
		begin := begins[i]
		before := ""
		if begin != "" { // a stem sorts before the texts that begin with it
			before = n.out[begin[:len(begin)-1]] + begin[len(begin)-1:]
		}
		n.out[text] = before + rank(next[begin], width[begin]) + n.tag(text)
		next[begin]++
		if len(n.out[text]) > longest {
			return fmt.Errorf("no pseudonym of %q has at most %d characters: it begins with too many namespaces", text,
				longest)
		}
	}
	return nil
}

// widthOf returns the number of letters for ranks below count.
func widthOf(count int) int {
	width := minRank
	for most := len(letters) * len(letters) * len(letters); most < count; most *= len(letters) {
		width++
	}
	return width
}

// rank writes a rank with a fixed number of letters.
func rank(at, width int) string {
	b := make([]byte, width)
	for i := width - 1; i >= 0; i-- {
		b[i] = letters[at%len(letters)]
		at /= len(letters)
	}
	return string(b)
}

// tag returns the letters of a text that follow from the key.
func (n *Names) tag(text string) string {
	mac := hmac.New(sha256.New, n.key)
	mac.Write([]byte(text))
	at := binary.BigEndian.Uint32(mac.Sum(nil)) >> 1
	return rank(int(at), tagLength)
}

// Pseudonym returns the pseudonym of a text that was added. The pseudonym of "" is "". ok is false for any other text.
func (n *Names) Pseudonym(kind Kind, text string) (pseudonym string, ok bool) {
	if text == "" {
		return "", true
	}
	if pseudonym, ok = n.made[text]; !ok {
		if pseudonym, ok = n.out[text]; !ok {
			return "", false
		}
	}
	n.used[text] |= 1 << kind
	return pseudonym, true
}

// Has reports whether a text was replaced as the name of something.
func (n *Names) Has(text string) bool { _, ok := n.seen[text]; return ok }

// Make sets the pseudonym of a name that a decision makes: it follows from other pseudonyms.
func (n *Names) Make(text, pseudonym string) { n.made[text] = pseudonym }

// A Replaced is a text that was replaced.
type Replaced struct {
	Pseudonym string   `json:"pseudonym"`
	Text      string   `json:"text"`
	Kinds     []string `json:"kinds"`
}

// Replaced returns the texts that were replaced, in their order.
func (n *Names) Replaced() []Replaced {
	list := make([]Replaced, 0, len(n.used))
	for _, text := range slices.Sorted(maps.Keys(n.used)) {
		pseudonym, made := n.made[text]
		if !made {
			pseudonym = n.out[text]
		}
		r := Replaced{Pseudonym: pseudonym, Text: text}
		for k := range kinds {
			if n.used[text]&(1<<k) != 0 {
				r.Kinds = append(r.Kinds, k.String())
			}
		}
		list = append(list, r)
	}
	return list
}

// Counts returns the number of replaced texts of each kind.
func (n *Names) Counts() map[string]int {
	counts := map[string]int{}
	// any order: only counted
	for _, used := range n.used {
		for k := range kinds {
			if used&(1<<k) != 0 {
				counts[k.String()]++
			}
		}
	}
	return counts
}
