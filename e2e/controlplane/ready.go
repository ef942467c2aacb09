package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	kwokNodes     = 3 // as many as manifests/pod-node-policy.yaml chooses from
	probeManifest = `{"apiVersion": "apps/v1", "kind": "Deployment",
"metadata": {"name": "controlplane-probe"},
"spec": {"selector": {"matchLabels": {"app": "controlplane-probe"}}, "template": {
	"metadata": {"labels": {"app": "controlplane-probe"}},
	"spec": {"containers": [{"name": "probe", "image": "probe"}]}}}}`
	podManifest = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "controlplane-probe"},
"spec": {"containers": [{"name": "probe", "image": "probe"}]}}`
)

// poll calls check until it returns nil or ctx ends; then what tells what was awaited.
func poll(ctx context.Context, what string, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		if cause := sleep(ctx, 20*time.Millisecond); cause != nil {
			return fmt.Errorf("%w while waiting for %s (%w)", cause, what, err)
		}
	}
}

func waitServing(ctx context.Context, client *api) error {
	return poll(ctx, "kube-apiserver to be ready", func() error {
		return client.do(ctx, http.MethodGet, "/readyz", nil, nil)
	})
}

// makeUsable creates the nodes and policies, and returns once a Deployment's pod has
// become ready and gone again.
func makeUsable(ctx context.Context, client *api) error {
	if err := createObjects(ctx, client); err != nil {
		return err
	}
	for _, namespace := range []string{"default", "kube-system"} {
		path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/default"
		if err := poll(ctx, "the default ServiceAccount in "+namespace, func() error {
			return client.do(ctx, http.MethodGet, path, nil, nil)
		}); err != nil {
			return err
		}
	}
	if err := poll(ctx, "new pods to get a node", func() error {
		var pod struct{ Spec struct{ NodeName string } }
		err := client.do(ctx, http.MethodPost, "/api/v1/namespaces/default/pods?dryRun=All", []byte(podManifest), &pod)
		if err == nil && pod.Spec.NodeName == "" {
			err = errors.New("a dry run has none")
		}
		return err
	}); err != nil {
		return err
	}
	if err := poll(ctx, "a mistyped pod annotation to be refused", func() error {
		return checkAnnotationPolicy(ctx, client)
	}); err != nil {
		return err
	}
	if err := poll(ctx, "the ClusterRole view to be aggregated", func() error {
		var role struct{ Rules []any }
		err := client.do(ctx, http.MethodGet, "/apis/rbac.authorization.k8s.io/v1/clusterroles/view", nil, &role)
		if err == nil && len(role.Rules) == 0 {
			err = errors.New("it has no rules")
		}
		return err
	}); err != nil {
		return err
	}
	return probe(ctx, client)
}

func createObjects(ctx context.Context, client *api) error {
	const admission = "/apis/admissionregistration.k8s.io/v1/"
	for _, object := range []struct{ path, file string }{
		{admission + "mutatingadmissionpolicies", "pod-node-policy.yaml"},
		{admission + "mutatingadmissionpolicybindings", "pod-node-binding.yaml"},
		{admission + "validatingadmissionpolicies", "pod-annotations-policy.yaml"},
		{admission + "validatingadmissionpolicybindings", "pod-annotations-binding.yaml"},
	} {
		text, err := manifests.ReadFile("manifests/" + object.file)
		if err != nil {
			return err
		}
		if err := client.do(ctx, http.MethodPost, object.path, text, nil); err != nil {
			return fmt.Errorf("create %s: %w", object.file, err)
		}
	}
	for i := range kwokNodes {
		node := fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kwok-%[1]d",
"annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"type": "kwok",
"kubernetes.io/hostname": "kwok-%[1]d", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}}`, i)
		if err := client.do(ctx, http.MethodPost, "/api/v1/nodes", node, nil); err != nil {
			return fmt.Errorf("create node: %w", err)
		}
	}
	return nil
}

func checkAnnotationPolicy(ctx context.Context, client *api) error {
	pod := []byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "controlplane-probe",
"annotations": {"kwok.grayrollout.dev/ready": "mistyped"}},
"spec": {"containers": [{"name": "probe", "image": "probe"}]}}`)
	err := client.do(ctx, http.MethodPost, "/api/v1/namespaces/default/pods?dryRun=All", pod, nil)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusUnprocessableEntity {
		return nil
	}
	if err == nil {
		err = errors.New("it was accepted")
	}
	return err
}

func probe(ctx context.Context, client *api) error {
	const deployments = "/apis/apps/v1/namespaces/kube-system/deployments"
	const one = deployments + "/controlplane-probe"
	if err := client.do(ctx, http.MethodPost, deployments, []byte(probeManifest), nil); err != nil {
		return err
	}
	if err := poll(ctx, "the pod of a Deployment to be ready", func() error {
		var deployment struct {
			Status struct{ AvailableReplicas int }
		}
		err := client.do(ctx, http.MethodGet, one, nil, &deployment)
		if err == nil && deployment.Status.AvailableReplicas == 0 {
			err = errors.New("none is available")
		}
		return err
	}); err != nil {
		return err
	}
	if err := client.do(ctx, http.MethodDelete, one, nil, nil); err != nil {
		return err
	}
	return poll(ctx, "a deleted Deployment's pod to go", func() error {
		var pods struct{ Items []any }
		err := client.do(ctx, http.MethodGet, "/api/v1/namespaces/kube-system/pods", nil, &pods)
		if err == nil && len(pods.Items) > 0 {
			err = errors.New("it is still there")
		}
		return err
	})
}
