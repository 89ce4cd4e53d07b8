package redact

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// someText draws a text: a name, a text that begins with another one, one of any characters, or a long one.
func someText(t *rapid.T, drawn []string) string {
	name := rapid.StringMatching(`[a-z0-9]([-.a-z0-9]{0,6}[a-z0-9])?`)
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0:
		return ""
	case kind == 1:
		return rapid.String().Draw(t, "text")
	case kind == 2:
		return strings.Repeat(name.Draw(t, "part"), 253)[:253]
	case kind < 5 && len(drawn) > 0:
		return rapid.SampledFrom(drawn).Draw(t, "begin") + rapid.SampledFrom([]string{"-", ".", "", "/", "_", " "}).
			Draw(t, "divider") + name.Draw(t, "rest")
	default:
		return name.Draw(t, "name")
	}
}

// TestPseudonymsSortAsTheTextsDo draws sets of texts, some of them namespaces. It compares each two of them: alone, and
// as the namespace in keys such as "a/x".
func TestPseudonymsSortAsTheTextsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := NewNames(rapid.SliceOfN(rapid.Byte(), MinKey, 40).Draw(t, "key"))
		var texts, stems []string
		for range rapid.IntRange(1, 40).Draw(t, "count") {
			text := someText(t, texts)
			texts = append(texts, text)
			if len(stems) < 6 && len(validation.IsDNS1123Subdomain(text)) == 0 && rapid.Bool().Draw(t, "stem") {
				stems = append(stems, text)
				names.AddStem(text)
			}
			names.Add(text)
		}
		if err := names.Assign(); err != nil {
			t.Fatal(err)
		}
		of := func(text string) string {
			pseudonym, ok := names.Pseudonym(Object, text)
			if !ok {
				t.Fatalf("%q has no pseudonym", text)
			}
			return pseudonym
		}
		for _, a := range texts {
			for _, b := range texts {
				if got, want := cmp.Compare(of(a), of(b)), cmp.Compare(a, b); got != want {
					t.Fatalf("%q and %q compare as %d, and their pseudonyms %q and %q as %d", a, b, want, of(a),
						of(b), got)
				}
			}
		}
		for _, a := range stems {
			for _, b := range stems {
				if got, want := cmp.Compare(of(a)+"/x", of(b)+"/x"), cmp.Compare(a+"/x", b+"/x"); got != want {
					t.Fatalf("the keys of %q and %q compare as %d, and with %q and %q as %d", a, b, want, of(a), of(b),
						got)
				}
			}
		}
	})
}

// TestPseudonymsAreValidWhereTheTextsAre takes names of the API: their pseudonyms are valid names and label values.
func TestPseudonymsAreValidWhereTheTextsAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?){0,2}`)
		texts := rapid.SliceOfNDistinct(name, 1, 30, rapid.ID).Draw(t, "names")
		names := NewNames([]byte("some key"))
		for i, text := range texts {
			if names.Add(text); i%5 == 0 {
				names.AddStem(text)
			}
		}
		if err := names.Assign(); err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			pseudonym, _ := names.Pseudonym(Pod, text)
			errs := slices.Concat(validation.IsDNS1123Subdomain(pseudonym), validation.IsValidLabelValue(pseudonym))
			if errs != nil {
				t.Fatalf("%q has the pseudonym %q: %q", text, pseudonym, errs)
			}
		}
	})
}

// TestTheKeyMakesThePseudonyms: the same key gives the same pseudonyms, another key gives others. In two logs the
// pseudonyms of one text are alike behind their rank.
func TestTheKeyMakesThePseudonyms(t *testing.T) {
	of := func(key string, texts ...string) string {
		names := NewNames([]byte(key))
		for _, text := range texts {
			names.Add(text)
		}
		if err := names.Assign(); err != nil {
			t.Fatal(err)
		}
		pseudonym, _ := names.Pseudonym(Pod, "train-0")
		return pseudonym
	}
	one, same, other := of("a", "train-0", "b"), of("a", "train-0", "b"), of("b", "train-0", "b")
	if one != same || one == other {
		t.Errorf("with one key %s and %s, with another one %s", one, same, other)
	}
	later := of("a", "a", "b", "c", "train-0")
	if later == one || later[minRank:] != one[minRank:] {
		t.Errorf("%s and %s differ behind the rank, or not in it", one, later)
	}
}

// TestTooLongPseudonymsAreRefused nests namespaces.
func TestTooLongPseudonymsAreRefused(t *testing.T) {
	names := NewNames([]byte("some key"))
	for i := range 12 {
		names.AddStem("a" + strings.Repeat("-a", i))
	}
	if err := names.Assign(); err == nil || !strings.Contains(err.Error(), "too many namespaces") {
		t.Errorf("error %v", err)
	}
}
