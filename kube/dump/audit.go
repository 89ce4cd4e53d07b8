package dump

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// isAudit reports whether an item is an event of an audit log.
func isAudit(version, kind string) bool {
	return kind == "Event" && strings.HasPrefix(version, "audit.k8s.io/")
}

// auditEvent has the parts of an event of audit.k8s.io/v1 that are read.
type auditEvent struct {
	Level, AuditID, Stage, Verb, RequestURI string
	User                                    struct{ Username string }
	ObjectRef                               *struct {
		Resource, Namespace, Name, APIGroup, Subresource string
	}
	ResponseStatus *struct{ Code int }
	RequestObject  json.RawMessage
	ResponseObject json.RawMessage
	// RequestReceivedTimestamp is the time when the request came, and StageTimestamp when it was answered.
	RequestReceivedTimestamp, StageTimestamp metav1.MicroTime
}

// The kinds of writes.
const (
	upserted = iota
	deleted
	bound   // by a Binding, whose answer does not have the pod
	evicted // by an Eviction, whose answer does not have the pod
)

// An event is a write in an audit log, or a reason why a write is left out.
type event struct {
	at     time.Time
	came   time.Time // when the request came; its place among the events
	id     string    // the audit ID, to tell events that come twice
	user   string
	did    int
	node   string // of a Binding
	atOnce bool   // of an Eviction: the pod has no time of grace
	object *found // of the answer; nil if it has none. The name is known in any case
	more   []*found

	// skipped says why the event is no write of an object that is read: "" if it is one. unusable is a write that has
	// no object, with the reason.
	skipped, unusable string
}

// writes are the verbs that change objects.
var writes = map[string]bool{"create": true, "update": true, "patch": true, "delete": true, "deletecollection": true}

// readSubresources are the subresources whose writes change what is read, besides binding and eviction.
var readSubresources = map[string]bool{"": true, "status": true, "resize": true, "ephemeralcontainers": true}

// isDryRun reports whether nothing was written. The request said so in its query, in the options of a deletion, or in
// the ones within an Eviction, where "kubectl drain --dry-run=server" has them.
func (e *auditEvent) isDryRun() bool {
	_, query, _ := strings.Cut(e.RequestURI, "?")
	if values, err := url.ParseQuery(query); err == nil && values.Has("dryRun") {
		return true
	}
	evicts := e.ObjectRef != nil && e.ObjectRef.Subresource == "eviction"
	if len(e.RequestObject) == 0 || e.Verb == "create" && !evicts {
		return false
	}
	type options struct{ DryRun []string }
	var request struct {
		options
		DeleteOptions options
	}
	return json.Unmarshal(e.RequestObject, &request) == nil && len(request.DryRun)+len(request.DeleteOptions.DryRun) > 0
}

// isEmpty reports whether a part of an event is missing, or null.
func isEmpty(text json.RawMessage) bool { return len(text) == 0 || string(text) == "null" }

// event reads an event of an audit log.
func (d *decoder) event(text []byte) (*found, error) {
	var e auditEvent
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	out := &event{at: e.StageTimestamp.Time, came: e.came(), id: e.AuditID, user: e.User.Username}
	f := &found{event: out}
	switch ref := e.ObjectRef; {
	case !writes[e.Verb] || e.Stage != "ResponseComplete":
		out.skipped = "no write that is complete"
		return f, nil
	case e.ResponseStatus != nil && e.ResponseStatus.Code >= 400:
		out.skipped = "refused"
		return f, nil
	case e.isDryRun():
		out.skipped = "dry run"
		return f, nil
	case ref == nil || !d.isRead(ref.Resource, ref.APIGroup):
		out.skipped = "of a resource that scheduling does not read"
		return f, nil
	case out.at.IsZero():
		return nil, fmt.Errorf("an audit event without a stageTimestamp")
	}
	ref := e.ObjectRef
	f.resource = resourceNamed(ref.Resource, ref.APIGroup)
	f.Namespace, f.NamespacedName.Name = ref.Namespace, ref.Name
	switch {
	case ref.Subresource == "binding" && e.Verb == "create":
		return f, d.binding(f, &e)
	case ref.Subresource == "eviction":
		out.did, out.atOnce = evicted, isAtOnce(e.RequestObject)
		return f, nil
	case !readSubresources[ref.Subresource]:
		out.skipped = "of a resource that scheduling does not read"
		return f, nil
	}
	return f, d.answer(f, &e)
}

// came returns the time when the request came. A request that follows from another one comes after it, and may be
// answered before it.
func (e *auditEvent) came() time.Time {
	if e.RequestReceivedTimestamp.IsZero() {
		return e.StageTimestamp.Time
	}
	return e.RequestReceivedTimestamp.Time
}

// isAtOnce reports whether an Eviction gives its pod no time of grace.
func isAtOnce(request json.RawMessage) bool {
	var eviction struct {
		DeleteOptions struct{ GracePeriodSeconds *int64 }
	}
	seconds := &eviction.DeleteOptions.GracePeriodSeconds
	return !isEmpty(request) && json.Unmarshal(request, &eviction) == nil && *seconds != nil && **seconds == 0
}

func resourceNamed(plural, group string) eventlog.Resource {
	if group == "" {
		return eventlog.Resource(plural)
	}
	return eventlog.Resource(plural + "." + group)
}

func (d *decoder) isRead(plural, group string) bool {
	_, ok := places[resourceNamed(plural, group)]
	return ok
}

// binding reads the node of a Binding.
func (d *decoder) binding(f *found, e *auditEvent) error {
	var binding corev1.Binding
	if isEmpty(e.RequestObject) {
		f.event.unusable = "level " + e.Level
		return nil
	}
	if err := json.Unmarshal(e.RequestObject, &binding); err != nil {
		return fmt.Errorf("the Binding of %s: %w", f.NamespacedName, err)
	}
	f.event.did, f.event.node = bound, binding.Target.Name
	if f.NamespacedName.Name == "" {
		f.NamespacedName.Name = binding.Name
	}
	return nil
}

// answer reads the object, or the objects, in the answer to a write.
func (d *decoder) answer(f *found, e *auditEvent) error {
	out := f.event
	if isEmpty(e.ResponseObject) {
		if e.Verb == "delete" && f.NamespacedName.Name != "" {
			out.did = deleted // it may have been graceful: then a later event has it again
			return nil
		}
		out.unusable = "level " + e.Level
		return nil
	}
	version, kind, err := headOf(e.ResponseObject)
	if err != nil {
		return fmt.Errorf("its responseObject: %w", err)
	}
	switch {
	case kind == "Status" && e.Verb == "delete":
		out.did = deleted
		return nil
	case kind == "Status":
		out.unusable = "its answer is a Status"
		return nil
	case strings.HasSuffix(kind, "List"):
		return d.answers(f, e.ResponseObject, version, kind)
	}
	obj, r, err := d.object(e.ResponseObject, version, kind)
	if err != nil {
		return fmt.Errorf("its responseObject: %w", err)
	}
	if obj.left != "" {
		out.unusable = "its version is not read: " + obj.left
		return nil
	}
	out.object, f.name = obj, obj.name
	if isGone(r, e.Verb == "delete") {
		out.did = deleted
	}
	return nil
}

// answers reads the objects that a deletecollection has answered with.
func (d *decoder) answers(f *found, text []byte, version, kind string) error {
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("its responseObject: %w", err)
	}
	for i, text := range list.Items {
		obj, r, err := d.object(text, version, strings.TrimSuffix(kind, "List"))
		if err != nil {
			return fmt.Errorf("item %d of its responseObject: %w", i, err)
		}
		if obj.left != "" {
			continue
		}
		obj.event = &event{at: f.event.at, came: f.event.came, id: f.event.id, user: f.event.user, object: obj}
		if isGone(r, true) {
			obj.event.did = deleted
		}
		f.event.more = append(f.event.more, obj)
	}
	if len(f.event.more) == 0 {
		f.event.unusable = "its answer has no object"
	}
	return nil
}

// isGone reports whether an object does not exist after a write that has answered with it. One that has a deletion
// timestamp goes when nothing holds it: no finalizer, and for pods no time of grace.
func isGone(r *reduced, byDelete bool) bool {
	var object struct {
		Metadata struct {
			DeletionTimestamp          *string
			DeletionGracePeriodSeconds *int64
			Finalizers                 []string
		}
	}
	if json.Unmarshal(r.text, &object) != nil {
		return byDelete
	}
	m := &object.Metadata
	if m.DeletionTimestamp == nil {
		return byDelete
	}
	return len(m.Finalizers) == 0 && (m.DeletionGracePeriodSeconds == nil || *m.DeletionGracePeriodSeconds == 0)
}
