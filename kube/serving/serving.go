package serving

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	goruntime "runtime"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/slis"
)

// Endpoints are the parts of the server.
type Endpoints struct {
	// Alive are the checks of /livez and /healthz: one that fails has the process restarted.
	Alive []healthz.HealthChecker
	// Ready are the checks of /readyz.
	Ready []healthz.HealthChecker
	// Configuration is the object that /configz shows.
	Configuration runtime.Object
	// Profiling has profiles served below /debug/pprof, Contention also the profiles of waits for locks.
	Profiling, Contention bool
}

const (
	component = "rollcall"
	// shownConfiguration is the name of the configuration in /configz, as in kube-scheduler's.
	shownConfiguration = "componentconfig"
)

// shutdown limits the time of requests that are under way when the endpoint is closed.
const shutdown = 5 * time.Second

// Server is the endpoint while it is served.
type Server struct {
	stop              chan struct{}
	stopped, deafened <-chan struct{}
	address           net.Addr
}

// Serve begins to serve the endpoints; it returns nil without an error if the flags say that nothing is served
// (--secure-port=0).
func (o *Options) Serve(e Endpoints) (*Server, error) {
	if o.Secure.BindPort == 0 && o.Secure.Listener == nil {
		return nil, nil
	}
	if err := o.selfSigned(); err != nil {
		return nil, err
	}
	var secure *server.SecureServingInfo
	var authentication server.AuthenticationInfo
	var authorization server.AuthorizationInfo
	if err := errors.Join(o.Secure.ApplyTo(&secure),
		o.Authentication.ApplyTo(&authentication, secure, nil), o.Authorization.ApplyTo(&authorization)); err != nil {
		return nil, fmt.Errorf("serve health and metrics: %w", err)
	}
	routes, err := e.routes()
	if err != nil {
		return nil, err
	}
	s := &Server{stop: make(chan struct{}), address: secure.Listener.Addr()}
	handler := guard(routes, authentication, authorization)
	if s.stopped, s.deafened, err = secure.Serve(handler, shutdown, s.stop); err != nil {
		configz.Delete(shownConfiguration)
		return nil, fmt.Errorf("serve health and metrics: %w", err)
	}
	return s, nil
}

// Address returns the address at which the endpoint listens.
func (s *Server) Address() net.Addr { return s.address }

// Close ends serving, and returns when no request is under way.
func (s *Server) Close() {
	close(s.stop)
	<-s.deafened
	<-s.stopped
	configz.Delete(shownConfiguration)
}

// guard lets only those requests through that the API server authenticates and authorizes. /healthz, /livez and
// /readyz are always allowed, by the default of the flag --authorization-always-allow-paths.
func guard(
	handler http.Handler, authentication server.AuthenticationInfo, authorization server.AuthorizationInfo,
) http.Handler {
	requests := &apirequest.RequestInfoFactory{}
	refused := genericapifilters.Unauthorized(scheme.Codecs)
	handler = genericapifilters.WithAuthorization(handler, authorization.Authorizer, scheme.Codecs)
	handler = genericapifilters.WithAuthentication(handler, authentication.Authenticator, refused, nil, nil)
	handler = genericapifilters.WithRequestInfo(handler, requests)
	handler = genericapifilters.WithCacheControl(handler)
	handler = genericfilters.WithHTTPLogging(handler)
	return genericfilters.WithPanicRecovery(handler, requests)
}

func (e *Endpoints) routes() (http.Handler, error) {
	m := mux.NewPathRecorderMux(component)
	healthz.InstallHandler(m, e.Alive...)
	healthz.InstallLivezHandler(m, e.Alive...)
	healthz.InstallReadyzHandler(m, e.Ready...)
	shown, err := configz.New(shownConfiguration)
	if err != nil {
		return nil, fmt.Errorf("serve the configuration: %w", err)
	}
	if err := shown.Set(e.Configuration); err != nil {
		return nil, fmt.Errorf("serve the configuration: %w", err)
	}
	configz.InstallHandler(m)
	m.Handle("/metrics", legacyregistry.HandlerWithReset())
	slis.SLIMetricsWithReset{}.Install(m)
	if e.Profiling {
		routes.Profiling{}.Install(m)
		if e.Contention {
			goruntime.SetBlockProfileRate(1)
		}
		routes.DebugFlags{}.Install(m, "v", routes.StringFlagPutHandler(logs.GlogSetter))
	}
	return m, nil
}
