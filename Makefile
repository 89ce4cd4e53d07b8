# A Go 1.26 toolchain and make are all that these targets need.

GO ?= go
# All targets build with the same flags, so that Kubernetes' packages are compiled once. The tag grpcnotrace leaves out
# grpc's debug pages, which nothing here serves. Their templates call methods by name, and would keep every exported
# method of every package in the program: a third of its size.
export GOFLAGS := $(filter-out -trimpath -tags=%,$(GOFLAGS)) -trimpath -tags=grpcnotrace
# The tag invariants turns on the checks that are too slow for the product. -tags replaces the one in GOFLAGS.
CHECKED = -tags invariants,grpcnotrace
# How long "make fuzz" runs each fuzz target.
FUZZTIME ?= 10s

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## Simulate a bundled workload, replay its log, explain a pod: one minute at most
	$(GO) run ./cmd/rollcall demo

.PHONY: build
build: ## Build bin/rollcall, and bin/kubectl-rollcall for "kubectl rollcall"
	$(GO) build -ldflags=-s -o bin/rollcall ./cmd/rollcall
	$(GO) build -ldflags=-s -o bin/kubectl-rollcall ./cmd/kubectl-rollcall

# An hour's limit, so that a slow machine is not taken for a test that hangs.
.PHONY: test
test: ## Run all tests, with invariant checks
	$(GO) test $(CHECKED) -timeout 60m ./...
	cd examples/rack-limit && $(GO) test $(CHECKED) ./...

# The whole workloads of ../shared/data, under each queue policy too, 1,000 kills, at least 50,000 crash states, every bit
# of a log, 200 histories of schedulers that share a log while servers, links and disks fail, 50,000 histories of gangs
# (2,300 of each of 22 shapes) and 20,000 with a restart in their midst, 300 random worlds under an auditor, and every
# planted fault: more than three hours. "make test" runs a sample of all of it; docs/RELIABILITY.md has the figures. With
# ROLLCALL_WHOLE=1 the tests of which "make test" runs a sample try as much as that page says.
SOAK = ROLLCALL_SOAK=1 $(GO) test -count 1 -timeout 180m -v
.PHONY: soak
soak: ## What make test runs, at length: real workloads, kills, crash states, histories, planted faults
	$(SOAK) -run '^TestSoakRealWorkloads' ./cmd/rollcall/app
	$(SOAK) $(CHECKED) \
		-run '^(TestKilledAtAnyMoment|TestOnAFullDisk|TestAtTheLimitOfAFilesSize|TestAfterAFailedSync)' ./cmd/rollcall/app
	$(SOAK) $(CHECKED) -run '^TestAnAuditorFindsNothingInRandomWorlds$$' ./cmd/rollcall/app
	$(SOAK) $(CHECKED) -run '^(TestEveryCrashStateRecovers|TestEveryDamagedByteIsFoundOrUnused)$$' ./eventlog/boltlog
	$(SOAK) $(CHECKED) -run '^(TestRandomHistories|TestWrittenHistories)$$' ./test/histories
	$(SOAK) $(CHECKED) -run TestInvariantsHoldInGeneratedHistories ./scheduler -rapid.checks=2300
	$(SOAK) $(CHECKED) -run TestRestoredMachinesGoOnAsTheOriginal ./scheduler -rapid.checks=900

# Five rounds of all scenarios take three hours, and about one with BENCH="--skip-all-nodes --limit 15s". The machine
# should have nothing else to do. BENCH adds flags, such as BENCH="--rounds 1 --only shape,gangs".
.PHONY: bench-peer
bench-peer: ## Compare Rollcall with kube-scheduler: docs/PERFORMANCE.md and docs/peer.svg
	$(GO) run ./test/peer peer --into docs/PERFORMANCE.md --chart docs/peer.svg $(BENCH)

.PHONY: bench-curve
bench-curve: ## Pods a second as nodes and shapes grow in number: docs/PERFORMANCE.md and docs/curve.svg
	$(GO) run ./test/peer curve --into docs/PERFORMANCE.md --chart docs/curve.svg $(BENCH)

# The module e2e has the real API server and etcd as dependencies. The first run builds them, which takes several minutes.
# A test that needs a program which is not there (kubectl), or cannot be downloaded (helm), is skipped: -v has its reason
# in the output.
PROGRAMS = go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/kube-apiserver \
	k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-scheduler
.PHONY: e2e
e2e: ## Run "rollcall run" against a real API server: 12 minutes at most once its programs are built
	@echo "compiling etcd and Kubernetes; this takes minutes at the first time"
	@cd test/e2e && $(GO) list -export -deps $(PROGRAMS) >/dev/null # so that no test waits for a compiler
	@cd test/e2e/helm && $(GO) list -export -deps helm.sh/helm/v4/cmd/helm >/dev/null || \
		echo "helm cannot be built: if its modules cannot be downloaded, the tests that render the chart are skipped"
	cd test/e2e && $(GO) test -v -p 1 -timeout 60m ./...

.PHONY: soak-e2e
soak-e2e: ## The same with each fault a hundred times, and on an API server of 1.31
	@cd test/e2e/older && $(GO) list -export -deps k8s.io/kubernetes/cmd/kube-apiserver >/dev/null || \
		echo "kube-apiserver 1.31 cannot be built: the tests on it are skipped if its modules cannot be downloaded"
	cd test/e2e && ROLLCALL_SOAK=1 $(GO) test -p 1 -count 1 -timeout 180m -v .

# Kubernetes' own scheduler tests lie beside a checkout, in ../shared/upstream-exam; without them nothing is run, which is
# said. The first run builds them, which takes an hour on two processors; all of them run for an hour. EXAM names a
# package, and maybe tests of it: EXAM="scheduler/filters".
.PHONY: exam
exam: ## Run Kubernetes' scheduler tests with "rollcall run" in kube-scheduler's place: docs/CONFORMANCE.md
	cd test/e2e && $(GO) run ./exam --table ../../docs/CONFORMANCE.md $(EXAM)

.PHONY: exam-part
exam-part: ## A few of Kubernetes' scheduler tests, in a minute or two once they are built
	cd test/e2e && $(GO) run ./exam --part

.PHONY: cluster
cluster: ## Start a Kubernetes cluster with nodes on the loopback interface, until ^C
	@cd test/e2e && $(GO) run ./cmd/cluster $(CLUSTER)

# Three rounds take about 15 minutes; the machine should have nothing else to do. BENCH adds flags.
.PHONY: bench-live
bench-live: ## Compare Rollcall with kube-scheduler on a real API server
	cd test/e2e && $(GO) run ./bench $(BENCH)

.PHONY: lint
lint: lint-format lint-vet lint-staticcheck lint-rules ## gofmt, go vet, staticcheck, and our own rules (internal/lint)

.PHONY: lint-format
lint-format:
	@files="$$("$$($(GO) env GOROOT)/bin/gofmt" -l .)" && if [ -n "$$files" ]; then \
		echo "These files are not formatted; run gofmt -w on them:"; echo "$$files"; exit 1; fi

# Files that stand only without the tag are those of the packages below. The product, which is built without it, brings
# in all others.
UNTAGGED = $$(grep -rlE --include='*.go' --exclude-dir=testdata '^//go:build .*!invariants' . | xargs -n 1 dirname | sort -u)

.PHONY: lint-vet
lint-vet:
	$(GO) vet $(CHECKED) ./...
	$(GO) vet $(UNTAGGED) ./cmd/...
	cd test/e2e && $(GO) vet ./...
	cd examples/rack-limit && $(GO) vet $(CHECKED) ./...

.PHONY: lint-staticcheck
lint-staticcheck:
	$(GO) tool staticcheck $(CHECKED) ./...

.PHONY: lint-rules
lint-rules:
	$(GO) test ./internal/lint/...

# go test fuzzes one target of one package at a time. By default it would spend a minute on making each new input that
# reaches more code smaller: of a bundle it then tried two hundred in five minutes, and not two hundred thousand.
.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	@grep -rEo --include='*_test.go' --exclude-dir=testdata '^func Fuzz[A-Za-z0-9_]*' . | sort | \
	while IFS=: read -r file func; do \
		name="$${func#func }"; \
		echo "$(GO) test -fuzz '^$$name\$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$(dirname "$$file")"; \
		$(GO) test $(CHECKED) -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname "$$file")" || exit 1; \
	done
