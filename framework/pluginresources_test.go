package framework

import (
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestPluginResourcesAreLoggedAndReadBack(t *testing.T) {
	const field = `"pluginResources":[` +
		`{"resource":"as.example.com","version":"v1","kind":"A","fields":["spec.x","spec.y"]},` +
		`{"resource":"bs.example.com","version":"v1beta1","kind":"B","namespaced":true,"fields":["status"]}]`
	cfg := load(t, `pluginResources:
- {resource: bs.example.com, version: v1beta1, kind: B, namespaced: true, fields: [status]}
- {resource: as.example.com, version: v1, kind: A, fields: ["spec.{y,x}", spec.x]}
`)
	logged := encoded(t, cfg)
	if !strings.Contains(logged, field) {
		t.Errorf("logged is %s", logged)
	}
	again, err := LoadConfig([]byte(logged), "log")
	if err != nil {
		t.Fatal(err)
	}
	if second := encoded(t, again); second != logged {
		t.Errorf("%s\nreads back as\n%s", logged, second)
	}
	if declared := LoggedPluginResources([]byte(logged)); len(declared) != 2 || declared[1].Kind != "B" {
		t.Errorf("declared are %+v", declared)
	}
	if plain := encoded(t, load(t, "pluginResources: []\n")); plain != encoded(t, load(t, "")) {
		t.Errorf("nothing declared is logged as %s", plain)
	}
}

func TestWhatEnabledPluginsReadIsDeclared(t *testing.T) {
	read := func(version string, fields ...string) []eventlog.OwnResource {
		return []eventlog.OwnResource{{Resource: "as.example.com", Version: version, Kind: "A", Fields: fields}}
	}
	declared := "pluginResources: [{resource: as.example.com, version: v1, kind: A, fields: [spec.x]}]\n"
	enabled := "profiles: [{plugins: {multiPoint: {enabled: [{name: Reader}]}}}]\n"
	for _, c := range []struct {
		config string
		reads  []eventlog.OwnResource
		want   string // the fields, or the error
	}{
		{enabled, read("v1", "spec.y"), "spec.y"},
		{enabled + declared, read("v1", "spec.y"), "spec.x spec.y"},
		{declared, read("v1", "spec.y"), "spec.x"},
		{enabled + declared, read("v2", "spec.y"), "declared twice"},
		{enabled, read("v1", "spec.secret"), "name of a credential"},
		{"", read("v1", "spec.y"), ""},
	} {
		cfg := load(t, c.config)
		registry := Registry{Reads: map[string][]eventlog.OwnResource{"Reader": c.reads}}
		err := registry.DeclareReads(cfg)
		var got string
		if err != nil {
			got = err.Error()
		} else if len(cfg.PluginResources) > 0 {
			got = strings.Join(cfg.PluginResources[0].Fields, " ")
		}
		if err != nil && !strings.Contains(got, c.want) || err == nil && got != c.want {
			t.Errorf("%s reads %+v: %q, want %q", c.config, c.reads, got, c.want)
		}
	}
}
