package framework

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// credentialForms are values with a credential. The marker replaces %s.
var credentialForms = []string{
	"https://user:%s@prometheus.example/x",
	"https://%s@prometheus.example",
	"user:%s@prometheus.example:9090",
	"https://prometheus.example/x?sig=%s",
	"https://prometheus.example/x#access_token=%s",
	"-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----",
}

// credential matches the markers of a filled configuration.
var credential = regexp.MustCompile(`marker-\d+-x`)

// exactInConfig lists the fields of a logged configuration whose texts are kept unchanged, with the reason. For
// arguments of plugins see TestACredentialInThePluginsArgumentsIsRefused.
var exactInConfig = map[string]string{
	"profiles[].schedulerName":                         "pods name their profile by it",
	"profiles[].pluginConfig[].name":                   "plugins are found by it",
	"profiles[].plugins.multiPoint.enabled[].name":     "plugins are found by it",
	"profiles[].plugins.multiPoint.disabled[].name":    "plugins are found by it",
	"profiles[].plugins.<point>.enabled[].name":        "plugins are found by it",
	"profiles[].plugins.<point>.disabled[].name":       "plugins are found by it",
	"profiles[].placementScorePlugins.enabled[].name":  "plugins are found by it",
	"profiles[].placementScorePlugins.disabled[].name": "plugins are found by it",
}

// fillConfig sets every text field below v to a result of next, except in arguments of plugins.
func fillConfig(v reflect.Value, next func() string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(next())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint('x')
	case reflect.Float32, reflect.Float64:
		v.SetFloat(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillConfig(v.Elem(), next)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(next()))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillConfig(v.Index(0), next)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillConfig(key, next)
		fillConfig(value, next)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillConfig(v.Field(i), next)
			}
		}
	}
}

// texts calls visit with every text below v and its path.
func texts(v any, path string, visit func(path, text string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v { // any order
			texts(value, strings.TrimPrefix(path+"."+key, "."), visit)
		}
	case []any:
		for _, element := range v {
			texts(element, path+"[]", visit)
		}
	case string:
		visit(path, v)
	}
}

var pluginsOfPoint = regexp.MustCompile(`^(profiles\[\]\.plugins\.)\w+(\.(?:enabled|disabled)\[\]\.name)$`)

func TestNoCredentialOfAConfigurationIsLogged(t *testing.T) {
	for _, form := range credentialForms {
		cfg, markers := &config.KubeSchedulerConfiguration{}, 0
		fillConfig(reflect.ValueOf(cfg).Elem(), func() string {
			markers++
			return fmt.Sprintf(form, fmt.Sprintf("marker-%d-x", markers))
		})
		if markers < 50 {
			t.Fatalf("only %d texts were filled in", markers)
		}
		if _, err := EncodeConfig(&Config{KubeSchedulerConfiguration: cfg}); err == nil ||
			!strings.Contains(err.Error(), "extenders") {
			t.Errorf("a configuration with extenders is logged, error %v", err)
		}
		cfg.Extenders = nil
		logged, err := EncodeConfig(&Config{KubeSchedulerConfiguration: cfg})
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(logged, &tree); err != nil {
			t.Fatal(err)
		}
		found := 0
		texts(tree, "", func(path, text string) {
			if path = pluginsOfPoint.ReplaceAllString(path, "$1<point>$2"); !credential.MatchString(text) {
				return
			}
			if found++; exactInConfig[path] == "" {
				t.Errorf("%s is logged as %q", path, text)
			}
		})
		if all := credential.FindAll(logged, -1); len(all) != found {
			t.Errorf("%d credentials are logged, %d of them were found by their paths", len(all), found)
		}
	}
}

// Every argument of every plugin of kube-scheduler, and of one that it does not know.
func TestACredentialInThePluginsArgumentsIsRefused(t *testing.T) {
	types := []runtime.Object{
		&config.DefaultPreemptionArgs{}, &config.DynamicResourcesArgs{}, &config.InterPodAffinityArgs{},
		&config.NodeAffinityArgs{}, &config.NodeResourcesBalancedAllocationArgs{}, &config.NodeResourcesFitArgs{},
		&config.PodTopologySpreadArgs{}, &config.VolumeBindingArgs{},
	}
	encode := func(args runtime.Object) ([]byte, error) {
		cfg := DefaultConfig()
		cfg.Profiles[0].PluginConfig = []config.PluginConfig{{Name: "Theirs", Args: args}}
		return EncodeConfig(cfg)
	}
	for _, form := range credentialForms {
		value := fmt.Sprintf(form, "marker-1-x")
		for _, args := range types {
			// The texts one after the other: each of them is enough to be refused.
			count := 0
			fillConfig(reflect.ValueOf(args).Elem(), func() string { count++; return "name" })
			for i := range count {
				args, n := reflect.New(reflect.TypeOf(args).Elem()), 0
				fillConfig(args.Elem(), func() string {
					if n++; n == i+1 {
						return value
					}
					return "name"
				})
				logged, err := encode(args.Interface().(runtime.Object))
				if strings.Contains(fmt.Sprintf("%s %v", logged, err), "marker-") {
					t.Errorf("text %d of %T is logged: %v", i, args.Interface(), err)
				}
			}
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		inText, err := json.Marshal(fmt.Sprintf(`{"address":%s}`, quoted))
		if err != nil {
			t.Fatal(err)
		}
		for args, place := range map[string]string{
			fmt.Sprintf(`{"metrics":{"sources":[{"address":%s}]}}`, quoted): "args.metrics.sources[0].address",
			fmt.Sprintf(`{"a":1,"inner":%s}`, inText):                       "args.inner.address",
		} {
			_, err := encode(&runtime.Unknown{Raw: []byte(args), ContentType: runtime.ContentTypeJSON})
			want := "profiles[0].pluginConfig: Theirs: " + place + " has a credential"
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "marker-") {
				t.Errorf("the arguments %s: error %v\nwant one with %q", args, err, want)
			}
		}
	}
	for _, key := range []string{
		"token", "metricProviderToken", "password", "clientSecret", "api_key", "access-key", "kubeconfig",
		"kubeConfigPath", "keyFile", "CertFile", "keyData", "Authorization", "credentials",
	} {
		args := fmt.Sprintf(`{"a":{%q:"x"}}`, key)
		_, err := encode(&runtime.Unknown{Raw: []byte(args), ContentType: runtime.ContentTypeJSON})
		if err == nil || !strings.Contains(err.Error(), "Theirs: args.a."+key+" has a credential") {
			t.Errorf("the arguments %s are logged, error %v", args, err)
		}
	}
	for _, args := range []string{
		`{"topologyKey":"topology.kubernetes.io/zone","weight":3}`, `{"tokens":7}`,
		`{"address":"http://prometheus:9090/x"}`, `{"pattern":"a?b#c","kind":"x","token":""}`,
	} {
		if _, err := encode(&runtime.Unknown{Raw: []byte(args), ContentType: runtime.ContentTypeJSON}); err != nil {
			t.Errorf("the arguments %s: %v", args, err)
		}
	}
}

func TestAConfigurationIsTheSameWhateverItsConnection(t *testing.T) {
	plain, err := EncodeConfig(load(t, "parallelism: 3"))
	if err != nil {
		t.Fatal(err)
	}
	connected, err := EncodeConfig(load(t, "parallelism: 3\n"+
		"clientConnection: {kubeconfig: /home/me/.kube/admin, qps: 5}\n"+
		"leaderElection: {leaderElect: false, resourceName: mine}"))
	if err != nil || string(connected) != string(plain) {
		t.Errorf("%s is logged, error %v; want %s", connected, err, plain)
	}
	before := strings.Replace(string(plain), `"kubeconfig":""`, `"kubeconfig":"/home/me/.kube/admin"`, 1)
	if before == string(plain) || !SameConfig([]byte(before), plain) {
		t.Error("the configuration that an earlier version logged is another one")
	}
	other, err := EncodeConfig(load(t, "parallelism: 4"))
	if err != nil || SameConfig(other, plain) || SameConfig([]byte("{}"), plain) {
		t.Errorf("another configuration is the same, error %v", err)
	}
}

// TestTLSSettingsOfExtendersAreNotLogged: the log keeps the settings of an extender that decisions depend on, and no
// path to a key.
func TestTLSSettingsOfExtendersAreNotLogged(t *testing.T) {
	cfg, err := LoadConfig([]byte(header+`extenders: [{urlPrefix: 'https://x/y', filterVerb: f, prioritizeVerb: p,
  bindVerb: b, weight: 7, enableHTTPS: true, nodeCacheCapable: true, ignorable: true, httpTimeout: 3s,
  managedResources: [{name: a.b/c, ignoredByScheduler: true}],
  tlsConfig: {keyFile: /secret/key, certFile: /secret/cert, keyData: c2VjcmV0LWtleQ==, certData: c2VjcmV0LWNlcnQ=}}]`),
		"c")
	if err != nil {
		t.Fatal(err)
	}
	if key := cfg.Extenders[0].TLSConfig.KeyFile; key != "/secret/key" {
		t.Fatalf("the process itself does not know the key any more: %q", key)
	}
	logged, err := EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	const want = `"extenders":[{"bindVerb":"b","enableHTTPS":true,"filterVerb":"f","httpTimeout":"3s",` +
		`"ignorable":true,"managedResources":[{"ignoredByScheduler":true,"name":"a.b/c"}],"nodeCacheCapable":true,` +
		`"prioritizeVerb":"p","urlPrefix":"https://x/y","weight":7}]`
	if !strings.Contains(string(logged), want) || strings.Contains(string(logged), "secret") {
		t.Errorf("logged is %s\nwant in it %s", logged, want)
	}
	if !strings.Contains(string(logged), `"ignoredResources":["a.b/c"]`) {
		t.Error("NodeResourcesFit is not told to ignore the resource of the extender")
	}
	again, err := LoadConfig(logged, "logged")
	if err != nil {
		t.Fatal(err)
	}
	if twice, err := EncodeConfig(again); err != nil || string(twice) != string(logged) {
		t.Errorf("read again and logged it is %s, error %v", twice, err)
	}
}
