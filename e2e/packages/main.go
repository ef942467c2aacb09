// Command packages renders and packages the Helm chart with Helm's own library, so that
// nobody needs the program helm to build or to test it.
//
//	packages render CHART [--namespace NS] [--kube-version V] [VALUES...]  print the objects
//	packages package CHART FOLDER                                            write an archive
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

const usage = `usage:
  packages render CHART [--namespace NS] [--kube-version V] [VALUES...]
        Prints the chart's objects as YAML; VALUES are files, later ones win.
  packages package CHART FOLDER
        Writes the chart as an archive and prints its path.
`

func main() {
	// Helm tells of each link that it follows.
	log.SetOutput(io.Discard)
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "packages: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) < 2 {
		return fmt.Errorf("too few arguments\n%s", usage)
	}
	command, dir := args[0], args[1]
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	namespace := flags.String("namespace", "grayrollout-system", "the release's namespace")
	version := flags.String("kube-version", "v1.37.0", "the cluster's version")
	if err := flags.Parse(args[2:]); err != nil {
		return err
	}
	switch {
	case command == "render":
		values, err := readValues(flags.Args())
		if err != nil {
			return err
		}
		text, err := render(dir, release{*namespace, *version}, values)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, text)
		return err
	case command == "package" && flags.NArg() == 1:
		loaded, err := loader.Load(dir)
		if err != nil {
			return err
		}
		archive, err := chartutil.Save(loaded, flags.Arg(0))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, archive)
		return err
	default:
		return fmt.Errorf("not understood\n%s", usage)
	}
}

func readValues(files []string) (chartutil.Values, error) {
	values := map[string]any{}
	for _, file := range files {
		more, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return nil, err
		}
		values = chartutil.CoalesceTables(more, values)
	}
	return values, nil
}

// release is where a chart is to be installed.
type release struct{ namespace, kubeVersion string }

// render gives what `helm template --include-crds` prints, each object as a document.
func render(dir string, into release, values chartutil.Values) (string, error) {
	loaded, err := loader.Load(dir)
	if err != nil {
		return "", err
	}
	version, err := chartutil.ParseKubeVersion(into.kubeVersion)
	if err != nil {
		return "", err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	options := chartutil.ReleaseOptions{Name: "grayrollout", Namespace: into.namespace, Revision: 1, IsInstall: true}
	// The values are held against values.schema.json here.
	all, err := chartutil.ToRenderValues(loaded, values, options, capabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Engine{Strict: true}.Render(loaded, all)
	if err != nil {
		return "", err
	}
	var names []string
	for name := range files {
		if path.Ext(name) == ".yaml" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		for _, document := range strings.Split(files[name], "\n---\n") {
			document = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(document), "---"))
			if document != "" {
				fmt.Fprintf(&text, "---\n%s\n", document)
			}
		}
	}
	return text.String(), nil
}
