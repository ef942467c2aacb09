package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	tempPrefix = "grayrollout-controlplane-"
	lockName   = "lock"
	etcdData   = "etcd"
)

// workdir is the folder of one control plane, locked while it runs.
type workdir struct {
	path string
	made bool
	lock *os.File
}

// openWorkdir locks path, or a new temporary folder if path is empty.
func openWorkdir(path string) (*workdir, error) {
	w := &workdir{path: path}
	var err error
	if path == "" {
		removeAbandoned()
		w.made = true
		w.path, err = os.MkdirTemp("", tempPrefix)
	} else if w.path, err = filepath.Abs(path); err == nil {
		if _, statErr := os.Stat(w.path); errors.Is(statErr, fs.ErrNotExist) {
			w.made = true
		}
		err = os.MkdirAll(w.path, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("folder for the control plane: %w", err)
	}
	if w.lock, err = tryLock(filepath.Join(w.path, lockName)); err != nil {
		return nil, fmt.Errorf("folder for the control plane: %w", err)
	}
	return w, nil
}

// close removes the folder, or the database alone if the folder was there before.
func (w *workdir) close() error {
	defer w.lock.Close()
	if w.made {
		return os.RemoveAll(w.path)
	}
	return os.RemoveAll(filepath.Join(w.path, etcdData))
}

// removeAbandoned removes temporary folders whose control plane was killed.
func removeAbandoned() {
	locks, _ := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*", lockName))
	for _, path := range locks {
		// A new lock file may not be locked yet.
		if info, err := os.Stat(path); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if lock, err := tryLock(path); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
			lock.Close()
		}
	}
}
