package watch

import (
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// troubles are the requests that fail, so that each trouble is reported when it begins and when it ends, and not with
// every attempt in between.
type troubles struct {
	mu sync.Mutex
	// failing has the reason, by resource and verb.
	failing map[attempt]string
}

// attempt names a kind of request for a resource: discover, list or watch.
type attempt struct {
	resource eventlog.Resource
	verb     string
}

// unreachable is the reason of requests that got no answer at all. It is one trouble, whatever was asked for.
const unreachable = "unreachable"

// told notes how a request went.
func (w *Watch) told(place int, verb string, err error) {
	of := attempt{w.kinds[place].resource, verb}
	if message := w.troubles.note(of, w.kinds[place].group(), err); message != "" {
		w.opts.Report(message)
	}
}

// note notes how a request went, and returns the message to report, if there is one.
func (t *troubles) note(of attempt, group schema.GroupVersionResource, err error) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, failed := t.failing[of]
	if err == nil {
		delete(t.failing, of)
		switch {
		case !failed:
			return ""
		case was != unreachable:
			return fmt.Sprintf("%s: %s works again", of.resource, of.verb)
		case !t.isUnreachable():
			return "the API server is reached again"
		}
		return ""
	}
	reason, before := reasonOf(err), t.isUnreachable()
	if t.failing == nil {
		t.failing = map[attempt]string{}
	}
	t.failing[of] = reason
	switch {
	case failed && was == reason:
		return ""
	case reason != unreachable:
		return t.describe(of, group, err)
	case !before:
		return fmt.Sprintf("the API server is not reached, and it is tried again: %v", err)
	}
	return ""
}

// isUnreachable reports whether any request got no answer.
func (t *troubles) isUnreachable() bool {
	// any order: it is asked whether there is one
	for _, reason := range t.failing {
		if reason == unreachable {
			return true
		}
	}
	return false
}

// describe names the failure and its remedy.
func (t *troubles) describe(of attempt, group schema.GroupVersionResource, err error) string {
	switch {
	case apierrors.IsForbidden(err) && of.verb != "discover":
		return fmt.Sprintf("%s: the API server does not allow to %s them: give the scheduler's ClusterRole the verbs "+
			"list and watch on the resource %q of the API group %q; nothing is decided before they are listed, and it "+
			"is tried again: %v", of.resource, of.verb, group.Resource, group.Group, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("%s: the API server does not know who asks: check the credentials of the kubeconfig or the "+
			"service account; it is tried again: %v", of.resource, err)
	}
	return fmt.Sprintf("%s: %s fails, and is tried again: %v", of.resource, of.verb, err)
}

// reasonOf returns the common part of failures that count as one trouble.
func reasonOf(err error) string {
	if isUnreachable(err) {
		return unreachable
	}
	if reason := apierrors.ReasonForError(err); reason != "" {
		return string(reason)
	}
	return "other"
}

// isUnreachable reports whether a request got no answer from the API server.
func isUnreachable(err error) bool {
	return err != nil && apierrors.ReasonForError(err) == "" &&
		(utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
			utilnet.IsTimeout(err) || strings.Contains(err.Error(), "dial "))
}

// isExpired reports whether a request asked for a state that the API server no longer has, or does not have yet. The
// reflector asks again for another one.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTimeout(err)
}
