package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// knownArguments are plugins whose arguments have names of resources, keys of labels and constants only, apart from
// the affinity that NodeAffinity adds.
var knownArguments = set("Coscheduling", "DefaultPreemption", "DynamicResources", "InterPodAffinity", "NodeAffinity",
	"NodeResourcesBalancedAllocation", "NodeResourcesFit", "PodTopologySpread", "VolumeBinding")

// config replaces the texts of a logged configuration. Everything else stays byte for byte.
func (w *walker) config(logged []byte) []byte {
	if len(logged) == 0 {
		return logged
	}
	var named struct {
		Profiles []struct {
			PluginConfig []struct {
				Name string `json:"name"`
			} `json:"pluginConfig"`
		} `json:"profiles"`
	}
	if err := json.Unmarshal(logged, &named); err != nil {
		w.fail("configuration: %w", err)
		return logged
	}
	c := configWriter{w: w, dec: json.NewDecoder(bytes.NewReader(logged))}
	for _, profile := range named.Profiles {
		for _, plugin := range profile.PluginConfig {
			c.plugins = append(c.plugins, plugin.Name)
		}
	}
	c.dec.UseNumber()
	if err := c.value(nil); err != nil {
		w.fail("configuration: %w", err)
		return logged
	}
	return c.out
}

// A configWriter writes a configuration again, with other texts.
type configWriter struct {
	w   *walker
	dec *json.Decoder
	out []byte
	// plugins are the plugins whose arguments follow, in their order: the arguments come before the name. plugin is the
	// one whose arguments are read, key the key of the requirement that is read.
	plugins     []string
	plugin, key string
}

// value copies the next value. path has the fields that lead to it, without the indexes of lists.
func (c *configWriter) value(path []string) error {
	token, err := c.dec.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		return c.composite(token, path)
	case string:
		return c.write(c.replaced(path, token))
	default:
		return c.write(token)
	}
}

func (c *configWriter) composite(begin json.Delim, path []string) error {
	c.out = append(c.out, byte(begin))
	if begin == '{' && len(path) == 2 && path[0] == "profiles" && path[1] == "pluginConfig" {
		if len(c.plugins) == 0 {
			return errors.New("pluginConfig of a profile: an element is no object")
		}
		c.plugin, c.plugins = c.plugins[0], c.plugins[1:]
	}
	for first := true; c.dec.More(); first = false {
		if !first {
			c.out = append(c.out, ',')
		}
		inner := path
		if begin == '{' {
			name, err := c.dec.Token()
			if err != nil {
				return err
			}
			field, ok := name.(string)
			if !ok {
				return fmt.Errorf("field name %v", name)
			}
			if err := c.write(c.keyIn(path, field)); err != nil {
				return err
			}
			c.out = append(c.out, ':')
			inner = append(slices.Clip(path), field)
		}
		if err := c.value(inner); err != nil {
			return err
		}
	}
	end, err := c.dec.Token()
	if err != nil {
		return err
	}
	d, ok := end.(json.Delim)
	if !ok {
		return errors.New("no end of an object or a list")
	}
	c.out = append(c.out, byte(d))
	return nil
}

// keyIn returns the key that is written in the place of a key of a map. In the arguments of a plugin that this program
// does not know, a key may be a name in the log.
func (c *configWriter) keyIn(path []string, key string) string {
	if len(path) > 3 && path[1] == "pluginConfig" && path[2] == "args" && !knownArguments[c.plugin] {
		return c.w.known(key)
	}
	return key
}

// extenderVerbs are the usual last parts of the URLs of extenders.
var extenderVerbs = set("", "filter", "prioritize", "preempt", "bind")

// write writes a token as the encoder of the configuration does.
func (c *configWriter) write(token any) error {
	if n, ok := token.(json.Number); ok {
		c.out = append(c.out, n...)
		return nil
	}
	text, err := json.Marshal(token)
	c.out = append(c.out, text...)
	return err
}

// replaced returns the text that is written in the place of a text.
func (c *configWriter) replaced(path []string, text string) string {
	field := path[len(path)-1]
	switch {
	case len(path) == 2 && path[0] == "profiles" && field == "schedulerName":
		return c.w.text(Scheduler, text)
	case path[0] == "extenders":
		return c.extender(path[1:], text)
	case len(path) == 2 && path[0] == "clientConnection" && field == "kubeconfig",
		len(path) == 2 && path[0] == "leaderElection" && (field == "resourceName" || field == "resourceNamespace"):
		if text == "kube-scheduler" || text == "kube-system" {
			return text // the defaults, which every log has
		}
		return c.w.text(Free, text)
	case len(path) > 3 && path[1] == "pluginConfig" && path[2] == "args":
		return c.argument(path[3:], text)
	}
	return text
}

// extender returns the text that is written in the place of a text in the settings of an extender.
func (c *configWriter) extender(path []string, text string) string {
	switch {
	case len(path) == 1 && path[0] == "urlPrefix":
		return c.w.url(text)
	case len(path) == 1 && strings.HasSuffix(path[0], "Verb") && !extenderVerbs[text],
		len(path) > 1 && path[0] == "tlsConfig":
		return c.w.text(Free, text)
	}
	return text
}

// argument returns the text that is written in the place of a text in the arguments of a plugin. This program does not
// know the meaning of the arguments of a plugin of others. There it replaces a text that is a name in the log. It keeps
// and counts the others.
func (c *configWriter) argument(path []string, text string) string {
	field := path[len(path)-1]
	switch {
	case field == "apiVersion" || field == "kind":
		return text
	case knownArguments[c.plugin] && path[0] != "addedAffinity":
		return text
	case !knownArguments[c.plugin] && c.w.replace && c.w.names.Has(text):
		return c.w.text(Object, text)
	case !knownArguments[c.plugin]:
		if c.w.replace {
			if c.w.keptArguments == nil {
				c.w.keptArguments = map[string]int{}
			}
			c.w.keptArguments[c.plugin]++
		}
		return text
	case field == "key":
		c.key = text
		return text
	case field == "operator":
		c.w.compares(c.key, text)
		return text
	case field == "values":
		return c.w.label(c.key, text)
	}
	return text
}
