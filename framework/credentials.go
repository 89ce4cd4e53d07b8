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

// withoutConnections returns a copy of cfg for the log. It has the defaults for the connection to the API server and
// for leader election, and no TLS settings of extenders. No decision depends on these.
func withoutConnections(cfg *config.KubeSchedulerConfiguration) (*config.KubeSchedulerConfiguration, error) {
	defaults, err := complete(&configv1.KubeSchedulerConfiguration{}) // the same under all gates
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

// SameConfig reports whether two logged configurations are the same. Earlier versions also logged the connection to the
// API server.
func SameConfig(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(loggedNow(a), loggedNow(b))
}

// loggedNow returns a logged configuration as this version would log it. It returns it unchanged if this version cannot
// read it.
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

// refuseCredentials returns an error that names the place of the first credential in the extenders or in the arguments
// of plugins. Arguments cannot be left out, because a replay gives the plugins the same arguments. The extenders' TLS
// settings were left out before.
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

// findCredential returns the place of a text below v that is or contains a credential, "" if there is none. path is the
// place of v.
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
		var inner any // an argument may be JSON in a string
		if strings.ContainsAny(v, "{[") && json.Unmarshal([]byte(v), &inner) == nil {
			return findCredential(inner, path)
		}
		if isCredential(v) {
			return path
		}
	}
	return ""
}

// isCredential reports whether a text contains a URL with userinfo, query or fragment, userinfo before a host, or a key
// in PEM form.
func isCredential(text string) bool {
	if eventlog.MessageWithoutCredentials(text) != text {
		return true
	}
	return strings.Contains(text, "@") && eventlog.WithoutCredentials(text) != text
}
