package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestStandardInputEndsIt(t *testing.T) {
	t.Parallel()
	r := mustStartUp(t, nil)
	checkStop(t, r, func() { r.stdin.Close() })
	checkExit(t, r, 0)
	checkGone(t, r.Dir)
}

func TestSignalsEndIt(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		r := mustStartUp(t, nil, "--keep")
		r.stdin.Close()
		send(t, r.api, http.MethodGet, "/readyz", "", nil)
		checkStop(t, r, func() { _ = r.cmd.Process.Signal(signal) })
		checkExit(t, r, 0)
		checkGone(t, r.Dir)
	}
}

func TestKillLeavesNoProcess(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	r := mustStartUp(t, []string{"TMPDIR=" + temp})
	checkStop(t, r, func() { _ = r.cmd.Process.Kill() })
	// Its folder goes when the next one starts, unless it is new.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(r.Dir, lockName), old, old); err != nil {
		t.Fatal(err)
	}
	next := mustStartUp(t, []string{"TMPDIR=" + temp})
	checkGone(t, r.Dir)
	next.close()
}

// checkStop checks that all processes are gone soon after stop.
func checkStop(t *testing.T, r *running, stop func()) {
	t.Helper()
	pids := r.pids(t)
	stop()
	select {
	case <-r.done:
	case <-time.After(10 * time.Second):
		t.Fatal("up still runs 10 s after it was ended")
	}
	for name, pid := range pids {
		eventually(t, 5*time.Second, name+" to end", func() error {
			if alive(pid) {
				return fmt.Errorf("process %s runs", pid)
			}
			return nil
		})
	}
}

func checkExit(t *testing.T, r *running, code int) {
	t.Helper()
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d; it said:\n%s", got, code, r.stderr)
	}
}

func checkGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left behind (%v)", path, err)
	}
}

func TestTwoAtOnceAreApart(t *testing.T) {
	t.Parallel()
	type result struct {
		up  *running
		err error
	}
	results := make(chan result)
	for range 2 {
		go func() {
			up, err := startUp(nil)
			results <- result{up, err}
		}()
	}
	var planes []*running
	for range 2 {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
			continue
		}
		t.Cleanup(r.up.close)
		planes = append(planes, r.up)
	}
	if t.Failed() {
		return
	}
	if planes[0].Server == planes[1].Server || planes[0].Dir == planes[1].Dir {
		t.Fatalf("shared: %+v %+v", planes[0].upResult, planes[1].upResult)
	}
	const path = "/api/v1/namespaces/default/configmaps"
	send(t, planes[0].api, http.MethodPost, path, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}`, nil)
	refused(t, planes[1].api, http.StatusNotFound, http.MethodGet, path+"/mine", "")
	planes[0].close()
	send(t, planes[1].api, http.MethodGet, "/readyz", "", nil)
}

func TestAChildsDeathIsReported(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "plane")
	r := mustStartUp(t, nil, "--dir", dir)
	pid, err := strconv.Atoi(r.pids(t)["kwok"])
	if err != nil {
		t.Fatal(err)
	}
	checkStop(t, r, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	checkExit(t, r, 1)
	if said := r.stderr.String(); !strings.Contains(said, "kwok ended unexpectedly: signal: killed") {
		t.Errorf("it said: %s", said)
	}
	checkGone(t, dir)
}

func TestAnExistingFolderIsKeptAndUsedByOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := mustStartUp(t, nil, "--dir", dir, "--audit")
	if r.AuditLog != filepath.Join(dir, "audit.log") {
		t.Errorf("audit log %q", r.AuditLog)
	}
	_, err := startUp(nil, "--dir", dir)
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second one in the same folder: %v", err)
	}
	send(t, r.api, http.MethodPost, "/api/v1/namespaces", `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}}`, nil)
	r.close()
	if _, err := os.Stat(r.AuditLog); err != nil {
		t.Error(err)
	}
	checkGone(t, filepath.Join(dir, etcdData))
	again := mustStartUp(t, nil, "--dir", dir)
	if again.AuditLog != "" {
		t.Errorf("audit log %q without --audit", again.AuditLog)
	}
	refused(t, again.api, http.StatusNotFound, http.MethodGet, "/api/v1/namespaces/old", "")
}

func TestAssetsAreUsedAndTheRestIsBuilt(t *testing.T) {
	t.Parallel()
	cache, err := newCommand(t.Context(), nil, "build").Output()
	if err != nil {
		t.Fatal(err)
	}
	assets := t.TempDir()
	given := map[string]bool{"etcd": true, "kube-apiserver": true, "kubectl": true}
	for name := range given {
		if err := os.Link(filepath.Join(string(bytes.TrimSpace(cache)), name), filepath.Join(assets, name)); err != nil {
			copyFile(t, filepath.Join(string(bytes.TrimSpace(cache)), name), filepath.Join(assets, name))
		}
	}
	r := mustStartUp(t, []string{assetsVariable + "=" + assets})
	t.Cleanup(func() { _ = os.RemoveAll(r.BinDir) }) // links only
	for name, pid := range r.pids(t) {
		exe, err := os.Readlink("/proc/" + pid + "/exe")
		if err != nil {
			t.Fatal(err)
		}
		if (filepath.Dir(exe) == assets) != given[name] {
			t.Errorf("%s runs from %s", name, exe)
		}
	}
	kubectl, err := filepath.EvalSymlinks(filepath.Join(r.BinDir, "kubectl"))
	if err != nil || filepath.Dir(kubectl) != assets {
		t.Errorf("kubectl is %s, %v", kubectl, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestBadUseIsExplained(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct{ env, args []string }{
		"usage:":                               {nil, nil},
		"flag provided but not defined: -nope": {nil, []string{"up", "--nope"}},
		"KUBEBUILDER_ASSETS is not a folder":   {[]string{assetsVariable + "=/nowhere"}, []string{"build"}},
		"go is not on PATH":                    {[]string{"PATH=/nowhere"}, []string{"build"}},
		"standard input ended":                 {nil, []string{"up"}},
	} {
		out, err := newCommand(t.Context(), test.env, test.args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v, want %q in:\n%s", test.args, err, want, out)
		}
	}
}
