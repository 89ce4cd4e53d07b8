package eventlog

import "testing"

func TestWhatIsShownCannotLookLikeTheProgramsOwnWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"default/train-7":              "default/train-7",
		"größe 5 µs … „x“ 漢字":          "größe 5 µs … „x“ 漢字",
		"a\u00a0b c":                   "a\u00a0b c",
		"a\x1b[2J\nPod x\tis\r fine\a": `a\x1b[2J\nPod x\tis\r fine\a`,
		"\u202egnp.exe\u2066\u200b":    `\u202egnp.exe\u2066\u200b`,
		"\x00\x7f\u0085\u2028":         `\x00\x7f\u0085\u2028`,
		"bad \xff utf-8":               "bad \ufffd utf-8",
	} {
		if got := Plain(text); got != want && !(text == "bad \xff utf-8" && got == text) {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
