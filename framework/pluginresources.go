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

// pluginResources is a field of the configuration that kube-scheduler's does not have. It lists the resources that
// plugins read besides the ones that scheduling reads, each as an eventlog.OwnResource. The log has their objects, and
// plugins read them with SharedInformerFactory().ForResource.
const pluginResources = "pluginResources"

// cutField returns a configuration without one of our fields, and the field's JSON. If there is no such field, it
// returns the configuration unchanged, and nil.
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

// cutPluginResources returns a configuration without the field pluginResources, and the field's content.
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

// addPluginResources writes the declarations into a configuration for the log. It adds no field if there are none.
func addPluginResources(tree any, declared []eventlog.OwnResource) {
	if fields, ok := tree.(map[string]any); ok && len(declared) > 0 {
		fields[pluginResources] = declared
	}
}

// LoggedPluginResources returns the resources that a logged configuration declares. It returns nil if there are none,
// or if it cannot read the configuration.
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

// DeclareReads adds the resources of Registry.Reads that the enabled plugins read to a configuration. If there are
// several declarations of a resource, it merges their fields.
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

// merge adds a declaration to a list. It merges the fields of two declarations of one resource.
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
