package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"
)

// What up takes for a port race must be what the children really say.
func TestATakenPortIsRecognised(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	bin, err := newCommand(t.Context(), nil, "build").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"etcd":           etcdArgs(url, "http://127.0.0.1:0"),
		"kube-apiserver": apiserverArgs("http://127.0.0.1:1", port, ""),
	} {
		ctx, fail := context.WithCancelCause(t.Context())
		kids := &children{
			starter: newStarter(), binDir: string(bytes.TrimSpace(bin)), dir: t.TempDir(),
			fail: fail, stopping: make(chan struct{}),
		}
		defer kids.stop()
		if _, err := writeFiles(kids.dir, url); err != nil {
			t.Fatal(err)
		}
		if err := kids.start(name, args...); err != nil {
			t.Fatal(err)
		}
		if cause := sleep(ctx, 20*time.Second); !portTaken(cause) {
			t.Errorf("%s: %v", name, cause)
		}
	}
}
