package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/internal/gang"
)

// Mode is a gang's treatment of members that have found a node while another finds none.
type Mode uint8

const (
	// Strict: they are released, so that the gang holds nothing while other work could run.
	Strict Mode = iota
	// NonStrict: they are held until their wait ends.
	NonStrict
)

// String is as Koordinator writes it.
func (m Mode) String() string { return [...]string{"Strict", "NonStrict"}[m] }

// terms are the terms of a gang in a member's fields, used without a PodGroup. Two members agree if their terms are
// equal. The zero value has none.
type terms struct {
	by        string // the annotation that gives the minimum
	min       int    // at least 1
	total     int    // how many members there will be, 0: it is not said
	timeout   time.Duration
	mode      Mode
	policy    gang.MatchPolicy
	together  string // namespace/name of all gangs that are admitted together, sorted, joined by commas; "" for none
	evict     bool   // own.below, own.required and own.preferred, which only asked fills in
	required  string
	preferred string
}

// compare orders terms, the ones that ask for more last.
func (t terms) compare(u terms) int {
	return cmp.Or(
		cmp.Compare(t.min, u.min),
		cmp.Compare(t.total, u.total),
		cmp.Compare(t.timeout, u.timeout),
		cmp.Compare(t.mode, u.mode),
		cmp.Compare(t.policy, u.policy),
		strings.Compare(t.together, u.together),
		strings.Compare(t.by, u.by),
	)
}

// String returns the terms as messages about a contradiction show them.
func (t terms) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d", t.by, t.min)
	if t.total > 0 && t.total != t.min {
		fmt.Fprintf(&b, " of %d", t.total)
	}
	if t.timeout > 0 {
		fmt.Fprintf(&b, ", waiting %s", t.timeout)
	}
	if t.mode != Strict {
		fmt.Fprintf(&b, ", %s", t.mode)
	}
	if t.policy != gang.WaitingAndRunning {
		fmt.Fprintf(&b, ", %s", t.policy)
	}
	if t.together != "" {
		fmt.Fprintf(&b, ", with %s", abridged(t.together))
	}
	return b.String()
}

// termsOf reads a member's terms for its gang. fault is a fault in them, "" for none. Terms with a fault mean nothing.
func termsOf(pod *v1.Pod, name types.NamespacedName) (t terms, fault string) {
	r := annotations{values: pod.Annotations}
	var kinds []terms
	if n := r.count(koordinatorMin); n > 0 {
		k := terms{by: koordinatorMin, min: n, timeout: r.duration(koordinatorWaitingTime)}
		r.koordinator(&k, name)
		if pod.Annotations[koordinatorMatchPolicy] == "" {
			k.policy = gang.OnceSatisfied
		}
		if k.total == 0 {
			k.total = n
		}
		kinds = append(kinds, k)
	}
	if n := r.count(kueueTotal); n > 0 {
		kinds = append(kinds, terms{by: kueueTotal, min: n, total: n, policy: gang.OnceSatisfied})
	}
	if n := r.count(volcanoMin); n > 0 {
		kinds = append(kinds, terms{by: volcanoMin, min: n})
	}
	for _, k := range kinds[min(1, len(kinds)):] {
		if k.min != kinds[0].min {
			r.fail("has two minimums: annotation %s %d, annotation %s %d", kinds[0].by, kinds[0].min, k.by, k.min)
		}
	}
	if r.fault != "" || len(kinds) == 0 {
		return terms{}, r.fault
	}
	return kinds[0], ""
}

// annotations reads values and keeps the first fault. A value that is empty is as good as none.
type annotations struct {
	values map[string]string
	fault  string
}

func (r *annotations) fail(format string, args ...any) {
	if r.fault == "" {
		r.fault = fmt.Sprintf(format, args...)
	}
}

func (r *annotations) bad(key, want string) {
	r.fail("has annotation %s %s: want %s", key, quoted(r.values[key]), want)
}

// count reads a number of pods, 0 if it is not given.
func (r *annotations) count(key string) int {
	text := r.values[key]
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		r.bad(key, fmt.Sprintf("a number from 1 to %d", math.MaxInt32))
		return 0
	}
	return int(n)
}

func (r *annotations) duration(key string) time.Duration {
	text := r.values[key]
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		r.bad(key, "a duration above 0, such as 600s")
		return 0
	}
	return d
}

// koordinator reads what Koordinator lets members and PodGroups say alike.
func (r *annotations) koordinator(t *terms, name types.NamespacedName) {
	if r.values[koordinatorTotal] != "0" { // which is its way to say nothing
		t.total = r.count(koordinatorTotal)
	}
	switch r.values[koordinatorMode] {
	case "", Strict.String():
	case NonStrict.String():
		t.mode = NonStrict
	default:
		r.bad(koordinatorMode, "Strict or NonStrict")
	}
	switch r.values[koordinatorMatchPolicy] {
	case "", gang.WaitingAndRunning.String():
	case gang.OnlyWaiting.String():
		t.policy = gang.OnlyWaiting
	case gang.OnceSatisfied.String():
		t.policy = gang.OnceSatisfied
	default:
		r.bad(koordinatorMatchPolicy, "only-waiting, waiting-and-running or once-satisfied")
	}
	t.together = r.gangs(name)
}

// gangs reads the gangs that are admitted together with the one given. That one is among them if there are any.
func (r *annotations) gangs(own types.NamespacedName) string {
	text := r.values[koordinatorGroups]
	if text == "" {
		return ""
	}
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		r.bad(koordinatorGroups, `a JSON list such as ["ns/a","ns/b"]`)
		return ""
	}
	for _, name := range names {
		namespace, rest, ok := strings.Cut(name, "/")
		if !ok || namespace == "" || rest == "" || strings.ContainsAny(rest, "/,") || strings.Contains(namespace, ",") {
			r.bad(koordinatorGroups, `a JSON list such as ["ns/a","ns/b"]`)
			return ""
		}
	}
	names = append(names, own.String())
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 1 {
		return ""
	}
	return strings.Join(names, ",")
}

// quoted returns a value from an object for messages: quoted, and cut if it is long.
func quoted(value string) string { return strconv.Quote(abridged(value)) }

func abridged(value string) string {
	const most = 80
	if len(value) <= most {
		return value
	}
	return strings.ToValidUTF8(value[:most], "") + "…"
}
