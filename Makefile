# Everything here needs only Rust (rustup) and Go; `make` alone tells what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

TARGET := $(or $(CARGO_TARGET_DIR),target)
CONTROLPLANE := e2e/controlplane
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
CRD := crds/grayrollouts.yaml
KUBECTL ?= $(or $(shell command -v kubectl),$(TARGET)/e2e/kubectl)
PROVE_CASES ?= 100000

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
test: controlplane ## All tests: of the control plane, units, simulation, and end to end
	@echo "testing the control plane"
	@cd $(CONTROLPLANE) && go test -count=1 -timeout 30m ./...
	@echo "testing the operator: units, simulation, end to end"
	GRAYROLLOUT_BIN=$(abspath $(TARGET))/debug/grayrollout cargo test --workspace --all-targets

.PHONY: lint
lint: rust go ## Formats, lints, and whether generated files are current
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@cd $(CONTROLPLANE) && echo "gofmt -l $(CONTROLPLANE)" && \
		bad=$$(gofmt -l .) && if [ -n "$$bad" ]; then echo "not formatted, see gofmt -d: $$bad" >&2; exit 1; fi
	cd $(CONTROLPLANE) && go vet ./...
	@echo "$(CRD) is what crdgen prints"
	@cargo run --quiet --bin crdgen | diff -u $(CRD) - || { echo "$(CRD) is not current: run make generate" >&2; exit 1; }

.PHONY: prove
prove: rust ## The simulation at length: PROVE_CASES random histories (100000), from PROVE_SEED if given
	PROVE_CASES=$(PROVE_CASES) cargo test --release --package grayrollout --test simulation -- --nocapture

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
	@[ "$$(uname -s)" = Linux ] || { echo "make image needs Linux: the operator is linked statically for it" >&2; exit 1; }
	host=$$(rustc -vV | sed -n 's/^host: //p'); \
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --bin grayrollout --target "$$host"; \
	config/image/build.sh $(TARGET)/$$host/release/grayrollout grayrollout:$(VERSION) $(TARGET)/image/grayrollout-$(VERSION).tar

.PHONY: generate
generate: rust ## The files that are generated from code
	cargo run --quiet --bin crdgen >$(CRD).new
	mv $(CRD).new $(CRD)

.PHONY: controlplane
controlplane: rust go ## The local control plane: 8 to 16 minutes the first time, then cached
	@mkdir -p $(TARGET)/e2e
	@cd $(CONTROLPLANE) && go build -o $(abspath $(TARGET))/e2e/controlplane .
	@$(TARGET)/e2e/controlplane build >/dev/null

$(TARGET)/e2e/kubectl: | go
	@echo "kubectl is not on PATH: building it, some minutes the first time"
	@mkdir -p $(TARGET)/e2e
	@cd $(CONTROLPLANE) && CGO_ENABLED=0 go build -trimpath -o $(abspath $(TARGET))/e2e/kubectl k8s.io/kubernetes/cmd/kubectl

.PHONY: clean
clean: rust ## Removes what was built here; the control plane stays in its cache
	cargo clean

.PHONY: help
help:
	@echo "GrayRollout: staged rollouts for the Deployments you already have"
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ ./ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: rust go
rust:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust with rustup, see https://rustup.rs" >&2; exit 1; }

go:
	@command -v go >/dev/null || { echo "go is missing: install Go 1.26 or newer, see https://go.dev/doc/install" >&2; exit 1; }
