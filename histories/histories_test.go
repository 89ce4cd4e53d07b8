package histories_test

import (
	"os"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/histories"
)

func TestMain(m *testing.M) {
	histories.TakeRole()
	os.Exit(m.Run())
}

func TestNothingGoesWrong(t *testing.T) {
	r := histories.Make(t, histories.Plan{Name: "no faults", Seed: 1, Schedulers: 2, Patience: 5 * time.Second,
		Every: 20 * time.Millisecond, Lasts: 3 * time.Second})
	if r == nil {
		return
	}
	for _, v := range histories.Check(r) {
		t.Error(v)
	}
	t.Logf("%d entries, %d calls, %d pods", len(r.Entries), len(r.Calls), len(r.Pods))
}
