# Everything a developer needs is a target here; `make` alone explains them.
# Tools are pinned in tools/go.mod and run by `go tool`: nothing is downloaded by hand.

SHELL := /bin/bash
.SHELLFLAGS := -o errexit -o nounset -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# ---- Settings, to be given on the command line: make images REGISTRY=registry.example.org/team

# Registry (and path) to push images to; needed only for a cluster of KUBECONFIG.
REGISTRY ?=
# Number of nodes of the local cluster.
NODES ?= 1
# Name of the local cluster.
CLUSTER ?= porpoise
# Tiers of tests that `make test` leaves out, by name: SKIP=e2e or SKIP="mysql e2e".
SKIP ?=
# Packages and tests to run in the tier's target: PKG=./internal/agent/... RUN=TestClone
PKG ?=
RUN ?=
# How long each fuzz test runs.
FUZZTIME ?= 30s
# 1 leaves the cluster of a failed or finished end-to-end test standing.
KEEP ?=

# A shell set up by hack/cluster-env has the local cluster's own KUBECONFIG: that is no cluster of somebody else's.
ifeq ($(KUBECONFIG),/var/lib/porpoise-cluster/$(CLUSTER)/kubeconfig)
override KUBECONFIG :=
unexport KUBECONFIG
endif

TAGGED_VERSION := $(shell git describe --tags --dirty --match 'v*' 2>/dev/null)
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DIRTY := $(if $(shell git status --porcelain --untracked-files=no 2>/dev/null),-dirty)
VERSION ?= $(or $(TAGGED_VERSION),v0.0.0-$(COMMIT)$(DIRTY))

MODULE := github.com/porpoise-dev/porpoise
LDFLAGS := -s -w -X $(MODULE)/internal/version.version=$(VERSION) -X $(MODULE)/internal/version.commit=$(COMMIT)
BINARIES := manager agent kubectl-porpoise
TIERS := unit apiserver mysql e2e

TOOL := go tool -modfile=tools/go.mod
STEP := hack/step
IMAGES := go run ./hack/images
CLUSTER_CLI := go -C test/cluster run . --name $(CLUSTER)
# The race detector needs a C compiler; without one the tests run all the same.
RACE := $(if $(shell command -v gcc),-race)
GO_MODULES := . tools test/cluster test/cluster/kube
# What `make generate manifests docs` writes, and nothing else does.
GENERATED := api config/crd/bases config/rbac/role.yaml docs/reference

export PORPOISE_IMAGES := $(CURDIR)/bin/images/images.json
export CLUSTER

##@ General

.PHONY: help
help: ## Explain every target
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make TARGET [SETTING=value]" } \
	  /^##@ / { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) } \
	  /^[a-z][a-z0-9-]*:.*## / { printf "  \033[36m%-15s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\n\033[1mSettings\033[0m\n'
	@awk '/^# ----/ { on = 1; next } /^TAGGED/ { exit } on && /^# / { text = text (text ? " " : "") substr($$0, 3) } \
	  on && /^[A-Z]+ \?=/ { printf "  \033[36m%-15s\033[0m %s\n", $$1, text ? text : "as above"; text = "" }' $(firstword $(MAKEFILE_LIST))

.PHONY: deps
deps: ## Install the Debian packages that building and testing need (root; quick when they are there)
	@hack/deps

.PHONY: clean
clean: ## Remove what was built in this tree; the caches outside of it stay
	rm -rf bin

.PHONY: clean-cache
clean-cache: ## Remove the caches outside of the tree: Kubernetes and MySQL are built anew next time
	rm -rf "$${PORPOISE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/porpoise}" /var/cache/porpoise

##@ Code

.PHONY: generate
generate: ## Write deep copy functions of the API types
	$(TOOL) controller-gen object paths=./api/...

.PHONY: manifests
manifests: ## Write CRDs and the operator's RBAC from the markers in the code
	$(TOOL) controller-gen crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	$(TOOL) controller-gen rbac:roleName=porpoise-manager paths=./controllers/... paths=./cmd/... output:rbac:artifacts:config=config/rbac

.PHONY: docs
docs: ## Write the reference of the API from its types
	@mkdir -p docs/reference
	$(TOOL) crd-ref-docs --source-path=./api --config=hack/docs/crd-ref-docs.yaml --renderer=markdown \
	  --log-level=ERROR --output-path=docs/reference/api.md

.PHONY: verify
verify: ## Prove that generated files are fresh, modules tidy and the code formatted
	@$(STEP) generate $(MAKE) generate manifests docs
	@$(STEP) generated-files-fresh hack/unchanged $(GENERATED)
	@for module in $(GO_MODULES); do name=$${module/#./root}; \
	  $(STEP) "tidy-$${name//\//-}" go -C $$module mod tidy -diff; done
	@$(STEP) format hack/formatted

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) golangci-lint fmt ./...
	cd test/cluster && go tool -modfile=../../tools/go.mod golangci-lint fmt ./...

.PHONY: vet
vet: ## Run go vet on every tier's code
	go vet -tags apiserver,mysql,e2e ./...
	go -C test/cluster vet ./...

# test/cluster/kube is left out: three short programs whose type check would load all of Kubernetes.
.PHONY: lint
lint: ## Run the linters of .golangci.yml on every tier's code
	@$(STEP) lint $(TOOL) golangci-lint run ./...
	@$(STEP) lint-test-cluster env -C test/cluster go tool -modfile=../../tools/go.mod golangci-lint run ./...

##@ Build

.PHONY: build
build: ## Build the static binaries manager, agent and kubectl-porpoise into bin/
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(BINARIES))

.PHONY: images
images: build ## Build the operator image and the MySQL image for tests (the latter once, then cached)
	@$(IMAGES) operator --version $(VERSION) --revision $(COMMIT)
	@$(IMAGES) mysql

.PHONY: images-push
images-push: images ## Push the images: make images-push REGISTRY=registry.example.org/team
	@$(if $(REGISTRY),,echo "images-push: give REGISTRY=host[:port][/path]" >&2; exit 2)
	@$(IMAGES) push --registry $(REGISTRY)

##@ Kubernetes (the local one, or that of KUBECONFIG if it is set)

.PHONY: cluster
cluster: ## Start the local Kubernetes: make cluster NODES=3 (the first time builds it, about 10 minutes)
	@$(if $(KUBECONFIG),echo "using the cluster of KUBECONFIG=$(KUBECONFIG)",$(CLUSTER_CLI) up --nodes $(NODES))

.PHONY: cluster-down
cluster-down: ## Stop the local Kubernetes and remove everything of it
	@$(CLUSTER_CLI) down

.PHONY: image-load
image-load: images cluster ## Bring the images to the cluster's nodes (or to REGISTRY for that of KUBECONFIG)
	@hack/image-load

.PHONY: deploy
deploy: image-load ## Install CRDs and operator in the cluster, and wait until the operator runs
	@hack/deploy up

.PHONY: undeploy
undeploy: ## Remove the operator and its CRDs, and with them all MySQLClusters
	@hack/deploy down

.PHONY: demo
demo: ## Show a replicated MySQL: Kubernetes, operator, three instances, a lost replica that comes back
	@echo "building the demo (up to a minute the first time)"
	@go run ./hack/demo --nodes $(NODES)

.PHONY: demo-down
demo-down: ## Remove what the demo made: the local cluster, or our objects from that of KUBECONFIG
	@go run ./hack/demo down

##@ Tests

.PHONY: test
test: ## Run all tiers of tests; leave some out by name: make test SKIP=e2e
	@$(foreach tier,$(filter-out $(TIERS),$(SKIP)),echo "SKIP=$(tier): there is no such tier; want some of: $(TIERS)" >&2; exit 2;)
	@$(MAKE) deps
	@for tier in $(filter-out $(SKIP),$(TIERS)); do $(MAKE) test-$$tier; done
	@for tier in $(SKIP); do printf '\033[1;33m!!! tests of tier "%s" were NOT run: switched off by SKIP\033[0m\n' $$tier; done
	@echo "all tests passed in tiers: $(filter-out $(SKIP),$(TIERS))"

# The race detector is for the packages that live by concurrency and need no Kubernetes libraries, which it would compile
# anew for many minutes; `make test-race` runs all of them under it.
RACE_PACKAGES := ./internal/agent/... ./internal/agentclient ./internal/mysql ./internal/mycnf

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go (a minute; the first time it compiles for some)
	@$(STEP) test-unit go test $(if $(RUN),-run '$(RUN)') $(or $(PKG),$$(go list ./... | grep -v /test/sim))
	@$(if $(PKG),,$(STEP) test-race go test $(RACE) $(if $(RUN),-run '$(RUN)') $(RACE_PACKAGES))
	@$(if $(PKG),,$(STEP) test-sim go test -timeout 30m -v $(if $(RUN),-run '$(RUN)') ./test/sim)
	@$(if $(PKG),,$(STEP) test-unit-cluster go -C test/cluster test ./...)

.PHONY: test-race
test-race: ## Run all unit tests and those against an API server under the race detector (long)
	@$(STEP) test-race-unit go test $(RACE) ./...
	@hack/test-tier apiserver $(RACE)

.PHONY: test-apiserver
test-apiserver: ## Run the tests against a real API server without nodes (minutes)
	@hack/test-tier apiserver

.PHONY: test-mysql
test-mysql: ## Run the tests that start real mysqld processes on this machine (minutes)
	@hack/test-tier mysql $(RACE)

.PHONY: test-e2e
test-e2e: images ## Run the end-to-end tests on a local Kubernetes of three nodes, or on that of KUBECONFIG
	@hack/test-e2e

.PHONY: test-registry
test-registry: images ## Push to a registry, and deploy from it to a fresh local Kubernetes without images (minutes; not in `make test`)
	@$(STEP) test-registry go test -tags e2e -count=1 -timeout 20m -v $(if $(RUN),-run '$(RUN)') ./test/registry

.PHONY: sim
sim: ## Simulate SCHEDULES schedules from SEED: every failover rule against the model of agents and mysqlds
	@$(STEP) sim go test -count=1 -timeout 24h -v ./test/sim -run TestSchedules -schedules $(or $(SCHEDULES),100000) -seed $(or $(SEED),0)

.PHONY: chaos
chaos: ## Break real agents and mysqlds for RUNS rounds from SEED (ROUND: one of them alone), and look for lost writes
	@PORPOISE_MYSQL_BIN=$$(go run ./hack/images mysql-host) $(STEP) chaos go test -tags mysql -count=1 -timeout 24h -v ./test/chaos -run TestChaos -rounds $(or $(RUNS),200) -seed $(or $(SEED),0) -round $(or $(ROUND),0)

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME each
	@hack/fuzz $(FUZZTIME)

.PHONY: bench-create
bench-create: ## Measure creation, idle cost and durability cost, on a local Kubernetes of its own, for docs/benchmarks.md
	@go run ./test/bench all --update-docs

.PHONY: bench-failover
bench-failover: ## Measure failover on agents alone, then failover and switchover on a local Kubernetes of its own, for docs/benchmarks.md
	@go run ./test/bench failover-agents --update-docs
	@go run ./test/bench failover --update-docs

# Settings that the scripts read.
export REGISTRY NODES PKG RUN KEEP
