package eventlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// AppendJSON appends e's public form to dst: one JSON object in one line, without a newline. The same entry always
// gives the same bytes, and ParseJSON gives the same entry back. The error is an *EntryError; then dst is returned
// unchanged.
func AppendJSON(dst []byte, e Entry) ([]byte, error) { return AppendNamedJSON(dst, e, nil) }

// PodNames returns the namespace/name of the pod with a UID, "" if it is unknown.
type PodNames func(uid types.UID) string

// AppendNamedJSON is AppendJSON with the names of pods beside their UIDs. The members allowedPods, rejectedPods and
// victimPods have the order of the UIDs, with "" for an unknown pod. Elements and results that have a uid have a member
// pod. ParseJSON ignores these members: an entry has no names. Without names it is AppendJSON.
func AppendNamedJSON(dst []byte, e Entry, names PodNames) ([]byte, error) {
	kind, err := payloadKind(e.Payload)
	if err != nil {
		return dst, &EntryError{Seq: e.Seq, Err: err}
	}
	w := jsonWriter{b: append(dst, '{'), first: true, names: names}
	w.uint("seq", e.Seq)
	w.uint("epoch", e.Epoch)
	w.str("time", e.Time.String())
	w.str("kind", kind.String())
	if e.Settled {
		w.name("settled")
		w.b = append(w.b, "true"...)
	}
	switch p := e.Payload.(type) {
	case *EpochStarted:
		w.epochStarted(p)
	case *Upserted:
		w.upserted(p)
	case *Deleted:
		w.deleted(p)
	case *Decision:
		w.name("decision")
		w.decision(p)
	case *BindResult:
		w.bindResult(p)
	case *EvictResult:
		w.evictResult(p)
	case *ExtenderResult:
		w.extenderResult(p)
	case *Watched:
		w.watched(p)
	}
	if w.err != nil {
		return dst, &EntryError{Seq: e.Seq, Err: w.err}
	}
	return append(w.b, '}'), nil
}

// jsonWriter appends the members of JSON objects to b until the first error.
type jsonWriter struct {
	b     []byte
	first bool // the next member or element is the first
	names PodNames
	err   error
}

func (w *jsonWriter) fail(name string, err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("%s: %w", name, err)
	}
}

// comma separates the next member or element from the one before it.
func (w *jsonWriter) comma() {
	if !w.first {
		w.b = append(w.b, ',')
	}
	w.first = false
}

func (w *jsonWriter) open(c byte)  { w.b, w.first = append(w.b, c), true }
func (w *jsonWriter) close(c byte) { w.b, w.first = append(w.b, c), false }

func (w *jsonWriter) name(name string) {
	w.comma()
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *jsonWriter) uint(name string, v uint64) {
	w.name(name)
	w.b = strconv.AppendUint(w.b, v, 10)
}

func (w *jsonWriter) int(name string, v int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *jsonWriter) str(name, s string) {
	w.name(name)
	w.value(name, s)
}

// strIfSet leaves the member out if s is empty.
func (w *jsonWriter) strIfSet(name, s string) {
	if s != "" {
		w.str(name, s)
	}
}

// value appends s as a JSON string, and escapes only the characters that JSON requires.
func (w *jsonWriter) value(name, s string) {
	if !utf8.ValidString(s) {
		w.fail(name, errNotUTF8)
	}
	const hex = "0123456789abcdef"
	w.b = append(w.b, '"')
	done := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		w.b = append(w.b, s[done:i]...)
		done = i + 1
		switch c {
		case '"', '\\':
			w.b = append(w.b, '\\', c)
		case '\n':
			w.b = append(w.b, '\\', 'n')
		case '\t':
			w.b = append(w.b, '\\', 't')
		default:
			w.b = append(w.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	w.b = append(w.b, s[done:]...)
	w.b = append(w.b, '"')
}

func (w *jsonWriter) epochStarted(p *EpochStarted) {
	w.str("id", p.ID)
	w.str("version", p.Version)
	w.uint("format", uint64(p.Format))
	w.uint("behaviour", uint64(p.Behaviour))
	w.uint("seed", p.Seed)
	if len(p.Config) > 0 {
		w.fail("config", checkConfig(p.Config))
		w.name("config")
		w.b = append(w.b, p.Config...)
	}
}

func (w *jsonWriter) upserted(p *Upserted) {
	if IsOwn(p.Resource) {
		w.ownUpserted(p)
		return
	}
	info := infoOf(p.Object)
	if info == nil || info.resource != p.Resource {
		w.fail("object", fmt.Errorf("resource is %q but the object is a %T", p.Resource, p.Object))
		return
	}
	w.str("resource", string(p.Resource))
	w.name("object")
	obj := p.Object
	if !obj.GetObjectKind().GroupVersionKind().Empty() {
		obj = obj.DeepCopyObject().(Object)
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	w.b = append(w.b, `{"apiVersion":"`...)
	w.b = append(w.b, info.version.String()...)
	w.b = append(w.b, `","kind":"`...)
	w.b = append(w.b, info.kind...)
	w.b = append(w.b, '"')
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(obj); err != nil {
		w.fail("object", err)
		return
	}
	members := bytes.TrimSuffix(text.Bytes(), []byte("\n"))[1:]
	if members[0] != '}' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, members...)
}

func (w *jsonWriter) deleted(p *Deleted) {
	if infoByResource[p.Resource] == nil && !IsOwn(p.Resource) {
		w.fail("resource", fmt.Errorf("unknown resource %q", p.Resource))
	}
	w.str("resource", string(p.Resource))
	w.strIfSet("namespace", p.Namespace)
	w.str("name", p.Name)
	w.str("uid", string(p.UID))
}

func (w *jsonWriter) bindResult(p *BindResult) {
	w.fail("outcome", checkBindOutcome(p.Outcome))
	w.str("uid", string(p.UID))
	w.str("node", p.Node)
	w.str("outcome", p.Outcome.String())
	w.strIfSet("message", strings.ToValidUTF8(p.Message, "\uFFFD"))
	if p.Decision > 0 {
		w.uint("decisionSeq", p.Decision)
	}
	w.fail(p.check())
	w.strIfSet("plugin", p.Plugin)
	w.strIfSet("code", p.Code)
	w.pod(p.UID)
}

func (w *jsonWriter) evictResult(p *EvictResult) {
	w.fail(p.check())
	w.str("uid", string(p.UID))
	w.str("outcome", p.Outcome.String())
	w.strIfSet("message", strings.ToValidUTF8(p.Message, "\uFFFD"))
	w.uint("decisionSeq", p.Decision)
	if p.RetryAfter != 0 {
		w.str("retryAfter", p.RetryAfter.String())
	}
	w.pod(p.UID)
}

func (w *jsonWriter) decision(d *Decision) {
	w.fail("outcome", checkOutcome(d.Outcome))
	if strings.Contains(d.Namespace, "/") {
		w.fail("pod", fmt.Errorf("namespace %q has a slash", d.Namespace))
	}
	w.open('{')
	w.uint("cycle", d.Cycle)
	w.str("pod", d.Namespace+"/"+d.Name)
	w.str("uid", string(d.UID))
	if d.Group != "" {
		w.str("group", d.Namespace+"/"+d.Group)
	}
	w.str("outcome", d.Outcome.String())
	w.strIfSet("node", d.Node)
	if d.Node != "" || d.Score != 0 {
		w.int("score", d.Score)
	}
	w.int("evaluated", d.Evaluated)
	w.int("feasible", d.Feasible)
	writeList(w, "rejections", d.Rejections, func(r Rejection) {
		w.open('{')
		w.str("plugin", r.Plugin)
		w.str("code", r.Code)
		w.str("reason", r.Reason)
		w.int("nodes", r.Nodes)
		w.close('}')
	})
	w.uids("allowed", d.Allowed)
	w.uids("rejected", d.Rejected)
	w.uids("victims", d.Victims)
	if d.WaitUntil != 0 {
		w.str("waitUntil", d.WaitUntil.String())
	}
	writeList(w, "waitFor", d.WaitFor, func(plugin string) { w.value("waitFor", plugin) })
	writeList(w, "approvals", d.Approvals, func(a Approval) {
		w.open('{')
		w.str("uid", string(a.UID))
		w.str("plugin", a.Plugin)
		w.pod(a.UID)
		w.close('}')
	})
	w.strIfSet("nominated", d.Nominated)
	writeList(w, "volumes", d.Volumes, func(v VolumeClaim) {
		w.open('{')
		w.str("claim", v.Claim)
		w.str("volume", v.Volume)
		w.close('}')
	})
	writeList(w, "places", d.Places, func(p Place) {
		w.open('{')
		w.str("uid", string(p.UID))
		w.str("node", p.Node)
		w.pod(p.UID)
		w.close('}')
	})
	writeList(w, "nominations", d.Nominations, func(n Nomination) {
		w.open('{')
		w.str("uid", string(n.UID))
		w.str("node", n.Node)
		w.pod(n.UID)
		w.close('}')
	})
	w.strIfSet("domain", d.Domain)
	if d.Elsewhere {
		w.name("elsewhere")
		w.b = append(w.b, "true"...)
	}
	w.fail("ended", checkEnding(d.Ended))
	w.strIfSet("ended", d.Ended.String())
	w.uids("activated", d.Activated)
	w.devices(d.Devices)
	w.questions(d.Questions)
	w.plan(d.Plan)
	w.pods("allowedPods", d.Allowed)
	w.pods("rejectedPods", d.Rejected)
	w.pods("victimPods", d.Victims)
	w.pods("activatedPods", d.Activated)
	w.close('}')
}

// plan writes a plan, if there is one.
func (w *jsonWriter) plan(p Plan) {
	if p.Result == 0 {
		return
	}
	w.fail("plan.result", checkPlanResult(p.Result))
	w.name("plan")
	w.open('{')
	w.str("result", p.Result.String())
	w.int("steps", p.Steps)
	w.fail("plan.next", checkNextSearch(p))
	if p.Next > 0 {
		w.int("next", int64(p.Next))
	}
	w.uids("order", p.Order)
	w.pods("orderPods", p.Order)
	w.close('}')
}

// pod writes the name of the pod with a UID, if it is known.
func (w *jsonWriter) pod(uid types.UID) {
	if w.names != nil {
		w.strIfSet("pod", w.names(uid))
	}
}

// pods writes the names of pods, if names are written.
func (w *jsonWriter) pods(name string, uids []types.UID) {
	if w.names != nil {
		writeList(w, name, uids, func(uid types.UID) { w.value(name, w.names(uid)) })
	}
}

func (w *jsonWriter) uids(name string, uids []types.UID) {
	writeList(w, name, uids, func(uid types.UID) { w.value(name, string(uid)) })
}

// writeList writes a member that is a list; an empty one is left out.
func writeList[T any](w *jsonWriter, name string, list []T, element func(T)) {
	if len(list) == 0 {
		return
	}
	w.name(name)
	w.open('[')
	for _, e := range list {
		w.comma()
		element(e)
	}
	w.close(']')
}
