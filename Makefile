# The tasks of development and installation. `make` without a target lists them.
SHELL := /bin/sh
export PATH := $(PATH):/usr/sbin:/sbin
NODE := node_modules/.bin/node
STAGES := check unit fuzz peers lab
# The parts of the stage `peers`. Three run concurrently, because etcd's members wait for each other most
# of the time.
PEERS := peers-others peers-etcd peers-changes attacks peers-page

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
test: ## Run everything that CI runs: check, unit, fuzz, peers, lab (root). Installs the packages that it needs
	@scripts/prepare.sh test
	@scripts/test.sh $(STAGES)

.PHONY: check
check: node_modules ## Check formatting, types, the import rule and shell scripts
	@scripts/stage.sh check scripts/check.sh

.PHONY: provenance
provenance: node_modules ## Check the registry's signatures over all packages: needs the registry
	@scripts/stage.sh provenance npm audit signatures

.PHONY: unit
unit: node_modules ## Run the unit tests: no root, under a minute
	@scripts/stage.sh unit npx vitest run --project unit

.PHONY: fuzz
fuzz: node_modules ## Give every decoder at least 200,000 damaged inputs: no root
	@scripts/stage.sh fuzz npx vitest run --project fuzz

.PHONY: peers $(PEERS)
peers: node_modules ## Run the tests against real peers and attackers: root, in separate namespaces
	@echo 'Three parts run concurrently; each prints its output when it is done.'
	@$(MAKE) --no-print-directory --keep-going --jobs=3 --output-sync=target $(PEERS)

$(PEERS): node_modules
	@scripts/stage.sh $@ scripts/in-namespace.sh npx vitest run --project $@

peers-page lab: dist/page/index.html

.PHONY: lab
lab: node_modules ## Run the scenarios of the virtual rack: real firmware in QEMU
	@scripts/stage.sh lab npx vitest run --project lab

.PHONY: bench
bench: ## Measure Muster and its peers in one run; writes bench/RESULTS.md (root). SUITES="store dhcp" runs some
	@scripts/prepare.sh bench
	scripts/in-namespace.sh $(NODE) bench/run.ts $(SUITES)

.PHONY: page
page: dist/page/index.html ## Build the web page into dist/page

dist/page/index.html: package-lock.json vite.config.ts $(shell find src/page -type f) | node_modules
	@npm run --silent build:page -- --logLevel warn

.PHONY: docs
docs: node_modules ## Write the generated pages: ports, errors, metrics, events, reference, schemas
	@$(NODE) scripts/docs.ts

.PHONY: install
install: node_modules page ## Install command, service and units: DESTDIR=, PREFIX=/usr
	@DESTDIR="$(DESTDIR)" PREFIX="$(if $(PREFIX),$(PREFIX),/usr)" scripts/install.sh

.PHONY: deb
deb: node_modules page ## Build the Debian package into dist/
	@scripts/deb.sh

.PHONY: torture
torture: ## Run the long tests that torture/README.md describes, for hours (root)
	@scripts/prepare.sh torture
	@$(MAKE) --no-print-directory page
	images/debian/build.sh
	images/probe/build.sh
	$(NODE) torture/run.ts
	@scripts/stage.sh torture scripts/in-namespace.sh npx vitest run --project torture; \
		scripts/summary.sh torture
	MUSTER_EVERY_EFFECT=1 scripts/in-namespace.sh npx vitest run --project peers-others test/peers/agent-kill.test.ts
	$(NODE) scripts/lab-record.ts lab/etcd-ha.yaml
	$(NODE) scripts/lab-record.ts lab/etcd-ha-staggered.yaml
