package eventlog_test

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// credentialForms are values that hold a credential, the marker in place of %[1]s. Where the marker is the whole value,
// no program can distinguish it from a name.
var credentialForms = []string{
	"https://user:%[1]s@registry.example/team/image:1",
	"https://%[1]s@registry.example/team/image:1",
	"user:%[1]s@registry.example/team/image:1",
	"user:pass/%[1]s@registry.example/image",
	"%[1]s@registry.example:5000/image",
	"//user:%[1]s@nas.example/share",
	"https://account.blob.example/vhds/disk.vhd?sv=2024&sig=%[1]s",
	"https://account.blob.example/vhds/disk.vhd#access_token=%[1]s",
	"https://u:p@account.blob.example/disk?mail=a@%[1]s",
	"https://user:what?%[1]s@registry.example",
	"account.blob.example/vhds/disk.vhd?sig=%[1]s",
	"-----BEGIN PRIVATE KEY-----\n%[1]s\n-----END PRIVATE KEY-----",
	"prefix -----BEGIN CERTIFICATE----- %[1]s -----END CERTIFICATE-----",
}

// exactTexts are the kept fields whose texts reach the record as they are, whatever they are, by their path, and why.
var exactTexts = []struct{ path, why string }{
	{
		`metadata\.(name|namespace|uid)`,
		"identity; the API server allows names of letters, digits, - and . only",
	},
	{
		`metadata\.labels\.\*`,
		"selectors compare them; the API server allows names and label values only",
	},
	{
		`metadata\.ownerReferences\[\]\.(apiVersion|kind|name|uid)`,
		"identity of the controller; names",
	},
	{
		`.*\.(matchLabels\.\*|matchExpressions\[\]\.(key|operator|values\[\])|` +
			`matchFields\[\]\.(key|operator|values\[\])|matchLabelKeys\[\]|mismatchLabelKeys\[\])`,
		"compared with labels and names",
	},
	{
		`spec\.(selector|nodeSelector)\.\*|nodeTopology\..*|allowedTopologies\[\]\.matchLabelExpressions\[\]\..*`,
		"compared with labels",
	},
	{`.*\.(topologyKey|topology\[\]\.key)`, "compared with the keys of labels"},
	{`.*\.podAffinityTerm\.namespaces\[\]|.*Execution\[\]\.namespaces\[\]`, "names of namespaces"},
	{
		`.*((tolerations|taints)\[\]|spec\.taint)\.(key|value|operator|effect)`,
		"tolerations are compared with taints; keys and label values",
	},
	{
		`.*\.(requests|limits|capacity|allocatable|allocatedResources|overhead|consumedCapacity|counters|attributes|` +
			`minResources|minTaskMember|nodeAllocatableResources|disruptedPods)\.\*`,
		"names of resources and the like are compared",
	},
	{
		`.*(\.|^)(name|containerName|requestName|resourceName|resourceClaimName|resourceClaimTemplateName|` +
			`claimName|nodeName|nominatedNodeName|persistentVolumeName|podGroupName|` +
			`parentCompositePodGroupName|templateName|workloadName|volumeName|storageClassName|` +
			`volumeAttributesClassName|deviceClassName|extendedResourceName|schedulerName|priorityClassName|` +
			`attacher|provisioner|driver|device|pool|request|shareID|counterSet|capacityKey|namespace|apiGroup|` +
			`highestTierName|parent|topology|requiredTopologyLevel|preferredTopologyLevel|` +
			`apiVersion|kind|uid|resource|matchAttribute|distinctAttribute|partitionTypeAttribute)`,
		"names of other objects, devices, drivers: found and compared by them",
	},
	{
		`.*\.(constraints\[\]\.requests|bindingConditions|bindingFailureConditions|compatibilityGroups|` +
			`declaredFeatures|nodeAllocatableResourceClaimStatuses\[\]\.containers|accessModes|bindMountOptions|` +
			`disableResizePreemption|skipNodeOperations)\[\]`,
		"lists of names and of words that the API server knows",
	},
	{
		`(.*\.)?(phase|status|type|preemptionPolicy|restartPolicy|action|medium|whenUnsatisfiable|nodeAffinityPolicy|` +
			`nodeTaintsPolicy|volumeMode|volumeBindingMode|allocationMode|mode|preemptibility|protocol|hostIP|claims\[\]\.request)`,
		"words that the API server knows; an address",
	},
	{
		`.*\.(cel\.expression|derivedAttributes\[\]\.expression)`,
		"programs that DynamicResources runs",
	},
	{
		`spec\.devices\[\]\.attributes\.\*\.(string|strings\[\]|version|versions\[\])`,
		"what a driver says of a device, in at most 64 characters: programs and constraints compare it",
	},
}

// exactText reports whether the field at path is kept as it is, and marks its row as used.
func exactText(path string, used map[int]bool) bool {
	for i, row := range exactTexts {
		if regexp.MustCompile(`^(` + row.path + `)$`).MatchString(path) {
			used[i] = true
			return true
		}
	}
	return false
}

// Every text of every object is a credential. Which of them reach the record says exactTexts, each row with its
// reason, and no other field does.
func TestNoCredentialReachesTheRecord(t *testing.T) {
	used := map[int]bool{}
	for _, form := range credentialForms {
		for _, res := range eventlog.Resources() {
			markers := 0
			next := func() string { markers++; return fmt.Sprintf(form, fmt.Sprintf("marker-%d-x", markers)) }
			full := eventlog.NewObject(res)
			fillAll(full, next)
			full = logged(full)
			annotations := map[string]string{}
			for _, key := range eventlog.KeptAnnotations(res) {
				annotations[key] = next()
			}
			full.SetAnnotations(annotations)
			var c eventlog.Encoder
			up, enc, err := c.Logged(&eventlog.Upserted{Resource: res, Object: full})
			if err != nil {
				t.Fatal(err)
			}
			record, err := eventlog.AppendRecord(nil, eventlog.Entry{Seq: 1, Payload: up, Encoding: enc}, [32]byte{})
			if err != nil {
				t.Fatal(err)
			}
			checkRecord(t, res, form, jsonLeaves(t, full), jsonLeaves(t, up.Object), record, used)
			again := eventlog.Trim(res, up.Object)
			if !bytes.Equal(encodeObject(t, again), encodeObject(t, up.Object)) {
				t.Errorf("%s: %q: trimming twice is not trimming once", res, form)
			}
		}
	}
	for i, row := range exactTexts {
		if !used[i] {
			t.Errorf("no kept field is that of the row %s", row.path)
		}
	}
}

// checkRecord compares the fields in the record with the allowed ones.
func checkRecord(t *testing.T, res eventlog.Resource, form string, full, kept map[string][]string, record []byte,
	used map[int]bool) {
	t.Helper()
	allowed := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(kept)) {
		for _, value := range kept[path] {
			for _, m := range marker.FindAllString(value, -1) {
				if !exactText(strings.TrimPrefix(path, "."), used) {
					t.Errorf("%s: %s is kept as %q", res, strings.TrimPrefix(path, "."), value)
				}
				allowed[m] = true
			}
		}
	}
	for path, values := range full {
		for _, m := range marker.FindAllString(strings.Join(values, " "), -1) {
			if !allowed[m] && bytes.Contains(record, []byte(m+"x")) {
				t.Errorf("%s: the record has the credential of %s: %q", res, path, form)
			}
		}
	}
}

func encodeObject(t *testing.T, obj eventlog.Object) []byte {
	t.Helper()
	b, err := eventlog.AppendObject(nil, obj)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNamesKeepWhatIsNoCredential(t *testing.T) {
	for name, want := range map[string]string{
		"": "",
		"https://account.blob.example/vhds/disk.vhd?sig=x": "https://account.blob.example/vhds/disk.vhd",
		"https://u:p@account.blob.example:8443/d":          "https://account.blob.example:8443/d",
		"/subscriptions/1/providers/Compute/disks/d":       "/subscriptions/1/providers/Compute/disks/d",
		"aws://us-east-1a/vol-0123":                        "aws://us-east-1a/vol-0123",
		"rg#account#share#disk#uuid":                       "rg#account#share#disk#uuid",
		"[datastore 1] volumes/d.vmdk":                     "[datastore 1] volumes/d.vmdk",
		"pool/volume@snapshot":                             "pool/volume@snapshot",
		"iqn.2001-04.com.example:storage.disk1":            "iqn.2001-04.com.example:storage.disk1",
		"10.16.154.78:6789":                                "10.16.154.78:6789",
		"projects/p/zones/z/disks/d":                       "projects/p/zones/z/disks/d",
		"u:p@https://v:q@host/d#f":                         "host/d#f",
		"https://?sig=x@y":                                 "https://",
		"pvc-2f7b0a55-6fd1-4c1e-93a3-3d5a6a1f7c11":         "pvc-2f7b0a55-6fd1-4c1e-93a3-3d5a6a1f7c11",
		"smb-server.default.svc.cluster.local/share##a":    "smb-server.default.svc.cluster.local/share##a",
		"0001-0009-rook-ceph-02-8d8b2c5e-0b3e-11ec":        "0001-0009-rook-ceph-02-8d8b2c5e-0b3e-11ec",
	} {
		if got := eventlog.WithoutCredentials(name); got != want {
			t.Errorf("%q is kept as %q, want %q", name, got, want)
		}
	}
	digest := "@sha256:" + strings.Repeat("0af", 21) + "b"
	for image, want := range map[string]string{
		"nginx":                              "nginx",
		"nginx:1.27":                         "nginx:1.27",
		"nginx" + digest:                     "nginx" + digest,
		"registry.example:5000/a/b:1":        "registry.example:5000/a/b:1",
		"registry.example/a/b:1" + digest:    "registry.example/a/b:1" + digest,
		"u:p@registry.example/a/b" + digest:  "registry.example/a/b" + digest,
		"https://u:p@registry.example/a?x=@": "https://registry.example/a",
		"u:p/q@registry.example/a":           "registry.example/a",
		"registry.example/a?sig=x":           "registry.example/a",
	} {
		if got := eventlog.ImageWithoutCredentials(image); got != want {
			t.Errorf("the image %q is kept as %q, want %q", image, got, want)
		}
	}
	for text, want := range map[string]string{
		`Post "https://u:p@api.example/bind?token=x": refused by a@b`: `Post "https://api.example/bind": refused by a@b`,
		"is it?":                        "is it?",
		"key -----BEGIN PRIVATE KEY---": "key ",
		"at https://u:p@h/x":            "at https://h/x",
	} {
		if got := eventlog.MessageWithoutCredentials(text); got != want {
			t.Errorf("the message %q is kept as %q, want %q", text, got, want)
		}
	}
}

func TestAnyUserinfoAndQueryIsCut(t *testing.T) {
	part := rapid.StringMatching(`[a-zA-Z0-9:@/?#&=%._ -]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		scheme := rapid.SampledFrom([]string{"", "https://", "s3://", "docker+https://", "//"}).Draw(t, "scheme")
		host := rapid.StringMatching(`[a-z]{1,5}(\.[a-z]{1,5})?(:[0-9]{2,4})?`).Draw(t, "host")
		path := rapid.StringMatching(`(/[a-z0-9]{1,4}){0,3}`).Draw(t, "path")
		user := rapid.StringMatching(`[a-z0-9]{1,5}(:[a-zA-Z0-9@/&=%._ -]{0,8})?MARKER[a-zA-Z0-9@/&=%._ -]{0,4}`).
			Draw(t, "user")
		query := "MARKER" + part.Draw(t, "query")
		for _, clean := range []func(string) string{eventlog.WithoutCredentials, eventlog.ImageWithoutCredentials} {
			plain := scheme + host + path
			if got := clean(plain); got != plain {
				t.Fatalf("%q, without a credential, is kept as %q", plain, got)
			}
			values := []string{scheme + host + path + "?" + query}
			if strings.Contains(scheme, ":") || strings.Contains(user, ":") || !strings.Contains(user, "/") {
				values = append(values, scheme+user+"@"+host+path, scheme+user+"@"+host+path+"?"+query)
			}
			for _, value := range values {
				got := clean(value)
				if strings.Contains(got, "MARKER") || clean(got) != got {
					t.Fatalf("%q is kept as %q, and then as %q", value, got, clean(got))
				}
			}
		}
	})
}
