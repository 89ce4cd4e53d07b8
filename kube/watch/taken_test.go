package watch

import (
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A recorder on standby leads before it has listed anything, or before it has followed an entry. In both cases changes
// may be missing since the log's last entry.
func TestARecorderThatTakesOverEarlySaysWhatMayBeMissing(t *testing.T) {
	until := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	later := until.Add(time.Minute)
	for name, tc := range map[string]struct{ listed, followed bool }{
		"before the lists":                  {false, true},
		"before an entry":                   {true, false},
		"before the lists and before entry": {false, false},
		"behind both":                       {true, true},
	} {
		config := &rest.Config{Host: "http://127.0.0.1:1"}
		w, err := New(Options{Client: kubernetes.NewForConfigOrDie(config), Config: config, Following: true,
			Recording: true, Recorded: Recorded{Until: until}})
		if err != nil {
			t.Fatal(err)
		}
		list := func() {
			for place, k := range w.kinds {
				s := &store{watch: w, place: place, kind: k}
				if err := s.Replace(nil, "7"); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := eventlog.TimeOf(until)
		if tc.followed {
			want = eventlog.TimeOf(later)
			if err := w.Logged(eventlog.Entry{Seq: 1, Time: want, Payload: &eventlog.Tick{}}); err != nil {
				t.Fatal(err)
			}
		}
		if tc.listed {
			list()
		}
		w.Lead()
		if !tc.listed {
			list()
		}
		got := w.Take()
		if len(got) != 1 {
			t.Errorf("%s: took %v, want what is missing", name, got)
			continue
		}
		missing := got[0].(*eventlog.Watched).Missing
		if len(missing) != len(w.kinds) {
			t.Errorf("%s: %d resources may miss changes, want %d", name, len(missing), len(w.kinds))
		}
		for _, m := range missing {
			if m.Since != want || m.Reason != reasonTaken {
				t.Errorf("%s: missing is %+v, want since %v", name, m, want)
			}
		}
	}
}
