# `make help` lists the targets. What the machine lacks is installed by scripts/need.sh, which asks before using sudo.

SHELL := /bin/bash

# Where `make run` listens, and which server it starts (empty: the one on the PATH, else the distribution's).
PORT ?= 6379
SERVER ?=
# For `make servers` and `make test-servers`: names to take (empty: all) and names to leave out, with commas between.
SERVERS ?=
SKIP ?=
# Passed on to the test runner, such as ARGS='--test server' or ARGS='promise'.
ARGS ?=
# The folders of examples/ whose tests `make examples` runs, with commas between.
EXAMPLES ?= flask,express,axum,gateways
# Passed on to bench/run.py.
BENCH_ARGS ?=

target := $(or $(CARGO_TARGET_DIR),target)
cache := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/redis-limiters/servers
default_server := $(cache)/redis-7.0/redis-server
comma := ,
empty :=
space := $(empty) $(empty)

# The integration tests take their modules and their server from here.
RL_MODULE ?= $(abspath $(target))/release/libredis_limiters.so
RL_MODULE_PANIC ?= $(abspath $(target))/inject-panic/release/libredis_limiters.so
RL_SERVER ?= $(default_server)

export PORT SERVER SKIP RL_MODULE RL_MODULE_PANIC RL_SERVER

.DEFAULT_GOAL := help
.PHONY: help run demo build modules default-server test faults servers test-servers examples lint bench bench-server
.PHONY: pictures test-monitoring dist dist-arm test-dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build, then start a server with the module in the foreground on PORT (6379); SERVER= picks the binary
	@scripts/run.sh

demo: build default-server ## show the limiters side by side in the terminal, for about twenty seconds
	@scripts/need.sh python
	@python3 scripts/demo.py

build: ## build the module: target/release/libredis_limiters.so
	@scripts/need.sh build
	cargo build --release --locked

# The second module can be told to panic; it has a folder of its own so that nobody loads it by mistake.
modules: build
	cargo build --release --locked --features inject-panic --target-dir $(target)/inject-panic

default-server:
ifeq ($(RL_SERVER),$(default_server))
	@scripts/servers.sh redis-7.0
endif

# The README's client programs are run in Python; those in other languages are where the language is installed.
test: modules default-server ## run every test, against Redis 7.0 or RL_SERVER=
	@scripts/need.sh python
	cargo test --locked --no-fail-fast $(ARGS)
ifeq ($(ARGS),)
	python3 functions/test_rl.py
	python3 scripts/test_need.py
	python3 scripts/test_demo.py
	python3 scripts/pictures.py --check
endif

# Each brings what it needs, into the user's cache as far as it can.
examples: build default-server ## run the tests of examples/; EXAMPLES=flask,axum picks
	set -e; for example in $(subst $(comma),$(space),$(EXAMPLES)); do examples/$$example/test.sh; done

test-monitoring: modules default-server ## scrape a server with Prometheus: the queries of monitoring/ and its alerts
	@scripts/need.sh python
	python3 monitoring/test.py

faults: ## plant mistakes in a copy of the engine and show that the laws catch each
	@scripts/need.sh build python
	python3 scripts/planted_faults.py

servers: ## fetch and build the servers of test-servers into the cache; SERVERS= picks, SKIP= leaves out
	@scripts/servers.sh $(subst $(comma),$(space),$(SERVERS))

test-servers: modules ## run the integration tests on each of those servers and show a table
	@scripts/test-servers.sh $(subst $(comma),$(space),$(SERVERS)) -- $(ARGS)

lint: ## check formatting, clippy's warnings and, where shellcheck is installed, the scripts
	@scripts/need.sh build lint
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings
	@if command -v shellcheck >/dev/null; then set -x; shellcheck scripts/*.sh examples/*.sh examples/*/*.sh .ci/run; \
	else echo "shellcheck is not installed: the scripts are not checked"; fi

bench: ## measure the engine
	@scripts/need.sh build
	cargo bench --locked

bench-server: build default-server ## measure a real server, the module beside its rivals; BENCH_ARGS= is passed on
	@scripts/need.sh python
	python3 bench/run.py --server $(RL_SERVER) --module $(RL_MODULE) $(BENCH_ARGS)

pictures: build default-server ## draw docs/pictures anew from what the limiters answer
	@scripts/need.sh build python
	python3 scripts/pictures.py

dist: build ## pack the module: an archive, on Debian a package, and checksums, in target/dist
	@scripts/dist.sh

arm := aarch64-unknown-linux-gnu

# On x86_64. What comes out has been loaded in an emulator only.
dist-arm: ## build and pack the module for aarch64, in place of this machine's
	@scripts/need.sh build cross
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu=-I/usr/aarch64-linux-gnu/include \
	cargo build --release --locked --target $(arm)
	@RL_MODULE=$(abspath $(target))/$(arm)/release/libredis_limiters.so scripts/dist.sh

test-dist: dist default-server ## unpack, install, load and purge what `make dist` made; as root, it is installed for real
	@scripts/test-dist.sh

clean: ## remove what was built; the servers in the cache stay
	cargo clean
	rm -rf $(target)/inject-panic
