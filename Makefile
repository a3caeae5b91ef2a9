# `make help` lists what there is to type.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# sudo's PATH lacks the place where Go's own installer puts it.
GO ?= $(or $(shell command -v go),$(wildcard /usr/local/go/bin/go),go)
export PATH := $(patsubst %/,%,$(dir $(GO))):$(PATH)

# Tools and generated tables outlive a clone: CI and every checkout share them.
CACHE := $(or $(QUAVON_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/quavon)
TOOLS := $(CACHE)/tools

# A clone of another user's is still ours to describe (sudo make).
VERSION ?= $(shell git -c safe.directory=$(CURDIR) describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/quavon/quavon/commands.Version=$(VERSION)
GO_BUILD := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false

# Every module of this repository; each has its own versions.
MODULES := . gvisor tools

# The race detector needs cgo and so a C compiler.
RACE := $(if $(shell command -v gcc),-race)
# Never cached: tests depend on the kernel and on bin/.
TEST_FLAGS ?= $(RACE) -count=1 -timeout 20m
PKG ?= ./...
FUZZTIME ?= 10m
BENCH_RUNS ?= 20

GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint

# What makes releases. goreleaser 2.14.3 is the newest that builds with our Go.
export GORELEASER_VERSION := v2.14.3
export CYCLONEDX_VERSION := v1.10.0
export COSIGN_VERSION := v2.6.5
RELEASE_TOOLS := $(TOOLS)/goreleaser-$(GORELEASER_VERSION)/goreleaser \
	$(TOOLS)/cyclonedx-gomod-$(CYCLONEDX_VERSION)/cyclonedx-gomod $(TOOLS)/cosign-$(COSIGN_VERSION)/cosign

.PHONY: all
all: bin/quavon bin/quavon-guest bin/runsc ## build quavon, quavon-guest and runsc into bin/

# The Go command knows best what has changed; it links only then.
.PHONY: FORCE
bin/quavon bin/quavon-guest: bin/%: FORCE
	@$(GO_BUILD) -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

bin/runsc: gvisor/go.mod gvisor/go.sum $(wildcard gvisor/precompile/*.go) build/runsc.sh
	GO=$(GO) QUAVON_CACHE=$(CACHE) build/runsc.sh $@

.PHONY: test
test: all ## run every Go test, as root also those that need it (PKG=./runner/... for some)
	@{ rc=0; for m in $(if $(filter ./...,$(PKG)),$(MODULES),.); do \
		(cd $$m && $(CURDIR)/build/test.sh $(GO) '$(TEST_FLAGS)' $(PKG)) || rc=1; \
	done; exit $$rc; } | $(GO) run ./build/testsum $(if $(filter true,$(CI)),-no-skips)

.PHONY: lint
lint: $(GOLANGCI) ## lint and check the format of every module
	@for m in $(MODULES); do \
		(cd $$m && $(GOLANGCI) run --config $(CURDIR)/.golangci.yml ./...) || exit 1; \
	done

.PHONY: fmt
fmt: $(GOLANGCI) ## format every module with the pinned gofumpt
	@for m in $(MODULES); do (cd $$m && $(GOLANGCI) fmt --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: bench
bench: all ## measure what the documents promise (BENCH_RUNS=20)
	@GO=$(GO) RUNS=$(BENCH_RUNS) CACHE=$(CACHE) test/bench/run.sh

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME=10m (FUZZ=regexp for some)
	@GO=$(GO) build/fuzz.sh $(FUZZTIME) '$(or $(FUZZ),.)'

.PHONY: compat
compat: all ## run six public projects' tests outside and inside a sandbox (ONLY=name, KEEP=dir)
	@QUAVON_COMPAT_CACHE=$(CACHE)/compat $(GO) test -tags compat -count=1 -v -timeout 3h ./test/compat \
		-run "Projects/$(ONLY)" -report "$(CURDIR)/docs/compatibility.md" $(if $(KEEP),-keep "$(KEEP)")

.PHONY: images-test
images-test: all ## make real images, import them from every source, run in them (as root)
	@GO=$(GO) CACHE=$(CACHE) test/images/run.sh

.PHONY: install-faults
install-faults: all ## what may go wrong around an installation, by the command itself (as root, 5 minutes)
	$(GO) test -tags faults -run TestFaults -count=1 -v -timeout 20m ./test/install

.PHONY: install-test
install-test: all ## install on a real engine with Valkey and gVisor, change, upgrade, roll back, uninstall (as root)
	$(GO) test -count=1 -v -timeout 20m ./test/install

.PHONY: install-shipped
install-shipped: all ## the same with the images that Quavon ships, from the registries (as root; half an hour, 15 GB; SECRETS=dir)
	$(GO) test -tags shipped -run TestShipped -count=1 -v -timeout 120m ./test/install $(if $(SECRETS),-secrets "$(abspath $(SECRETS))")

.PHONY: sessions
sessions: all ## record what terminals show of install and doctor in docs/sessions (as root; needs tmux)
	$(GO) test -tags sessions -count=1 -v -timeout 40m ./test/install -run TestRecord

.PHONY: rootfs-test
rootfs-test: all ## compare big, odd and random file systems with the kernel's own (as root; 20 minutes, 20 GB)
	QUAVON_HEAVY=1 QUAVON_DEBIAN_TAR="$(wildcard $(CACHE)/images/debian-base.tar)" $(GO) test -tags heavy -count=1 -p 1 -timeout 60m \
		./imagebuild/rootfs ./imagebuild/ext4 ./runner/image/erofs

.PHONY: images-build
images-build: all ## build the six shipped images, run their tools in gVisor (as root; SECRETS=dir, KEEP=lock)
	@GO=$(GO) test/imagebuild/run.sh

.PHONY: scan-test
scan-test: all ## scan our own flaws and four public packages in the real image (as root; STATE=dir that has it)
	@GO=$(GO) test/scan/run.sh

.PHONY: release-check
release-check: $(RELEASE_TOOLS) ## make a release's files twice, compare, install and start them (as root; COLD=1, KEEP=dir)
	@TOOLS=$(TOOLS) CACHE=$(CACHE) build/release/check.sh

.PHONY: generate
generate: ## generate committed code anew, with pinned generators
	$(GO) generate ./...

.PHONY: setup-test
setup-test: ## install the Debian packages that the tests need
	@build/setup-test.sh

.PHONY: clean
clean: ## remove what make built here
	rm -rf bin dist

.PHONY: help
help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# golangci-lint carries the gofumpt we format with, so one pin does for both.
$(GOLANGCI): PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
$(TOOLS)/goreleaser-$(GORELEASER_VERSION)/goreleaser: PACKAGE := github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
$(TOOLS)/cyclonedx-gomod-$(CYCLONEDX_VERSION)/cyclonedx-gomod: PACKAGE := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)
$(TOOLS)/cosign-$(COSIGN_VERSION)/cosign: PACKAGE := github.com/sigstore/cosign/v2/cmd/cosign@$(COSIGN_VERSION)
$(GOLANGCI) $(RELEASE_TOOLS):
	@echo "building $(@F), once for this machine: minutes"
	GOFLAGS= CGO_ENABLED=0 GOBIN=$(@D) $(GO) install -trimpath -ldflags '-s -w' $(PACKAGE)
