package effect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rollcall-sched/rollcall/engine"
)

// Clock tells the time and calls back after some of it.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f after d, from a goroutine of its own.
	AfterFunc(d time.Duration, f func())
}

type wallClock struct{}

func (wallClock) Now() time.Time                      { return time.Now() }
func (wallClock) AfterFunc(d time.Duration, f func()) { time.AfterFunc(d, f) }

// CallKind names the action of a call to the API server.
type CallKind string

// The calls.
const (
	CallBind          CallKind = "bind"
	CallReadPod       CallKind = "read-pod"
	CallCondition     CallKind = "patch-pod-condition"
	CallDelete        CallKind = "delete-pod"
	CallReadVolume    CallKind = "read-volume"
	CallUpdateVolume  CallKind = "update-volume"
	CallReadClaim     CallKind = "read-claim"
	CallUpdateClaim   CallKind = "update-claim"
	CallReadNode      CallKind = "read-node"
	CallReadDevices   CallKind = "read-resource-claim"
	CallReserveClaims CallKind = "reserve-resource-claim"
	CallMakeClaim     CallKind = "create-resource-claim"
	CallDeleteClaim   CallKind = "delete-resource-claim"
	CallTellClaim     CallKind = "patch-pod-resource-claim"
)

// Call is a kind of call and its answer: "ok", or the status code of an error ("409"). It is "timeout" if no answer
// came in time, and "broken" if none came for another reason.
type Call struct {
	Kind   CallKind
	Answer string
}

// Counts count the calls and effects since New.
type Counts struct {
	// Calls are the calls that ended, by kind and answer.
	Calls map[Call]uint64
	// ReadBacks counts the reads of a pod that had to find out the outcome of a bind or an eviction.
	ReadBacks uint64
	// Retries counts the repeated attempts.
	Retries uint64
	// Outstanding is the number of effects that were taken on and have not ended.
	Outstanding int
}

// caller makes the calls, and counts them.
type caller struct {
	client  kubernetes.Interface
	timeout time.Duration // of one call
	clock   Clock
	report  func(string)

	mu       sync.Mutex
	done     Counts // without Outstanding
	troubles troubles
}

// counts returns the counts so far.
func (c *caller) counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.done
	counts.Calls = maps.Clone(counts.Calls)
	return counts
}

// call makes one call, within its time, and counts it.
func (c *caller) call(ctx context.Context, kind CallKind, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := do(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done.Calls[Call{kind, answerOf(err)}]++
	return err
}

// readPod reads the effect's pod from the API server, not from a cache.
func (c *caller) readPod(ctx context.Context, x engine.Effect) (pod *v1.Pod, err error) {
	err = c.call(ctx, CallReadPod, func(ctx context.Context) (err error) {
		pod, err = c.client.CoreV1().Pods(x.Namespace).Get(ctx, x.Name, metav1.GetOptions{})
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done.ReadBacks++
	return pod, err
}

func (c *caller) retried() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done.Retries++
}

// answerOf names an answer for Call.
func answerOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &status):
		return strconv.Itoa(int(status.Status().Code))
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "broken"
}

// isAnswer reports whether the error is the API server's answer. Otherwise it may not have got the call.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// isGone reports whether the API server has answered to reading an object that there is none of the name. A 404 of
// something between here and the API server does not say so, and the object may be there.
func isGone(err error, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonNotFound {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isRefusal reports whether the API server has refused a call, and would again. It did not carry it out.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// isFailure reports whether the API server has failed at a call. It may have carried it out.
func isFailure(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError
}

// longestPutOff is the longest time for which a call is put off, whatever the answer asks for. A webhook, or a proxy
// between this process and the API server, may ask for days, and capacity stays reserved meanwhile.
const longestPutOff = time.Minute

// putOff returns for how long the API server, which has more calls than it takes, has put this one off.
func putOff(err error) (time.Duration, bool) {
	if !apierrors.IsTooManyRequests(err) {
		return 0, false
	}
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(max(time.Duration(seconds)*time.Second, firstBackoff), longestPutOff), true
}

// Between tries the time doubles from firstBackoff to lastBackoff.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
)

// backoff returns the time to wait after so many tries.
func backoff(tries int) time.Duration {
	return min(firstBackoff<<min(max(tries, 1)-1, 10), lastBackoff)
}

// reportEvery is the least time between two reports of trouble.
const reportEvery = 30 * time.Second

// troubles are the failures since the last report.
type troubles struct {
	reported time.Time
	since    int
}

// trouble reports a failure of an effect, at most once in reportEvery: when the API server is away, all effects fail at
// once.
func (c *caller) trouble(x engine.Effect, what string, err error) {
	c.mu.Lock()
	now := c.clock.Now()
	c.troubles.since++
	due := c.troubles.reported.IsZero() || now.Sub(c.troubles.reported) >= reportEvery
	n := c.troubles.since
	if due {
		c.troubles.reported, c.troubles.since = now, 0
	}
	c.mu.Unlock()
	if due {
		c.report(fmt.Sprintf("pod %s/%s (%s): %s (%d such tries since the last report): %v", x.Namespace, x.Name,
			x.UID, what, n, err))
	}
}
