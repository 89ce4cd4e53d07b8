package status

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// whileBindsAreQueued has effects be queued for no time, for three seconds, and for an hour. tell has something
// written, which has to wait that long, or for holdPatience; then is called once it is written.
func whileBindsAreQueued(t *testing.T, tell func(*Status), then func(*Status, *fake.Clientset, *atomic.Bool)) {
	for _, test := range []struct {
		name                 string
		crowded, after, upTo time.Duration
	}{
		{"not at all", 0, 0, time.Millisecond},
		{"for a while", 3 * time.Second, 3 * time.Second, 3*time.Second + holdStep},
		{"for ever", time.Hour, holdPatience, holdPatience + 2*holdStep},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var crowded atomic.Bool
				crowded.Store(test.crowded > 0)
				client := fake.NewClientset()
				s := New(Options{Pods: client, Events: client, Crowded: crowded.Load})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { s.Run(ctx) })
				synctest.Wait()
				begun := time.Now()
				tell(s)
				time.AfterFunc(test.crowded, func() { crowded.Store(false) })
				for len(client.Actions()) == 0 {
					time.Sleep(time.Millisecond)
				}
				if took := time.Since(begun); took < test.after || took > test.upTo+time.Millisecond {
					t.Errorf("the first call was made after %v, want %v to %v", took, test.after, test.upTo)
				}
				then(s, client, &crowded)
				cancel()
				running.Wait()
			})
		})
	}
}

func TestEventsWaitWhileBindsAreQueued(t *testing.T) {
	whileBindsAreQueued(t, func(s *Status) {
		for _, uid := range []types.UID{"a", "b", "c"} {
			pod := ref{namespace: "default", name: string(uid), uid: uid}
			s.tell(event{regarding: pod.object(), reason: "Scheduled"})
		}
	}, func(s *Status, client *fake.Clientset, crowded *atomic.Bool) {
		time.Sleep(time.Second)
		if n := len(client.Actions()); n != 3 {
			t.Errorf("%d events were written, want 3", n)
		}
		// An event that comes again and again keeps its place, and the time for which it has waited.
		crowded.Store(true)
		client.ClearActions()
		for range 3 {
			s.tell(event{regarding: ref{"default", "a", "a"}.object(), reason: "Again"})
			time.Sleep(holdPatience - time.Second)
		}
		if n := len(client.Actions()); n == 0 {
			t.Errorf("an event that was told again every %v was not written", holdPatience-time.Second)
		}
		// While binds continue, events get a small share of the calls.
		client.ClearActions()
		for i := range 1000 {
			pod := ref{namespace: "default", name: "a", uid: types.UID(strconv.Itoa(i))}
			s.tell(event{regarding: pod.object(), reason: "Scheduled"})
		}
		time.Sleep(holdPatience + time.Second)
		most := eventWriters*int(time.Second/holdStep) + 2*eventWriters
		if n := len(client.Actions()); n < most/2 || n > most {
			t.Errorf("%d events were written in a second of queued binds, want %d to %d", n, most/2, most)
		}
	})
}

func TestStatusesOfPodGroupsWaitWhileBindsAreQueued(t *testing.T) {
	whileBindsAreQueued(t, func(s *Status) {
		s.group.put(groupKey{eventlog.PodGroups, "default", "g"}, groupStatus{uid: "g",
			condition: &metav1.Condition{Status: metav1.ConditionTrue, Reason: "Scheduled"}})
	}, func(*Status, *fake.Clientset, *atomic.Bool) {})
}
