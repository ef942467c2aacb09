// Command node is what runs in the containers of e2e-node: a web server that ends gracefully, or,
// built with -X main.mode=pause, the process that holds a pod's namespaces.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var mode = "web"

const (
	// It starts slowly, so that readiness matters.
	startup = time.Second
	// After being asked to end it still answers for a while: whoever picks pods by their
	// readiness hears of the end a little later.
	lingers = 5 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if mode == "pause" {
		<-ctx.Done()
		return
	}
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	ready := time.Now().Add(startup)
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if time.Now().Before(ready) || ctx.Err() != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, os.Getenv("VERSION"))
	})
	server := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	time.Sleep(lingers)
	end, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := server.Shutdown(end); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
