package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// children are the processes of one control plane.
type children struct {
	starter *starter
	binDir  string
	dir     string // log and pid files go here
	// fail is told of the first child that ends unasked.
	fail context.CancelCauseFunc

	stopping chan struct{}
	waiting  sync.WaitGroup
	started  []*exec.Cmd
}

// exitError says that a child ended unasked.
type exitError struct {
	name, state, log, tail string
}

func (e *exitError) Error() string {
	return fmt.Sprintf("%s ended unexpectedly: %s; the end of %s:\n%s", e.name, e.state, e.log, e.tail)
}

// portTaken tells whether another process took a port between its choice and its use.
func portTaken(err error) bool {
	var exit *exitError
	return errors.As(err, &exit) && strings.Contains(exit.tail, "address already in use")
}

func (c *children) start(name string, args ...string) error {
	logPath := filepath.Join(c.dir, name+".log")
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(c.binDir, name), args...)
	cmd.Dir = c.dir
	// No more than this: etcd takes options from ETCD_*, kwok from KWOK_* and the home.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "TMPDIR=" + c.dir}
	cmd.Stdout, cmd.Stderr = log, log
	if err := c.starter.start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	c.started = append(c.started, cmd)
	c.waiting.Go(func() {
		_ = cmd.Wait()
		select {
		case <-c.stopping:
		default:
			text, _ := os.ReadFile(logPath)
			c.fail(&exitError{name, cmd.ProcessState.String(), logPath, lastLines(string(text))})
		}
	})
	pid := strconv.Itoa(cmd.Process.Pid)
	return os.WriteFile(filepath.Join(c.dir, name+".pid"), []byte(pid+"\n"), 0o600)
}

// stop kills all children, as nothing they hold is worth keeping, and waits for them.
func (c *children) stop() {
	close(c.stopping)
	for _, cmd := range c.started {
		_ = cmd.Process.Kill()
	}
	c.waiting.Wait()
}
