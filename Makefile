# SPDX-License-Identifier: Apache-2.0
# Thin calls of the presets in CMakePresets.json. `make` alone lists the targets.
.DEFAULT_GOAL := help
.PHONY: help setup configure build demo test bench bench-report bench-turns check compilers mutants test-all test-x86 package package-other test-packages test-versions format clean
JOBS := $(shell nproc)
# The preset that builds for the other architecture.
OTHER := $(if $(filter x86_64,$(shell uname -m)),arm64,x86)

help: ## this list
	@echo "Verbatim: an RDMA adapter made of software. Targets:"
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS='	' read -r name what; do printf '  make %-13s %s\n' "$$name" "$$what"; done

setup: ## install the Debian packages that are missing (or say which)
	@scripts/setup.sh

configure: setup
	@mkdir -p build
	@cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }

build: configure ## release build: build/release/bin/verbatim
	@cmake --build --preset release -j $(JOBS)

# `programs` is all that is installed, without the tests, which take long to compile.
demo: configure ## Debian's perftest on Verbatim, TCP beside it
	@cmake --build --preset release -j $(JOBS) --target programs
	@scripts/demo.sh build/release

test: setup ## the suite for every push, about twenty minutes on two cores
	@scripts/test.sh format layers release sanitizers tsan

bench: ## how fast, compared with what; PART=core, host, wire, connections, crowd or fabric: only that
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory build
	@cmake --build --preset release -j $(JOBS) --target bench_programs
	@scripts/bench.sh build/release $(or $(PART),all) $(OPTIONS)

bench-turns: ## this build and an earlier one (BEFORE=its build folder) in turns: is any number worse?
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory build
	@bench/turns.py --before $(BEFORE) --build build/release $(OPTIONS)

bench-report: bench ## the same, then its numbers into README.md, docs/SPEED.md and docs/BENCH.md
	@bench/report.py build/release

check: setup ## before a push: format, layers, both compilers, tests
	@scripts/test.sh format layers release-all dev clang

compilers: ## everything compiles with every compiler that Debian 12 has (an hour on two cores)
	@scripts/setup.sh compilers
	@scripts/compilers.py --jobs $(JOBS)

mutants: setup ## put bugs into a copy of the code, and check that a test notices each
	@scripts/mutants.py

test-all: test build ## the whole suite, all of it with sanitizers, fuzzers, 64 processes, minutes of memory that moves, then every program with every option on every network, two versions, the packages
	@scripts/setup.sh package
	@scripts/test.sh release-all dev-all fuzz
	@VERBATIM_STRESS=1 VERBATIM_STRESS_SECONDS=60 build/release/tests/many_processes_test
	@VERBATIM_STRESS_SECONDS=180 build/release/tests/memory_stress_test
	@/usr/bin/python3 tests/conformance/run.py --build build/release --full
	@/usr/bin/python3 tests/conformance/pyverbs.py --build build/release --fabric
	@/usr/bin/python3 tests/conformance/fabric_programs_test.py --build build/release --full
	@/usr/bin/python3 tests/conformance/fabric_failures_test.py --build build/release --full
	@$(MAKE) --no-print-directory test-versions test-packages

test-x86: ## cross-build for x86-64; unit, sim and abi tests under qemu
	@scripts/setup.sh x86
	@scripts/test.sh x86

package: ## Debian packages and a tarball in build/release/packages, judged by lintian
	@scripts/setup.sh package
	@$(MAKE) --no-print-directory configure
	@cmake --build --preset release -j $(JOBS) --target programs
	@scripts/package.sh build/release

package-other: ## the same for the other architecture (arm64 or amd64), cross-built
	@scripts/setup.sh package
	@scripts/setup.sh cross
	@mkdir -p build
	@cmake --preset $(OTHER) >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@cmake --build --preset $(OTHER) -j $(JOBS) --target programs
	@scripts/package.sh build/$(OTHER)

test-packages: package ## install and remove the packages in a clean Debian, and run perftest there (needs root)
	@/usr/bin/python3 tests/packaging/packages_test.py --build build/release

test-versions: configure ## two versions on one host: this one and a copy with another layout of shared memory
	@cmake --build --preset release -j $(JOBS) --target programs
	@scripts/other_version.sh build/other-version
	@/usr/bin/python3 tests/packaging/two_versions_test.py --build build/release --other build/other-version/prefix

format: setup ## format src, tests and bench with clang-format
	@scripts/check_format.sh --fix

clean: ## remove build/
	@rm -rf build
