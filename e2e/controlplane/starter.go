package main

import (
	"os/exec"
	"runtime"
)

// starter starts processes that the kernel kills when this process ends, however it ends.
//
// The kernel sends that signal when the thread that started the child ends, so all
// children are started from one thread that never does.
type starter struct {
	jobs chan startJob
}

type startJob struct {
	cmd    *exec.Cmd
	result chan<- error
}

func newStarter() *starter {
	s := &starter{jobs: make(chan startJob)}
	go func() {
		runtime.LockOSThread()
		for job := range s.jobs {
			job.result <- job.cmd.Start()
		}
	}()
	return s
}

// start is cmd.Start for a child in a process group of its own, so that a Ctrl-C at
// the terminal reaches this process alone.
func (s *starter) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = childAttributes()
	result := make(chan error)
	s.jobs <- startJob{cmd, result}
	return <-result
}
