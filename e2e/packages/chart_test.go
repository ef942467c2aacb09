package main

import (
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	chartDir  = "../../charts/grayrollout"
	configDir = "../../config"
	namespace = "grayrollout-system"
)

var latest = release{namespace, "v1.37.0"}

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	m.Run()
}

type object = map[string]any

// decode splits a stream of documents into objects by kind, namespace and name.
func decode(t *testing.T, text string) map[string]object {
	t.Helper()
	objects := map[string]object{}
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		var o object
		if err := yaml.UnmarshalStrict([]byte(document+"\n"), &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o) == 0 {
			continue
		}
		metadata := o["metadata"].(object)
		space, _ := metadata["namespace"].(string)
		key := strings.Join([]string{o["kind"].(string), space, metadata["name"].(string)}, "/")
		if _, double := objects[key]; double {
			t.Errorf("%s is there twice", key)
		}
		objects[key] = o
	}
	return objects
}

func kustomized(t *testing.T, overlay string) map[string]object {
	t.Helper()
	options := krusty.MakeDefaultOptions()
	made, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join(configDir, overlay))
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(text))
}

func rendered(t *testing.T, into release, values string) map[string]object {
	t.Helper()
	parsed, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	text, err := render(chartDir, into, parsed)
	if err != nil {
		t.Fatal(err)
	}
	objects := decode(t, text)
	// helm uninstall leaves the CRD alone by this; kubectl delete asks anyway.
	crd := objects["CustomResourceDefinition//grayrollouts.grayrollout.dev"]
	if crd != nil {
		metadata := crd["metadata"].(object)
		annotations, _ := metadata["annotations"].(object)
		delete(annotations, "helm.sh/resource-policy")
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	return objects
}

var blankLines = regexp.MustCompile(`\n[ \n]*\n`)

// Kustomize writes a folded text that has indented lines with blank ones between them, which mean
// nothing in CEL.
var withoutBlankLines = cmp.Transformer("withoutBlankLines", func(text string) folded {
	return folded(blankLines.ReplaceAllString(text, "\n"))
})

type folded string

func compare(t *testing.T, kustomize, chart map[string]object) {
	t.Helper()
	for key, want := range kustomize {
		if strings.HasPrefix(key, "Namespace/") {
			continue // helm install --create-namespace makes it
		}
		if diff := cmp.Diff(want, chart[key], withoutBlankLines); diff != "" {
			t.Errorf("%s: - kustomize, + chart\n%s", key, diff)
		}
	}
	for key := range chart {
		if _, found := kustomize[key]; !found {
			t.Errorf("only the chart has %s", key)
		}
	}
}

// Kustomize and the chart make the same objects, for each way to install.
func TestChartAndKustomizeMakeTheSame(t *testing.T) {
	for overlay, with := range map[string]struct{ version, values string }{
		"default":               {"v1.37.0", ""},
		"overlays/namespaced":   {"v1.37.0", "namespaces: [shop]"},
		"overlays/metrics-auth": {"v1.37.0", "metrics: {auth: true}"},
		"overlays/before-1.36":  {"v1.35.4", ""},
	} {
		t.Run(overlay, func(t *testing.T) {
			compare(t, kustomized(t, overlay), rendered(t, release{namespace, with.version}, with.values))
		})
	}
	t.Run("prometheus", func(t *testing.T) {
		all := rendered(t, latest, "metrics: {serviceMonitor: {enabled: true}, alerts: {enabled: true}, dashboard: {enabled: true}}")
		for key := range rendered(t, latest, "") {
			delete(all, key)
		}
		compare(t, kustomized(t, "prometheus"), all)
	})
}

// With other values each thing is where it must be.
func TestValues(t *testing.T) {
	objects := rendered(t, latest, `
image: {repository: registry.example/grayrollout, digest: "sha256:`+strings.Repeat("a", 64)+`"}
namespaces: [shop, bank]
crds: {install: false}
policies: {install: false}
peopleRoles: {install: false}
podDisruptionBudget: {enabled: false}
networkPolicy: {apiServer: {cidr: 10.0.0.1/32, port: 6443}}
metrics: {auth: true, serviceMonitor: {enabled: true, labels: {release: prometheus}}}
logLevel: debug
extraArgs: [--concurrency=16]
allowUrls: [in-cluster, https://hooks.example.com/*]
caConfigMap: hook-authorities
`)
	for _, absent := range []string{"CustomResourceDefinition/", "ValidatingAdmissionPolicy", "PodDisruptionBudget/", "ClusterRole//grayrollout-viewer"} {
		for key := range objects {
			if strings.HasPrefix(key, absent) {
				t.Errorf("%s is there", key)
			}
		}
	}
	text, _ := yaml.Marshal(objects)
	for _, want := range []string{
		"image: registry.example/grayrollout@sha256:aaaa",
		"--namespace=shop", "--namespace=bank", "--metrics-auth=true", "--log-level=debug", "--concurrency=16", "--allow-urls=in-cluster", "--allow-urls=https://hooks.example.com/*",
		"name: SSL_CERT_FILE", "value: /etc/grayrollout/ca.crt", "mountPath: /etc/grayrollout", "name: hook-authorities",
		"cidr: 10.0.0.1/32", "release: prometheus",
		"bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// Another namespace than grayrollout-system is carried everywhere, the policies' text included.
func TestAnotherNamespace(t *testing.T) {
	text, err := render(chartDir, release{"rollouts", "v1.37.0"}, chartutil.Values{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, namespace) {
		t.Errorf("%s is still there", namespace)
	}
	if !strings.Contains(text, "system:serviceaccount:rollouts:grayrollout") {
		t.Error("the policies do not know the operator's user")
	}
}

// Mistyped values are refused, and the message names them.
func TestBadValuesAreRefused(t *testing.T) {
	for values, named := range map[string]string{
		"replica: 3":                                   "replica",
		"replicas: two":                                "replicas",
		"image: {digest: latest}":                      "digest",
		"logFormat: xml":                               "logFormat",
		"networkPolicy: {apiServer: {port: 1}}":        "cidr",
		"metrics: {serviceMonitor: {interval: often}}": "interval",
	} {
		parsed, err := chartutil.ReadValues([]byte(values))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := render(chartDir, latest, parsed); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// The Prometheus Operator's kinds have no field that it does not know.
func TestMonitoringKindsAreStrict(t *testing.T) {
	objects := rendered(t, latest, "metrics: {auth: true, serviceMonitor: {enabled: true}, alerts: {enabled: true}}")
	for key, into := range map[string]any{
		"ServiceMonitor/" + namespace + "/grayrollout": &monitoring.ServiceMonitor{},
		"PrometheusRule/" + namespace + "/grayrollout": &monitoring.PrometheusRule{},
	} {
		text, err := yaml.Marshal(objects[key])
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// The archive has the files themselves where the work tree has links, and nothing of the tests.
func TestPackage(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"package", chartDir, t.TempDir()}, &out); err != nil {
		t.Fatal(err)
	}
	archive := strings.TrimSpace(out.String())
	want, err := render(chartDir, latest, chartutil.Values{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := render(archive, latest, chartutil.Values{})
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Error("the archive renders something else than the folder")
	}
	packed, err := os.ReadFile(archive)
	if err != nil || len(packed) > 64<<10 {
		t.Errorf("%d bytes, %v", len(packed), err)
	}
}
