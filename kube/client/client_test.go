package client

import (
	"testing"

	"k8s.io/client-go/rest"
)

// TestAllClientsTogetherKeepTheRate asks for as many requests as there are at once, by three clients.
func TestAllClientsTogetherKeepTheRate(t *testing.T) {
	config := Shared(&rest.Config{QPS: 0.001, Burst: 40})
	statuses, events := Part(config, 4), Part(config, 8)
	for _, c := range []struct {
		name   string
		config *rest.Config
		want   int
	}{{"statuses", statuses, 10}, {"events", events, 5}, {"binds", config, 25}, {"statuses again", statuses, 0}} {
		got := 0
		for c.config.RateLimiter.TryAccept() {
			got++
		}
		if got != c.want {
			t.Errorf("%s: %d requests, want %d", c.name, got, c.want)
		}
	}
	if unlimited := Part(Shared(&rest.Config{QPS: -1}), 4); unlimited.RateLimiter != nil {
		t.Error("there is a limit where none is wanted")
	}
}
