package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

var errLocked = errors.New("in use by another process")

// tryLock creates path if need be and locks it until the file is closed or the process
// ends. It fails with errLocked while another process holds the lock.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// waitLock is tryLock that waits for the other process until ctx ends, and says so.
func waitLock(ctx context.Context, path, what string) (*os.File, error) {
	defer tick(ctx, "waiting for "+what)()
	for {
		f, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// tick reports every few seconds on standard error that what still goes on, until the
// function it returns is called.
func tick(ctx context.Context, what string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	start := time.Now()
	go func() {
		for sleep(ctx, 5*time.Second) == nil {
			fmt.Fprintf(os.Stderr, "%s ... %.0f s\n", what, time.Since(start).Seconds())
		}
	}()
	return cancel
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
