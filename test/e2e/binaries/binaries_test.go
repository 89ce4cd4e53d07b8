package binaries_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
)

// TestHelmWithoutANetworkIsNotDownloaded has neither modules nor a place to get them from. The tests of the chart are
// skipped for this error alone: whatever else is wrong with the build fails them.
func TestHelmWithoutANetworkIsNotDownloaded(t *testing.T) {
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-mod=readonly -modcacherw")
	t.Setenv("GOPROXY", "off")
	t.Setenv("ROLLCALL_E2E_BIN", t.TempDir())
	file, err := binaries.Path(t.Context(), binaries.Helm)
	if !errors.Is(err, binaries.ErrNotDownloaded) {
		t.Fatalf("helm is %q: %v", file, err)
	}
	if !strings.Contains(err.Error(), "GOPROXY=off") {
		t.Errorf("the error does not say why: %v", err)
	}
}
