# The tasks of development and installation. `make` without a target lists them.
SHELL := /bin/sh
export PATH := $(PATH):/usr/sbin:/sbin
NODE := node_modules/.bin/node
# What runs when, and why: test/stages.ts.
# The parts of the stages `peers` and `peers-long`. Four run concurrently: racks of etcd wait most of the
# time, all others compute, and with five programs miss their own times. On CI, whose hosts are busy, two
# do not miss them; there the racks of etcd run beside parts that wait.
PEERS := peers-etcd peers-net peers-page attacks peers-agent peers-others
PEERS_LONG := long-etcd long-agent long-members long-changes long-peers
PEERS_ALL := $(PEERS) $(PEERS_LONG)
comma := ,
empty :=
parts = $(subst $(empty) $(empty),$(comma),$(1))

.PHONY: help
help: ## List the tasks
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 22

node_modules: package-lock.json
	npm ci --no-audit --no-fund
	@touch node_modules

.PHONY: demo
demo: ## Boot three machines from the network in a virtual rack. Installs the packages that it needs
	@scripts/demo.sh

.PHONY: test
test: ## Run check, unit, and a part of fuzz, peers and lab: up to 20 minutes (root). Installs the packages that it needs
	@scripts/prepare.sh test
	@scripts/test.sh check unit fuzz-short peers=$(call parts,$(PEERS)) lab

.PHONY: test-long
test-long: ## Run what make test leaves out (root)
	@scripts/prepare.sh test
	@scripts/test.sh fuzz peers-long=$(call parts,$(PEERS_LONG)) lab-long

.PHONY: test-all
test-all: ## Run both, as CI does: up to 45 minutes (root). No long part begins after 25 minutes
	@scripts/prepare.sh test
	@MUSTER_LONG_MINUTES=25 scripts/test.sh check unit fuzz peers-all=$(call parts,$(PEERS_ALL)) lab-all

.PHONY: check
check: node_modules ## Check formatting, types, the import rule and shell scripts
	@scripts/stage.sh check scripts/check.sh

.PHONY: provenance
provenance: node_modules ## Check the registry's signatures over all packages: needs the registry
	@scripts/stage.sh provenance npm audit signatures

.PHONY: unit
unit: node_modules ## Run the unit tests: no root, two minutes
	@scripts/stage.sh unit npx vitest run --project unit

.PHONY: fuzz fuzz-short
fuzz: node_modules ## Give every decoder at least 200,000 damaged inputs: no root
fuzz-short: node_modules ## The same with a quarter of the inputs
fuzz fuzz-short:
	@scripts/stage.sh $@ npx vitest run --project $@

.PHONY: peers peers-long peers-all $(PEERS_ALL)
peers: node_modules ## Run tests against real peers and attackers: root, in separate namespaces
	@$(call concurrently,$(PEERS))
peers-long: node_modules ## The long ones of them
	@$(call concurrently,$(PEERS_LONG))
peers-all: node_modules
	@$(call concurrently,$(PEERS_ALL))

concurrently = echo 'Several parts run concurrently; each prints its output when it is done.' && \
	$(MAKE) --no-print-directory --keep-going --jobs=$(if $(MUSTER_LONG_UNTIL),2,4) --output-sync=target $(1)

$(PEERS_ALL): node_modules
	@scripts/stage.sh $@ scripts/in-namespace.sh npx vitest run --project $@

peers-page lab lab-long lab-all: dist/page/index.html

.PHONY: lab lab-long lab-all
lab: node_modules ## Boot each kind of firmware in the virtual rack: real firmware in QEMU
lab-long: node_modules ## Run the other scenarios of the virtual rack
lab-all: node_modules
lab lab-long lab-all:
	@scripts/stage.sh $@ npx vitest run --project $@

.PHONY: bench
bench: ## Measure Muster and its peers in one run; writes bench/RESULTS.md (root). SUITES="store dhcp" runs some
	@scripts/prepare.sh bench
	scripts/in-namespace.sh $(NODE) bench/run.ts $(SUITES)

.PHONY: page
page: dist/page/index.html ## Build the web page into dist/page

dist/page/index.html: package-lock.json vite.config.ts $(shell find src/page -type f) | node_modules
	@npm run --silent build:page -- --logLevel warn

.PHONY: hooks
hooks: ## Have git check the titles of commits in this checkout
	@git config core.hooksPath scripts/hooks

.PHONY: docs
docs: node_modules ## Write the generated pages: ports, errors, metrics, events, reference, schemas
	@$(NODE) scripts/docs.ts

.PHONY: component-tables
component-tables: node_modules ## Ask the components of a version what they know: MINOR=1.38 BINARIES=DIR (or DOCUMENTS=DIR) SOURCE=DIR
	@MINOR=$(MINOR) BINARIES=$(BINARIES) DOCUMENTS=$(DOCUMENTS) SOURCE=$(SOURCE) $(NODE) scripts/ask-components.ts
	@$(MAKE) --no-print-directory docs

.PHONY: install
install: node_modules page ## Install command, service and units: DESTDIR=, PREFIX=/usr
	@DESTDIR="$(DESTDIR)" PREFIX="$(if $(PREFIX),$(PREFIX),/usr)" scripts/install.sh

.PHONY: deb
deb: node_modules page ## Build the Debian package into dist/
	@scripts/deb.sh

.PHONY: release
release: ## Build the files of a release from the commit, twice, into dist/release/: KEY=FILE signs them
	@KEY="$(KEY)" scripts/release.sh

.PHONY: torture
torture: ## Run the long tests that torture/README.md describes, for hours (root)
	@scripts/prepare.sh torture
	@$(MAKE) --no-print-directory page
	images/debian/build.sh
	images/probe/build.sh
	$(NODE) torture/run.ts
	@scripts/stage.sh torture scripts/in-namespace.sh npx vitest run --project torture; \
		scripts/summary.sh torture
	MUSTER_EVERY_EFFECT=1 scripts/in-namespace.sh npx vitest run --project long-agent test/peers/agent-kill.test.ts
	$(NODE) scripts/lab-record.ts
