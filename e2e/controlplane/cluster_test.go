package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const deploymentTemplate = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
"spec": {"replicas": %d, "selector": {"matchLabels": {"app": "web"}}, "template": {
	"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "example/web:1"}]}}}}`

type deployment struct {
	Metadata struct{ Generation int }
	Status   struct {
		ObservedGeneration, Replicas, UpdatedReplicas, AvailableReplicas int
	}
}

func (d *deployment) settled(replicas int) error {
	s := d.Status
	if s.ObservedGeneration != d.Metadata.Generation || s.Replicas != replicas ||
		s.UpdatedReplicas != replicas || s.AvailableReplicas != replicas {
		return fmt.Errorf("%+v", d)
	}
	return nil
}

// The native controllers that a rollout lives with all act.
func TestControllersAct(t *testing.T) {
	t.Parallel()
	plane := shared.get(t)
	namespace := newNamespace(t, plane.api)
	apps := "/apis/apps/v1/namespaces/" + namespace
	core := "/api/v1/namespaces/" + namespace
	send(t, plane.api, http.MethodPost, apps+"/deployments", fmt.Sprintf(deploymentTemplate, 5), nil)
	settled := func() error {
		var d deployment
		if err := plane.do(t.Context(), http.MethodGet, apps+"/deployments/web", nil, &d); err != nil {
			return err
		}
		return d.settled(5)
	}
	eventually(t, 20*time.Second, "the Deployment", settled)
	send(t, plane.api, http.MethodPatch, apps+"/deployments/web", `{"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}`, nil)
	eventually(t, 20*time.Second, "the rolling update", settled)

	send(t, plane.api, http.MethodPost, core+"/services",
		`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
		"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}`, nil)
	eventually(t, 20*time.Second, "the EndpointSlice", func() error {
		var slices struct {
			Items []struct {
				Endpoints []struct {
					Addresses  []string
					Conditions struct{ Ready bool }
				}
			}
		}
		err := plane.do(t.Context(), http.MethodGet, "/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices", nil, &slices)
		addresses := map[string]bool{}
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready {
					addresses[endpoint.Addresses[0]] = true
				}
			}
		}
		if err == nil && len(addresses) != 5 {
			err = fmt.Errorf("%d different ready addresses, want 5", len(addresses))
		}
		return err
	})

	policy := "/apis/policy/v1/namespaces/" + namespace + "/poddisruptionbudgets"
	send(t, plane.api, http.MethodPost, policy,
		`{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
		"spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}}`, nil)
	eventually(t, 20*time.Second, "the PodDisruptionBudget", func() error {
		var budget struct {
			Status struct{ DisruptionsAllowed int }
		}
		err := plane.do(t.Context(), http.MethodGet, policy+"/web", nil, &budget)
		if err == nil && budget.Status.DisruptionsAllowed != 2 {
			err = fmt.Errorf("%d disruptions allowed, want 2", budget.Status.DisruptionsAllowed)
		}
		return err
	})

	send(t, plane.api, http.MethodDelete, "/api/v1/namespaces/"+namespace, "", nil)
	eventually(t, 30*time.Second, "the namespace to go", func() error {
		err := plane.do(t.Context(), http.MethodGet, "/api/v1/namespaces/"+namespace, nil, nil)
		var status *statusError
		if errors.As(err, &status) && status.code == http.StatusNotFound {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

func TestUsersHaveOnlyGrantedRights(t *testing.T) {
	t.Parallel()
	plane := shared.get(t)
	namespace := newNamespace(t, plane.api)
	deployments := "/apis/apps/v1/namespaces/" + namespace + "/deployments"
	for _, name := range []string{"alice", "bob", "carol"} {
		client, err := plane.clientOf("kubeconfig-" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		answer := refused(t, client, http.StatusForbidden, http.MethodGet, deployments, "")
		if !strings.Contains(answer, fmt.Sprintf(`User \"%s\"`, name)) {
			t.Errorf("%s is known by another name: %s", name, answer)
		}
	}
	// The ClusterRole view is aggregated from others by a controller.
	send(t, plane.api, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+namespace+"/rolebindings",
		`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "view"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]}`, nil)
	alice, err := plane.clientOf("kubeconfig-alice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "alice to see", func() error {
		return alice.do(t.Context(), http.MethodGet, deployments, nil, nil)
	})
	refused(t, alice, http.StatusForbidden, http.MethodPost, deployments, fmt.Sprintf(deploymentTemplate, 1))
}

func TestAuditLogHasMetadataOfEveryRequest(t *testing.T) {
	t.Parallel()
	plane := shared.get(t)
	bob, err := plane.clientOf("kubeconfig-bob.yaml")
	if err != nil {
		t.Fatal(err)
	}
	refused(t, bob, http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/audited/configmaps/one", "")
	log, err := os.Open(plane.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	type event struct {
		Level, Stage, Verb string
		User               struct{ Username string }
		ObjectRef          struct{ Resource, Namespace, Name string }
		ResponseStatus     struct{ Code int }
	}
	var found []event
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the last line may be half written
		}
		if e.Stage == "RequestReceived" {
			t.Fatalf("stage not omitted: %s", lines.Text())
		}
		if e.ObjectRef.Namespace == "audited" {
			found = append(found, e)
		}
	}
	if len(found) != 1 || found[0].Level != "Metadata" || found[0].User.Username != "bob" ||
		found[0].Verb != "get" || found[0].ResponseStatus.Code != http.StatusForbidden {
		t.Errorf("want one event of bob's, got %+v", found)
	}
}

func TestKubectlAndVersion(t *testing.T) {
	t.Parallel()
	plane := shared.get(t)
	kubectl := exec.CommandContext(t.Context(), filepath.Join(plane.BinDir, "kubectl"), "--kubeconfig", plane.Kubeconfig, "version", "-o", "json")
	out, err := kubectl.Output()
	if err != nil {
		t.Fatal(err)
	}
	var versions struct {
		ClientVersion, ServerVersion struct{ GitVersion, Minor string }
	}
	if err := json.Unmarshal(out, &versions); err != nil {
		t.Fatal(err)
	}
	if v := versions.ServerVersion; v != versions.ClientVersion || v.Minor == "" || !strings.HasPrefix(v.GitVersion, "v1."+v.Minor+".") {
		t.Errorf("versions: %s", out)
	}
}
