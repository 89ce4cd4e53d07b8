package framework

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework/gates"
)

// LoadConfig reads a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1, YAML or JSON) and returns it complete.
// It applies our defaults first and then kube-scheduler's, and converts and validates it with kube-scheduler's own
// code. name is the file's name, for messages.
//
// It returns an error for unknown and repeated fields, bad plugin arguments, and HTTP extenders that cannot be asked.
// It also refuses settings that would bring randomness or real time into decisions. Arguments of plugins that
// kube-scheduler does not have stay as they are (*runtime.Unknown), because the plugins check them. ValidatePlugins
// checks the names of plugins, because it has the registry.
//
// Two fields exist only here. featureGates holds Kubernetes' feature gates as a KubeletConfiguration does: names with
// true or false. The configuration is completed under these gates, whatever the gates of the process are; afterwards
// the process has its gates back. pluginResources declares resources that plugins read.
func LoadConfig(data []byte, name string) (*Config, error) {
	return ReadOptions{}.LoadConfig(data, name)
}

// DefaultConfig returns the configuration of an empty file, with all feature gates at their defaults.
func DefaultConfig() *Config {
	cfg, err := ReadOptions{}.DefaultConfig()
	if err != nil {
		panic(fmt.Sprintf("the default configuration is not valid: %v", err))
	}
	return cfg
}

// Config is an effective configuration, with everything else that its decisions depend on.
type Config struct {
	*config.KubeSchedulerConfiguration
	// FeatureGates are in force while decisions are made.
	FeatureGates gates.Set
	// PluginResources are the resources that plugins read besides the ones that scheduling reads, as
	// eventlog.CompleteOwn returns them.
	PluginResources []eventlog.OwnResource
	// Recording says that others decide: inputs are logged, and nothing is decided.
	Recording bool
}

// ReadOptions are options for reading a configuration.
type ReadOptions struct {
	// FeatureGates override the gates of the file.
	FeatureGates map[string]bool
	// Note receives a message for each setting that has no effect without an API server. If it is nil, there are no
	// messages.
	Note func(message string)
}

// LoadConfig is the package's LoadConfig with these options.
func (o ReadOptions) LoadConfig(data []byte, name string) (*Config, error) {
	asTheyAre := func(named map[string]bool) map[string]bool { return named }
	cfg, err := loadConfig(data, o.FeatureGates, asTheyAre, func(external *configv1.KubeSchedulerConfiguration) {
		if o.Note == nil {
			return
		}
		note := func(format string, args ...any) { o.Note(name + ": " + fmt.Sprintf(format, args...)) }
		noteParallelism(external, note)
		noteConnection(external, note)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return cfg, nil
}

// DefaultConfig returns the configuration of an empty file.
func (o ReadOptions) DefaultConfig() (*Config, error) {
	return completeUnder(o.FeatureGates, &configv1.KubeSchedulerConfiguration{})
}

// loadConfig reads a configuration. first overrides the gates of the file. all turns the named gates into the gates
// under which the configuration is completed. adapt changes it before defaults apply.
func loadConfig(
	data []byte, first map[string]bool, all func(named map[string]bool) map[string]bool,
	adapt func(*configv1.KubeSchedulerConfiguration),
) (*Config, error) {
	if err := oneDocument(data); err != nil {
		return nil, err
	}
	data, named, err := cutFeatureGates(data)
	if err != nil {
		return nil, err
	}
	data, resources, err := cutPluginResources(data)
	if err != nil {
		return nil, err
	}
	data, onlyRecords, err := cutRecording(data)
	if err != nil {
		return nil, err
	}
	maps.Copy(named, first)
	decoder := scheme.Codecs.UniversalDeserializer() // strict; it neither sets defaults nor converts
	obj, gvk, err := decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	external, ok := obj.(*configv1.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("it is a %s, not a KubeSchedulerConfiguration of %s", gvk, configv1.SchemeGroupVersion)
	}
	if err := external.DecodeNestedObjects(ownArgs{runtime.WithoutVersionDecoder{Decoder: decoder}}); err != nil {
		return nil, err
	}
	adapt(external)
	cfg, err := completeUnder(all(named), external)
	if err != nil {
		return nil, err
	}
	cfg.PluginResources, cfg.Recording = resources, onlyRecords
	return cfg, nil
}

// ownArgs leaves the gang plugin's arguments as they are written, whatever the scheme has under that name. The module
// scheduler-plugins has a plugin of the same name. A program with any of its plugins has the arguments of all in its
// scheme.
type ownArgs struct{ runtime.Decoder }

// Decode implements runtime.Decoder.
func (d ownArgs) Decode(
	data []byte, kind *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	if kind != nil && kind.Kind == coscheduling+"Args" {
		return nil, nil, runtime.NewNotRegisteredErrForKind("framework", *kind)
	}
	return d.Decoder.Decode(data, kind, into)
}

// oneDocument returns an error for a file of several YAML documents, because the decoder would ignore all except the
// first.
func oneDocument(data []byte) error {
	documents := 0
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(doc)) > 0 {
			documents++
		}
	}
	switch documents {
	case 0:
		return errors.New("it is empty")
	case 1:
		return nil
	default:
		return fmt.Errorf("it has %d YAML documents: a configuration is one", documents)
	}
}

// completeUnder turns a decoded configuration into an effective one, under the named feature gates.
func completeUnder(named map[string]bool, external *configv1.KubeSchedulerConfiguration) (*Config, error) {
	set, err := gates.Resolve(named)
	if err != nil {
		return nil, err
	}
	cfg := &Config{FeatureGates: set}
	if during := gates.During(set, func() { cfg.KubeSchedulerConfiguration, err = complete(external) }); during != nil {
		return nil, during
	}
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// complete is completeUnder for the feature gates that are in force.
func complete(external *configv1.KubeSchedulerConfiguration) (*config.KubeSchedulerConfiguration, error) {
	if err := checkExtenders(external.Extenders); err != nil {
		return nil, err
	}
	if err := refuseUnreplayable(external); err != nil {
		return nil, err
	}
	setDefaults(external)
	named := namedGangPlugins(external)
	scheme.Scheme.Default(external)
	dropDefaultGangPlugins(external, named)
	dropTypedGangArgs(external)
	completeProfiles(external)

	cfg := &config.KubeSchedulerConfiguration{}
	if err := scheme.Scheme.Convert(external, cfg, nil); err != nil {
		return nil, err
	}
	// Conversion leaves the field out, and validation reads it.
	cfg.APIVersion = configv1.SchemeGroupVersion.String()
	ignoreManaged(cfg)
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}

// EncodeConfig returns an effective configuration for the log, as JSON with sorted keys. LoadConfig turns the result
// back into the same effective configuration, and EncodeConfig turns that into the same bytes. The result includes the
// feature gates that are not at their defaults.
//
// The connection to the API server, leader election, and the TLS settings of extenders are at their defaults in the
// result. They may lead to credentials, and no decision depends on them. A credential in the arguments of a plugin is
// an error.
func EncodeConfig(cfg *Config) ([]byte, error) {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, errors.New("encode configuration: no JSON serializer")
	}
	logged, err := withoutConnections(cfg.KubeSchedulerConfiguration)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	var buf bytes.Buffer
	// Encoding writes into the arguments that it converts; logged is a copy.
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion).Encode(logged,
		&buf); err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	// Arguments of our plugins are in it as the user wrote them. A map sorts their keys.
	var tree any
	d := json.NewDecoder(&buf)
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	if err := refuseCredentials(tree); err != nil {
		return nil, err
	}
	addFeatureGates(tree, cfg.FeatureGates)
	addPluginResources(tree, cfg.PluginResources)
	addRecording(tree, cfg.Recording)
	out, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	return out, nil
}
