package eventlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// ParseJSON is the inverse of AppendJSON, and of AppendNamedJSON except for the names. Members may be in any order,
// with white space between them. An unknown member, one that occurs twice, or one that the entry's kind does not have
// is an error that names it. So is a quantity that would take long to parse. Like DecodeRecord it allocates at most
// DecodeMemory.
func ParseJSON(line []byte) (Entry, error) {
	var header struct {
		Seq  uint64 `json:"seq"`
		Kind string `json:"kind"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(line, &header); err != nil {
		return Entry{}, fmt.Errorf("entry as JSON: %w", err)
	}
	e, err := parseKind(Kind(numberOf(kindNames, header.Kind)), line)
	if err != nil {
		return Entry{}, fmt.Errorf("entry %d as JSON: %w", header.Seq, err)
	}
	return e, nil
}

func parseKind(kind Kind, line []byte) (Entry, error) {
	switch kind {
	case KindEpochStarted:
		return parseLine(line, new(jsonEpochStarted))
	case KindUpserted:
		return parseLine(line, new(jsonUpserted))
	case KindDeleted:
		return parseLine(line, new(jsonDeleted))
	case KindTick:
		return parseLine(line, new(jsonTick))
	case KindDecision:
		return parseLine(line, new(jsonDecisionEntry))
	case KindBindResult:
		return parseLine(line, new(jsonBindResult))
	case KindEvictResult:
		return parseLine(line, new(jsonEvictResult))
	case KindExtenderResult:
		return parseLine(line, new(jsonExtenderResult))
	case KindWatched:
		return parseLine(line, new(jsonWatched))
	}
	return Entry{}, errors.New("kind: missing or unknown")
}

// A jsonLine is the Go form of one kind's line.
type jsonLine interface {
	header() *jsonHeader
	payload() (Payload, error)
}

func parseLine(line []byte, into jsonLine) (Entry, error) {
	const most = decodeFloor / 8 // it is read twice, and an object in it a third time
	if err := lineJSON[reflect.TypeOf(into)].check(line, most+plainFactor/2*len(line)); err != nil {
		return Entry{}, err
	}
	if err := unmarshalStrict(line, into); err != nil {
		return Entry{}, err
	}
	h := into.header()
	if h.Seq == 0 {
		return Entry{}, errors.New("seq: missing or 0: the first is 1")
	}
	at, err := parseTime(h.Time)
	if err != nil {
		return Entry{}, fmt.Errorf("time: %w", err)
	}
	p, err := into.payload()
	if err != nil {
		return Entry{}, err
	}
	return Entry{Seq: h.Seq, Epoch: h.Epoch, Time: at, Settled: h.Settled, Payload: p}, nil
}

// unmarshalStrict refuses members that into does not have, names in another case, and repetitions.
func unmarshalStrict(b []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(b, into)
	return errors.Join(append(strict, err)...)
}

func parseTime(s string) (Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, err
	}
	if seconds := t.Unix(); seconds <= math.MinInt64/1_000_000_000 || seconds >= math.MaxInt64/1_000_000_000 {
		return 0, fmt.Errorf("%s is outside of the years 1678 to 2261", s)
	}
	return Time(t.UnixNano()), nil
}

type jsonHeader struct {
	Seq     uint64 `json:"seq"`
	Epoch   uint64 `json:"epoch"`
	Time    string `json:"time"`
	Kind    string `json:"kind"`
	Settled bool   `json:"settled"`
}

func (h *jsonHeader) header() *jsonHeader { return h }

type jsonEpochStarted struct {
	jsonHeader
	ID        string          `json:"id"`
	Version   string          `json:"version"`
	Format    uint32          `json:"format"`
	Behaviour uint32          `json:"behaviour"`
	Seed      uint64          `json:"seed"`
	Config    json.RawMessage `json:"config"`
}

func (j *jsonEpochStarted) payload() (Payload, error) {
	p := &EpochStarted{
		ID:        j.ID,
		Version:   j.Version,
		Format:    j.Format,
		Behaviour: j.Behaviour,
		Seed:      j.Seed,
		Config:    j.Config,
	}
	if err := checkConfig(p.Config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return p, nil
}

type jsonUpserted struct {
	jsonHeader
	Resource Resource        `json:"resource"`
	Object   json.RawMessage `json:"object"`
}

func (j *jsonUpserted) payload() (Payload, error) {
	if IsOwn(j.Resource) {
		own, err := readOwn(j.Resource, j.Object, ownMemory(len(j.Object)))
		if err != nil {
			return nil, fmt.Errorf("object: %w", err)
		}
		return &Upserted{Resource: j.Resource, Object: own}, nil
	}
	obj := NewObject(j.Resource)
	if obj == nil {
		return nil, fmt.Errorf("resource: unknown resource %q", j.Resource)
	}
	info := infoByResource[j.Resource]
	if err := infoJSON[info.code].check(j.Object, objectMemory(len(j.Object), plainFactor)); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	if err := CheckQuantities(j.Object); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	if err := unmarshalStrict(j.Object, obj); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	if got, want := obj.GetObjectKind().GroupVersionKind(), KindFor(j.Resource); got != want {
		return nil, fmt.Errorf("object: apiVersion and kind are %q, want %q", got, want)
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return &Upserted{Resource: j.Resource, Object: obj}, nil
}

type jsonDeleted struct {
	jsonHeader
	Resource  Resource  `json:"resource"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

func (j *jsonDeleted) payload() (Payload, error) {
	if infoByResource[j.Resource] == nil && !IsOwn(j.Resource) {
		return nil, fmt.Errorf("resource: unknown resource %q", j.Resource)
	}
	return &Deleted{Resource: j.Resource, Namespace: j.Namespace, Name: j.Name, UID: j.UID}, nil
}

type jsonTick struct{ jsonHeader }

func (j *jsonTick) payload() (Payload, error) { return &Tick{}, nil }

type jsonBindResult struct {
	jsonHeader
	UID      types.UID `json:"uid"`
	Node     string    `json:"node"`
	Outcome  string    `json:"outcome"`
	Message  string    `json:"message"`
	Decision uint64    `json:"decisionSeq"`
	Plugin   string    `json:"plugin"`
	Code     string    `json:"code"`
	Pod      string    `json:"pod"` // not part of the entry
}

func (j *jsonBindResult) payload() (Payload, error) {
	outcome := BindOutcome(numberOf(bindOutcomeNames, j.Outcome))
	if outcome == 0 {
		return nil, fmt.Errorf("outcome: unknown outcome %q", j.Outcome)
	}
	p := &BindResult{UID: j.UID, Node: j.Node, Outcome: outcome, Message: j.Message, Decision: j.Decision,
		Plugin: j.Plugin, Code: j.Code}
	if field, err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return p, nil
}

type jsonEvictResult struct {
	jsonHeader
	UID      types.UID `json:"uid"`
	Outcome  string    `json:"outcome"`
	Message  string    `json:"message"`
	Decision uint64    `json:"decisionSeq"`
	Retry    string    `json:"retryAfter"`
	Pod      string    `json:"pod"` // not part of the entry
}

func (j *jsonEvictResult) payload() (Payload, error) {
	p := &EvictResult{UID: j.UID, Outcome: EvictOutcome(numberOf(evictOutcomeNames, j.Outcome)), Message: j.Message,
		Decision: j.Decision}
	if p.Outcome == 0 {
		return nil, fmt.Errorf("outcome: unknown outcome %q", j.Outcome)
	}
	if j.Retry != "" {
		var err error
		if p.RetryAfter, err = time.ParseDuration(j.Retry); err != nil {
			return nil, fmt.Errorf("retryAfter: %w", err)
		}
	}
	if field, err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return p, nil
}

type jsonDecisionEntry struct {
	jsonHeader
	Decision *jsonDecision `json:"decision"`
}

type jsonDecision struct {
	Cycle      uint64          `json:"cycle"`
	Pod        string          `json:"pod"`
	UID        types.UID       `json:"uid"`
	Group      string          `json:"group"`
	Outcome    string          `json:"outcome"`
	Node       string          `json:"node"`
	Score      int64           `json:"score"`
	Evaluated  int64           `json:"evaluated"`
	Feasible   int64           `json:"feasible"`
	Rejections []jsonRejection `json:"rejections"`
	Allowed    []types.UID     `json:"allowed"`
	Rejected   []types.UID     `json:"rejected"`
	Victims    []types.UID     `json:"victims"`
	WaitUntil  string          `json:"waitUntil"`
	WaitFor    []string        `json:"waitFor"`
	Approvals  []jsonApproval  `json:"approvals"`
	Nominated  string          `json:"nominated"`
	Volumes    []jsonVolume    `json:"volumes"`
	Places     []jsonPlace     `json:"places"`

	Nominations []jsonNomination `json:"nominations"`
	Domain      string           `json:"domain"`
	Elsewhere   bool             `json:"elsewhere"`
	Ended       string           `json:"ended"`
	Activated   []types.UID      `json:"activated"`
	Devices     []jsonDevices    `json:"devices"`
	Questions   []jsonQuestion   `json:"questions"`
	Plan        *jsonPlan        `json:"plan"`

	jsonPodNames
}

// jsonPodNames are the names of pods beside their UIDs: no part of the entry.
type jsonPodNames struct {
	AllowedPods  []string `json:"allowedPods"`
	RejectedPods []string `json:"rejectedPods"`
	VictimPods   []string `json:"victimPods"`

	ActivatedPods []string `json:"activatedPods"`
}

type jsonPlan struct {
	Result string      `json:"result"`
	Steps  int64       `json:"steps"`
	Next   int         `json:"next"`
	Order  []types.UID `json:"order"`

	OrderPods []string `json:"orderPods"` // not part of the entry
}

// plan returns the plan of a JSON form, which may be nil.
func (j *jsonPlan) plan() (Plan, error) {
	if j == nil {
		return Plan{}, nil
	}
	for r := PlanFound; r <= PlanUnknown; r++ {
		if r.String() == j.Result {
			p := Plan{Result: r, Steps: j.Steps, Next: j.Next, Order: j.Order}
			if err := checkNextSearch(p); err != nil {
				return Plan{}, fmt.Errorf("plan.next: %w", err)
			}
			return p, nil
		}
	}
	return Plan{}, fmt.Errorf("plan.result: unknown result %q: want Found, None or Unknown", j.Result)
}

type jsonRejection struct {
	Plugin string `json:"plugin"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Nodes  int64  `json:"nodes"`
}

type jsonApproval struct {
	UID    types.UID `json:"uid"`
	Plugin string    `json:"plugin"`
	Pod    string    `json:"pod"` // not part of the entry
}

type jsonNomination struct {
	UID  types.UID `json:"uid"`
	Node string    `json:"node"`
	Pod  string    `json:"pod"` // not part of the entry
}

type jsonVolume struct {
	Claim  string `json:"claim"`
	Volume string `json:"volume"`
}

type jsonPlace struct {
	UID  types.UID `json:"uid"`
	Node string    `json:"node"`
	Pod  string    `json:"pod"` // not part of the entry
}

func (j *jsonDecisionEntry) payload() (Payload, error) {
	if j.Decision == nil {
		return nil, errors.New("decision: missing")
	}
	d, err := j.Decision.decision()
	if err != nil {
		return nil, fmt.Errorf("decision.%w", err)
	}
	return d, nil
}

func (j *jsonDecision) decision() (*Decision, error) {
	d := &Decision{
		Cycle: j.Cycle, UID: j.UID, Outcome: Outcome(numberOf(outcomeNames, j.Outcome)), Node: j.Node,
		Score: j.Score, Evaluated: j.Evaluated, Feasible: j.Feasible, WaitFor: j.WaitFor,
		Allowed: j.Allowed, Rejected: j.Rejected, Victims: j.Victims, Nominated: j.Nominated,
		DomainLimit: DomainLimit{Domain: j.Domain, Elsewhere: j.Elsewhere},
		Ended:       Ending(numberOf(endingNames, j.Ended)),
		Activated:   j.Activated,
	}
	if j.Ended != "" && d.Ended == 0 {
		return nil, fmt.Errorf("ended: unknown ending %q", j.Ended)
	}
	var ok bool
	if d.Namespace, d.Name, ok = strings.Cut(j.Pod, "/"); !ok {
		return nil, fmt.Errorf("pod: %q is not of the form namespace/name", j.Pod)
	}
	if j.Group != "" {
		if d.Group, ok = strings.CutPrefix(j.Group, d.Namespace+"/"); !ok {
			return nil, fmt.Errorf("group: %q is not in the pod's namespace", j.Group)
		}
	}
	if d.Outcome == 0 {
		return nil, fmt.Errorf("outcome: unknown outcome %q", j.Outcome)
	}
	if j.WaitUntil != "" {
		var err error
		if d.WaitUntil, err = parseTime(j.WaitUntil); err != nil {
			return nil, fmt.Errorf("waitUntil: %w", err)
		}
	}
	for _, r := range j.Rejections {
		d.Rejections = append(d.Rejections, Rejection(r))
	}
	for _, a := range j.Approvals {
		d.Approvals = append(d.Approvals, Approval{UID: a.UID, Plugin: a.Plugin})
	}
	for _, v := range j.Volumes {
		d.Volumes = append(d.Volumes, VolumeClaim(v))
	}
	for _, p := range j.Places {
		d.Places = append(d.Places, Place{UID: p.UID, Node: p.Node})
	}
	for _, n := range j.Nominations {
		d.Nominations = append(d.Nominations, Nomination{UID: n.UID, Node: n.Node})
	}
	for i := range j.Devices {
		c, err := j.Devices[i].claim()
		if err != nil {
			return nil, fmt.Errorf("devices[%d].allocation: %w", i, err)
		}
		d.Devices = append(d.Devices, c)
	}
	for i := range j.Questions {
		q := j.Questions[i].question()
		if field, err := checkCandidates(q.Candidates); err != nil {
			return nil, fmt.Errorf("questions[%d].%s: %w", i, field, err)
		}
		d.Questions = append(d.Questions, q)
	}
	var err error
	d.Plan, err = j.Plan.plan()
	return d, err
}
