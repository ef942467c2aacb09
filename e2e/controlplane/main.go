// Command controlplane builds and runs a real Kubernetes control plane on loopback,
// without containers, for end-to-end tests: etcd, kube-apiserver,
// kube-controller-manager, and kwok in place of kubelets.
//
//	controlplane build                             build what the cache lacks, print its folder
//	controlplane up [--dir DIR] [--audit] [--keep] run one until standard input ends
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage:
  controlplane build
        Builds the binaries that the cache lacks and prints the folder they are in.
  controlplane up [--dir DIR] [--audit] [--keep]
        Builds what is missing, starts a control plane on free loopback ports, prints
        one line of JSON when it is usable, and runs until standard input ends, or
        until SIGINT or SIGTERM.
`

var errStopped = errors.New("stopped")

func main() {
	// A reader that went away must not end this process before it has cleaned up.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "controlplane: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return flag.ErrHelp
	}
	flags := flag.NewFlagSet("controlplane "+args[0], flag.ContinueOnError)
	flags.Usage = func() {}
	flags.SetOutput(os.Stderr)
	var opts upOptions
	switch args[0] {
	case "build":
	case "up":
		flags.StringVar(&opts.dir, "dir", "", "folder for all files; removed at the end if it did not exist")
		flags.BoolVar(&opts.audit, "audit", false, "write an audit log at level Metadata")
		flags.BoolVar(&opts.keep, "keep", false, "run on when standard input ends")
	default:
		return flag.ErrHelp
	}
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 {
		return flag.ErrHelp
	}
	starter := newStarter()
	if args[0] == "build" {
		dir, err := build(ctx, starter)
		if err == nil {
			fmt.Println(dir)
		}
		return err
	}
	if !opts.keep && !isTerminal(os.Stdin) {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel(fmt.Errorf("standard input ended (--keep runs on without it): %w", errStopped))
		}()
	}
	return up(ctx, starter, opts)
}
