package lint

import (
	"slices"
	"testing"
)

func TestAFileOfALogThatIsOpenedWhateverItIsIsReported(t *testing.T) {
	module := parseModule(t, `
-- snapshot/a.go --
package snapshot
import "os"
func f(path string) {
	_, _ = os.ReadFile(path)
	_, _ = os.CreateTemp(path, "*")
	_, _ = os.Stat(path)
	_ = os.Open
}
-- snapshot/a_test.go --
package snapshot
import "os"
func g(path string) { _, _ = os.ReadFile(path) }
-- logs/verify/a.go --
package verify
import files "os"
func f(path string) { _, _ = files.OpenFile(path, 0, 0) }
-- sim/a.go --
package sim
import "os"
func f(path string) { _, _ = os.ReadFile(path) }
`)
	got := places(checkLogFiles(module))
	want := []string{"logs/verify/a.go:3: log-files", "snapshot/a.go:4: log-files", "snapshot/a.go:7: log-files"}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
