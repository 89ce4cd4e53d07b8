package framework

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// pluginResources is a field of a configuration that kube-scheduler's does not have: the resources that plugins read
// and scheduling itself does not, each as an eventlog.OwnResource. They are in the log, and plugins read them by
// SharedInformerFactory().ForResource.
const pluginResources = "pluginResources"

// cutField returns a configuration without one of our fields, and the field's JSON; nil if it does not have it. Then
// the configuration is returned as it is.
func cutField(data []byte, name string) ([]byte, json.RawMessage, error) {
	if !bytes.Contains(data, []byte(name)) {
		return data, nil, nil
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, nil, err
	}
	value, ok := fields[name]
	if !ok {
		return data, nil, nil
	}
	delete(fields, name)
	data, err = json.Marshal(fields)
	return data, value, err
}

// cutPluginResources returns a configuration without the field pluginResources, and what it declares.
func cutPluginResources(data []byte) ([]byte, []eventlog.OwnResource, error) {
	data, value, err := cutField(data, pluginResources)
	if err != nil || value == nil {
		return data, nil, err
	}
	var declared []eventlog.OwnResource
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&declared); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", pluginResources, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("%s: more than one list", pluginResources)
	}
	declared, err = eventlog.CompleteOwn(declared)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", pluginResources, err)
	}
	return data, declared, nil
}

// addPluginResources writes what is declared into a configuration that is logged. There is no field if nothing is.
func addPluginResources(tree any, declared []eventlog.OwnResource) {
	if fields, ok := tree.(map[string]any); ok && len(declared) > 0 {
		fields[pluginResources] = declared
	}
}

// LoggedPluginResources returns the resources that a logged configuration declares; nil if it declares none, or cannot
// be read.
func LoggedPluginResources(logged []byte) []eventlog.OwnResource {
	var config struct {
		PluginResources []eventlog.OwnResource `json:"pluginResources"`
	}
	if err := json.Unmarshal(logged, &config); err != nil {
		return nil
	}
	declared, err := eventlog.CompleteOwn(config.PluginResources)
	if err != nil {
		return nil
	}
	return declared
}

// DeclareReads adds to a configuration the resources that the enabled plugins say they read (Registry.Reads). Of a
// resource that the configuration declares itself, or that several plugins read, all fields are kept.
func (r Registry) DeclareReads(cfg *Config) error {
	declared := slices.Clone(cfg.PluginResources)
	reading := map[string]bool{}
	for i := range cfg.Profiles {
		for _, name := range enabledNames(cfg.Profiles[i].Plugins) {
			reading[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reading)) {
		reads, err := eventlog.CompleteOwn(r.Reads[name])
		if err != nil {
			return fmt.Errorf("what plugin %q reads: %w", name, err)
		}
		for _, read := range reads {
			if declared, err = merge(declared, read); err != nil {
				return fmt.Errorf("what plugin %q reads: %w", name, err)
			}
		}
	}
	all, err := eventlog.CompleteOwn(declared)
	if err != nil {
		return fmt.Errorf("%s: %w", pluginResources, err)
	}
	if len(all) > 0 {
		cfg.PluginResources = all
	}
	return nil
}

// merge adds a declaration to others.
func merge(declared []eventlog.OwnResource, read eventlog.OwnResource) ([]eventlog.OwnResource, error) {
	for i := range declared {
		d := &declared[i]
		if d.Resource != read.Resource {
			continue
		}
		if d.Version != read.Version || d.Kind != read.Kind || d.Namespaced != read.Namespaced {
			return nil, fmt.Errorf("%s is declared twice: as %s %s (namespaced: %v) and as %s %s (namespaced: %v)",
				d.Resource, d.Version, d.Kind, d.Namespaced, read.Version, read.Kind, read.Namespaced)
		}
		d.Fields = slices.Concat(d.Fields, read.Fields)
		return declared, nil
	}
	return append(declared, read), nil
}
