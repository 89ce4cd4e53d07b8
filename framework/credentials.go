package framework

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// withoutConnections returns a copy of cfg, for the log, that has the defaults where it says how to reach the API
// server and to elect a leader, and no TLS settings of extenders: no decision depends on these.
func withoutConnections(cfg *config.KubeSchedulerConfiguration) (*config.KubeSchedulerConfiguration, error) {
	defaults, err := complete(&configv1.KubeSchedulerConfiguration{}) // whatever gates are in force
	if err != nil {
		return nil, err
	}
	logged := cfg.DeepCopy()
	logged.ClientConnection, logged.LeaderElection = defaults.ClientConnection, defaults.LeaderElection
	for i := range logged.Extenders {
		logged.Extenders[i].TLSConfig = nil
	}
	return logged, nil
}

// SameConfig reports whether two logged configurations are the same one. Earlier versions also logged how the API
// server is reached.
func SameConfig(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(loggedNow(a), loggedNow(b))
}

// loggedNow returns a logged configuration as this version would log it, or as it is if it would not.
func loggedNow(logged []byte) []byte {
	cfg, err := LoadConfig(logged, "")
	if err != nil {
		return logged
	}
	now, err := EncodeConfig(cfg)
	if err != nil {
		return logged
	}
	return now
}

// refuseCredentials returns an error that names the first credential in the extenders, whose TLS settings are left out,
// or in the arguments of plugins, by its place. These
// cannot be left out: a replay gives the plugins the same arguments.
func refuseCredentials(tree any) error {
	cfg, _ := tree.(map[string]any)
	extenders, _ := cfg["extenders"].([]any)
	for i, e := range extenders {
		if place := findCredential(e, fmt.Sprintf("extenders[%d]", i)); place != "" {
			return fmt.Errorf("%s has a credential: the log keeps what extenders there are, and everybody who has "+
				"the log reads it", place)
		}
	}
	profiles, _ := cfg["profiles"].([]any)
	for i, p := range profiles {
		profile, _ := p.(map[string]any)
		plugins, _ := profile["pluginConfig"].([]any)
		for _, p := range plugins {
			plugin, _ := p.(map[string]any)
			if place := findCredential(plugin["args"], "args"); place != "" {
				return fmt.Errorf("profiles[%d].pluginConfig: %v: %s has a credential: the log keeps the arguments "+
					"of plugins for a replay, and everybody who has the log reads them; "+
					"let the plugin read it from elsewhere", i, plugin["name"], place)
			}
		}
	}
	return nil
}

// findCredential returns the place of a text below v, which is at path, that is or has a credential; "" if there is
// none.
func findCredential(v any, path string) string {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if isCredential(key) {
				return "a key of " + path
			}
			at := path + "." + key
			if text, ok := v[key].(string); ok && text != "" && eventlog.NamesCredential(key) {
				return at
			}
			if at = findCredential(v[key], at); at != "" {
				return at
			}
		}
	case []any:
		for i := range v {
			if at := findCredential(v[i], fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at
			}
		}
	case string:
		var inner any // an argument may be JSON in a text
		if strings.ContainsAny(v, "{[") && json.Unmarshal([]byte(v), &inner) == nil {
			return findCredential(inner, path)
		}
		if isCredential(v) {
			return path
		}
	}
	return ""
}

// isCredential reports whether a text has a URL with userinfo, query or fragment, userinfo before a host, or a key in
// PEM form.
func isCredential(text string) bool {
	if eventlog.MessageWithoutCredentials(text) != text {
		return true
	}
	return strings.Contains(text, "@") && eventlog.WithoutCredentials(text) != text
}
