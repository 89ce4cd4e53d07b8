package eventlog

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// decision writes d. From Places on, the payload ends with the last field that is set.
func (w *payloadWriter) decision(d *Decision) {
	w.uvarint(d.Cycle)
	w.str("namespace", d.Namespace)
	w.str("name", d.Name)
	w.str("uid", string(d.UID))
	w.str("group", d.Group)
	w.fail("outcome", checkOutcome(d.Outcome))
	w.b = append(w.b, byte(d.Outcome))
	w.str("node", d.Node)
	w.varint(d.Score)
	w.varint(d.Evaluated)
	w.varint(d.Feasible)
	w.uvarint(uint64(len(d.Rejections)))
	for i := range d.Rejections {
		r := &d.Rejections[i]
		w.str("rejection's plugin", r.Plugin)
		w.str("rejection's code", r.Code)
		w.str("rejection's reason", r.Reason)
		w.varint(r.Nodes)
	}
	w.varint(int64(d.WaitUntil))
	w.uvarint(uint64(len(d.WaitFor)))
	for _, plugin := range d.WaitFor {
		w.str("waitFor", plugin)
	}
	w.uvarint(uint64(len(d.Approvals)))
	for i := range d.Approvals {
		w.str("approval's uid", string(d.Approvals[i].UID))
		w.str("approval's plugin", d.Approvals[i].Plugin)
	}
	w.uids("allowed", d.Allowed)
	w.uids("rejected", d.Rejected)
	w.uids("victims", d.Victims)
	w.str("nominated", d.Nominated)
	w.uvarint(uint64(len(d.Volumes)))
	for i := range d.Volumes {
		w.str("volume's claim", d.Volumes[i].Claim)
		w.str("volume's volume", d.Volumes[i].Volume)
	}
	if len(d.Places)+len(d.Nominations) == 0 && !d.hasFacts() {
		return
	}
	w.uvarint(uint64(len(d.Places)))
	for i := range d.Places {
		w.str("place's uid", string(d.Places[i].UID))
		w.str("place's node", d.Places[i].Node)
	}
	if len(d.Nominations) == 0 && !d.hasFacts() {
		return
	}
	w.uvarint(uint64(len(d.Nominations)))
	for i := range d.Nominations {
		w.str("nomination's uid", string(d.Nominations[i].UID))
		w.str("nomination's node", d.Nominations[i].Node)
	}
	if !d.hasFacts() {
		return
	}
	w.decisionFacts(d)
}

// decisionFacts writes the fields from Domain on.
func (w *payloadWriter) decisionFacts(d *Decision) {
	w.str("domain", d.Domain)
	w.fail("ended", checkEnding(d.Ended))
	var elsewhere byte
	if d.Elsewhere {
		elsewhere = 1
	}
	w.b = append(w.b, elsewhere, byte(d.Ended))
	if len(d.Activated)+len(d.Devices)+len(d.Questions) > 0 || d.Plan.Result != 0 {
		w.uids("activated", d.Activated)
	}
	if len(d.Devices)+len(d.Questions) > 0 || d.Plan.Result != 0 {
		w.devices(d.Devices)
	}
	if len(d.Questions) > 0 {
		w.questions(d.Questions)
	}
	if d.Plan.Result != 0 {
		if len(d.Questions) > 0 {
			w.fail("plan", errors.New("a decision that asks extenders has no plan"))
		}
		w.uvarint(0) // no questions
		w.fail("plan's result", checkPlanResult(d.Plan.Result))
		w.b = append(w.b, byte(d.Plan.Result))
		w.varint(d.Plan.Steps)
		w.uids("plan's order", d.Plan.Order)
		w.fail("plan's next search", checkNextSearch(d.Plan))
		if d.Plan.Result == PlanUnknown {
			w.uvarint(uint64(d.Plan.Next))
		}
	}
}

func (w *payloadWriter) uids(field string, uids []types.UID) {
	w.uvarint(uint64(len(uids)))
	for _, uid := range uids {
		w.str(field, string(uid))
	}
}

func (r *payloadReader) decision() *Decision {
	d := &Decision{
		Cycle: r.uvarint("cycle"), Namespace: r.str("namespace"), Name: r.str("name"), UID: r.uid("uid"),
		Group: r.str("group"), Outcome: Outcome(r.byte("outcome")),
	}
	r.fail("outcome", checkOutcome(d.Outcome))
	d.Node = r.str("node")
	d.Score, d.Evaluated, d.Feasible = r.varint("score"), r.varint("evaluated"), r.varint("feasible")
	d.Rejections = readList(r, "rejections", 4, func() Rejection {
		return Rejection{
			Plugin: r.str("plugin"),
			Code:   r.str("code"),
			Reason: r.str("reason"),
			Nodes:  r.varint("nodes"),
		}
	})
	d.WaitUntil = Time(r.varint("waitUntil"))
	d.WaitFor = readList(r, "waitFor", 1, func() string { return r.str("") })
	d.Approvals = readList(r, "approvals", 2, func() Approval {
		return Approval{UID: r.uid("uid"), Plugin: r.str("plugin")}
	})
	d.Allowed = r.uids("allowed")
	d.Rejected = r.uids("rejected")
	d.Victims = r.uids("victims")
	d.Nominated = r.str("nominated")
	d.Volumes = readList(r, "volumes", 2, func() VolumeClaim {
		return VolumeClaim{Claim: r.str("claim"), Volume: r.str("volume")}
	})
	if r.err != nil || r.at == len(r.text) {
		return d
	}
	d.Places = readList(r, "places", 2, func() Place { return Place{UID: r.uid("uid"), Node: r.str("node")} })
	if r.err != nil || r.at == len(r.text) {
		if r.err == nil && len(d.Places) == 0 {
			r.fail("places", errors.New("an empty list is left out"))
		}
		return d
	}
	d.Nominations = readList(r, "nominations", 2, func() Nomination {
		return Nomination{UID: r.uid("uid"), Node: r.str("node")}
	})
	if r.err != nil || r.at == len(r.text) {
		if r.err == nil && len(d.Nominations) == 0 {
			r.fail("nominations", errors.New("an empty list is left out"))
		}
		return d
	}
	r.decisionFacts(d)
	return d
}

// decisionFacts reads the fields from Domain on.
func (r *payloadReader) decisionFacts(d *Decision) {
	d.Domain = r.str("domain")
	elsewhere := r.byte("elsewhere")
	if elsewhere > 1 {
		r.fail("elsewhere", fmt.Errorf("%d is neither 0 nor 1", elsewhere))
	}
	d.Elsewhere = elsewhere == 1
	d.Ended = Ending(r.byte("ended"))
	r.fail("ended", checkEnding(d.Ended))
	if r.err == nil && r.at < len(r.text) {
		d.Activated = r.uids("activated")
		if r.err == nil && r.at < len(r.text) {
			d.Devices = r.devices()
			if r.err == nil && r.at < len(r.text) {
				if d.Plan = r.plan(); d.Plan.Result == 0 {
					d.Questions = r.questions()
				}
			}
		} else if r.err == nil && len(d.Activated) == 0 {
			r.fail("activated", errors.New("an empty list is left out"))
		}
	}
	if r.err == nil && !d.hasFacts() {
		r.fail("domain", errors.New("empty fields at the end are left out"))
	}
}

// plan reads the plan behind an empty list of questions. It reads nothing if there are questions.
func (r *payloadReader) plan() (p Plan) {
	if r.err != nil || r.text[r.at] != 0 || r.at+1 == len(r.text) {
		return p
	}
	r.byte("questions")
	p.Result = PlanResult(r.byte("plan's result"))
	r.fail("plan's result", checkPlanResult(p.Result))
	p.Steps, p.Order = r.varint("plan's steps"), r.uids("plan's order")
	if p.Result == PlanUnknown {
		p.Next = int(min(r.uvarint("plan's next search"), maxNextSearch+1))
		r.fail("plan's next search", checkNextSearch(p))
	}
	return p
}

func checkEnding(e Ending) error {
	if e > OtherReason {
		return fmt.Errorf("unknown ending %d", e)
	}
	return nil
}

func (r *payloadReader) uids(field string) []types.UID {
	return readList(r, field, 1, func() types.UID { return r.uid("") })
}

// readList reads a list of elements of at least size bytes each; nil for an empty one.
func readList[T any](r *payloadReader, field string, size int, element func() T) []T {
	n := r.length(field, size)
	if n == 0 {
		return nil
	}
	list := make([]T, 0, n)
	r.list = field
	for r.index = 0; r.index < n && r.err == nil; r.index++ {
		list = append(list, element())
	}
	r.list = ""
	return list
}

func checkOutcome(o Outcome) error {
	if o < Scheduled || o > Asked {
		return fmt.Errorf("unknown outcome %d", o)
	}
	return nil
}
