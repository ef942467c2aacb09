package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

//go:embed manifests
var manifests embed.FS

//go:embed stages
var stages embed.FS

const (
	startTimeout = 3 * time.Minute
	portAttempts = 5
	serviceCIDR  = "10.96.0.0/16"
)

// serviceIP is the address of the service kubernetes.default.
var serviceIP = net.IPv4(10, 96, 0, 1)

type upOptions struct {
	dir         string
	audit, keep bool
}

// upResult is what up prints when the control plane is usable.
type upResult struct {
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	CAFile     string `json:"caFile"`
	Dir        string `json:"dir"`
	BinDir     string `json:"binDir"`
	AuditLog   string `json:"auditLog"`
}

// up runs a control plane until ctx ends.
func up(ctx context.Context, s *starter, opts upOptions) (err error) {
	binDir, err := build(ctx, s)
	if err != nil {
		return err
	}
	work, err := openWorkdir(opts.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.close()) }()
	for attempt := 1; ; attempt++ {
		err = runPlane(ctx, s, work.path, binDir, opts.audit)
		if !portTaken(err) || attempt == portAttempts {
			return err
		}
		fmt.Fprintln(os.Stderr, "a port was taken meanwhile, starting again on others")
	}
}

// runPlane starts everything once and returns nil if ctx ended after it was ready.
func runPlane(ctx context.Context, s *starter, dir, binDir string, audit bool) error {
	began := time.Now()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	kids := &children{starter: s, binDir: binDir, dir: dir, fail: fail, stopping: make(chan struct{})}
	defer kids.stop()

	result, err := startPlane(ctx, kids, audit)
	var exit *exitError
	if errors.As(context.Cause(ctx), &exit) {
		return exit
	}
	if err != nil {
		return fmt.Errorf("the control plane did not start: %w", err)
	}
	fmt.Fprintf(os.Stderr, "control plane ready in %.1f s: %s\n", time.Since(began).Seconds(), result.Kubeconfig)
	line, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if _, err := fmt.Println(string(line)); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	<-ctx.Done()
	if errors.As(context.Cause(ctx), &exit) {
		return exit
	}
	return nil
}

func startPlane(ctx context.Context, kids *children, audit bool) (*upResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("gave up after %s", startTimeout))
	defer cancel()
	file := func(name string) string { return filepath.Join(kids.dir, name) }
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	result := &upResult{
		Kubeconfig: file(adminUser.file),
		Server:     fmt.Sprintf("https://127.0.0.1:%d", ports[0]),
		CAFile:     file(caFile),
		Dir:        kids.dir,
		BinDir:     kids.binDir,
	}
	if audit {
		result.AuditLog = file("audit.log")
	}
	client, err := writeFiles(kids.dir, result.Server)
	if err != nil {
		return nil, err
	}
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	if err := kids.start("etcd", etcdArgs(etcd, fmt.Sprintf("http://127.0.0.1:%d", ports[2]))...); err != nil {
		return nil, err
	}
	if err := kids.start("kube-apiserver", apiserverArgs(etcd, ports[0], result.AuditLog)...); err != nil {
		return nil, err
	}
	if err := waitServing(ctx, client); err != nil {
		return nil, err
	}
	if err := kids.start("kube-controller-manager", managerArgs()...); err != nil {
		return nil, err
	}
	if err := kids.start("kwok", "--config=stages.yaml", "--kubeconfig="+kwokUser.file, "--v=WARN"); err != nil {
		return nil, err
	}
	return result, makeUsable(ctx, client)
}

// freePorts returns different ports of loopback that nothing listens on now.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// writeFiles writes what the children read and returns the administrator's client.
func writeFiles(dir, server string) (*api, error) {
	for _, leftover := range []string{etcdData, "audit.log"} {
		if err := os.RemoveAll(filepath.Join(dir, leftover)); err != nil {
			return nil, err
		}
	}
	ca, err := writePKI(dir)
	if err != nil {
		return nil, err
	}
	tokens, err := writeUsers(dir)
	if err != nil {
		return nil, err
	}
	if err := writeKubeconfigs(dir, server, ca, tokens); err != nil {
		return nil, err
	}
	policy, err := manifests.ReadFile("manifests/audit-policy.yaml")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "audit-policy.yaml"), policy, 0o600); err != nil {
		return nil, err
	}
	kwok, err := kwokConfig()
	if err != nil {
		return nil, err
	}
	err = os.WriteFile(filepath.Join(dir, "stages.yaml"), []byte(kwok), 0o600)
	return newAPI(server, ca, tokens[adminUser.name]), err
}

// kwokConfig joins the stages into one file. A line "#include FILE" is replaced by that
// file at the line's own indentation, as kwok's templates cannot share anything.
func kwokConfig() (string, error) {
	files, err := fs.Glob(stages, "stages/*.yaml")
	if err != nil {
		return "", err
	}
	var config strings.Builder
	for _, file := range files {
		text, err := stages.ReadFile(file)
		if err != nil {
			return "", err
		}
		config.WriteString("---\n")
		for line := range strings.Lines(string(text)) {
			indent, name, found := strings.Cut(line, "#include ")
			if !found {
				config.WriteString(line)
				continue
			}
			included, err := stages.ReadFile("stages/" + strings.TrimSpace(name))
			if err != nil {
				return "", fmt.Errorf("%s: %w", file, err)
			}
			for line := range strings.Lines(string(included)) {
				config.WriteString(indent + line)
			}
		}
	}
	return config.String(), nil
}
