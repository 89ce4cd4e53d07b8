package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBackfillStartsNoHeadLaterThanReserved audits the log of the beginning of the Lublin workload, whose jobs run as
// long as they declare, and once more with jobs that declare more than they run.
func TestBackfillStartsNoHeadLaterThanReserved(t *testing.T) {
	workload := sharedData(t, "swf/lublin_256.swf")
	if workload == "" {
		t.Skip(noSharedData)
	}
	workload = head(t, workload, lublinHeader+1000)
	t.Run("as declared", func(t *testing.T) { wantReservationsKept(t, workload) })
	t.Run("shorter than declared", func(t *testing.T) { wantReservationsKept(t, declaringMore(t, workload)) })
}

// wantReservationsKept simulates the workload under Backfill and audits the log.
func wantReservationsKept(t *testing.T, workload string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log.db")
	rollcall(t, "simulate", "--nodes", "16x16cpu", "--workload", workload, "--queue-policy", "Backfill", "--log", log)
	a := newReservationAudit(naiveJobs(t, workload), 16)
	wrong := 0
	catEach(t, log, func(line []byte) {
		if err := a.line(line); err != nil {
			if wrong++; wrong <= 5 {
				t.Error(err)
			}
		}
	})
	if wrong > 5 {
		t.Errorf("and %d more", wrong-5)
	}
	if a.kept != a.reserved {
		t.Errorf("of %d gangs with a reservation %d have started", a.reserved, a.kept)
	}
	if a.kept < 40 || a.passed < 1000 {
		t.Errorf(
			"%d gangs with a reservation have started, and %d pods passed them: too few to show anything",
			a.kept,
			a.passed,
		)
	}
	t.Logf("%d reservations for %d gangs, and %d pods passed them", a.decided, a.reserved, a.passed)
}

// declaringMore writes the workload again, with a requested time of one to four times what each job runs.
func declaringMore(t *testing.T, workload string) string {
	t.Helper()
	data, err := os.ReadFile(workload)
	if err != nil {
		t.Fatal(err)
	}
	jobs := naiveJobs(t, workload)
	var out bytes.Buffer
	for line := range bytes.Lines(data) {
		if !bytes.HasPrefix(line, []byte(";")) {
			fields := strings.Fields(string(line))
			fields[8] = fmt.Sprint(jobs[0].run * (1 + (7*jobs[0].arrival+jobs[0].run)%4))
			line, jobs = []byte(strings.Join(fields, " ")+"\n"), jobs[1:]
		}
		out.Write(line)
	}
	path := filepath.Join(t.TempDir(), "declaring_more.swf")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reservationAudit knows the jobs' declarations, and otherwise only the output of log cat: the pods on each node and
// their declared ends, and the reservation. All pods request one processor.
type reservationAudit struct {
	jobs       map[string]naiveJob
	processors int // of a node

	running  map[string]auditedRun // by UID
	promised map[string]time.Time  // by gang: the earliest time that was reserved for it
	placed   map[string]int        // by gang: the pods that were given nodes
	standing *auditedReservation

	decided, reserved, kept, passed int
}

type auditedRun struct {
	gang, node string
	end        time.Time // as declared
}

type auditedReservation struct {
	gang  string
	at    time.Time
	nodes map[string]int // pods
}

func newReservationAudit(jobs []naiveJob, processors int) *reservationAudit {
	a := &reservationAudit{
		jobs: map[string]naiveJob{}, processors: processors,
		running: map[string]auditedRun{}, promised: map[string]time.Time{}, placed: map[string]int{},
	}
	for _, j := range jobs {
		a.jobs[j.name] = j
	}
	return a
}

// auditedLine has the fields of a line that the audit reads.
type auditedLine struct {
	Seq      uint64
	Time     time.Time
	Resource string
	UID      string
	Decision struct {
		UID, Group, Outcome, Node string
		WaitUntil                 time.Time
		Rejected                  []string
		Places                    []struct{ UID, Node string }
	}
}

func (a *reservationAudit) line(text []byte) error {
	isDecision := bytes.Contains(text, []byte(`"kind":"Decision"`))
	if !isDecision && !bytes.Contains(text, []byte(`"kind":"Deleted"`)) {
		return nil
	}
	var l auditedLine
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if !isDecision {
		delete(a.running, l.UID)
		return nil
	}
	d := &l.Decision
	for _, uid := range d.Rejected {
		a.placed[a.running[uid].gang]--
		delete(a.running, uid)
	}
	var err error
	switch d.Outcome {
	case "Reserved":
		err = a.reserve(&l)
	case "Scheduled", "Waiting":
		err = a.place(&l)
	}
	if err != nil {
		return fmt.Errorf("entry %d at %s: %w", l.Seq, l.Time.Format(time.RFC3339), err)
	}
	return nil
}

// reserve requires that the reserved room will be free, and that a reservation never moves to a later time.
func (a *reservationAudit) reserve(l *auditedLine) error {
	d := &l.Decision
	r := &auditedReservation{gang: d.Group, at: d.WaitUntil, nodes: map[string]int{}}
	for _, place := range d.Places {
		r.nodes[place.Node]++
	}
	a.standing = r
	a.decided++
	if want := a.jobs[d.Group].processors; len(d.Places) != want {
		return fmt.Errorf("room is reserved for %d of the %d pods of %s", len(d.Places), want, d.Group)
	}
	before, known := a.promised[d.Group]
	if !known {
		a.reserved++
	}
	if !known || r.at.Before(before) {
		a.promised[d.Group] = r.at
	}
	if known && r.at.After(before) {
		return fmt.Errorf(
			"%s had a reservation for %s, and now for %s",
			d.Group,
			before.Format(time.RFC3339),
			r.at.Format(time.RFC3339),
		)
	}
	return a.inNobodysWay()
}

// place requires that a gang starts, at the latest, at the time that was reserved for it. No gang that passes another
// may be in its way at its reserved time.
func (a *reservationAudit) place(l *auditedLine) error {
	d := &l.Decision
	a.running[d.UID] = auditedRun{d.Group, d.Node, l.Time.Add(time.Duration(a.jobs[d.Group].declared) * time.Second)}
	a.placed[d.Group]++
	if a.standing != nil && d.Group != a.standing.gang {
		a.passed++
		return a.inNobodysWay()
	}
	by, promised := a.promised[d.Group]
	if !promised {
		return nil
	}
	if a.placed[d.Group] == a.jobs[d.Group].processors {
		a.kept++
		a.standing = nil
	}
	if l.Time.After(by) {
		return fmt.Errorf(
			"a pod of %s starts later than at %s, for which it had a reservation",
			d.Group,
			by.Format(time.RFC3339),
		)
	}
	return nil
}

// inNobodysWay requires that on each node the reserved pods fit beside the pods that still run there at that time.
func (a *reservationAudit) inNobodysWay() error {
	r := a.standing
	there := map[string]int{}
	for _, run := range a.running {
		if run.end.After(r.at) {
			there[run.node]++
		}
	}
	for node, pods := range r.nodes {
		if there[node]+pods > a.processors {
			return fmt.Errorf("node %s has %d of %d processors left for the %d pods of %s at %s",
				node, a.processors-there[node], a.processors, pods, r.gang, r.at.Format(time.RFC3339))
		}
	}
	return nil
}
