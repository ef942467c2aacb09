package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// api is a small client of the API server.
type api struct {
	server, token string
	http          *http.Client
}

func newAPI(server string, ca []byte, token string) *api {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	return &api{server, token, &http.Client{Transport: transport, Timeout: 10 * time.Second}}
}

// statusError is an answer other than 2xx.
type statusError struct {
	code    int
	request string
	body    string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d: %s", e.request, e.code, e.body)
}

// do sends body, if any, as YAML (which JSON is too) and decodes the answer into
// result, if that is not nil. The method PATCH sends a merge patch.
func (a *api) do(ctx context.Context, method, path string, body []byte, result any) error {
	request, err := http.NewRequestWithContext(ctx, method, a.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/yaml")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := a.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return &statusError{response.StatusCode, method + " " + path, string(answer)}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer, result)
}
