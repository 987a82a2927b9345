# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. Everything is built into ./build and ./target; both may be deleted at
# any time.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build test test-gateways test-containers measure measure-vm mutants steady tidy
.PHONY: demo bench lab peers peers-test gateways fuzz install clean

# A Rust that `make setup` has just installed is not yet in the PATH.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
# Incremental compilation makes a build from nothing 1.4 times as long. `cargo` without make keeps it:
# its builds of single crates are separate.
export CARGO_INCREMENTAL ?= 0
# Debug information makes the build of all tests a fifth longer. Panics and failed expectations print
# their line without it; `cargo test` without make has it, for backtraces.
export CARGO_PROFILE_DEV_DEBUG ?= false
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
# The same packages as in cmake/Core.cmake. With others, dependencies would have other features, and
# cargo would build them twice.
CORE := cargo build --release --locked -p driveline-capi -p driveline-cli
CONFIGURE := cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDRIVELINE_CARGO_PROFILE=release --log-level=NOTICE
# Component libraries of examples/comp/graphs/five_processes.yaml.
DEMO := comp_camera comp_lane comp_detector comp_tracker comp_fusion
RELEASE = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/release
# The programs behind `driveline bench` and `driveline chaos`, found next to `driveline`.
LAB = cargo build --release --locked -p driveline-lab -p driveline-chaos && \
	install -D -t build/bin "$(RELEASE)/driveline-bench" "$(RELEASE)/driveline-chaos"

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24
	@echo "  variables             VIDEO= MODEL= SPEED_KMH= DEPLOY= (demo)  ROUNDS= (measure)  ONLY='step step' (test, measure, steady)  SECONDS= (fuzz)  PREFIX= (install)  ARGS= (bench, steady)"

setup: ## install the packages and the Rust for building and testing (Debian 12, Ubuntu 24.04 or newer)
	@tools/setup.sh test

build: ## build the core, the C++ SDK, the tools and the examples, optimised
	@tools/setup.sh demo
	$(CONFIGURE)
	cmake --build build -j $(JOBS)

test: ## test style, layers, licences, Rust, C++, models, sanitizers; without other middleware (test-gateways, measure)
	@tools/setup.sh test
	@python3 tools/run_tests.py $(ONLY)

test-gateways: ## test the gateways to other hosts and to ROS 2; builds Zenoh and CycloneDDS, installs Python packages into build/python
	@tools/setup.sh gateways
	@python3 tools/run_tests.py --gateways $(ONLY)

test-containers: ## test modules in containers: rights, restarts, images; installs podman, needs root, uses a storage of its own
	@tools/setup.sh containers
	@python3 tools/python_packages.py tools/packages/containers_python.txt build/python_containers
	cargo build --locked --workspace --lib --bins --tests --examples
	@python3 tools/test_containers.py $(ONLY)

measure: ## run long tests that judge durations: outages, slow links, other middleware; ROUNDS=3; for a release, not for a merge
	@tools/setup.sh gateways
	@tools/setup.sh peers
	@python3 tools/run_tests.py --measured --rounds $(or $(ROUNDS),3) $(ONLY)
	@echo "results: \`tools/measured.py\` prints them, --write writes them into docs/reliability.md"

measure-vm: ## run tests in qemu that need a special machine: NUMA nodes, an isolated core, a PREEMPT_RT kernel, suspend, a stepped clock; ONLY= part of a test's name
	@python3 tools/measure_vm.py $(ONLY)

mutants: ## test the tests: introduce ten bugs, one at a time, which tests must find; ONLY= some of them (tools/mutants.py --list)
	@python3 tools/mutants.py $(ONLY)

steady: ## run each test program 30 times in random order under a CPU load, for hours; continues where it ended; ARGS="--shard 1/4 --minutes 20"
	@tools/setup.sh $(if $(findstring --gateways,$(ARGS)),gateways,test)
	@python3 tools/steady.py $(ARGS) $(ONLY)

tidy: build ## run clang-tidy on the C++ of SDK and examples, for minutes; installs clang-tidy; ONLY= parts of paths
	@tools/setup.sh tidy
	@tools/tidy.py $(ONLY)

demo: ## run the perception pipeline in five processes; VIDEO=file MODEL=file.cfg use your own; DEPLOY=containers uses a container for each
	@DEPLOY="$(DEPLOY)" tools/demo.sh check "$(VIDEO)" "$(MODEL)" "$(SPEED_KMH)"
	@tools/setup.sh demo
	$(CONFIGURE)
	cmake --build build -j $(JOBS) --target driveline_core_build $(DEMO)
	@DEPLOY="$(DEPLOY)" tools/demo.sh run "$(VIDEO)" "$(MODEL)" "$(SPEED_KMH)"

lab: build ## build the laboratory (`driveline bench`, `driveline chaos`) into build/bin
	$(LAB)

bench: lab ## measure the latency of a link and this machine's floor; ARGS= as for `driveline bench link`
	build/bin/driveline bench link $(ARGS)

peers: ## build other middleware to compare with Driveline, into build/peers; installs Debian packages
	@tools/setup.sh peers
	$(CORE)
	$(LAB)
	@lab/peers/fastdds/fetch_latency_test.sh build/latency-test
	cmake -S lab/peers -B build/cmake-peers -G Ninja -DCMAKE_BUILD_TYPE=Release -DPEERS_DIR="$(CURDIR)/build/peers" \
		-DPEERS_DRIVELINE_LIBRARY="$(RELEASE)/libdriveline.so" \
		-DPEERS_LATENCY_TEST="$(CURDIR)/build/latency-test" --log-level=NOTICE
	cmake --build build/cmake-peers -j $(JOBS)
	cargo build --release --locked --manifest-path lab/peers/rust/Cargo.toml --target-dir build/cargo-peers
	install -t build/peers build/cargo-peers/release/iceoryx2 build/cargo-peers/release/zenoh
	@echo "in build/peers: $$(find build/peers -maxdepth 1 -type f -executable -printf '%f ')"
	@echo "\`driveline bench peers\` (make lab) lists built and missing peers, with --settings their settings"

peers-test: peers ## test every built peer through the harness protocol, with few messages
	@status=0; \
	export DRIVELINE_PEERS="$(CURDIR)/build/peers"; \
	cargo test --locked -p driveline-bench --features peers-test --no-fail-fast \
		--test conformance --test chain || status=1; \
	cargo test --locked -p driveline-lab --test screen torn || status=1; \
	cargo test --locked -p driveline-workloads --features peers-test \
		--test chain_of_peers --test fusion_of_peers || status=1; \
	cargo test --release --locked --manifest-path lab/peers/rust/Cargo.toml \
		--target-dir build/cargo-peers -p driveline-peer-stage || status=1; \
	exit $$status

gateways: ## build the gateways to other hosts and to ROS 2 into build/bin; the first build of Zenoh and CycloneDDS takes minutes
	@tools/setup.sh engines
	cargo build --release --locked -p driveline-gateway-zenoh -p driveline-gateway-ros2 \
		--features driveline-gateway-zenoh/engine,driveline-gateway-ros2/engine
	install -D -t build/bin "$(RELEASE)/driveline-gateway-zenoh" "$(RELEASE)/driveline-gateway-ros2"

fuzz: ## fuzz the readers of untrusted bytes, coverage-guided; SECONDS=60 for each target, ONLY=target
	@tools/fuzz.sh "$(or $(SECONDS),60)" $(ONLY)

install: build ## install into PREFIX (default /usr/local), for find_package(Driveline) and pkg-config; with the gateways and the laboratory, if they were built
	cmake --install build --prefix "$(PREFIX)"

clean: ## remove everything that was built
	rm -rf build target
