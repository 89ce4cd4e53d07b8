package app

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// naiveJob is a job on a machine of processors that are all alike. Times are whole seconds. It runs from its start for
// run; declared is its declared run time.
type naiveJob struct {
	name                   string
	arrival, declared, run int64
	processors             int
}

// naiveRun is a job that runs.
type naiveRun struct {
	end, declaredEnd int64
	processors       int
}

// never is the start of a job that does not start.
const never = int64(-1)

// naivePolicy starts the jobs of the queue that it wants to run now, in the queue's order.
type naivePolicy func(m *naiveMachine, queue []int) (left []int)

// naiveMachine is the machine that the naive references schedule on.
type naiveMachine struct {
	jobs    []naiveJob
	now     int64
	free    int
	running []naiveRun
	starts  []int64
}

// naiveStarts returns the start of each job. At one instant all jobs that end go first, then all that arrive come, then
// the policy decides. The queue is in the order of arrival; ties are ordered by name.
func naiveStarts(jobs []naiveJob, processors int, policy naivePolicy) []int64 {
	m := &naiveMachine{jobs: jobs, free: processors, starts: make([]int64, len(jobs))}
	coming := make([]int, len(jobs))
	for i := range jobs {
		m.starts[i], coming[i] = never, i
	}
	slices.SortFunc(coming, func(a, b int) int {
		return cmp.Or(cmp.Compare(jobs[a].arrival, jobs[b].arrival), strings.Compare(jobs[a].name, jobs[b].name))
	})
	var queue []int
	for len(coming) > 0 || len(m.running) > 0 {
		m.now = m.next(coming)
		m.running = slices.DeleteFunc(m.running, func(r naiveRun) bool {
			if r.end <= m.now {
				m.free += r.processors
			}
			return r.end <= m.now
		})
		for len(coming) > 0 && jobs[coming[0]].arrival <= m.now {
			queue, coming = append(queue, coming[0]), coming[1:]
		}
		queue = policy(m, queue)
	}
	return m.starts
}

// next returns the time of the next event.
func (m *naiveMachine) next(coming []int) int64 {
	var times []int64
	if len(coming) > 0 {
		times = append(times, m.jobs[coming[0]].arrival)
	}
	for _, r := range m.running {
		times = append(times, r.end)
	}
	return slices.Min(times)
}

// start starts a job if there are processors for it.
func (m *naiveMachine) start(i int) bool {
	j := m.jobs[i]
	if j.processors > m.free {
		return false
	}
	m.free -= j.processors
	m.starts[i] = m.now
	m.running = append(m.running, naiveRun{m.now + j.run, m.now + j.declared, j.processors})
	return true
}

// naiveFCFS lets no job pass: first come, first served.
func naiveFCFS(m *naiveMachine, queue []int) []int {
	for len(queue) > 0 && m.start(queue[0]) {
		queue = queue[1:]
	}
	return queue
}

// naiveFirstFit lets every job pass.
func naiveFirstFit(m *naiveMachine, queue []int) []int {
	return slices.DeleteFunc(queue, m.start)
}

// naiveEASY lets jobs pass that do not delay the head: EASY backfill. The head's shadow time is the earliest time at
// which it could start, by the declared run times; extra is the number of processors that are free then besides. A job
// that fits now may start if its declared end is not after the shadow time, or if the extra processors suffice for it.
func naiveEASY(m *naiveMachine, queue []int) []int {
	queue = naiveFCFS(m, queue)
	if len(queue) == 0 {
		return queue
	}
	need := m.jobs[queue[0]].processors
	shadow, extra := m.shadow(need)
	left := queue[:1:1]
	for _, i := range queue[1:] {
		j := m.jobs[i]
		inTime := m.now+j.declared <= shadow
		if !inTime && j.processors > extra || !m.start(i) {
			left = append(left, i)
		} else if !inTime {
			extra -= j.processors
		}
	}
	return left
}

// shadow returns the time at which that many processors are free, by the declared run times, and how many more are free
// then. If that never happens, the time is so late that it stops no job.
func (m *naiveMachine) shadow(need int) (at int64, extra int) {
	running := slices.SortedFunc(
		slices.Values(m.running),
		func(a, b naiveRun) int { return cmp.Compare(a.declaredEnd, b.declaredEnd) },
	)
	free := m.free
	for i, r := range running {
		free += r.processors
		last := i+1 == len(running) || running[i+1].declaredEnd > r.declaredEnd
		if last && free >= need {
			return max(m.now, r.declaredEnd), free - need
		}
	}
	return 1 << 62, 0
}

// The expected starts were worked out by hand.
func TestNaiveReferencesStartJobsAsWorkedOutByHand(t *testing.T) {
	passing := []naiveJob{ // on 4 processors
		{"a", 0, 10, 10, 3}, // runs to 10 on 3, one is free
		{"b", 1, 10, 10, 4}, // waits for a
		{"c", 2, 8, 8, 1},   // over at 10 at the latest: may pass
		{"d", 2, 9, 9, 1},   // over at 11: may not
		{"e", 3, 2, 2, 1},   // would fit beside a and b's reservation, but c has the processor until 10
	}
	extra := []naiveJob{ // on 10
		{"a", 0, 10, 10, 6}, // to 10
		{"b", 0, 20, 20, 2}, // to 20, two are free
		{"c", 1, 5, 5, 7},   // shadow time 10: 8 are free then, so that 1 is extra
		{"d", 2, 50, 50, 2}, // not over by 10, and more than the extra one
		{"e", 2, 50, 50, 1}, // the extra one
		{"f", 2, 50, 50, 1}, // there is no extra one any more
		{"g", 2, 8, 8, 1},   // over by 10
	}
	together := []naiveJob{ // on 4
		{"a", 0, 10, 10, 1},
		{"b", 0, 10, 10, 2}, // ends with a: all four are free then
		{"c", 1, 5, 5, 2},   // leaves two of them
		{"d", 1, 50, 50, 1}, // one of which is free now
		{"e", 1, 50, 50, 1},
	}
	early := []naiveJob{ // on 2; a declares more than it runs
		{"a", 0, 100, 10, 2},
		{"b", 1, 5, 5, 2},
		{"c", 1, 5, 5, 2},
	}
	ties := []naiveJob{ // on 1: by arrival, then by name as text
		{"job-9", 0, 5, 5, 1},
		{"job-10", 0, 5, 5, 1},
		{"job-8", 5, 5, 5, 1}, // arrives as job-10 ends, which goes first
	}
	large := []naiveJob{ // on 2: a needs what there never is
		{"a", 0, 5, 5, 3},
		{"b", 1, 5, 5, 1},
	}
	for _, c := range []struct {
		name       string
		jobs       []naiveJob
		processors int
		policy     naivePolicy
		want       []int64
	}{
		{"FCFS, nobody passes", passing, 4, naiveFCFS, []int64{0, 10, 20, 20, 20}},
		{"EASY, in time", passing, 4, naiveEASY, []int64{0, 10, 2, 20, 20}},
		{"FCFS, extra", extra, 10, naiveFCFS, []int64{0, 0, 10, 15, 15, 15, 15}},
		{"EASY, extra", extra, 10, naiveEASY, []int64{0, 0, 10, 15, 2, 15, 2}},
		{"first fit, extra", extra, 10, naiveFirstFit, []int64{0, 0, 52, 2, 10, 10, 10}},
		{"EASY, ends at one instant", together, 4, naiveEASY, []int64{0, 0, 10, 1, 10}},
		{"FCFS, an early end", early, 2, naiveFCFS, []int64{0, 10, 15}},
		{"EASY, an early end", early, 2, naiveEASY, []int64{0, 10, 15}},
		{"FCFS, ties", ties, 1, naiveFCFS, []int64{5, 0, 10}},
		{"EASY, ties", ties, 1, naiveEASY, []int64{5, 0, 10}},
		{"FCFS, too large", large, 2, naiveFCFS, []int64{never, never}},
		{"EASY, too large", large, 2, naiveEASY, []int64{never, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := naiveStarts(c.jobs, c.processors, c.policy); !slices.Equal(got, c.want) {
				t.Errorf("got  %d\nwant %d", got, c.want)
			}
		})
	}
}

// TestBestEffortStartsEqualANaiveFirstFit tests the default policy as the next two tests do the others.
func TestBestEffortStartsEqualANaiveFirstFit(t *testing.T) {
	wantNaiveStarts(t, "", 1000, naiveFirstFit)
}

func TestStrictFIFOStartsEqualANaiveFCFS(t *testing.T) {
	wantNaiveStarts(t, "StrictFIFO", 1000, naiveFCFS)
}

func TestBackfillStartsEqualANaiveEASY(t *testing.T) {
	wantNaiveStarts(t, "Backfill", 1000, naiveEASY)
}

// TestSoakQueuePolicies is the same, and TestBackfillStartsNoHeadLaterThanReserved, with the whole Lublin workload: ten
// minutes, and half an hour beside other work. "make soak" runs it.
func TestSoakQueuePolicies(t *testing.T) {
	if os.Getenv("ROLLCALL_SOAK") != "1" {
		t.Skip("skipped: the whole workload takes many minutes; set ROLLCALL_SOAK=1, or run make soak")
	}
	workload := sharedData(t, "swf/lublin_256.swf")
	if workload == "" {
		t.Skip(noSharedData)
	}
	t.Run(
		"BestEffort starts equal a naive first fit",
		func(t *testing.T) { wantNaiveStarts(t, "", all, naiveFirstFit) },
	)
	t.Run(
		"StrictFIFO starts equal a naive FCFS",
		func(t *testing.T) { wantNaiveStarts(t, "StrictFIFO", all, naiveFCFS) },
	)
	t.Run("Backfill starts equal a naive EASY", func(t *testing.T) { wantNaiveStarts(t, "Backfill", all, naiveEASY) })
	t.Run("Backfill starts no head later than reserved", func(t *testing.T) { wantReservationsKept(t, workload) })
	t.Run(
		"nor when jobs declare more than they run",
		func(t *testing.T) { wantReservationsKept(t, declaringMore(t, workload)) },
	)
}

// The Lublin workload has so many lines before its first job; all means all of its jobs.
const (
	lublinHeader = 7
	all          = -1
)

// wantNaiveStarts compares the starts of the first jobs of the Lublin workload, on 16 nodes of 16 cpu, with the starts
// that a naive reference finds on 256 processors, job by job.
func wantNaiveStarts(t *testing.T, policy string, first int, naive naivePolicy) {
	t.Helper()
	workload := sharedData(t, "swf/lublin_256.swf")
	if workload == "" {
		t.Skip(noSharedData)
	}
	if first != all {
		workload = head(t, workload, lublinHeader+first)
	}
	jobs := naiveJobs(t, workload)
	report := filepath.Join(t.TempDir(), "report.csv")
	args := []string{"simulate", "--nodes", "16x16cpu", "--workload", workload, "--report", report}
	if policy != "" {
		args = append(args, "--queue-policy", policy)
	}
	rollcall(t, args...)
	wrong := 0
	got := placedOf(t, report)
	for i, want := range naiveStarts(jobs, 256, naive) {
		if text := strconv.FormatInt(want, 10); got[jobs[i].name] != text {
			if wrong++; wrong <= 5 {
				t.Errorf(
					"%s, which arrives at %d, starts at %s, and by the naive reference at %s",
					jobs[i].name,
					jobs[i].arrival,
					got[jobs[i].name],
					text,
				)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d jobs start at another time", wrong, len(jobs))
	}
}

// naiveJobs reads the jobs of a Standard Workload Format file that has all the facts about each.
func naiveJobs(t *testing.T, path string) []naiveJob {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []naiveJob
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte(";")) {
			continue
		}
		var n [9]int64
		for i, field := range strings.Fields(string(line))[:len(n)] {
			if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		j := naiveJob{
			name:       fmt.Sprintf("default/job-%d", n[0]),
			arrival:    n[1],
			run:        n[3],
			declared:   n[8],
			processors: int(n[4]),
		}
		if j.declared <= 0 {
			j.declared = j.run
		}
		if j.arrival < 0 || j.run < 1 || j.processors < 1 {
			t.Fatalf("not a line for this reader: %s", line)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// placedOf returns when each group of a report was placed.
func placedOf(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := slices.Index(rows[0], "placed")
	placed := map[string]string{}
	for _, row := range rows[1:] {
		placed[row[0]] = row[column]
	}
	return placed
}
