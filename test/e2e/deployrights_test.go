package e2e_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
)

// schedulerUser is the API server's name for the scheduler of deploy/base.
const schedulerUser = "system:serviceaccount:rollcall-system:rollcall"

// A right is one verb on one resource, or its subresource.
type right struct{ verb, group, resource string }

func (r right) String() string { return r.verb + " " + strings.Trim(r.resource+"."+r.group, ".") }

// TestTheRightsAreEnoughAndNecessary runs the scheduler with the service account of deploy/base, and makes it perform
// every kind of request to a cluster. It compares the requests in the audit log with the rules: none was forbidden,
// and no rule is without use.
func TestTheRightsAreEnoughAndNecessary(t *testing.T) {
	w := newInstalledWorld(t, 4)
	first := w.schedule("the first")
	w.gangsOfBothAPIs()
	w.gangsOfOtherSchedulers()
	w.volumes()
	w.devices()
	w.extendedResources()
	w.preemption()
	w.events()
	w.metrics()
	w.mistakeIsFixed()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := first.Terminate(ctx); err != nil {
		t.Errorf("the scheduler ended: %v", err)
	}
	// Lists are streamed by default; an older API server does not do that.
	w.schedule("the second", "--feature-gates=WatchListClient=false")
	w.create(w.pod("last", "", "100m"))
	w.waitFor("last", 1, bound)

	rights := rightsOf(t)
	used := w.used()
	// Within the update of a claim's status the API server asks for a right on the part that a scheduler writes, which
	// is no request of its own in the audit log.
	if used[right{"update", "resource.k8s.io", "resourceclaims/status"}] {
		used[right{"update", "resource.k8s.io", "resourceclaims/binding"}] = true
	}
	for r := range rights {
		if !used[r] {
			t.Errorf("the scheduler may %s, and never does", r)
		}
	}
	var unknown []string
	for r := range used {
		if !rights[r] && !delegated[r] {
			unknown = append(unknown, r.String())
		}
	}
	slices.Sort(unknown)
	if len(unknown) > 0 {
		t.Errorf("the scheduler has rights from elsewhere: %q", unknown)
	}
}

// delegated are the rights that the roles of Kubernetes' own give: system:auth-delegator and
// extension-apiserver-authentication-reader.
var delegated = map[right]bool{
	{"create", "authentication.k8s.io", "tokenreviews"}:        true,
	{"create", "authorization.k8s.io", "subjectaccessreviews"}: true,
	{"get", "", "configmaps"}:                                  true,
	{"list", "", "configmaps"}:                                 true,
	{"watch", "", "configmaps"}:                                true,
}

// rightsOf returns the rights in the ClusterRole and the Role of deploy/base.
func rightsOf(t *testing.T) map[right]bool {
	t.Helper()
	var role struct {
		Rules []rbacv1.PolicyRule `json:"rules"`
	}
	rights := map[right]bool{}
	for _, file := range []string{"clusterrole.yaml", "role.yaml"} {
		if err := yaml.Unmarshal(readFile(t, filepath.Join(manifests, "base/rbac", file)), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, res := range rule.Resources {
					for _, verb := range rule.Verbs {
						if verb == "*" || res == "*" || group == "*" {
							t.Errorf("%s: a rule with *: %v", file, rule)
						}
						rights[right{verb, group, res}] = true
					}
				}
			}
		}
	}
	return rights
}

// installedWorld is a world in which deploy/base is installed, except for the pod: the scheduler is a process.
type installedWorld struct {
	*world
	kubeconfig, config string
	port               int
}

func newInstalledWorld(t *testing.T, count int) *installedWorld {
	t.Helper()
	o := withAllGangs()
	o.ControllerManager = true
	return newInstalledWorldOf(t, count, o)
}

// newInstalledWorldOf is newInstalledWorld with another cluster.
func newInstalledWorldOf(t *testing.T, count int, o cluster.Options) *installedWorld {
	t.Helper()
	c := cluster.ForTest(t, o)
	w := &installedWorld{world: &world{
		T: t, c: c, client: kubernetes.NewForConfigOrDie(c.Config()), dynamic: dynamicClient(c),
		native: o.GenericWorkload,
		nodes:  nodes.ForTest(t, c.Config(), nodes.Options{Count: count, Capacity: nodes.Capacity("4", "64Gi", "110")}),
	}}
	apply(t, w.dynamic, objectsOfFile(t, filepath.Join(manifests, "namespace.yaml")), metav1.CreateOptions{})
	for _, file := range append(baseFiles(t), filepath.Join("testdata", "foreign", "crds.yaml")) {
		apply(t, w.dynamic, objectsOfFile(t, file), metav1.CreateOptions{})
	}
	w.kubeconfig = w.tokenFor("rollcall-system", "rollcall")
	text := strings.ReplaceAll(string(readFile(t, filepath.Join(manifests, "base/scheduler.yaml"))),
		"schedulerName: rollcall", "schedulerName: default-scheduler")
	w.config = filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(w.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}

// tokenFor writes a kubeconfig for a service account.
func (w *installedWorld) tokenFor(namespace, name string) string {
	w.Helper()
	request, err := w.client.CoreV1().ServiceAccounts(namespace).CreateToken(w.Context(), name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: w.c.URL(), CertificateAuthorityData: w.c.Config().CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: name}
	config.CurrentContext = "e2e"
	file := filepath.Join(w.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		w.Fatal(err)
	}
	return file
}

// schedule starts the scheduler and waits until it schedules.
func (w *installedWorld) schedule(name string, args ...string) *cluster.Process {
	w.Helper()
	words := append(rollcallRun(w.T), "--log="+filepath.Join(w.c.Dir(), "log"), "--config="+w.config)
	return w.process(name, append(words, args...)...)
}

// get asks the scheduler's own endpoint for a page.
func (w *installedWorld) get(ctx context.Context, page, token string) (status int, text string, err error) {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("https://127.0.0.1:%d%s", w.port, page), nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// until waits until something is so.
func (w *installedWorld) until(what string, is func(context.Context) (bool, error)) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for {
		ok, err := is(ctx)
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			w.Fatalf("after %v: not yet: %s (%v)", patience, what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *installedWorld) gangsOfBothAPIs() {
	w.Helper()
	w.gang("native", 2, "100m")
	w.native = false
	w.gang("custom", 2, "100m")
	w.waitFor("native-", 2, bound)
	w.waitFor("custom-", 2, bound)
	w.until("the PodGroups say that they are scheduled", func(ctx context.Context) (bool, error) {
		native, err := w.client.SchedulingV1beta1().PodGroups("default").Get(ctx, "native", metav1.GetOptions{})
		if err != nil || len(native.Status.Conditions) == 0 {
			return false, err
		}
		custom, err := w.podGroups().Get(ctx, "custom", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		status, _ := custom.Object["status"].(map[string]any)
		return status["phase"] == "Scheduled", nil
	})
}

// gangsOfOtherSchedulers has a job of Volcano whose pods wait for a phase of its PodGroup, a gang of Volcano's that is
// placed, and a gang of KAI's that is too large.
func (w *installedWorld) gangsOfOtherSchedulers() {
	w.Helper()
	create := func(apiVersion, kind, resource string, object map[string]any) *unstructured.Unstructured {
		w.Helper()
		u := &unstructured.Unstructured{Object: object}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		client := w.dynamic.Resource(u.GroupVersionKind().GroupVersion().WithResource(resource)).Namespace("default")
		var made *unstructured.Unstructured
		w.until("the API server serves "+resource+" of "+apiVersion, func(ctx context.Context) (ok bool, err error) {
			made, err = client.Create(ctx, u, metav1.CreateOptions{})
			return err == nil, err
		})
		return made
	}
	named := func(name string) map[string]any { return map[string]any{"name": name} }
	says := func(group *unstructured.Unstructured, what string, is func(status map[string]any) bool) {
		w.Helper()
		client := w.dynamic.Resource(group.GroupVersionKind().GroupVersion().WithResource("podgroups"))
		w.until("PodGroup "+group.GetName()+" says that "+what, func(ctx context.Context) (bool, error) {
			stands, err := client.Namespace("default").Get(ctx, group.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			status, _ := stands.Object["status"].(map[string]any)
			return is(status), nil
		})
	}

	const volcano, kai = "scheduling.volcano.sh/v1beta1", "scheduling.run.ai/v2alpha2"
	job := create("batch.volcano.sh/v1alpha1", "Job", "jobs", map[string]any{
		"metadata": named("mpi"), "spec": map[string]any{"schedulerName": "default-scheduler"},
	})
	waits := create(volcano, "PodGroup", "podgroups", map[string]any{
		"metadata": map[string]any{"name": "mpi", "ownerReferences": []any{map[string]any{
			"apiVersion": job.GetAPIVersion(), "kind": "Job", "name": "mpi", "uid": string(job.GetUID()),
			"controller": true,
		}}},
		"spec": map[string]any{"minMember": int64(2)},
	})
	says(waits, "pods may be made", func(s map[string]any) bool { return s["phase"] == "Inqueue" })

	placed := create(volcano, "PodGroup", "podgroups", map[string]any{
		"metadata": named("placed"), "spec": map[string]any{"minMember": int64(1)},
	})
	pod := w.pod("placed-0", "", "100m")
	pod.Annotations = map[string]string{"scheduling.k8s.io/group-name": "placed"}
	w.create(pod)
	says(placed, "it runs", func(s map[string]any) bool { return s["phase"] == "Running" })

	large := create(kai, "PodGroup", "podgroups", map[string]any{
		"metadata": named("large"), "spec": map[string]any{"minMember": int64(1)},
	})
	pod = w.pod("large-0", "", "100")
	pod.Annotations = map[string]string{"pod-group-name": "large"}
	w.create(pod)
	says(large, "it cannot be placed", func(s map[string]any) bool {
		conditions, _ := s["schedulingConditions"].([]any)
		return len(conditions) == 1
	})
	if err := w.client.CoreV1().Pods("default").Delete(w.Context(), "large-0", metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

// volumes has a pod with a volume that exists, on one node, and a pod whose volume is to be provisioned.
func (w *installedWorld) volumes() {
	w.Helper()
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	for name, provisioner := range map[string]string{
		"local": "kubernetes.io/no-provisioner", "provisioned": "example.com/nobody",
	} {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &wait,
		}
		classes := w.client.StorageV1().StorageClasses()
		if _, err := classes.Create(w.Context(), class, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		claim.Spec.StorageClassName = &name
		claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		if _, err := w.client.CoreV1().PersistentVolumeClaims("default").Create(w.Context(), claim,
			metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
	}
	volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "local"}}
	volume.Spec.StorageClassName = "local"
	volume.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	volume.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	volume.Spec.Local = &v1.LocalVolumeSource{Path: "/disk"}
	there := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{
		Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{w.nodes.Names()[1]},
	}}}
	volume.Spec.NodeAffinity = &v1.VolumeNodeAffinity{
		Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{there}},
	}
	if _, err := w.client.CoreV1().PersistentVolumes().Create(w.Context(), volume, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	for _, name := range []string{"local", "provisioned"} {
		p := w.pod("volume-"+name, "", "100m")
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}
		w.create(p)
	}
	w.waitFor("volume-local", 1, bound)
	w.until("a node is chosen for the volume that is to be provisioned", func(ctx context.Context) (bool, error) {
		claim, err := w.client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "provisioned", metav1.GetOptions{})
		return err == nil && claim.Annotations["volume.kubernetes.io/selected-node"] != "", err
	})
	w.lostVolume()
	w.remove("volume-provisioned")
}

// lostVolume has the claim that is waited for name a volume that there is not, and then vanish: what the scheduler's
// watches lack it reads.
func (w *installedWorld) lostVolume() {
	w.Helper()
	claims := w.client.CoreV1().PersistentVolumeClaims("default")
	edit := func(change func(*v1.PersistentVolumeClaim)) {
		w.until("the claim is changed", func(ctx context.Context) (bool, error) {
			claim, err := claims.Get(ctx, "provisioned", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			change(claim)
			_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
			return err == nil, err
		})
	}
	read := func(what string) {
		w.until("the scheduler reads "+what, func(context.Context) (bool, error) {
			used, _ := w.asked()
			return used[right{"get", "", what}], nil
		})
	}
	edit(func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeName = "absent" })
	read("persistentvolumes")
	edit(func(claim *v1.PersistentVolumeClaim) { claim.Finalizers = nil })
	if err := claims.Delete(w.Context(), "provisioned", metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	read("persistentvolumeclaims")
}

// devices has a pod whose ResourceClaim the scheduler allocates.
func (w *installedWorld) devices() {
	w.Helper()
	claims := w.client.ResourceV1().ResourceClaims("default")
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "device"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{
		Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"},
	}}
	claim, err := claims.Create(w.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	resources := w.client.ResourceV1()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.ExtendedResourceName = new("example.com/gpu")
	class.Spec.Selectors = []resourcev1.DeviceSelector{{
		CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "example.com"`},
	}}
	if _, err := resources.DeviceClasses().Create(w.Context(), class, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "pool"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "example.com", AllNodes: new(true), Pool: resourcev1.ResourcePool{Name: "pool", ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
	}}
	if _, err := resources.ResourceSlices().Create(w.Context(), slice, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	p := w.pod("device", "", "100m")
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim.Name}}
	w.create(p)
	w.waitFor("device", 1, bound)
	claim, err = claims.Get(w.Context(), claim.Name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	given := claim.Status.Allocation
	if given == nil || len(given.Devices.Results) != 1 || given.Devices.Results[0].Device != "gpu-0" ||
		!slices.Contains(claim.Finalizers, resourcev1.Finalizer) || len(claim.Status.ReservedFor) != 1 {
		w.Errorf("the pod is bound, and its claim is %+v, finalizers %q", claim.Status, claim.Finalizers)
	}
}

// extendedResources has a pod that requests the other device as an extended resource: the scheduler makes the claim.
// The claim of a scheduler before it, which has not bound its pod, is deleted.
func (w *installedWorld) extendedResources() {
	w.Helper()
	p := w.pod("extended", "", "100m")
	p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	w.create(p)
	w.waitFor("extended", 1, bound)
	pod, err := w.client.CoreV1().Pods("default").Get(w.Context(), "extended", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	told := pod.Status.ExtendedResourceClaimStatus
	if told == nil || len(told.RequestMappings) != 1 || told.RequestMappings[0].ResourceName != "example.com/gpu" {
		w.Fatalf("the pod is bound, and its status says of its claim %+v", told)
	}
	claims := w.client.ResourceV1().ResourceClaims("default")
	claim, err := claims.Get(w.Context(), told.ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	given := claim.Status.Allocation
	if given == nil || len(given.Devices.Results) != 1 || !metav1.IsControlledBy(claim, pod) ||
		given.Devices.Results[0].Request != told.RequestMappings[0].RequestName ||
		claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" || len(claim.Status.ReservedFor) != 1 {
		w.Errorf("the pod is bound, and its claim is %+v %+v", claim.ObjectMeta, claim.Status)
	}

	w.create(w.pod("refused", "", "64"))
	w.waitFor("refused", 1, unschedulable)
	pod, err = w.client.CoreV1().Pods("default").Get(w.Context(), "refused", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	left := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "left", Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
		Finalizers:      []string{resourcev1.Finalizer},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))},
	}}
	left.Spec.Devices.Requests = claim.Spec.Devices.Requests
	if _, err := claims.Create(w.Context(), left, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.until("the claim that was left behind is deleted", func(ctx context.Context) (bool, error) {
		_, err := claims.Get(ctx, "left", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	w.remove("refused")
}

// preemption fills the nodes, and has a pod come for which one of theirs must go.
func (w *installedWorld) preemption() {
	w.Helper()
	w.priority("high", 1000)
	for i := range 4 {
		w.create(w.pod(fmt.Sprintf("low-%d", i), "", "3"))
	}
	w.waitFor("low-", 4, bound)
	p := w.pod("high", "", "3")
	p.Spec.PriorityClassName = "high"
	w.create(p)
	w.waitFor("high", 1, bound)
}

// events has a pod refused twice for the same reason: the second time makes the event's series longer.
func (w *installedWorld) events() {
	w.Helper()
	w.create(w.pod("huge", "", "64"))
	w.waitFor("huge", 1, unschedulable)
	n := 0
	w.until("an event came again", func(ctx context.Context) (bool, error) {
		events, err := w.client.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range events.Items {
			if events.Items[i].Series != nil {
				return true, nil
			}
		}
		// Room that is freed has the pod examined again.
		name := fmt.Sprintf("short-%d", n)
		n++
		w.create(w.pod(name, "", "10m"))
		w.waitFor(name, 1, bound)
		w.remove(name)
		time.Sleep(500 * time.Millisecond)
		return false, nil
	})
}

// metrics are read by whom the role rollcall-metrics-reader is bound to, and by nobody else.
func (w *installedWorld) metrics() {
	w.Helper()
	reader := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	accounts := w.client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(w.Context(), reader, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", w.tokenFor("default", "reader"))
	if err != nil {
		w.Fatal(err)
	}
	status, _, err := w.get(w.Context(), "/metrics", config.BearerToken)
	if err != nil || status != http.StatusForbidden {
		w.Errorf("without the role, /metrics answers %d, %v", status, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "rollcall-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}},
	}
	bindings := w.client.RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(w.Context(), binding, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.until("the metrics are shown", func(ctx context.Context) (bool, error) {
		status, text, err := w.get(ctx, "/metrics", config.BearerToken)
		return status == http.StatusOK && strings.Contains(text, "\nrollcall_log_last_entry "), err
	})
}

// mistakeIsFixed gives the StatefulSet another image while its pod is not ready, as when the first image is not there:
// the pod is made again with the second one.
func (w *installedWorld) mistakeIsFixed() {
	w.Helper()
	const image = "registry.example.com/rollcall:mended"
	pods, sets := w.client.CoreV1().Pods("rollcall-system"), w.client.AppsV1().StatefulSets("rollcall-system")
	w.until("the StatefulSet has made its pod", func(ctx context.Context) (bool, error) {
		p, err := pods.Get(ctx, "rollcall-0", metav1.GetOptions{})
		return err == nil && p.Status.Phase == v1.PodPending, err
	})
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"rollcall","image":%q}]}}}}`, image)
	if _, err := sets.Patch(w.Context(), "rollcall", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
	w.until("the pod is made again with the other image", func(ctx context.Context) (bool, error) {
		p, err := pods.Get(ctx, "rollcall-0", metav1.GetOptions{})
		return err == nil && p.Spec.Containers[0].Image == image, err
	})
}

// used returns the rights that the scheduler used, by the audit log, and reports forbidden requests.
func (w *installedWorld) used() map[right]bool {
	w.Helper()
	used, forbidden := w.asked()
	for r := range forbidden {
		w.Errorf("the scheduler wanted to %s, and was not allowed to", r)
	}
	w.Logf("the scheduler has used %d rights, %d of them delegated",
		len(used), len(slices.Collect(maps.Keys(delegated))))
	return used
}

// asked returns the scheduler's requests by the audit log: the allowed and the forbidden ones.
func (w *installedWorld) asked() (used, forbidden map[right]bool) {
	w.Helper()
	used, forbidden = map[right]bool{}, map[right]bool{}
	w.asksOf(schedulerUser, func(e *auditv1.Event) {
		r := right{e.Verb, e.ObjectRef.APIGroup, e.ObjectRef.Resource}
		if e.ObjectRef.Subresource != "" {
			r.resource += "/" + e.ObjectRef.Subresource
		}
		if e.Annotations["authorization.k8s.io/decision"] == "forbid" ||
			e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden {
			forbidden[r] = true
			return
		}
		used[r] = true
	})
	return used, forbidden
}
