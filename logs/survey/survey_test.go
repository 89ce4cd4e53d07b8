package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
	"github.com/rollcall-sched/rollcall/plugins"
)

// taken returns the survey of a log of the entries.
func taken(t *testing.T, entries []eventlog.Entry) *Report {
	t.Helper()
	log, err := logs.Options{}.Open(t.Context(), logstest.Segmented(t, entries, 40))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r, err := Take(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestASurveyCountsEveryEntryOnce compares with counts that are made another way.
func TestASurveyCountsEveryEntryOnce(t *testing.T) {
	entries := logstest.WellFormed(200)
	kinds, resources, outcomes := map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	var epochs []uint64
	for _, e := range entries {
		kinds[e.Kind().String()]++
		switch p := e.Payload.(type) {
		case *eventlog.Upserted:
			resources[string(p.Resource)]++
		case *eventlog.Decision:
			outcomes[p.Outcome.String()]++
		case *eventlog.EpochStarted:
			epochs = append(epochs, e.Seq)
		}
	}
	r := taken(t, entries)
	if r.Entries != 200 || r.FirstSeq != 1 || r.LastSeq != 200 {
		t.Errorf("%d entries, %d to %d, want 200 from 1", r.Entries, r.FirstSeq, r.LastSeq)
	}
	for name, pair := range map[string][2]map[string]uint64{
		"kinds": {kinds, r.Kinds}, "resources": {resources, r.Resources}, "outcomes": {outcomes, r.Outcomes},
	} {
		if len(pair[0]) == 0 || !maps.Equal(pair[0], pair[1]) {
			t.Errorf("%s are %v, want %v", name, pair[1], pair[0])
		}
	}
	if len(r.Epochs) != len(epochs) {
		t.Fatalf("%d epochs, want %d", len(r.Epochs), len(epochs))
	}
	for i, e := range r.Epochs {
		if e.Seq != epochs[i] || e.Epoch != uint64(i+1) || e.Behaviour < 1 {
			t.Errorf("epoch %d is %+v, want it at entry %d", i+1, e, epochs[i])
		}
	}
	first, last := entries[0].Time, entries[199].Time
	if r.First != first.String() || r.Last != last.String() || r.Span != last.Sub(first).Seconds() {
		t.Errorf("from %s to %s, %g seconds, want %v to %v", r.First, r.Last, r.Span, first, last)
	}
}

// TestASurveySaysHowLargeALogIs compares with the files of a directory, and with a growth that is reckoned by hand.
func TestASurveySaysHowLargeALogIs(t *testing.T) {
	entries := logstest.WellFormed(200)
	dir := logstest.Segmented(t, entries, 40)
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	var bytes int64
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	log, err := logs.Options{}.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r, err := Take(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	if r.Files != len(files) || r.Files < 5 || r.Bytes != bytes {
		t.Errorf("%d bytes in %d files, want %d in %d", r.Bytes, r.Files, bytes, len(files))
	}
	if r.BytesPerDay != 0 {
		t.Errorf("%d bytes a day, of files that are longer than what is in them", r.BytesPerDay)
	}
}

func TestGrowthIsToldOnceItIsKnown(t *testing.T) {
	for _, test := range []struct {
		bytes   int64
		seconds float64
		want    int64
	}{
		{300_000_000, 86_400, 300_000_000},
		{100_000_000, 7_200, 1_200_000_000},
		{100_000_000, 3_599, 0}, // too young
		{4_239_360, 86_400, 0},  // a file's length says nothing yet
		{0, 0, 0},
	} {
		if got := perDay(test.bytes, test.seconds); got != test.want {
			t.Errorf("%d bytes in %g s: %d a day, want %d", test.bytes, test.seconds, got, test.want)
		}
	}
}

func TestTheTextHasEveryCount(t *testing.T) {
	r := taken(t, logstest.WellFormed(200))
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, counts := range []map[string]uint64{r.Kinds, r.Resources, r.Outcomes} {
		for name := range counts {
			if !strings.Contains(text.String(), "\n  "+name+" ") {
				t.Errorf("%s is not in the text:\n%s", name, text.String())
			}
		}
	}
	if n := strings.Count(text.String(), "\nepoch "); n != len(r.Epochs) {
		t.Errorf("%d epochs are in the text, want %d", n, len(r.Epochs))
	}
}

// TestASurveySaysWhichPluginsEachEpochHad has an epoch with plugins of Rollcall's alone, one with two more, of which
// one is compiled into this program, and one whose configuration cannot be read.
func TestASurveySaysWhichPluginsEachEpochHad(t *testing.T) {
	configs := []string{
		`{"profiles":[{"plugins":{"multiPoint":{"enabled":[{"name":"NodeName"},{"name":"Coscheduling"}]}},` +
			`"pluginConfig":[{"name":"Coscheduling","args":{"queuePolicy":"Backfill"}}]}]}`,
		`{"profiles":[{"plugins":{"multiPoint":{"enabled":[{"name":"NodeName"},{"name":"Row"}]},` +
			`"filter":{"enabled":[{"name":"Rack"}],"disabled":[{"name":"Door"},{"name":"*"}]}}},` +
			`{"plugins":{"score":{"enabled":[{"name":"Row"},{"name":"ImageLocality"}]}},"pluginConfig":[` +
			`{"name":"Coscheduling","args":{"queuePolicy":"ByTeam","victimPolicy":"ByAge","queuePolicyArgs":{"a":1}}}]}]}`,
		`{"profiles":5}`,
	}
	entries := logstest.WellFormed(200)
	n := 0
	for i, e := range entries {
		p, ok := e.Payload.(*eventlog.EpochStarted)
		if !ok {
			continue
		}
		with := *p
		with.Config = []byte(configs[min(n, 2)])
		entries[i].Payload = &with
		n++
	}
	registry, err := plugins.With(frameworkruntime.Registry{
		"Row": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return nil, nil },
	})
	if err != nil || n < 3 {
		t.Fatalf("%d epochs, %v", n, err)
	}
	registry.VictimPolicies = map[string]framework.NewVictimPolicy{
		"ByAge": func(json.RawMessage, framework.PolicyView) (framework.VictimPolicy, error) { return nil, nil },
	}
	log, err := logs.Options{Registry: registry}.Open(t.Context(), logstest.Segmented(t, entries, 40))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r, err := Take(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"[Coscheduling NodeName] [] [] [Backfill] [] []",
		"[ImageLocality NodeName Rack Row] [Rack Row] [Door Rack] [ByTeam] [ByAge] [ByTeam]",
		"[] [] [] [] [] []",
	} {
		e := r.Epochs[i]
		if got := fmt.Sprint(e.Plugins, e.AddedPlugins, e.MissingPlugins, e.LanePolicies, e.VictimPolicies,
			e.MissingPolicies); got != want {
			t.Errorf("epoch %d: plugins, added, missing, lane policies, victim policies, missing: %s, want %s",
				e.Epoch, got, want)
		}
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	_, second, _ := strings.Cut(text.String(), "\nepoch 2 ")
	second, _, _ = strings.Cut(second, "\nepoch 3 ")
	const want = "\n  lane policies: ByTeam\n  victim policies: ByAge\n  added plugins: Rack, Row\n" +
		"  NOT COMPILED INTO THIS PROGRAM: Door, Rack, ByTeam\n"
	if !strings.HasSuffix(second, want) {
		t.Errorf("the text of epoch 2 is %q, want %q at its end", second, want)
	}
	if strings.Count(text.String(), "plugins") != 1 {
		t.Errorf("plugins of the other epochs are in the text:\n%s", text.String())
	}
}

func TestTheTextOfAnEmptyLogHasNoTimes(t *testing.T) {
	var text strings.Builder
	if err := taken(t, nil).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); !strings.Contains(got, "entries  0\n") || strings.Contains(got, "from ") {
		t.Errorf("the text is:\n%s", got)
	}
}

func TestASurveyEndsWhenItIsInterrupted(t *testing.T) {
	log, err := logs.Options{}.Open(t.Context(), logstest.Segmented(t, logstest.WellFormed(50), 40))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Take(ctx, log); !errors.Is(err, context.Canceled) {
		t.Errorf("want that it was canceled, got %v", err)
	}
}
