package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// module is what go needs to build the binaries, so that this command can do it from
// any working directory.
//
//go:embed go.mod go.sum etcd/main.go
var module embed.FS

type binary struct{ name, pkg string }

var binaries = []binary{
	{"etcd", "./etcd"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{"kwok", "sigs.k8s.io/kwok/cmd/kwok"},
}

// assetsVariable names a folder with binaries to use in place of built ones.
const assetsVariable = "KUBEBUILDER_ASSETS"

// build makes sure that all binaries exist and returns the folder that has them all.
func build(ctx context.Context, s *starter) (string, error) {
	assets, given, err := findAssets()
	if err != nil {
		return "", err
	}
	missing := slices.DeleteFunc(slices.Clone(binaries), func(b binary) bool { return slices.Contains(given, b) })
	if len(missing) == 0 {
		return assets, nil
	}
	b, err := newBuilder(ctx, s)
	if err != nil {
		return "", err
	}
	if err := b.buildMissing(ctx, missing); err != nil {
		return "", err
	}
	if len(given) == 0 {
		return b.cache, nil
	}
	return b.link(assets, given, missing)
}

// findAssets returns the folder that KUBEBUILDER_ASSETS names and the binaries in it.
func findAssets() (dir string, given []binary, err error) {
	if dir = os.Getenv(assetsVariable); dir == "" {
		return "", nil, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", nil, fmt.Errorf("%s is not a folder: %s (unset it to build all binaries)", assetsVariable, dir)
	}
	for _, b := range binaries {
		if _, err := exec.LookPath(filepath.Join(dir, b.name)); err == nil {
			given = append(given, b)
		}
	}
	return dir, given, nil
}

type builder struct {
	starter *starter
	source  string // a copy of the module
	cache   string // where the binaries go
	flags   []string
}

func newBuilder(ctx context.Context, s *starter) (*builder, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("go is not on PATH: install it, or let %s name a folder with all binaries", assetsVariable)
	}
	root, err := cacheRoot()
	if err != nil {
		return nil, err
	}
	source, err := writeModule(root)
	if err != nil {
		return nil, err
	}
	b := &builder{starter: s, source: source, flags: buildFlags()}
	version, err := b.goCommand(ctx, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return nil, err
	}
	sums, err := module.ReadFile("go.sum")
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(fmt.Append(sums, version, b.flags))
	b.cache = filepath.Join(root, hex.EncodeToString(key[:8]))
	return b, os.MkdirAll(b.cache, 0o755)
}

// writeModule makes sure that root has a copy of the module, and returns its folder.
func writeModule(root string) (string, error) {
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum", "etcd/main.go"} {
		text, err := module.ReadFile(name)
		if err != nil {
			return "", err
		}
		hash.Write(text)
	}
	dir := filepath.Join(root, "source-"+hex.EncodeToString(hash.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(root, ".source-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := os.CopyFS(temp, module); err != nil {
		return "", err
	}
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

func cacheRoot() (string, error) {
	base := os.Getenv("GRAYROLLOUT_CACHE")
	if base == "" {
		if base = os.Getenv("XDG_CACHE_HOME"); base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("no folder for the cache, set GRAYROLLOUT_CACHE: %w", err)
			}
			base = filepath.Join(home, ".cache")
		}
		base = filepath.Join(base, "grayrollout")
	}
	return filepath.Abs(filepath.Join(base, "controlplane"))
}

// buildFlags stamps the version that go.mod requires, as clients rely on it.
func buildFlags() []string {
	requirements, _ := module.ReadFile("go.mod")
	match := regexp.MustCompile(`k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)`).FindSubmatch(requirements)
	stamp := "-s -w"
	if match != nil {
		for i, name := range []string{"gitVersion", "gitMajor", "gitMinor"} {
			stamp += fmt.Sprintf(" -X k8s.io/component-base/version.%s=%s", name, match[i+1])
		}
	}
	return []string{"-buildvcs=false", "-trimpath", "-ldflags", stamp}
}

func (b *builder) goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if b.cache != "" {
		cmd.Env = append(cmd.Env, "GOTMPDIR="+b.tempDir())
	}
	// The compilers it runs are in its process group.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := b.starter.start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, lastLines(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// tempDir is for the files of a build that goes on.
func (b *builder) tempDir() string { return filepath.Join(b.cache, ".building") }

func (b *builder) have(bin binary) bool {
	_, err := os.Stat(filepath.Join(b.cache, bin.name))
	return err == nil
}

func (b *builder) buildMissing(ctx context.Context, wanted []binary) error {
	if !slices.ContainsFunc(wanted, func(bin binary) bool { return !b.have(bin) }) {
		return nil
	}
	lock, err := waitLock(ctx, filepath.Join(b.cache, ".lock"), "another build of the control plane")
	if err != nil {
		return err
	}
	defer lock.Close()
	// The lock is held, so what is there is left of an interrupted build.
	if err := os.RemoveAll(b.tempDir()); err != nil {
		return err
	}
	if err := os.Mkdir(b.tempDir(), 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(b.tempDir())
	todo := slices.DeleteFunc(slices.Clone(wanted), b.have)
	for i, bin := range todo {
		if err := b.buildOne(ctx, bin, fmt.Sprintf("%s (%d/%d)", bin.name, i+1, len(todo))); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) buildOne(ctx context.Context, bin binary, what string) error {
	defer tick(ctx, "building "+what)()
	start := time.Now()
	temp := filepath.Join(b.tempDir(), bin.name)
	args := slices.Concat([]string{"build"}, b.flags, []string{"-o", temp, bin.pkg})
	if _, err := b.goCommand(ctx, args...); err != nil {
		return fmt.Errorf("build %s: %w", bin.name, err)
	}
	if err := os.Rename(temp, filepath.Join(b.cache, bin.name)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "built %s in %.0f s\n", what, time.Since(start).Seconds())
	return nil
}

// link makes a folder that has the given binaries of assets and the built ones.
func (b *builder) link(assets string, given, built []binary) (string, error) {
	key := sha256.Sum256(fmt.Append([]byte(assets), given))
	dir := filepath.Join(b.cache, "with-assets-"+hex.EncodeToString(key[:4]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, bin := range binaries {
		from := b.cache
		if slices.Contains(given, bin) {
			from = assets
		}
		target, name := filepath.Join(from, bin.name), filepath.Join(dir, bin.name)
		if now, err := os.Readlink(name); err == nil && now == target {
			continue
		}
		temp := fmt.Sprintf("%s.%d", name, os.Getpid())
		if err := os.Symlink(target, temp); err != nil {
			return "", err
		}
		if err := os.Rename(temp, name); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// lastLines is the end of a log, short enough for an error message.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
