package framework

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// together is a PreBind plugin that allows parallel plugins. It calls work.
type together struct {
	preBinder
	work func(ctx context.Context) *fwk.Status
}

func (together) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult,
	*fwk.Status) {
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

func (p together) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	return p.work(ctx)
}

// TestNeighboursThatAllowItRunTogether runs two plugins together, between two that run alone. Each of the two waits for
// the other. Then one of them fails, and the context of the other ends.
func TestNeighboursThatAllowItRunTogether(t *testing.T) {
	for _, fails := range []bool{false, true} {
		var groups []int
		met := make(chan struct{})
		first := together{preBinder{bare{&script{name: "b"}}}, func(context.Context) *fwk.Status {
			if fails {
				return fwk.AsStatus(errors.New("no answer"))
			}
			<-met
			return nil
		}}
		second := together{preBinder{bare{&script{name: "c"}}}, func(ctx context.Context) *fwk.Status {
			if fails {
				<-ctx.Done()
				return fwk.AsStatus(ctx.Err())
			}
			close(met)
			return nil
		}}
		var log []string
		p := profileOf(t, World{}, preBinder{bare{&script{name: "a", log: &log}}}, first, second,
			preBinder{bare{&script{name: "d", log: &log}}})
		b := &Binding{Profile: p, Pod: podNamed("p"), Node: "n", State: NewCycleState()}
		status := b.Before(context.Background(), func(calls []func()) {
			groups = append(groups, len(calls))
			done := make(chan struct{})
			for _, call := range calls {
				go func() {
					call()
					done <- struct{}{}
				}()
			}
			for range calls {
				<-done
			}
		})
		calls := strings.Join(log, " ")
		switch {
		case !fails && (status != nil || !slices.Equal(groups, []int{1, 2, 1}) ||
			calls != "a.PreBindPreFlight d.PreBindPreFlight a.PreBind d.PreBind"):
			t.Errorf("%v, groups %v, %s", status, groups, calls)
		case fails && (status.Plugin() != "b" || !slices.Equal(groups, []int{1, 2})):
			t.Errorf("%v of %q, groups %v", status, status.Plugin(), groups)
		}
	}
}
