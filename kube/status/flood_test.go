package status

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// TestEventsAreWrittenBeforeTheyWouldBeDropped fills more than half of the queue of events, while binds are queued.
func TestEventsAreWrittenBeforeTheyWouldBeDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		s := New(Options{Pods: client, Events: client, Crowded: func() bool { return true }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx)
		}()
		for i := range maxEvents/2 + 100 {
			uid := types.UID(strconv.Itoa(i))
			s.tell(event{regarding: ref{"default", string(uid), uid}.object(), reason: "Scheduled"})
		}
		time.Sleep(time.Second)
		if n := len(client.Actions()); n < 90 || n > 110 {
			t.Errorf("%d events were written, want about 100: those beyond half of the limit", n)
		}
		cancel()
		<-done
	})
}
