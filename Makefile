# Deskfork. `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO        ?= go
LINT      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -s -w -X main.version=$(VERSION)
# vmhost has libvpx and libc in itself: see docs/decisions/0012-libvpx-in-one-static-file.md.
STATIC    := -linkmode external -extldflags "-static"
# Where images and machines lie; the tests have a place of their own.
ifeq ($(shell id -u),0)
DATA      ?= /var/lib/deskfork
TESTDATA  ?= /var/cache/deskfork
else
DATA      ?= $(or $(XDG_DATA_HOME),$(HOME)/.local/share)/deskfork
TESTDATA  ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/deskfork
endif
IMAGE     := images/debian-xfce
VMHOST     = bin/vmhost --data-dir $(DATA)

export DATA TESTDATA

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: up
up: ## from a bare machine to a desktop under control
	@scripts/up.sh

.PHONY: down
down: ## stop what `make up` started; ALL=1 removes every other desktop too
	@scripts/down.sh

.PHONY: deps
deps: ## install the Debian packages to build and run
	@scripts/deps.sh run image build

.PHONY: build
build: ## bin/vmhost, bin/guestd, bin/guest-helper
	@mkdir -p bin
	CGO_ENABLED=1 $(GO) build -trimpath -tags netgo,osusergo -ldflags '$(LDFLAGS) $(STATIC)' -o bin/vmhost ./cmd/vmhost
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w' -o bin/guestd ./cmd/guestd
	CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -tags robotgo -ldflags '-s -w' -o bin/guest-helper ./cmd/guesthelper

.PHONY: web
web: ## web/dist, the pages in vmhost, from web/src; wants Node 20, see docs/decisions/0013-built-pages-are-committed.md
	@[ -d web/node_modules/vite ] && [ web/node_modules/.package-lock.json -nt web/package-lock.json ] || npm ci --prefix web
	npm run --prefix web build

.PHONY: cross
cross: ## guestd for the other guests
	GOOS=windows CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/guestd
	GOOS=darwin CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/guestd

.PHONY: image
image: deps build ## build the image debian-xfce into DATA unless it is there
	$(VMHOST) image build $(IMAGE)

.PHONY: check
check: static ## the quick proof: build, vet, lint, unit tests with -race, arch rules
	GORACE=atexit_sleep_ms=50 $(GO) test -race ./...

.PHONY: static
static: cross vet lint

.PHONY: vet
vet:
	$(GO) build ./...
	$(GO) vet -tags integration,robotgo,more ./...

.PHONY: lint
lint:
	@scripts/lint.sh $(LINT)

.PHONY: fmt
fmt: ## format the Go code
	@scripts/lint.sh $(LINT) fmt

.PHONY: test
test: ## everything that proves the project, real guest included
	@scripts/test.sh

.PHONY: test-more
test-more: build ## the long forms of tests on a real guest: fifty cycles of all verbs, workspaces in trouble
	@scripts/test.sh more

.PHONY: bench
bench: ## side by side figures of one desktop, see docs/BENCHMARKS.md
	@scripts/bench.sh desktop

.PHONY: bench-fork
bench-fork: ## the same of creation, forks, rest and many desktops at once; wants the machine for itself
	@scripts/bench.sh fork

.PHONY: bench-workspace
bench-workspace: ## the same of checkpoints and restores of a workspace in S3, against restic
	@scripts/bench.sh workspace

.PHONY: bench-viewer
bench-viewer: ## the same of what people see of a desktop, against noVNC
	@scripts/bench.sh viewer

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
