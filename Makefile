# SPDX-License-Identifier: Apache-2.0
# `make help` tells what there is. Everything is built into ./build and ./target; both may be deleted at any time.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build test test-gateways test-containers measure measure-vm mutants steady tidy demo bench lab peers peers-test gateways fuzz install clean

# A Rust that `make setup` has just installed is not yet in anybody's PATH.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
# The same packages as in cmake/Core.cmake, for `make build`: else each would build what the other has built once more, with other features.
CORE := cargo build --release --locked -p driveline-capi -p driveline-cli
RELEASE = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/release
# The programs behind `driveline bench` and `driveline chaos`, found next to `driveline`.
LAB = cargo build --release --locked -p driveline-lab -p driveline-chaos && install -D -t build/bin "$(RELEASE)/driveline-bench" "$(RELEASE)/driveline-chaos"

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24
	@echo "  variables             VIDEO= MODEL= SPEED_KMH= (demo)  ONLY='step step' (test, measure, steady)  SECONDS= (fuzz)  PREFIX= (install)  ARGS= (bench, steady)"

setup: ## install what building and testing need (Debian 12, Ubuntu 24.04 or newer)
	@tools/setup.sh test

build: ## the core, the C++ SDK, the tools and the examples, optimised
	@tools/setup.sh demo
	cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDRIVELINE_CARGO_PROFILE=release --log-level=NOTICE
	cmake --build build -j $(JOBS)

test: ## style, layers, licences, Rust, C++, models, sanitizers; not what needs other middleware: test-gateways, measure
	@tools/setup.sh test
	@python3 tools/run_tests.py $(ONLY)

test-gateways: ## what talks to the world outside: other hosts, ROS 2; builds Zenoh and CycloneDDS, installs Python packages into build/python
	@tools/setup.sh gateways
	@python3 tools/run_tests.py --gateways $(ONLY)

test-containers: ## what runs in containers: modules, rights, restarts, images; installs podman by name, needs root, keeps to a storage of its own
	@tools/setup.sh containers
	@python3 tools/python_packages.py tools/packages/containers_python.txt build/python_containers
	cargo build --locked -p driveline-cli -p driveline-capi -p driveline-runtime --bin driveline --bin driveline-host --bin driveline-test-host --lib
	@python3 tools/test_containers.py $(ONLY)

measure: ## what takes long and judges durations: outages, slow links, other middleware; ROUNDS=3; a release needs it, a landing does not
	@tools/setup.sh gateways
	@tools/setup.sh peers
	@python3 tools/run_tests.py --measured --rounds $(or $(ROUNDS),3) $(ONLY)
	@echo "results: \`tools/measured.py\` prints them, with --write they go into docs/reliability.md"

measure-vm: ## tests that need a machine of their own, in qemu: NUMA nodes, an isolated core, a PREEMPT_RT kernel, suspend; ONLY= a part of a test's name
	@python3 tools/measure_vm.py $(ONLY)

mutants: ## break ten promises in the source, one at a time: tests notice each; ONLY= some of them (tools/mutants.py --list)
	@python3 tools/mutants.py $(ONLY)

steady: ## run each test program 30 times in random order beside a CPU load, for hours; goes on where it ended; ARGS="--shard 1/4 --minutes 20"
	@python3 tools/steady.py $(ARGS) $(ONLY)

tidy: build ## clang-tidy over the C++ of SDK and examples, minutes; installs it by name; ONLY= parts of paths
	@tools/setup.sh tidy
	@tools/tidy.py $(ONLY)

demo: ## perception pipeline in five processes; VIDEO=file MODEL=file.cfg use your own; DEPLOY=containers in a container each
	@DEPLOY="$(DEPLOY)" tools/demo.sh check "$(VIDEO)" "$(MODEL)" "$(SPEED_KMH)"
	@$(MAKE) --no-print-directory build
	@DEPLOY="$(DEPLOY)" tools/demo.sh run "$(VIDEO)" "$(MODEL)" "$(SPEED_KMH)"

lab: build ## the laboratory, `driveline bench` and `driveline chaos`: experiments, reports, faults, into build/bin
	$(LAB)

bench: lab ## latency of a link against this machine's floor; ARGS= are those of `driveline bench link`
	build/bin/driveline bench link $(ARGS)

peers: ## other middleware to measure beside Driveline, into build/peers; installs Debian packages, by name
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
	@echo "\`driveline bench peers\` (make lab) tells what is there and what is missing, with --settings how each is configured"

peers-test: peers ## every peer that was built through the harness protocol: few messages, for function
	@status=0; \
	DRIVELINE_PEERS="$(CURDIR)/build/peers" cargo test --locked -p driveline-bench --features peers-test --no-fail-fast --test conformance --test chain || status=1; \
	DRIVELINE_PEERS="$(CURDIR)/build/peers" cargo test --locked -p driveline-lab --test screen torn || status=1; \
	DRIVELINE_PEERS="$(CURDIR)/build/peers" cargo test --locked -p driveline-workloads --features peers-test --test fusion_of_peers || status=1; \
	cargo test --release --locked --manifest-path lab/peers/rust/Cargo.toml --target-dir build/cargo-peers -p driveline-peer-stage || status=1; \
	exit $$status

gateways: ## the programs that carry topics to other hosts and to ROS 2, into build/bin; the first time Zenoh and CycloneDDS are built, which takes minutes
	@tools/setup.sh engines
	cargo build --release --locked -p driveline-gateway-zenoh -p driveline-gateway-ros2 --features driveline-gateway-zenoh/engine,driveline-gateway-ros2/engine
	install -D -t build/bin "$(RELEASE)/driveline-gateway-zenoh" "$(RELEASE)/driveline-gateway-ros2"

fuzz: ## coverage-guided fuzzing of all that reads bytes of others; SECONDS=60 for each target, ONLY=target
	@tools/fuzz.sh "$(or $(SECONDS),60)" $(ONLY)

install: build ## into PREFIX (default /usr/local); find_package(Driveline) and pkg-config find it there; with the gateways, if they were built
	cmake --install build --prefix "$(PREFIX)"

clean: ## remove everything that was built
	rm -rf build target
