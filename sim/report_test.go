package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// reported simulates with first fit and returns the report, and how it went.
func reported(t *testing.T, text string, opts Options) (string, *Cluster, Summary) {
	t.Helper()
	nodes, w := parse(t, twoNodes+text)
	c, err := New(nodes, w, opts)
	if err != nil {
		t.Fatal(err)
	}
	f := newFirstFit(t)
	f.quiet = true
	sum, err := c.Run(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteReport(&b, c.Report()); err != nil {
		t.Fatal(err)
	}
	return b.String(), c, sum
}

// member is a pod of ml; group may be "".
func member(name, group, cpu, arrival, duration string) string {
	label := ""
	if group != "" {
		label = ", labels: {scheduling.x-k8s.io/pod-group: " + group + "}"
	}
	if duration != "" {
		duration = ", rollcall.dev/duration: " + duration
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: ml%s, annotations: {rollcall.dev/arrival: %s%s}}
spec: {containers: [{name: c, resources: {requests: {cpu: %s}}}]}
`, name, label, arrival, duration, cpu)
}

func gangOf(name string, minimum int) string {
	return fmt.Sprintf("---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: %s, namespace: ml}\nspec: {minMember: %d}\n", name, minimum)
}

const basicGroup = `---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: loose, namespace: ml}
spec: {schedulingPolicy: {basic: {}}}
`

func TestAReportTellsWhenWhatHappenedToEachGroup(t *testing.T) {
	work := gangOf("b", 2) + gangOf("a", 1) + gangOf("never", 3) + gangOf("huge", 1) + basicGroup +
		member("b-0", "b", "3", "1500ms", "10s") + member("b-1", "b", "3", "4s", "20s") +
		member("a-0", "a", "4", "1500ms", "1s") + // before b, by name
		member("huge-0", "huge", "64", "0s", "1s") +
		member("never-0", "never", "1", "2s", "1s") +
		member("loose-0", "loose", "1", "5s", "1000000001ns") +
		member("single", "", "1", "1500ms", "") + member("other", "", "1", "30s", "7s")
	const groups = `ml/huge,1,0,0,,,0
ml/a,1,1.5,1.5,1.5,2.5,0
ml/b,2,1.5,4,4,24,0
%sml/never,1,2,,,,0
ml/loose,1,5,5,5,6.000000001,0
%s`
	const head = "name,pods,submitted,complete,placed,finished,attempts\n"
	if got, _, _ := reported(t, work, Options{}); got != head+fmt.Sprintf(groups, "", "") {
		t.Errorf("got\n%s", got)
	}
	got, _, sum := reported(t, work, Options{Singles: true})
	if got != head+fmt.Sprintf(groups, "ml/single,1,1.5,1.5,1.5,,0\n", "ml/other,1,30,30,30,37,0\n") {
		t.Errorf("with pods of no group:\n%s", got)
	}
	if j := sum.Jobs; j.Placed != 5 || j.Finished != 4 || j.MeanWaitSeconds != 0 || j.MeanBoundedSlowdown != 1 {
		t.Errorf("%+v", j)
	}
	// Of what has not happened by then nothing is told.
	if got, _, _ := reported(t, work, Options{Until: 3 * time.Second}); got != head+"ml/huge,1,0,0,,,0\nml/a,1,1.5,1.5,1.5,2.5,0\nml/b,1,1.5,,,,0\nml/never,1,2,,,,0\n" {
		t.Errorf("until 3s:\n%s", got)
	}
}

func TestJobMeansAreThoseOfTheReport(t *testing.T) {
	// Of 8 cpu: a runs to 10s, so that b waits 9s and c 18s; c runs for less than the bound.
	work := gangOf("a", 1) + gangOf("b", 2) + member("a-0", "a", "4", "0s", "10s") +
		member("b-0", "b", "4", "1s", "20s") + member("b-1", "b", "4", "1s", "20s") + member("c", "", "3", "12s", "2s")
	got, _, sum := reported(t, work, Options{Singles: true})
	want := "name,pods,submitted,complete,placed,finished,attempts\nml/a,1,0,0,0,10,0\nml/b,2,1,1,10,30,0\nml/c,1,12,12,30,32,0\n"
	if got != want {
		t.Fatalf("got\n%s", got)
	}
	// (0 + 9 + 18) / 3; (1 + 29/20 + 20/10) / 3
	if j := sum.Jobs; j.Placed != 3 || j.Finished != 3 || j.MeanWaitSeconds != 9 || j.MeanBoundedSlowdown != (1+29.0/20+2)/3 {
		t.Errorf("%+v", j)
	}
}

func TestATimelineHasTheValuesAtTheEndOfEachInstant(t *testing.T) {
	work := gangOf("b", 2) + member("a", "", "4", "0s", "10s") +
		member("b-0", "b", "4", "1s", "20s") + member("b-1", "b", "4", "1s", "20s") + member("c", "", "64", "12s", "2s")
	_, c, _ := reported(t, work, Options{Timeline: true})
	tl := c.Timeline()
	for _, l := range []struct {
		line Line
		want string
	}{
		{tl.Shares()[0], "cpu [{0s 0.5} {10s 1} {30s 0}]"},
		{tl.PendingPods(), "pods [{0s 0} {1s 2} {10s 0} {12s 1}]"},
		{tl.PendingGangs(), "gangs [{0s 0} {1s 1} {10s 0}]"},
	} {
		if got := fmt.Sprint(l.line.Name, " ", l.line.Points); got != l.want {
			t.Errorf("got %s, want %s", got, l.want)
		}
	}
	if tl.End() != 30*time.Second {
		t.Errorf("it ends at %s", tl.End())
	}
	if _, c, _ := reported(t, work, Options{}); c.Timeline() != nil || len(c.Report()) != 1 {
		t.Error("what nobody asked for is kept")
	}
}

// reserving reserves for a gang what it gets later.
type reserving struct{ *firstFit }

func (r reserving) Reservations() []Reservation {
	at := func(seconds int) time.Time { return Start.Add(time.Duration(seconds) * time.Second) }
	switch now := r.last.Sub(Start); {
	case now == time.Second:
		return []Reservation{{Group: "ml/b", From: at(10), Until: at(30)}}
	case now == 12*time.Second:
		return []Reservation{{Group: "ml/c", From: at(40)}, {Group: "ml/d", From: at(50)}}
	case now > 12*time.Second:
		return []Reservation{{Group: "ml/d", From: at(50)}}
	}
	return nil
}

func TestATimelineHasEachReservationAsLongAsItStood(t *testing.T) {
	nodes, w := parse(t, twoNodes+gangOf("b", 2)+member("a", "", "4", "0s", "10s")+
		member("b-0", "b", "4", "1s", "20s")+member("b-1", "b", "4", "1s", "20s")+member("c", "", "64", "12s", "2s"))
	c, err := New(nodes, w, Options{Timeline: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(t.Context(), reserving{newFirstFit(t)}, nil); err != nil {
		t.Fatal(err)
	}
	got := ""
	reserved, more := c.Timeline().Reservations()
	for _, r := range reserved {
		got += fmt.Sprintf("%s from %s: %s to %s\n", r.Group, r.From.Sub(Start), r.Made, r.Gone)
	}
	if want := "ml/b from 10s: 1s to 10s\nml/c from 40s: 12s to 30s\nml/d from 50s: 12s to 30s\n"; got != want || more != 0 {
		t.Errorf("got\n%s%d more", got, more)
	}
}

// TestAThinnedLineKeepsLeastGreatestAndLast compares with looking at each part by itself.
func TestAThinnedLineKeepsLeastGreatestAndLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole line
		at := time.Duration(0)
		for range rapid.IntRange(0, 400).Draw(t, "points") {
			at += time.Duration(rapid.Int64Range(0, 1<<52).Draw(t, "gap"))
			whole.add(at, float64(rapid.IntRange(0, 9).Draw(t, "value")))
		}
		most := rapid.IntRange(3, 60).Draw(t, "most")
		thinned := whole.thinned(most)
		if len(thinned) > most && len(thinned) > len(whole.points) || len(thinned) > max(most, 3) {
			t.Fatalf("%d points are left, of %d allowed", len(thinned), most)
		}
		if len(whole.points) <= most {
			if len(thinned) != len(whole.points) {
				t.Fatal("points are lost that needed not be")
			}
			return
		}
		// Between two neighbours that are left nothing is lost that is below or above all of its surroundings.
		width := (whole.points[len(whole.points)-1].At-whole.points[0].At)/time.Duration(most/3) + 1
		part := func(p LinePoint) time.Duration { return (p.At - whole.points[0].At) / width }
		type bounds struct{ least, greatest, last float64 }
		boundsOf := func(points []LinePoint) map[time.Duration]bounds {
			all := map[time.Duration]bounds{}
			for _, p := range points {
				b, seen := all[part(p)]
				if !seen {
					b = bounds{p.Value, p.Value, p.Value}
				}
				all[part(p)] = bounds{min(b.least, p.Value), max(b.greatest, p.Value), p.Value}
			}
			return all
		}
		if got, want := boundsOf(thinned), boundsOf(whole.points); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		last := time.Duration(-1)
		for _, p := range thinned {
			if p.At <= last {
				t.Fatalf("%v is not behind %s", p, last)
			}
			last = p.At
		}
	})
}

func TestALineStaysBoundedWhileItIsMade(t *testing.T) {
	var l line
	for i := range 5 * rawLinePoints {
		v := float64(i % 100)
		if i == 12345 {
			v = 1e6
		}
		l.add(time.Duration(i), v)
	}
	if len(l.points) > rawLinePoints {
		t.Errorf("%d points", len(l.points))
	}
	peak := 0.0
	thinned := l.thinned(MaxLinePoints)
	for _, p := range thinned {
		peak = max(peak, p.Value)
	}
	if peak != 1e6 || len(thinned) > MaxLinePoints || len(thinned) < MaxLinePoints/4 {
		t.Errorf("%d points, the greatest is %g", len(thinned), peak)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAReportThatCannotBeWrittenIsAnError(t *testing.T) {
	if err := WriteReport(fullDisk{}, []ReportRow{{Name: "ml/a"}}); err == nil {
		t.Error("no error")
	}
}

func TestWhatTracesDeclareIsAnAnnotationThatPodsShare(t *testing.T) {
	swf, err := readText(`; Version: 2
7  100 -1  60  3 -1 -1  5 99 -1 1 -1 -1 -1 0 -1 -1 -1
8  200 -1   0 -1 -1 -1  2 -1 -1 1 -1 -1 -1 0 -1 -1 -1
9  200 -1  -1  1 -1 -1 -1 30 -1 0 -1 -1 -1 0 -1 -1 -1
11 300 -1 5400  1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1
12 300 -1  99  1 -1 -1 -1  0 -1 1 -1 -1 -1 0 -1 -1 -1
`)
	if err != nil {
		t.Fatal(err)
	}
	openb, err := readText(openbPodsHead + "a,1,1,0,0,,LS,Running,10,70,10\nb,1,1,0,0,,LS,Running,10,10,10\nc,2,1,0,0,,LS,Running,0,60,10\n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range append(swf.workload.Pods, openb.workload.Pods...) {
		built := p.build(p.Template, "u", 0)
		if errs := validate(built); len(errs) > 0 {
			t.Error(errs)
		}
		logged := eventlog.Trim(eventlog.Pods, built)
		got = append(got, fmt.Sprintf("%s runs %s, declares %s", p.Name, p.Duration, logged.GetAnnotations()[DurationAnnotation]))
	}
	want := `job-7-0 runs 1m0s, declares 1m39s
job-7-1 runs 1m0s, declares 1m39s
job-7-2 runs 1m0s, declares 1m39s
job-8-0 runs 1s, declares 1s
job-8-1 runs 1s, declares 1s
job-9-0 runs 30s, declares 30s
job-11-0 runs 1h30m0s, declares 1h30m0s
job-12-0 runs 1m39s, declares 1m39s
a runs 1m0s, declares 1m0s
b runs 1s, declares 1s
c runs 1m0s, declares 1m0s`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	pods := swf.workload.Pods
	pods[0].Annotations["shared"] = "yes"
	if pods[2].Annotations["shared"] == "" || pods[7].Annotations["shared"] == "" || pods[0].Template != pods[7].Template {
		t.Error("pods of one duration have annotations or templates of their own")
	}
}

func TestAJobsDurationIsDeclaredByItsPods(t *testing.T) {
	const job = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: %s, annotations: {rollcall.dev/duration: 10m}}\nspec: {template: {metadata: {%s}, spec: {containers: [{name: c}]}}}\n"
	_, w := parse(t, fmt.Sprintf(job, "a", "")+fmt.Sprintf(job, "b", "annotations: {rollcall.dev/duration: 5m}"))
	for i, want := range []string{"10m", "5m"} {
		p := &w.Pods[i]
		if got := p.build(p.Template, "u", 0).Annotations[DurationAnnotation]; got != want || p.Duration.String() != want+"0s" {
			t.Errorf("%s declares %q and runs %s", p.Name, got, p.Duration)
		}
	}
}
