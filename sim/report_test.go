package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// reported simulates with first fit and returns the report, and how it went.
func reported(t *testing.T, text string, opts Options) (string, *Cluster, report.Summary) {
	t.Helper()
	nodes, w := parse(t, twoNodes+text)
	c, err := New(nodes, w, opts)
	if err != nil {
		t.Fatal(err)
	}
	f := newFirstFit(t)
	f.noTranscript = true
	sum, err := c.Run(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := report.WriteRows(&b, c.Report()); err != nil {
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
	return fmt.Sprintf(
		"---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: %s, namespace: ml}\nspec: "+
			"{minMember: %d}\n", name, minimum)
}

// head is the first line of a report.
const head = "name,pods,submitted,complete,placed,finished,attempts," +
	"outcome,ended,priority,preempted,lost,evicted,came_again,preempted_by,gpu_seconds_lost\n"

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
	const groups = `ml/huge,1,0,0,,,0,pending,,0,0,0,0,0,,0
ml/a,1,1.5,1.5,1.5,2.5,0,completed,2.5,0,0,0,0,0,,0
ml/b,2,1.5,4,4,24,0,completed,24,0,0,0,0,0,,0
%sml/never,1,2,,,,0,pending,,0,0,0,0,0,,0
ml/loose,1,5,5,5,6.000000001,0,completed,6.000000001,0,0,0,0,0,,0
%s`
	if got, _, _ := reported(t, work, Options{}); got != head+fmt.Sprintf(groups, "", "") {
		t.Errorf("got\n%s", got)
	}
	got, _, sum := reported(t, work, Options{Singles: true})
	if got != head+fmt.Sprintf(groups,
		"ml/single,1,1.5,1.5,1.5,,0,running,,0,0,0,0,0,,0\n", "ml/other,1,30,30,30,37,0,completed,37,0,0,0,0,0,,0\n") {
		t.Errorf("with pods of no group:\n%s", got)
	}
	if j := sum.Jobs; j.Placed != 5 || j.Finished != 4 || j.MeanWaitSeconds != 0 || j.MeanBoundedSlowdown != 1 {
		t.Errorf("%+v", j)
	}
	// Later events are not in the report.
	if got, _, _ := reported(t, work, Options{Until: 3 * time.Second}); got != head+
		"ml/huge,1,0,0,,,0,pending,,0,0,0,0,0,,0\nml/a,1,1.5,1.5,1.5,2.5,0,completed,2.5,0,0,0,0,0,,0\n"+
		"ml/b,1,1.5,,,,0,pending,,0,0,0,0,0,,0\nml/never,1,2,,,,0,pending,,0,0,0,0,0,,0\n" {
		t.Errorf("until 3s:\n%s", got)
	}
}

func TestJobMeansAreThoseOfTheReport(t *testing.T) {
	// Of 8 cpu: a runs to 10s, so that b waits 9s and c 18s; c runs for less than the bound.
	work := gangOf("a", 1) + gangOf("b", 2) + member("a-0", "a", "4", "0s", "10s") +
		member("b-0", "b", "4", "1s", "20s") + member("b-1", "b", "4", "1s", "20s") + member("c", "", "3", "12s", "2s")
	got, _, sum := reported(t, work, Options{Singles: true})
	want := head + `ml/a,1,0,0,0,10,0,completed,10,0,0,0,0,0,,0
ml/b,2,1,1,10,30,0,completed,30,0,0,0,0,0,,0
ml/c,1,12,12,30,32,0,completed,32,0,0,0,0,0,,0
`
	if got != want {
		t.Fatalf("got\n%s", got)
	}
	// The gangs give (0 + 9) / 2 and (1 + 29/20) / 2, the pod 18 and 20/10, and all jobs together (0 + 9 + 18) / 3 and
	// (1 + 29/20 + 20/10) / 3.
	gangs, pods := sum.GangJobs, sum.PodJobs
	if gangs != (report.JobMeans{Placed: 2, MeanWaitSeconds: 4.5, Finished: 2,
		MeanBoundedSlowdown: (1 + 29.0/20) / 2}) ||
		pods != (report.JobMeans{Placed: 1, MeanWaitSeconds: 18, Finished: 1, MeanBoundedSlowdown: 2}) {
		t.Errorf("gangs %+v, pods %+v", gangs, pods)
	}
	if j := sum.Jobs; j.Placed != 3 || j.Finished != 3 || j.MeanWaitSeconds != 9 ||
		j.MeanBoundedSlowdown != (1+29.0/20+2)/3 {
		t.Errorf("%+v", j)
	}
}

func TestATimelineHasTheValuesAtTheEndOfEachInstant(t *testing.T) {
	work := gangOf("b", 2) + member("a", "", "4", "0s", "10s") +
		member("b-0", "b", "4", "1s", "20s") + member("b-1", "b", "4", "1s", "20s") + member("c", "", "64", "12s", "2s")
	_, c, _ := reported(t, work, Options{Timeline: true})
	tl := c.Timeline()
	for _, l := range []struct {
		line report.Line
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

func (r reserving) Reservations() []report.Reservation {
	at := func(seconds int) time.Time { return workload.Start.Add(time.Duration(seconds) * time.Second) }
	switch now := r.last.Sub(workload.Start); {
	case now == time.Second:
		return []report.Reservation{{Group: "ml/b", From: at(10), Until: at(30)}}
	case now == 12*time.Second:
		return []report.Reservation{{Group: "ml/c", From: at(40)}, {Group: "ml/d", From: at(50)}}
	case now > 12*time.Second:
		return []report.Reservation{{Group: "ml/d", From: at(50)}}
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
		got += fmt.Sprintf("%s from %s: %s to %s\n", r.Group, r.From.Sub(workload.Start), r.Made, r.Gone)
	}
	if want := "ml/b from 10s: 1s to 10s\nml/c from 40s: 12s to 30s\nml/d from 50s: 12s to 30s\n"; got != want ||
		more != 0 {
		t.Errorf("got\n%s%d more", got, more)
	}
}
