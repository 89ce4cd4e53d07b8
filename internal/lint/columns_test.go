package lint

import (
	"slices"
	"strings"
	"testing"
)

// TestLongLinesAreFound has a line of each kind, at the limit and behind it.
func TestLongLinesAreFound(t *testing.T) {
	long := strings.Repeat("word ", 23) // 115 columns
	for _, tc := range []struct {
		name  string
		check func([]byte) []int
		text  string
		want  []int
	}{
		{"120 columns are allowed", longInGo, "package a\n// " + long + "ab\n", nil},
		{"121 are not", longInGo, "package a\n// " + long + "abc\n", []int{2}},
		{"characters count, not bytes", longInGo, "// " + long + "äö\n", nil},
		{"a tab counts four", longInGo, "\t// " + long + "\n", []int{1}},
		{"a word that cannot be broken", longInGo, "// https://" + strings.Repeat("a", 130) + "\n", nil},
		{"a directive", longInGo, "//go:embed " + long + long + "\n", nil},
		{"a raw string", longInGo, "package a\nvar b = `\n" + long + long + "\n`\n// " + long + long + "\n", []int{5}},
		{"prose", longInMarkdown, "# a\n\n" + long + "abcdef\n", []int{3}},
		{"a table", longInMarkdown, "| " + long + long + "|\n", nil},
		{"a code block", longInMarkdown, "```text\n" + long + long + "\n```\n" + long + long + "\n", []int{4}},
		{"an indented block", longInMarkdown, "    " + long + long + "\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.check([]byte(tc.text)); !slices.Equal(got, tc.want) {
				t.Errorf("long lines %v, want %v", got, tc.want)
			}
		})
	}
}
