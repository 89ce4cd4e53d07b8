package main

import (
	"maps"
	"testing"
)

func TestRequestsAreAddedUpByVerbAndResource(t *testing.T) {
	got := requests(`# HELP apiserver_request_total Counter
apiserver_request_total{code="200",component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 3
apiserver_request_total{code="404",component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1
apiserver_request_total{code="201",component="apiserver",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 1e+04
apiserver_request_duration_seconds_sum{verb="GET"} 7
`)
	want := map[string]float64{"GET pods": 4, "POST pods/binding": 10000}
	if !maps.Equal(got, want) {
		t.Errorf("requests are %v, wanted %v", got, want)
	}
}
