# Every target is one plain command or a short script; `make help` lists them.
GO ?= go
GOLANGCI_LINT_VERSION = v2.15.0
GOVULNCHECK_VERSION = v1.9.0
NFPM_VERSION = v2.48.0
PREFIX ?= $(HOME)/.local
# Tools are built once into this folder, at the versions above.
TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mcp-funnel-tools
VERSION ?= $(shell packaging/scripts/version)
LDFLAGS = -s -w -X main.version=$(VERSION)
# The version comes by LDFLAGS. Without -buildvcs=false Go asks git for it as well, which
# refuses, and so fails the build, in a clone that belongs to another user.
BUILD = $(GO) build -buildvcs=false -trimpath
PACKAGE = GO='$(GO)' TOOLS='$(TOOLS)' NFPM_VERSION=$(NFPM_VERSION) VERSION='$(VERSION)'

.PHONY: help build install demo test e2e conformance lint vuln cross deb deb-test release soak fuzz bench faults faults-short clean

help: ## show this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

build: bin/mcp-funnel ## build bin/mcp-funnel

bin/mcp-funnel: FORCE
	CGO_ENABLED=0 $(BUILD) -ldflags '$(LDFLAGS)' -o $@ ./cmd/mcp-funnel

install: bin/mcp-funnel ## install into ~/.local/bin (PREFIX=…)
	install -D -m 755 bin/mcp-funnel $(DESTDIR)$(PREFIX)/bin/mcp-funnel
	@case ":$$PATH:" in *:$(PREFIX)/bin:*) ;; *) echo "note: $(PREFIX)/bin is not in your PATH" ;; esac

demo: bin/mcp-funnel ## build, then show in ten seconds what it does
	bin/mcp-funnel demo

test: ## run all tests (installs dbus-daemon when it may)
	GO='$(GO)' packaging/scripts/test

e2e: bin/mcp-funnel ## run it against real servers, clients and a panel (T=claude/call)
	GO='$(GO)' T='$(T)' packaging/scripts/e2e

conformance: bin/mcp-funnel ## run the MCP conformance suites through it, and a client that uses everything
	GO='$(GO)' T='(conformance|bridge)' packaging/scripts/e2e

lint: ## vet for all systems, gofmt, golangci-lint, govulncheck
	GO='$(GO)' TOOLS='$(TOOLS)' GOLANGCI_LINT_VERSION=$(GOLANGCI_LINT_VERSION) GOVULNCHECK_VERSION=$(GOVULNCHECK_VERSION) packaging/scripts/lint

cross: ## compile for every system we ship to
	GO='$(GO)' packaging/scripts/cross

deb: ## build a Debian package into dist, in place of older ones
	rm -f dist/mcp-funnel_*.deb
	$(PACKAGE) packaging/scripts/package dist $$($(GO) env GOARCH) deb

deb-test: ## install, run, upgrade and purge that package here; needs root
	$(PACKAGE) packaging/scripts/deb-test

release: ## build all packages of a release into dist
	$(PACKAGE) packaging/scripts/release

soak: ## ten minutes of mixed load and crashes (SOAK_TIME=10m); fails on a trend
	$(GO) test -tags soak -run '^TestSoak$$' -v -count=1 -timeout 2h ./cmd/mcp-funnel

fuzz: ## run every fuzz target for FUZZTIME (60s)
	GO='$(GO)' packaging/scripts/fuzz

bench: bin/mcp-funnel ## measure packages, and the whole path against a byte relay
	CGO_ENABLED=0 $(BUILD) -o bin/bench ./cmd/mcp-funnel/bench
	$(GO) test -run '^$$' -bench . -benchmem -benchtime 0.3s ./core/jsonrpc ./cmd/mcp-funnel/bench
	bin/bench -app bin/mcp-funnel

faults: bin/mcp-funnel bin/faults ## break servers in every way, and write packaging/faults.md (N=http)
	bin/faults -app bin/mcp-funnel $(if $(N),-only '$(N)',-o packaging/faults.md)

faults-short: bin/mcp-funnel bin/faults ## the faults that take seconds, for a busy machine
	bin/faults -app bin/mcp-funnel -short

bin/faults: FORCE
	CGO_ENABLED=0 $(BUILD) -o $@ ./cmd/mcp-funnel/faults

clean: ## remove what was built
	rm -rf bin dist

FORCE:
