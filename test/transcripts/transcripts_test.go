package transcripts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// TestEveryStoryHappensAsItIsWritten plays the files below testdata. See the package comment for the dialect.
func TestEveryStoryHappensAsItIsWritten(t *testing.T) {
	for _, path := range stories(t) {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(path), "testdata/"), ".txt")
		t.Run(name, func(t *testing.T) {
			if !setsGates(t, path) {
				t.Parallel()
			}
			transcripts.PlayFile(t, path)
		})
	}
}

// setsGates reports whether a story turns feature gates on. Gates belong to the process: Machines with different gates
// take turns. Stories that are not parallel are played before all others.
func setsGates(t *testing.T, path string) bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "featureGates")
}

// TestEveryStorySaysFirstWhatHolds looks at the first lines of the files.
func TestEveryStorySaysFirstWhatHolds(t *testing.T) {
	for _, path := range stories(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s does not start with a comment that says what holds", path)
		}
	}
}

func stories(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) < 100 {
		t.Fatalf("%d stories: %v", len(paths), err)
	}
	return paths
}
