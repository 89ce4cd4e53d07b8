package banned

import (
	"sync"

	_ "golang.org/x/sync/errgroup" // want goroutine
	"k8s.io/client-go/util/workqueue"
)

type shared struct {
	sync.Mutex
	m sync.Map // want sync.Map
}

var _ = workqueue.ParallelizeUntil // want goroutine

func start(wg *sync.WaitGroup, c chan int) {
	go start(wg, c)  // want goroutine
	wg.Go(func() {}) // want goroutine
	func() { wg.Wait() }()
	select { // want select
	case <-c:
	default:
	}
}
