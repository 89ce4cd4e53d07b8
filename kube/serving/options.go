// Package serving is the scheduler's HTTPS endpoint: health, readiness, metrics, configuration and profiles, behind the
// same authentication and authorization by the API server as kube-scheduler's.
//
// Start reading at Options, then Serve.
package serving

import (
	"fmt"
	"net"

	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	_ "github.com/rollcall-sched/rollcall/framework/gates" // which gates there are
)

// DefaultPort is the port of the endpoint. It is not kube-scheduler's 10259, so that both can run on one host.
const DefaultPort = 10269

// Options are the flags of a component of the control plane, with the meaning that they have for kube-scheduler.
type Options struct {
	Secure         *apiserveroptions.SecureServingOptions
	Authentication *apiserveroptions.DelegatingAuthenticationOptions
	Authorization  *apiserveroptions.DelegatingAuthorizationOptions
	Metrics        *metrics.Options
	Logs           *logs.Options
	gates          basecompatibility.ComponentGlobalsRegistry
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	gates := compatibility.DefaultComponentGlobalsRegistry
	if gates.EffectiveVersionFor(basecompatibility.DefaultKubeComponent) == nil {
		err := gates.Register(basecompatibility.DefaultKubeComponent, compatibility.DefaultBuildEffectiveVersion(),
			utilfeature.DefaultMutableFeatureGate)
		if err != nil {
			panic(fmt.Sprintf("register the feature gates: %v", err)) // of a version that was just seen to be absent
		}
	}
	o := &Options{
		Secure:         apiserveroptions.NewSecureServingOptions(),
		Authentication: apiserveroptions.NewDelegatingAuthenticationOptions(),
		Authorization:  apiserveroptions.NewDelegatingAuthorizationOptions(),
		Metrics:        metrics.NewOptions(),
		Logs:           logs.NewOptions(),
		gates:          gates,
	}
	o.Authentication.TolerateInClusterLookupFailure = true
	o.Authentication.RemoteKubeConfigFileOptional = true
	o.Authorization.RemoteKubeConfigFileOptional = true
	o.Secure.ServerCert.CertDirectory = "" // without files, a certificate is made in memory
	o.Secure.ServerCert.PairName = "rollcall"
	o.Secure.BindPort = DefaultPort
	return o
}

// AddFlags adds the flags by section.
func (o *Options) AddFlags(sections *cliflag.NamedFlagSets) {
	o.Secure.AddFlags(sections.FlagSet("secure serving"))
	o.Authentication.AddFlags(sections.FlagSet("authentication"))
	o.Authorization.AddFlags(sections.FlagSet("authorization"))
	o.Metrics.AddFlags(sections.FlagSet("metrics"))
	o.gates.AddFlags(sections.FlagSet("feature gate"))
	logsapi.AddFlags(o.Logs, sections.FlagSet("logs"))
}

// Apply puts the feature gates and the logging into force for the process, and returns the errors in any of the
// options. The gates are for the configuration then (gates.OfProcess): the log has them.
func (o *Options) Apply() []error {
	if err := o.gates.Set(); err != nil {
		return []error{err}
	}
	gates := o.gates.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(o.Logs, gates); err != nil {
		return []error{err}
	}
	// Whatever the gate ContextualLogging says: the bound on the cost of device selectors reads the allocator's log,
	// and must be the same in a replay (plugins/devices.go).
	klog.EnableContextualLogging(true)
	errs := o.gates.Validate()
	errs = append(errs, o.Secure.Validate()...)
	errs = append(errs, o.Authentication.Validate()...)
	errs = append(errs, o.Authorization.Validate()...)
	errs = append(errs, o.Metrics.Validate()...)
	if len(errs) == 0 {
		o.applyMetrics()
	}
	return errs
}

// applyMetrics puts the options of metrics into force that are given: the library reports a list of labels that is not
// given as an error.
func (o *Options) applyMetrics() {
	if len(o.Metrics.AllowListMapping) > 0 || o.Metrics.AllowListMappingManifest != "" {
		o.Metrics.Apply()
		return
	}
	if o.Metrics.ShowHiddenMetricsForVersion != "" {
		metrics.SetShowHidden()
	}
	metrics.SetDisabledMetrics(o.Metrics.DisabledMetrics)
}

// selfSigned makes a certificate if the flags name none.
func (o *Options) selfSigned() error {
	err := o.Secure.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("make a certificate for serving: %w", err)
	}
	return nil
}
