package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

type pod struct {
	Metadata struct {
		Name              string
		DeletionTimestamp string
		Annotations       map[string]string
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase, PodIP string
		Conditions   []struct{ Type, Status string }

		ContainerStatuses []struct {
			Ready        bool
			RestartCount int
			State        struct {
				Running *struct{}
				Waiting *struct{ Reason string }
			}
		}
	}
}

func (p *pod) ready() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c struct{ Type, Status string }) bool {
		return c.Type == "Ready" && c.Status == "True"
	})
}

func (p *pod) waiting() string {
	if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
		return ""
	}
	return p.Status.ContainerStatuses[0].State.Waiting.Reason
}

// podTest is one pod under test.
type podTest struct {
	*testing.T
	client  *api
	path    string
	created time.Time
}

const podTemplate = `{"apiVersion": "v1", "kind": "Pod",
"metadata": {"generateName": "pod-", "labels": {"app": "x"}, "annotations": {%s}},
"spec": {%s "containers": [{"name": "main", "image": "example/app:1"}, {"name": "side", "image": "example/side:1"}]}}`

func newPod(t *testing.T, annotations, spec string) *podTest {
	t.Helper()
	plane := shared.get(t)
	pods := "/api/v1/namespaces/" + newNamespace(t, plane.api) + "/pods"
	p := &podTest{t, plane.api, "", time.Now()}
	var created pod
	send(t, p.client, http.MethodPost, pods, fmt.Sprintf(podTemplate, annotations, spec), &created)
	p.path = pods + "/" + created.Metadata.Name
	return p
}

func (p *podTest) get() (*pod, error) {
	var got pod
	err := p.client.do(p.Context(), http.MethodGet, p.path, nil, &got)
	return &got, err
}

// until waits for a state and returns the time from the pod's creation.
func (p *podTest) until(what string, state func(*pod) bool) time.Duration {
	p.Helper()
	eventually(p.T, 20*time.Second, "the pod to be "+what, func() error {
		got, err := p.get()
		if err == nil && !state(got) {
			err = fmt.Errorf("%+v", got.Status)
		}
		return err
	})
	return time.Since(p.created)
}

// during checks a state again and again for a while.
func (p *podTest) during(d time.Duration, what string, state func(*pod) bool) {
	p.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got, err := p.get(); err != nil || !state(got) {
			p.Fatalf("the pod is not %s: %v %+v", what, err, got.Status)
		}
	}
}

func (p *podTest) annotate(key, value string) {
	p.Helper()
	send(p.T, p.client, http.MethodPatch, p.path,
		fmt.Sprintf(`{"metadata": {"annotations": {"kwok.grayrollout.dev/%s": %s}}}`, key, value), nil)
}

func isReady(p *pod) bool { return p.ready() && p.Status.Phase == "Running" && p.Status.PodIP != "" }

func isUnready(p *pod) bool {
	return !p.ready() && p.Status.Phase == "Running" &&
		p.Status.ContainerStatuses[0].State.Running != nil && !p.Status.ContainerStatuses[1].Ready
}

func TestPodIsReadyAtOnce(t *testing.T) {
	t.Parallel()
	p := newPod(t, "", "")
	t.Logf("ready after %s", p.until("ready", isReady))
	got, err := p.get()
	if err != nil || !strings.HasPrefix(got.Spec.NodeName, "kwok-") {
		t.Fatalf("node %q, %v", got.Spec.NodeName, err)
	}
	send(t, p.client, http.MethodDelete, p.path, "", nil)
	p.untilGone()
}

func (p *podTest) untilGone() time.Duration {
	p.Helper()
	start := time.Now()
	eventually(p.T, 20*time.Second, "the pod to be gone", func() error {
		_, err := p.get()
		var status *statusError
		if errors.As(err, &status) && status.code == http.StatusNotFound {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	return time.Since(start)
}

func TestReadyAfterCountsFromTheStart(t *testing.T) {
	t.Parallel()
	p := newPod(t, `"kwok.grayrollout.dev/ready-after": "1500ms"`, "")
	p.until("unready", isUnready)
	for i := range 5 {
		time.Sleep(200 * time.Millisecond)
		// Another write must not begin the wait anew.
		send(t, p.client, http.MethodPatch, p.path, fmt.Sprintf(`{"metadata": {"labels": {"write": "%d"}}}`, i), nil)
	}
	took := p.until("ready", isReady)
	if took < 1500*time.Millisecond || took > 2200*time.Millisecond {
		t.Errorf("ready after %s, want 1.5 s", took)
	}
}

func TestReadyAfterEndsWithTheAnnotation(t *testing.T) {
	t.Parallel()
	p := newPod(t, `"kwok.grayrollout.dev/ready-after": "1h"`, "")
	p.until("unready", isUnready)
	p.annotate("ready-after", "null")
	p.until("ready", isReady)
}

func TestNeverReadyAndBack(t *testing.T) {
	t.Parallel()
	p := newPod(t, `"kwok.grayrollout.dev/ready": "never"`, "")
	p.until("unready", isUnready)
	p.during(time.Second, "unready", isUnready)
	p.annotate("ready", "null")
	p.until("ready", isReady)
	p.annotate("ready", `"never"`)
	p.until("unready", isUnready)
	p.during(time.Second, "unready", isUnready)
	p.annotate("ready", `"always"`)
	p.until("ready", isReady)
	p.during(time.Second, "ready", isReady)
}

func TestNeverBeatsARunningDelay(t *testing.T) {
	t.Parallel()
	p := newPod(t, `"kwok.grayrollout.dev/ready-after": "700ms"`, "")
	p.until("unready", isUnready)
	p.annotate("ready", `"never"`)
	p.during(1500*time.Millisecond, "unready", isUnready)
}

func TestCrashLoops(t *testing.T) {
	t.Parallel()
	p := newPod(t, `"kwok.grayrollout.dev/ready": "crash"`, "")
	crashed := func(p *pod) bool { return !p.ready() && p.waiting() == "CrashLoopBackOff" }
	for restarts := range 3 {
		p.until("up between crashes", func(p *pod) bool {
			return isReady(p) && p.Status.ContainerStatuses[0].RestartCount == restarts
		})
		p.until("crashed", crashed)
	}
	if took := time.Since(p.created); took < 4*time.Second || took > 6*time.Second {
		t.Errorf("two restarts took %s, want 4 s", took)
	}
	p.annotate("ready", "null")
	p.until("ready", isReady)
	p.during(time.Second, "ready", isReady)
	p.annotate("ready", `"crash"`)
	p.until("crashed", crashed)
}

func TestUnpullable(t *testing.T) {
	t.Parallel()
	p := newPod(t, `"kwok.grayrollout.dev/ready": "unpullable"`, "")
	unpullable := func(p *pod) bool {
		return !p.ready() && p.Status.Phase == "Pending" && p.waiting() == "ImagePullBackOff"
	}
	p.until("unpullable", unpullable)
	p.during(time.Second, "unpullable", unpullable)
	p.annotate("ready", `"never"`)
	p.until("unready", isUnready)
	p.annotate("ready", "null")
	p.until("ready", isReady)
}

func TestTerminateAfter(t *testing.T) {
	t.Parallel()
	p := newPod(t, `"kwok.grayrollout.dev/terminate-after": "2s"`, `"terminationGracePeriodSeconds": 1,`)
	p.until("ready", isReady)
	send(t, p.client, http.MethodDelete, p.path, "", nil)
	p.during(1500*time.Millisecond, "terminating", func(p *pod) bool { return p.Metadata.DeletionTimestamp != "" })
	if took := p.untilGone(); took > 1500*time.Millisecond {
		t.Errorf("gone %s after the 1.5 s it was watched, want 0.5 s", took)
	}
}

func TestMistypedAnnotationIsRefused(t *testing.T) {
	t.Parallel()
	plane := shared.get(t)
	for annotation, want := range map[string]string{
		`"kwok.grayrollout.dev/ready": "nver"`:           "must be always, never, crash or unpullable",
		`"kwok.grayrollout.dev/ready-after": "5"`:        "must be a duration",
		`"kwok.grayrollout.dev/terminate-after": "soon"`: "must be a duration",
		`"kwok.grayrollout.dev/redy": "never"`:           "ready, ready-after and terminate-after only",
	} {
		answer := refused(t, plane.api, http.StatusUnprocessableEntity, http.MethodPost,
			"/api/v1/namespaces/default/pods", fmt.Sprintf(podTemplate, annotation, ""))
		if !strings.Contains(answer, want) {
			t.Errorf("%s: %s", annotation, answer)
		}
	}
}

// A node without kwok's annotation, and pods meant for it, belong to someone else.
func TestOtherNodesAreLeftAlone(t *testing.T) {
	t.Parallel()
	plane := shared.get(t)
	send(t, plane.api, http.MethodPost, "/api/v1/nodes",
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real", "labels": {"type": "real"}}}`, nil)
	t.Cleanup(func() { _ = plane.do(context.Background(), http.MethodDelete, "/api/v1/nodes/real", nil, nil) })
	chosen := newPod(t, "", `"nodeSelector": {"type": "kwok"},`)
	chosen.until("ready", isReady)
	for _, p := range []*podTest{
		newPod(t, "", `"nodeSelector": {"type": "real"},`),
		newPod(t, "", `"nodeName": "real",`),
	} {
		p.during(time.Second, "left alone", func(p *pod) bool {
			return !strings.HasPrefix(p.Spec.NodeName, "kwok-") && p.Status.Phase == "Pending" && p.Status.PodIP == ""
		})
	}
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	send(t, plane.api, http.MethodGet, "/api/v1/nodes/real", "", &node)
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			t.Error("someone else's node was made Ready")
		}
	}
}
