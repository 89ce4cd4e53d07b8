package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestDerivedUIDsNeverChange(t *testing.T) {
	if got, want := UID(eventlog.Pods, "default", "a"), types.UID("e3d83f42-479f-5144-86dc-1d286003e76c"); got != want {
		t.Errorf("got %s, want %s: logs of simulations would differ from those of earlier versions", got, want)
	}
}
