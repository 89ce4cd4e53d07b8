package app

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// figures is the script command "figures CAT JSON TEXT CSV": it compares the figures of a simulation with the figures
// that a naive reader adds up from the lines of log cat. The figures are in the summary, as JSON and as text, and in
// the report, which has a line for each pod of no group. A naive reader can read these worlds, and each runs until
// nothing happens.
func figures(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: figures CAT JSON TEXT CSV")
	}
	f := readNaively(ts, ts.ReadFile(args[0]), time.Time{}).figures()
	compared(ts, neg, func() {
		f.compareSummary(ts.ReadFile(args[1]))
		f.compareText(ts.ReadFile(args[2]))
		f.compareReport(ts.ReadFile(args[3]))
	})
}

// naiveFigures are the figures that a naive reader adds up.
type naiveFigures struct {
	*naiveLog
	jobs                      []*naiveJobFigures
	pods, gangs               map[string]int // by outcome
	podWaits, gangWaits       []time.Duration
	lostToPreemption, lostToo float64 // GPU-seconds; lostToo with nodes
}

// naiveJobFigures are the figures of a gang, or of a pod of no group.
type naiveJobFigures struct {
	name                        string
	isGang                      bool
	members                     []*naivePod // without the pods that replaced others
	minimum                     int
	complete, placed, last, end time.Time // last: placed for the last time
	outcome                     string
	preempted, lost, again      int
	by                          []string
	gpuSeconds                  float64
}

func (l *naiveLog) figures() *naiveFigures {
	f := &naiveFigures{naiveLog: l, pods: map[string]int{}, gangs: map[string]int{}}
	byName := map[string]*naiveJobFigures{}
	for _, p := range l.pods {
		job := byName[p.entity()]
		if job == nil {
			_, name, isGang := strings.Cut(p.entity(), "podgroup ")
			job = &naiveJobFigures{name: name, isGang: isGang, minimum: 1}
			if g := l.groups[name]; isGang {
				job.minimum = g.minimum
			} else {
				job.name = p.name
			}
			byName[p.entity()] = job
			f.jobs = append(f.jobs, job)
		}
		f.addPod(job, p)
	}
	for _, job := range f.jobs {
		f.finish(job)
	}
	return f
}

// addPod adds a pod to the figures of its job, and the GPU-seconds that it ran and lost.
func (f *naiveFigures) addPod(job *naiveJobFigures, p *naivePod) {
	if p.replaces == nil {
		job.members = append(job.members, p)
		f.pods[f.outcomeOf(p)]++
		if !p.boundAt.IsZero() {
			f.podWaits = append(f.podWaits, p.boundAt.Sub(p.came))
		}
	} else {
		job.again++
	}
	if p.evictedBy == 0 && !p.lost {
		return
	}
	vain := float64(p.gpus) * p.goneAt.Sub(p.boundAt).Seconds()
	job.gpuSeconds += vain
	if p.lost {
		job.lost++
		f.lostToo += vain
		return
	}
	job.preempted++
	f.lostToPreemption += vain
	x := f.evicts[p.evictedBy]
	if _, by, _ := strings.Cut(entityBy(x), " "); !slices.Contains(job.by, by) {
		job.by = append(job.by, by)
	}
}

// lastOf returns the last pod that replaced a pod, or the pod.
func (l *naiveLog) lastOf(p *naivePod) *naivePod {
	for _, o := range l.pods {
		if o.replaces == p {
			return l.lastOf(o)
		}
	}
	return p
}

// outcomeOf returns the final state of a pod.
func (l *naiveLog) outcomeOf(p *naivePod) string {
	last := l.lastOf(p)
	switch {
	case last.succeeded:
		return "completed"
	case last.evictedBy != 0:
		return "preempted"
	case last.lost:
		return "lost"
	case last.node != "":
		return "running"
	case last.replaces != nil:
		return "pending again"
	}
	return "pending"
}

// finish finds the times and the outcome of a job all of whose pods are known.
func (f *naiveFigures) finish(job *naiveJobFigures) {
	var came, bound, boundLast []time.Time
	outcomes := map[string]int{}
	var firstGone *naivePod
	for _, p := range job.members {
		last := f.lastOf(p)
		outcomes[f.outcomeOf(p)]++
		came = append(came, p.came)
		if !p.boundAt.IsZero() {
			bound = append(bound, p.boundAt)
		}
		if !last.boundAt.IsZero() {
			boundLast = append(boundLast, last.boundAt)
		}
		if (last.evictedBy != 0 || last.lost) && (firstGone == nil || last.goneAt.Before(firstGone.goneAt)) {
			firstGone = last
		}
		if last.goneAt.After(job.end) {
			job.end = last.goneAt
		}
	}
	nth := func(times []time.Time) (at time.Time) {
		if slices.SortFunc(times, time.Time.Compare); len(times) >= job.minimum {
			at = times[job.minimum-1]
		}
		return at
	}
	job.complete, job.placed, job.last = nth(came), nth(bound), nth(boundLast)
	waits := outcomes["pending"] + outcomes["pending again"]
	if waits+outcomes["running"] > 0 {
		job.end = time.Time{}
	}
	switch {
	case outcomes["completed"] >= job.minimum && waits+outcomes["running"] == 0:
		job.outcome = "completed"
	case outcomes["completed"]+outcomes["running"] >= job.minimum:
		job.outcome = "running"
	case job.placed.IsZero():
		job.outcome = "pending"
	case waits > 0:
		job.outcome = "pending again"
	default: // whatever took the minimum away
		job.outcome = f.outcomeOf(firstGone)
	}
	if !job.isGang {
		return
	}
	f.gangs[job.outcome]++
	if !job.placed.IsZero() {
		f.gangWaits = append(f.gangWaits, job.placed.Sub(job.complete))
	}
}

// means returns the mean wait of the jobs that were placed, and the mean slowdown of the jobs that completed.
func (f *naiveFigures) means(gangs bool) (placed, finished int, wait, slowdown float64) {
	for _, job := range f.jobs {
		if job.isGang != gangs || job.placed.IsZero() {
			continue
		}
		placed++
		wait += job.placed.Sub(job.complete).Seconds()
		if job.outcome == "completed" {
			finished++
			whole, run := job.end.Sub(job.complete).Seconds(), job.end.Sub(job.last).Seconds()
			slowdown += max(1, whole/max(run, 10))
		}
	}
	return placed, finished, wait / float64(max(placed, 1)), slowdown / float64(max(finished, 1))
}

// stillWaiting returns the jobs that wait at the end: since they were complete, or since they lost their nodes.
func (f *naiveFigures) stillWaiting(gangs bool) (count int, mean, longest float64) {
	for _, job := range f.jobs {
		if job.isGang != gangs || !strings.HasPrefix(job.outcome, "pending") {
			continue
		}
		since := job.complete
		if job.outcome == "pending again" {
			since = f.now
			for _, p := range job.members {
				if last := f.lastOf(p); last.replaces != nil && last.replaces.goneAt.Before(since) {
					since = last.replaces.goneAt
				}
			}
		}
		count++
		mean += f.now.Sub(since).Seconds()
		longest = max(longest, f.now.Sub(since).Seconds())
	}
	return count, mean / float64(max(count, 1)), longest
}

// utilisation is the part of the GPUs that pods held, from the first pod's arrival until the last pod went.
func (f *naiveFigures) utilisation() float64 {
	var used, offered float64
	until := f.now
	if f.pods["running"] == 0 {
		until = time.Time{}
		for _, p := range f.naiveLog.pods {
			if p.goneAt.After(until) {
				until = p.goneAt
			}
		}
	}
	since := f.naiveLog.pods[0].came
	for _, p := range f.naiveLog.pods {
		if p.boundAt.IsZero() {
			continue
		}
		end := p.goneAt
		if end.IsZero() {
			end = until
		}
		used += float64(p.gpus) * end.Sub(p.boundAt).Seconds()
	}
	for _, span := range f.spans {
		from, to := span.from, span.to
		if from.Before(since) {
			from = since
		}
		if to.IsZero() || to.After(until) {
			to = until
		}
		offered += float64(span.gpus) * to.Sub(from).Seconds()
	}
	return used / offered
}

// compareSummary compares the output of -o json.
func (f *naiveFigures) compareSummary(text string) {
	type means struct {
		Placed, Finished                     int
		MeanWaitSeconds, MeanBoundedSlowdown float64
	}
	type waits struct {
		Count                              int
		P50Seconds, P99Seconds, MaxSeconds float64
	}
	var told struct {
		Nodes             int
		Pods, Gangs       map[string]int
		PodWait, GangWait waits
		GangJobs, PodJobs means
		StillWaiting      struct {
			Gangs, Pods struct {
				Count                   int
				MeanSeconds, MaxSeconds float64
			}
		}
		GPUSecondsLost struct{ Preempted, LostWithNodes float64 }
		Utilisation    []struct {
			Resource string
			Mean     float64
		}
	}
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		f.ts.Fatalf("the summary: %v", err)
	}
	f.want("how many nodes there were", told.Nodes, len(f.spans))
	for what, c := range map[string]struct{ told, found map[string]int }{
		"pods": {told.Pods, f.pods}, "gangs": {told.Gangs, f.gangs},
	} {
		total := 0
		for outcome, n := range c.found {
			total += n
			f.want("how many "+what+" are "+outcome, c.told[strings.Replace(outcome, " again", "Again", 1)], n)
		}
		f.want("how many "+what+" there are", c.told["total"], total)
	}
	for what, c := range map[string]struct {
		told  waits
		found []time.Duration
	}{"pods": {told.PodWait, f.podWaits}, "gangs": {told.GangWait, f.gangWaits}} {
		slices.Sort(c.found)
		rank := func(part float64) float64 { return c.found[int(math.Ceil(part*float64(len(c.found))))-1].Seconds() }
		f.want("the waits of "+what, c.told, waits{len(c.found), rank(0.5), rank(0.99), rank(1)})
	}
	for gangs, m := range map[bool]means{true: told.GangJobs, false: told.PodJobs} {
		placed, finished, wait, slowdown := f.means(gangs)
		f.want("of how many the mean wait is", m.Placed, placed)
		f.want("of how many the mean slowdown is", m.Finished, finished)
		f.near("the mean wait", m.MeanWaitSeconds, wait)
		f.near("the mean slowdown", m.MeanBoundedSlowdown, slowdown)
	}
	count, mean, longest := f.stillWaiting(true)
	f.want("how many gangs wait still", told.StillWaiting.Gangs.Count, count)
	f.near("for how long in the mean", told.StillWaiting.Gangs.MeanSeconds, mean)
	f.near("for how long at the most", told.StillWaiting.Gangs.MaxSeconds, longest)
	count, mean, longest = f.stillWaiting(false)
	f.want("how many pods wait still", told.StillWaiting.Pods.Count, count)
	f.near("for how long in the mean", told.StillWaiting.Pods.MeanSeconds, mean)
	f.near("for how long at the most", told.StillWaiting.Pods.MaxSeconds, longest)
	f.near("the GPU-seconds lost to preemption", told.GPUSecondsLost.Preempted, f.lostToPreemption)
	f.near("the GPU-seconds lost with nodes", told.GPUSecondsLost.LostWithNodes, f.lostToo)
	i := slices.IndexFunc(told.Utilisation, func(u struct {
		Resource string
		Mean     float64
	}) bool {
		return u.Resource == gpu
	})
	f.near("the utilisation", told.Utilisation[i].Mean, f.utilisation())
}

func (f *naiveFigures) near(what string, said, found float64) {
	if math.Abs(said-found) > 1e-6*max(1, math.Abs(found)) {
		disagree("%s: said is %v, and by log cat it is %v", what, said, found)
	}
}

// compareText compares the summary for people.
func (f *naiveFigures) compareText(text string) {
	says := func(pattern string) []string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if found == nil {
			disagree("by log cat it must say %s, and it says\n%s", pattern, text)
		}
		return found
	}
	for what, found := range map[string]map[string]int{"pods": f.pods, "gangs": f.gangs} {
		total, line := 0, ""
		for _, outcome := range []string{"completed", "running", "preempted", "lost", "pending", "pending again"} {
			n := found[outcome]
			if total += n; n > 0 || outcome == "completed" || outcome == "pending" {
				line += fmt.Sprintf(", %d %s", n, strings.Replace(outcome, "lost", "lost with a node", 1))
			}
		}
		says(fmt.Sprintf(`(?m)^%s +%d: %s$`, what, total, line[2:]))
	}
	placed, _, wait, _ := f.means(true)
	f.near("the mean wait of gangs", f.duration(says(fmt.Sprintf(`(?m)^mean wait +(\S+) of %d gangs`, placed))[1]),
		math.Round(wait*1000)/1000)
	if count, mean, longest := f.stillWaiting(true); count > 0 {
		pattern := fmt.Sprintf(`(?m)^wait so far +%d gangs for (\S+) in the mean, (\S+) at the most[;,]`, count)
		if count == 1 {
			pattern = `(?m)^wait so far +1 gang for ((\S+))[;,]`
		}
		waits := says(pattern)
		f.near("the mean wait so far", f.duration(waits[1]), mean)
		f.near("the longest wait so far", f.duration(waits[2]), longest)
	} else if strings.Contains(text, "wait so far") {
		disagree("by log cat no gang waits, and it says\n%s", text)
	}
	if lost := f.lostToPreemption + f.lostToo; lost > 0 {
		f.near("the time lost", f.duration(says(`(?m)^time lost +(\S+) of one GPU: `)[1]), lost)
	} else if strings.Contains(text, "time lost") {
		disagree("by log cat nothing was lost, and it says\n%s", text)
	}
}

// duration reads a duration with days, as seconds.
func (f *naiveFigures) duration(text string) float64 {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		days, rest = "0", text
	}
	if rest == "" {
		rest = "0s"
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		f.ts.Fatalf("the summary: %v", err)
	}
	return float64(f.number(days))*24*3600 + d.Seconds()
}

// compareReport compares the lines of the report, except the number of attempts.
func (f *naiveFigures) compareReport(text string) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		f.ts.Fatalf("the report: %v", err)
	}
	told := map[string]map[string]string{}
	for _, row := range rows[1:] {
		line := map[string]string{}
		for i, column := range rows[0] {
			line[column] = row[i]
		}
		delete(line, "attempts")
		told[line["name"]] = line
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return strconv.FormatFloat(t.Sub(f.start).Seconds(), 'f', -1, 64)
	}
	for _, job := range f.jobs {
		finished := job.end
		if job.outcome != "completed" {
			finished = time.Time{}
		}
		kind := map[bool]string{true: "podgroup ", false: "pod "}[job.isGang]
		want := map[string]string{
			"name": job.name, "pods": strconv.Itoa(len(job.members)), "submitted": at(job.members[0].came),
			"complete": at(job.complete), "placed": at(job.placed), "finished": at(finished), "outcome": job.outcome,
			"ended": at(job.end), "priority": strconv.Itoa(int(f.priorityOf(kind + job.name))),
			"preempted": strconv.Itoa(job.preempted), "lost": strconv.Itoa(job.lost), "evicted": "0",
			"came_again": strconv.Itoa(job.again), "preempted_by": strings.Join(job.by, " "),
			"gpu_seconds_lost": strconv.FormatFloat(job.gpuSeconds, 'f', -1, 64),
		}
		for _, column := range slices.Sorted(maps.Keys(want)) {
			f.want(column+" of "+job.name, told[job.name][column], want[column])
		}
	}
	f.want("how many lines the report has", len(told), len(f.jobs))
}
