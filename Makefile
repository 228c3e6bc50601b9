# What can be done here. `make` lists it.
SHELL := /bin/sh
export PATH := $(PATH):/usr/sbin:/sbin
NODE := node_modules/.bin/node
STAGES := check unit fuzz peers lab
# The two halves of the stage `peers`. They run at the same time, because members of etcd wait for each
# other most of the time.
PEERS := peers-others peers-etcd

.PHONY: help
help: ## List what can be done
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 22

node_modules: package-lock.json
	npm ci --no-audit --no-fund
	@touch node_modules

.PHONY: demo
demo: ## Boot three machines from the network in a virtual rack. Installs what it needs
	@scripts/demo.sh

.PHONY: test
test: ## Everything that CI runs: check, unit, fuzz, peers, lab (root). Installs what it needs
	@scripts/prepare.sh test
	@scripts/test.sh $(STAGES)

.PHONY: check
check: node_modules ## Lint, types, import rule, shell scripts
	@scripts/stage.sh check scripts/check.sh

.PHONY: unit
unit: node_modules ## Unit tests: no root, under a minute
	@scripts/stage.sh unit npx vitest run --project unit

.PHONY: fuzz
fuzz: node_modules ## Every decoder with 200,000 damaged inputs and more: no root
	@scripts/stage.sh fuzz npx vitest run --project fuzz

.PHONY: peers $(PEERS)
peers: node_modules ## Tests against real peers: root, in two namespaces of their own
	@echo 'two halves side by side; each says what it saw when it is done'
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target $(PEERS)

$(PEERS): node_modules
	@scripts/stage.sh $@ scripts/in-namespace.sh npx vitest run --project $@

.PHONY: lab
lab: node_modules ## The virtual rack: real firmware in QEMU
	@scripts/stage.sh lab npx vitest run --project lab

.PHONY: bench
bench: ## Measure Muster and its peers in one run; writes bench/RESULTS.md (root). SUITES="store dhcp" runs some
	@scripts/prepare.sh bench
	scripts/in-namespace.sh $(NODE) bench/run.ts $(SUITES)

.PHONY: docs
docs: node_modules ## Write the pages that come from tables: ports, errors, metrics, events, reference, schemas
	@$(NODE) scripts/docs.ts

.PHONY: install
install: node_modules ## Install command, service and units: DESTDIR=, PREFIX=/usr
	@DESTDIR="$(DESTDIR)" PREFIX="$(if $(PREFIX),$(PREFIX),/usr)" scripts/install.sh

.PHONY: torture
torture: ## Cut the power under load: the store in QEMU, 20 times; then etcd's members lose their disks, 20 times (root)
	@scripts/prepare.sh torture
	$(NODE) torture/run.ts
	scripts/in-namespace.sh npx vitest run --project torture
