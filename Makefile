# The verbs. Everything that is built lies in build/; what is built and how is said in meson.build.
# Each verb first installs the Debian packages that it needs (tools/setup), when it may.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 300
# T=name: only these tests, e.g. make test T="ring index"
T ?=
# M=name: only these mutants, e.g. make mutants M="rpc-half-is-enough rpc-number-comes-again"
M ?=
# make sim: so many clusters; or the one of SEED, with a trace
SEEDS ?= 20000
SEED ?=
# make bench-transfer, bench-verbs, bench-cluster: these sizes alone, as 64,4K,1M; bench-verbs: so many rounds
SIZES ?=
ROUNDS ?=
# make bench-cluster: so many ranks; on these machines (a file of Open MPI's); more flags, more for mpirun
RANKS ?= 4
HOSTS ?=
FLAGS ?=
MPI_ARGS ?=
# V=1: show every command of the build, and every file that is installed
V ?=

ifneq ($(wildcard /usr/bin/meson),)
MESON := /usr/bin/meson
else
MESON := meson
endif
ifneq ($(wildcard /usr/bin/pkg-config),)
export PKG_CONFIG ?= /usr/bin/pkg-config
endif
ifneq ($(wildcard /usr/bin/ninja),)
export NINJA ?= /usr/bin/ninja
else
export NINJA ?= ninja
endif

# Two tests at once for each processor: the long ones, which begin first, mostly wait.
export MESON_TESTTHREADS ?= $(shell expr 2 \* $$(nproc))

COMPILE = tools/compile $(if $(V),-v)
RUN_MESON = $(MESON) test --no-rebuild --print-errorlogs
RUN_TESTS = $(RUN_MESON) --no-suite rdma -C
COMMA := ,
SIZE_WORDS = $(subst $(COMMA), ,$(SIZES))
# Linked as one: a get from another node is a seventh less instructions. Archives can be linked without it, too. Only gcc
# makes such archives, and clang's own needs a linker that a Debian may not have. Which it is the shell asks, behind
# tools/setup: make itself would ask before that has installed a compiler, and build all again the next time.
RELEASE = --buildtype=release $$($(CC) --version | grep -q 'Free Software' && echo -Db_lto=true -Dc_args=-ffat-lto-objects)
SAN = -Db_lundef=false -Dexamples=false -Dman=disabled
ASAN = --buildtype=debugoptimized -Db_sanitize=address,undefined $(SAN) "-Dc_args=-fno-sanitize-recover=undefined -g1"
# What test-rdma runs: the programs of `make test`, or those of `make asan`; a guest keeps a processor busy.
ifeq ($(SANITIZE),address)
RDMA_BUILD = build/asan
RDMA_CONFIGURE = tools/configure build/asan $(ASAN)
RDMA_TESTS = tools/sanitized $(RUN_MESON) --num-processes $$(nproc) --timeout-multiplier 5
else ifeq ($(SANITIZE),)
RDMA_BUILD = build/test
RDMA_CONFIGURE = tools/configure build/test --buildtype=debugoptimized
RDMA_TESTS = $(RUN_MESON) --num-processes $$(nproc)
else
$(error SANITIZE=$(SANITIZE): there is SANITIZE=address, for test-rdma)
endif

.PHONY: all demo test mutants test-rdma clang asan tsan fuzz soak sim bench bench-objects bench-rpc bench-region bench-region-copies bench-region-many bench-region-moves bench-region-qos bench-space bench-space-verbs bench-space-view bench-apps bench-python bench-collect bench-transfer bench-verbs bench-cluster bench-broadcast lint tidy fmt deb test-packages install clean help

all: ## build the programs and libraries in build/release
	@tools/setup build
	@tools/check-layers
	@[ -e build/release/src/cli/nigh ] || echo "building in build/release, some three minutes on two cores; says nothing more when all is well"
	@tools/configure build/release $(RELEASE) -Dtests=false -Dbench=false
	@$(COMPILE) build/release

demo: ## two nodes: processes read real data in place, the other node gets it; prints what was measured
	@$(MAKE) --no-print-directory all
	@examples/demo build/release

test: ## build with assertions and run every test; of the mutants a hundred-and-twenty-eighth, which changes by the day
	@tools/setup build test
	@tools/configure build/test --buildtype=debugoptimized
	@$(COMPILE) build/test
	@rm -f build/test/meson-logs/testlog.txt
	@$(RUN_TESTS) build/test $(T); status=$$?; \
		sed -n 's/^# \(mutants: \)/\1/p' build/test/meson-logs/testlog.txt; exit $$status

mutants: ## try every known mistake of tests/mutants, or those of M="name name": does its test notice it?
	@tools/setup build test
	@tools/configure build/test --buildtype=debugoptimized
	@tools/test-mutants build/test $(M:%=tests/mutants/%.patch)

test-rdma: ## run what needs RDMA devices in a virtual machine that has software ones (SANITIZE=address: as asan does)
	@tools/setup build test rdma
	@$(RDMA_CONFIGURE)
	@$(COMPILE) $(RDMA_BUILD)
	@tools/rdma-guest-build
	@$(RDMA_TESTS) --suite rdma -C $(RDMA_BUILD) $(T)
	@tools/totals $(RDMA_BUILD)/meson-logs/testlog.json

clang: ## build everything with clang 14, for its warnings
	@tools/setup build test fuzz
	@CC=clang-14 tools/configure build/clang --buildtype=plain
	@$(COMPILE) build/clang

# What explorers (the suite model) step through, unit tests and fuzz targets run under it too.
# The package for Python, too: tests/python/meson.build has what the interpreter needs.
asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/setup build test
	@tools/configure build/asan $(ASAN)
	@$(COMPILE) build/asan
	@tools/sanitized $(RUN_MESON) --no-suite rdma --no-suite model --no-suite net -C build/asan --timeout-multiplier 5 $(T)

# The suite net is about time that passes between nodes, which sanitizers stretch; others run the same code under them.
# Explorers (the suite model), the simulator and the suite one-thread have one thread: nothing there is for it to see;
# the suite words is about what commands print: what nodes do meanwhile is in the others.
tsan: ## the tests under ThreadSanitizer
	@tools/setup build test
	@tools/configure build/tsan --buildtype=debugoptimized -Db_sanitize=thread $(SAN) \
		"-Dc_args=-Wno-tsan -g1"
	@$(COMPILE) build/tsan
	@NIGH_SANITIZED=thread tools/sanitized $(RUN_MESON) --no-suite rdma --no-suite model --no-suite net --no-suite sim --no-suite one-thread --no-suite words -C build/tsan --timeout-multiplier 10 $(T)

fuzz: ## every fuzz target for FUZZ_SECONDS (300) under ASan and UBSan
	@tools/setup build fuzz
	@CC=clang-14 tools/configure build/fuzz --buildtype=debugoptimized -Dfuzz=true -Dtests=false \
		-Db_sanitize=address,undefined $(SAN) "-Dc_args=-fno-sanitize-recover=undefined -g1"
	@$(COMPILE) build/fuzz
	@tools/fuzz build/fuzz $(FUZZ_SECONDS)

soak: ## the randomised suites for as long as tools/ci-budget.ini says (hours), and every mutant
	@tools/setup build test
	@tools/configure build/test --buildtype=debugoptimized
	@$(COMPILE) build/test
	@tools/soak build/test soak_minutes
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=$$(($$(tools/budget soak_minutes fuzz) * 60))
	@$(MAKE) --no-print-directory mutants M=

sim: ## SEEDS=n simulated clusters under faults, or SEED=n alone with a trace
	@tools/setup build test
	@tools/configure build/test --buildtype=debugoptimized
	@$(COMPILE) build/test tests/sim/test-sim
	@$(if $(SEED),NIGH_SEED=$(SEED),NIGH_SIM_SEEDS=$(SEEDS)) CMOCKA_MESSAGE_OUTPUT=STDOUT build/test/tests/sim/test-sim

bench: bench-objects bench-python ## the figures of README.md of one machine: objects, in C and in Python

bench-objects: ## measure the object service against its peers: build/bench/objects.json
	@echo "bench-objects: one or two minutes on a quiet machine, beside the build"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release
	@mkdir -p build/bench
	@build/bench-release/bench/bench-objects build/bench-release/src/daemon/nighd build/bench/objects.json

bench-transfer: ## measure gets from another node against TCP and its users, SIZES=1K,4M: build/bench/transfer.json
	@echo "bench-transfer: some five minutes with all sizes on a quiet machine, beside the build"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release
	@mkdir -p build/bench
	@build/bench-release/bench/bench-transfer build/bench-release/src/daemon/nighd \
		build/bench-release/bench/bench-transfer-mpi build/bench/transfer.json $(SIZE_WORDS)

bench-rpc: ## measure calls between nodes against plain TCP and a flag in shared memory, ROUNDS=25: build/bench/rpc.json
	@echo "bench-rpc: some ten seconds on a quiet machine, beside the build"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release
	@mkdir -p build/bench
	@build/bench-release/bench/bench-rpc build/bench/rpc.json $(ROUNDS)

bench-region: ## measure reads, writes and atomics of regions against calls, a plain connection, UCX and MPI, ROUNDS=25: build/bench/region.json
	@echo "bench-region: a minute on a quiet machine, beside the build"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/bench-region bench/bench-region-mpi
	@mkdir -p build/bench
	@build/bench-release/bench/bench-region build/bench-release/bench/bench-region-mpi build/bench/region.json $(ROUNDS)

bench-region-copies: ## measure copies between two other nodes against a read and a write by the client, ROUNDS=15: build/bench/region-copies.json
	@echo "bench-region-copies: half a minute on a quiet machine, beside the build"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/bench-region-copies
	@mkdir -p build/bench
	@build/bench-release/bench/bench-region-copies build/bench/region-copies.json $(ROUNDS)

bench-region-many: ## measure reads and writes of 64 bytes of one region against those of any of 100,000, and the memory of one, ROUNDS=15: build/bench/region-many.json
	@echo "bench-region-many: a minute on a quiet machine, beside the build"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/bench-region-many
	@mkdir -p build/bench
	@build/bench-release/bench/bench-region-many build/bench/region-many.json $(ROUNDS)

bench-region-moves: ## 10,000 chunks move between four nodes while clients of all read and write checksummed records, then nodes die and stand still, MOVES=10000: build/bench/region-moves.json
	@echo "bench-region-moves: some five minutes on a machine with other work, beside the build"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/bench-region-moves src/daemon/nighd src/cli/nigh
	@mkdir -p build/bench
	@MOVES='$(MOVES)' bench/region-moves-run build/bench-release build/bench/region-moves.json

bench-region-qos: ## measure reads of 64 bytes of high priority while clients of low priority read much, by each policy, ROUNDS=15: build/bench/region-qos.json, .svg
	@echo "bench-region-qos: half a minute on a quiet machine, beside the build"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/bench-region-qos
	@mkdir -p build/bench
	@build/bench-release/bench/bench-region-qos build/bench/region-qos.json $(ROUNDS)
	@bench/region-qos-plot build/bench/region-qos.json build/bench/region-qos.svg

bench-space: ## measure reads, writes, atomics and locks of spaces against a seqlock, calls, a mutex and MPI, and GAM's axes, ROUNDS=15: build/bench/space.json
	@echo "bench-space: one or two minutes on a quiet machine, beside the build; and 2 GiB of memory"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/bench-space bench/bench-region-mpi src/daemon/nighd
	@mkdir -p build/bench
	@build/bench-release/bench/bench-space build/bench-release/src/daemon/nighd \
		build/bench-release/bench/bench-region-mpi build/bench/space.json $(ROUNDS)

bench-space-view: ## measure what a client pays for bytes of a space that are here, and how often they are, ROUNDS=25: build/bench/space-view.json
	@echo "bench-space-view: half a minute on a quiet machine, beside the build"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/bench-space-view
	@mkdir -p build/bench
	@build/bench-release/bench/bench-space-view build/bench/space-view.json $(ROUNDS)

bench-space-verbs: ## what misses of a space cost in messages of RDMA, in a virtual machine with software devices, ROUNDS=5: build/bench/space-verbs.json
	@echo "bench-space-verbs: some two minutes on a quiet machine, beside the build"
	@tools/setup build bench rdma
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/bench-space-verbs
	@tools/rdma-guest-build
	@mkdir -p build/bench
	@tools/rdma-guest -n 3 -m 2560 -t 1200 -w build/bench build/bench-release/bench/bench-space-verbs \
		$(if $(ROUNDS),--rounds $(ROUNDS)) build/bench/space-verbs.json rxe1 10.99.0.1 rxe2 10.99.0.2 rxe3 10.99.0.3

bench-apps: ## the programs of examples/ that use regions, on 1 GiB each at three nodes, beside one process alone, ROUNDS=3: build/bench/apps.json
	@echo "bench-apps: some ten minutes on a machine with other work, beside the build; and 8 GiB of memory"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release src/daemon/nighd src/cli/nigh examples/example-region_log examples/example-region_words examples/example-region_rank
	@mkdir -p build/bench
	@ROUNDS='$(ROUNDS)' bench/apps-run build/bench-release build/bench/apps.json

bench-python: ## measure numpy arrays by the Python package against shared_memory, redis-py and a pipe, BYTES=1073741824 ROUNDS=7: build/bench/python.json
	@echo "bench-python: two minutes, or twenty where new memory comes slowly, as on some virtual machines; and 8 GiB of memory"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release
	@mkdir -p build/bench
	@BYTES='$(BYTES)' ROUNDS='$(ROUNDS)' bench/python-run build/bench-release build/bench/python.json

bench-collect: ## measure calls of 31 nodes at once over trees against as many calls, and MPI, ROUNDS=15: build/bench/collect.json
	@echo "bench-collect: some twenty seconds on a quiet machine, beside the build"
	@tools/setup build bench mpi
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/bench-collect bench/bench-collect-mpi
	@mkdir -p build/bench
	@build/bench-release/bench/bench-collect build/bench-release/bench/bench-collect-mpi build/bench/collect.json $(ROUNDS)

bench-verbs: ## count and measure gets over RDMA in a virtual machine with software devices, SIZES=1K,4M ROUNDS=3: build/bench/verbs.json and .svg
	@echo "bench-verbs: some twelve minutes with all sizes on a machine with some other work, beside the build; more than an hour on a busy one"
	@tools/setup build bench rdma
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release
	@tools/rdma-guest-build
	@mkdir -p build/bench
	@tools/rdma-guest -n 2 -m 3584 -t 7200 -w build/bench build/bench-release/bench/bench-verbs \
		$(if $(ROUNDS),--rounds $(ROUNDS)) build/bench-release/src/daemon/nighd build/bench/verbs.json \
		rxe1 10.99.0.1 rxe2 10.99.0.2 $(SIZE_WORDS)
	@bench/plot build/bench/verbs.json build/bench/verbs.svg

bench-broadcast: ## one object to NODES=32 nodes at once over links of MBITS=200, with trees and without, as root; BYTES=67108864 ROUNDS=3: build/bench/broadcast.json and .svg
	@echo "bench-broadcast: some five minutes on a quiet machine, beside the build; and NODES times 160 MiB of memory"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/bench-broadcast src/daemon/nighd
	@mkdir -p build/bench
	@NODES='$(NODES)' MBITS='$(MBITS)' BYTES='$(BYTES)' ROUNDS='$(ROUNDS)' bench/broadcast-run \
		build/bench-release/src/daemon/nighd build/bench-release/bench/bench-broadcast build/bench/broadcast.json
	@bench/plot build/bench/broadcast.json build/bench/broadcast.svg

bench-cluster: ## RANKS=n nodes under MPI that get from each other, HOSTS=file, SIZES=64,4K: build/bench/cluster.json and .svg
	@echo "bench-cluster: some five minutes with all sizes and four ranks on one quiet machine, beside the build"
	@tools/setup build bench
	@tools/configure build/bench-release $(RELEASE) -Dtests=false -Dbench=true
	@$(COMPILE) build/bench-release bench/cluster/bench-cluster
	@mkdir -p build/bench
	@RANKS='$(RANKS)' HOSTS='$(HOSTS)' MPI_ARGS='$(MPI_ARGS)' bench/cluster/run \
		build/bench-release/bench/cluster/bench-cluster build/bench/cluster.json $(if $(SIZES),--sizes '$(SIZES)') $(FLAGS)
	@bench/plot build/bench/cluster.json build/bench/cluster.svg

lint: ## format, layers, headers, scripts, words, type hints: fails on any difference
	@tools/setup build lint
	@tools/lint

tidy: ## clang-tidy over src/ (needs clang-tidy-14; advice, not a gate)
	@tools/setup build test lint
	@tools/configure build/test --buildtype=debugoptimized
	@git ls-files --cached --others --exclude-standard 'src/*.c' | xargs -P 2 -n 4 clang-tidy-14 --quiet -p build/test

fmt: ## format every source file
	@tools/setup lint
	@tools/check-format --fix

install: all ## install to DESTDIR/PREFIX (/usr/local)
	@tools/set-prefix build/release $(PREFIX)
	@$(COMPILE) build/release
	@DESTDIR=$(DESTDIR) $(MESON) install --no-rebuild $(if $(V),,--quiet) -C build/release
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	@echo "installed below $(DESTDIR)$(PREFIX): nigh, nighd and nighd.service, libnigh and libnigh-node," \
		"headers, manual pages, share/doc/nigh/nighd.conf.example (V=1 lists all)"

deb: ## build the Debian packages in build/deb, and ask lintian (docs/packages.md)
	@tools/setup build package
	@tools/deb build/deb

test-packages: ## install, run, upgrade and remove the packages in a clean root, and under systemd in a virtual machine (as root)
	@tools/setup build package rdma
	@tools/deb build/deb
	@tools/rdma-guest-build
	@tools/test-packages build/deb

clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r verb text; do \
		printf '  make %-14s %s\n' "$$verb" "$$text"; done
