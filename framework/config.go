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

// LoadConfig reads a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1, YAML or JSON) and returns
// it complete: our defaults first, then kube-scheduler's, converted and validated by kube-scheduler's own
// code. name is the file's name, for messages.
//
// It refuses what it does not understand or could not keep to: unknown and repeated fields, bad plugin
// arguments, HTTP extenders that preempt, and settings by which chance or real time would take part in decisions.
// Arguments of plugins that kube-scheduler does not have stay as they are (*runtime.Unknown): the plugins
// check them. Names of plugins are checked by ValidatePlugins, which knows the registry.
//
// A field featureGates of the configuration, which only we have, holds Kubernetes' feature gates as a
// KubeletConfiguration does: names with true or false. The configuration is completed under these gates, whichever are
// in force for the process, and these are in force again afterwards. A field pluginResources, which only we have too,
// declares resources that plugins read.
func LoadConfig(data []byte, name string) (*Config, error) {
	return ReadOptions{}.LoadConfig(data, name)
}

// DefaultConfig returns the configuration that an empty file would give, with all feature gates at their defaults.
func DefaultConfig() *Config {
	cfg, err := ReadOptions{}.DefaultConfig()
	if err != nil {
		panic(fmt.Sprintf("the default configuration is not valid: %v", err))
	}
	return cfg
}

// Config is an effective configuration, and what decisions with it depend on besides.
type Config struct {
	*config.KubeSchedulerConfiguration
	// FeatureGates are in force while decisions are made.
	FeatureGates gates.Set
	// PluginResources are the resources that plugins read besides those of scheduling, as eventlog.CompleteOwn returns
	// them.
	PluginResources []eventlog.OwnResource
}

// ReadOptions say how a configuration is read.
type ReadOptions struct {
	// FeatureGates go before those of the file.
	FeatureGates map[string]bool
	// Note is told of each setting that has no effect where no API server is reached; nil is not told.
	Note func(message string)
}

// LoadConfig is the function of that name with these options.
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

// DefaultConfig returns the configuration that an empty file would give.
func (o ReadOptions) DefaultConfig() (*Config, error) {
	return completeUnder(o.FeatureGates, &configv1.KubeSchedulerConfiguration{})
}

// loadConfig reads a configuration, under what all makes of the gates that it names and those that go before them.
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
	maps.Copy(named, first)
	decoder := scheme.Codecs.UniversalDeserializer() // strict; neither defaults nor converts
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
	cfg.PluginResources = resources
	return cfg, nil
}

// ownArgs leaves the gang plugin's arguments as they are written, whatever types of others are in the scheme. The
// module scheduler-plugins has a plugin of that name, and a program with any of its plugins has the arguments of all.
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

// oneDocument refuses a file of several YAML documents: the decoder would pass over all but the first.
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

// completeUnder turns a decoded configuration into an effective one, under these feature gates.
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
	// Conversion leaves it out; validation reads it.
	cfg.APIVersion = configv1.SchemeGroupVersion.String()
	ignoreManaged(cfg)
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}

// EncodeConfig returns an effective configuration for the log, as JSON with sorted keys. LoadConfig makes the same
// effective configuration of it again, of which EncodeConfig makes the same bytes; but how to reach the API server and
// to elect a leader, and the TLS settings of extenders, which may lead to credentials and on which no decision depends,
// are left out for the defaults. A
// credential in the arguments of a plugin is an error. Feature gates are in it that are not at their defaults.
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
	// Encoding writes into the arguments it converts, which are a copy.
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion).Encode(logged,
		&buf); err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	// Arguments of plugins of ours are in it as the user wrote them: through a map, their keys get sorted.
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
	out, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	return out, nil
}
