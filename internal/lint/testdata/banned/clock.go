package banned

import (
	"context"
	stdtime "time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait" // want clock
	"k8s.io/utils/clock"
)

var (
	_ = stdtime.Now       // want clock
	_ = stdtime.Since     // want clock
	_ = stdtime.Until     // want clock
	_ = stdtime.After     // want clock
	_ = stdtime.AfterFunc // want clock
	_ = stdtime.NewTimer  // want clock
	_ = stdtime.NewTicker // want clock
	_ = stdtime.Tick      // want clock
	_ = stdtime.Sleep     // want clock

	_ = context.WithTimeout       // want clock
	_ = context.WithTimeoutCause  // want clock
	_ = context.WithDeadline      // want clock
	_ = context.WithDeadlineCause // want clock

	_ = metav1.Now      // want clock
	_ = metav1.NowMicro // want clock
	_ = wait.Forever
	_ clock.RealClock // want clock
)

// Durations, fixed times and plain contexts are no clock.
var (
	_ = 5 * stdtime.Second
	_ = stdtime.Unix(0, 1).UTC()
	_ = context.Background()
	_ = metav1.NewTime
)

type notTime struct{ Now int }

func field(n notTime) int { return n.Now }
