package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asCommand in the environment makes the test program be the command under test.
const asCommand = "CONTROLPLANE_TEST_AS_COMMAND=1"

// newCommand is the command under test, with additions to the environment.
func newCommand(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = slices.Concat(os.Environ(), []string{asCommand}, env)
	return cmd
}

func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), asCommand) {
		main()
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	// One folder holds all temporary files, so that Ctrl-C can remove them.
	temp, err := os.MkdirTemp("", "controlplane-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(temp)
	os.Setenv("TMPDIR", temp)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		planes.closeAll()
		os.RemoveAll(temp)
		os.Exit(1)
	}()
	defer planes.closeAll()
	build := newCommand(context.Background(), nil, "build")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n", err)
		return 1
	}
	return m.Run()
}

// planes are all `up` processes that tests started.
var planes registry

type registry struct {
	mutex sync.Mutex
	all   []*running
}

func (g *registry) add(r *running) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.all = append(g.all, r)
}

func (g *registry) closeAll() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, r := range g.all {
		r.close()
	}
}

// running is one `up` process.
type running struct {
	upResult
	*api
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *bytes.Buffer
	done   chan struct{} // closed when the process has ended
}

// startUp runs `up` and waits until it is ready. Its standard input is a pipe that the
// kernel closes with this process, so that nothing outlives the test.
func startUp(env []string, args ...string) (*running, error) {
	r := &running{
		cmd:    newCommand(context.Background(), env, append([]string{"up"}, args...)...),
		stderr: new(bytes.Buffer),
		done:   make(chan struct{}),
	}
	r.cmd.Stderr = r.stderr
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r.stdin = stdin
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	planes.add(r)
	line, readErr := bufio.NewReader(stdout).ReadBytes('\n')
	go func() {
		_ = r.cmd.Wait()
		close(r.done)
	}()
	if readErr != nil {
		<-r.done
		return nil, fmt.Errorf("up printed nothing: %w\n%s", readErr, r.stderr)
	}
	if err := json.Unmarshal(line, &r.upResult); err != nil {
		return nil, err
	}
	r.api, err = r.clientOf("kubeconfig.yaml")
	return r, err
}

func mustStartUp(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	r, err := startUp(env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close() })
	return r
}

// close ends the process the way a test harness does, and waits.
func (r *running) close() {
	r.stdin.Close()
	<-r.done
}

// clientOf reads a kubeconfig of the folder.
func (r *running) clientOf(file string) (*api, error) {
	config, err := os.ReadFile(filepath.Join(r.Dir, file))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(r.CAFile)
	if err != nil {
		return nil, err
	}
	token := regexp.MustCompile(`token: (\S+)`).FindSubmatch(config)
	if token == nil {
		return nil, fmt.Errorf("no token in %s", file)
	}
	return newAPI(r.Server, ca, string(token[1])), nil
}

// pids returns the children's process IDs by name.
func (r *running) pids(t *testing.T) map[string]string {
	t.Helper()
	pids := map[string]string{}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kwok"} {
		pid, err := os.ReadFile(filepath.Join(r.Dir, name+".pid"))
		if err != nil {
			t.Fatal(err)
		}
		pids[name] = strings.TrimSpace(string(pid))
		if !alive(pids[name]) {
			t.Fatalf("%s is not running", name)
		}
	}
	return pids
}

// alive tells whether a process runs; one that only awaits its parent does not.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// sharedPlane is the control plane that all tests of pods use; it ends with the tests.
type sharedPlane struct {
	once sync.Once
	up   *running
	err  error
}

var shared sharedPlane

func (s *sharedPlane) get(t *testing.T) *running {
	t.Helper()
	s.once.Do(func() { s.up, s.err = startUp(nil, "--audit") })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.up
}

// eventually waits until check returns nil.
func eventually(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("gave up after %s", limit))
	defer cancel()
	if err := poll(ctx, what, check); err != nil {
		t.Fatal(err)
	}
}

func send(t *testing.T, client *api, method, path, body string, result any) {
	t.Helper()
	if err := client.do(t.Context(), method, path, []byte(body), result); err != nil {
		t.Fatal(err)
	}
}

// refused checks that a request is answered with the given status, and returns the answer.
func refused(t *testing.T, client *api, code int, method, path, body string) string {
	t.Helper()
	err := client.do(t.Context(), method, path, []byte(body), nil)
	var status *statusError
	if !errors.As(err, &status) || status.code != code {
		t.Fatalf("%s %s: want status %d, got %v", method, path, code, err)
	}
	return status.body
}

// newNamespace creates a namespace that the test deletes at its end.
func newNamespace(t *testing.T, client *api) string {
	t.Helper()
	var created struct{ Metadata struct{ Name string } }
	send(t, client, http.MethodPost, "/api/v1/namespaces",
		`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "test-"}}`, &created)
	name := created.Metadata.Name
	t.Cleanup(func() {
		_ = client.do(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+name, nil, nil)
	})
	eventually(t, 30*time.Second, "the ServiceAccount", func() error {
		return client.do(t.Context(), http.MethodGet, "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil, nil)
	})
	return name
}
