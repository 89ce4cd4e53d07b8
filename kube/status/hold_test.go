package status

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// TestEventsWaitWhileBindsAreQueued has effects be queued for three seconds, and for an hour.
func TestEventsWaitWhileBindsAreQueued(t *testing.T) {
	for _, test := range []struct {
		name                 string
		crowded, after, upTo time.Duration
	}{
		{"not at all", 0, 0, time.Millisecond},
		{"for a while", 3 * time.Second, 3 * time.Second, 3*time.Second + holdStep},
		{"for ever", time.Hour, eventPatience, eventPatience + 2*holdStep},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var crowded atomic.Bool
				crowded.Store(test.crowded > 0)
				client := fake.NewClientset()
				s := New(Options{Pods: client, Events: client, Crowded: crowded.Load})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					s.Run(ctx)
				}()
				synctest.Wait()
				begun := time.Now()
				for _, uid := range []types.UID{"a", "b", "c"} {
					pod := ref{namespace: "default", name: string(uid), uid: uid}
					s.tell(event{regarding: pod, reason: "Scheduled"})
				}
				time.AfterFunc(test.crowded, func() { crowded.Store(false) })
				for len(client.Actions()) == 0 {
					time.Sleep(time.Millisecond)
				}
				if took := time.Since(begun); took < test.after || took > test.upTo+time.Millisecond {
					t.Errorf("the first event was written after %v, want %v to %v", took, test.after, test.upTo)
				}
				time.Sleep(time.Second)
				if n := len(client.Actions()); n != 3 {
					t.Errorf("%d events were written, want 3", n)
				}
				// One that is told again and again keeps its place, and the time for which it has waited.
				crowded.Store(true)
				client.ClearActions()
				for range 3 {
					s.tell(event{regarding: ref{namespace: "default", name: "a", uid: "a"}, reason: "Again"})
					time.Sleep(eventPatience - time.Second)
				}
				if n := len(client.Actions()); n == 0 {
					t.Errorf("an event that was told again every %v was not written", eventPatience-time.Second)
				}
				// While binds go on, events get a small share of the calls.
				client.ClearActions()
				for i := range 1000 {
					pod := ref{namespace: "default", name: "a", uid: types.UID(strconv.Itoa(i))}
					s.tell(event{regarding: pod, reason: "Scheduled"})
				}
				time.Sleep(eventPatience + time.Second)
				most := eventWriters*int(time.Second/holdStep) + 2*eventWriters
				if n := len(client.Actions()); n < most/2 || n > most {
					t.Errorf("%d events were written in a second of queued binds, want %d to %d", n, most/2, most)
				}
				cancel()
				<-done
			})
		})
	}
}
