package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// Measurements of an operator are only worth something if pods are ready at once.
func TestPodsAreReadyWithinMilliseconds(t *testing.T) {
	plane := shared.get(t)
	pods := "/api/v1/namespaces/" + newNamespace(t, plane.api) + "/pods"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, plane.server+pods+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+plane.token)
	watch, err := plane.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	events := json.NewDecoder(watch.Body)
	var took []time.Duration
	for range 30 {
		var created pod
		start := time.Now()
		send(t, plane.api, http.MethodPost, pods, fmt.Sprintf(podTemplate, "", ""), &created)
		for {
			var event struct{ Object pod }
			if err := events.Decode(&event); err != nil {
				t.Fatal(err)
			}
			if event.Object.Metadata.Name == created.Metadata.Name && event.Object.ready() {
				break
			}
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("from request to ready: median %s, fastest %s, slowest %s", median, took[0], took[len(took)-1])
	if median > 100*time.Millisecond {
		t.Errorf("median %s, want at most 100ms even on a busy machine", median)
	}
}
