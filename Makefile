# Two verbs matter: `make demo` and `make test`. Each sets up .venv by itself the first time.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
TEST_WORKERS ?= 5 # on two cores: what waits for a process or a browser leaves its core to another (four left a third of them idle)
BENCH := $(BIN)/python -m pytest -m bench -s -o timeout=1800 # a busy machine takes its time: nothing in it is a timed test
# The tests start sentinel and the trainer hundreds of times. Without bytecode each start compiles every module again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install install-locked lock sbom demo test lint types contracts kernels unit accept drills drills-real slurm cluster-demo cluster-test kubernetes-test chaos soak trainers-test bench bench-client bench-detect bench-logs bench-policy bench-replay bench-instructions bench-recovery bench-long-life bench-telemetry bench-sealing bench-verify bench-watching bench-agents bench-throughput bench-launch bench-relaunch bench-saving bench-scrape compare bench-web bench-page bench-kernels gpu leave-one-out pictures clean
help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python >= 3.11 is needed; '$(PYTHON)' is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[trainer,dev,deploy-test]'
	@$(BIN)/python -m cuda_ext --build || echo "The kernels run in plain torch until that is mended."
	@touch $(STAMP)

install: $(STAMP) ## create .venv and install everything, pinned by constraints.txt

LOCK ?= supervisor
VENV ?= .venv-locked
install-locked:  ## a fresh environment from a lock with hashes, and our wheel in it (LOCK=everything VENV=DIRECTORY)
	@$(PYTHON) -m supply_chain.install --lock $(LOCK) --venv $(VENV)

lock: $(STAMP)   ## write the locks anew, with the versions of constraints.txt and the files of the index that pip is configured with
	$(BIN)/python -m supply_chain.make_locks

sbom: $(STAMP)   ## the bills of materials of the locks (CycloneDX 1.6)
	$(BIN)/python -m supply_chain.make_sbom

demo: $(STAMP)   ## train the bundled GPT, hurt it three times, watch sentinel repair it
	$(BIN)/sentinel demo --run-dir runs/demo

test: $(STAMP)   ## lint, types, import contracts, the whole test suite
	@$(MAKE) --no-print-directory --output-sync=target -j2 types contracts lint kernels $(BYTECODE)
	@$(MAKE) --no-print-directory unit

# On a fresh clone every worker of pytest would compile all tests by itself, and write the same files: 33 s of the processor for
# each of four, 13 s where one has done it before (2026-11-25).
BYTECODE := .venv/.bytecode
$(BYTECODE): $(STAMP) $(shell git ls-files 'tests/*.py' 2>/dev/null)
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null || true # what cannot be collected is told by `unit`
	@touch $@

lint: $(STAMP)   ## ruff
	$(BIN)/ruff check .

types: $(STAMP)  ## mypy --strict on sentinel/, cuda_ext/, trainer/ and supply_chain/
	$(BIN)/mypy

contracts: $(STAMP) ## the doors between rooms
	$(BIN)/lint-imports --no-cache

# Before anything that starts trainers by the hundred: a changed kernel is compiled once, now, on all cores, and not in a test's time.
kernels: $(STAMP) ## compile the kernels for every compiler that is here, once for each change of them
	@$(BIN)/python -m cuda_ext --build-all || echo "The kernels run in plain torch until that is mended."

unit: kernels    ## the test suite alone, its files in memory where there is room
	PYTEST_DEBUG_TEMPROOT=$$($(BIN)/python -m tests.scratch) $(BIN)/python -m pytest -o tmp_path_retention_policy=failed -n $(TEST_WORKERS) --dist worksteal -m 'not slow and not bench'

accept: kernels  ## the demonstration with faults drawn from five printed seeds, the trainer's exactness, a night that nothing repairs, a real systemd, a wheel that is built and installed, the proof of a repair (an hour)
	$(BIN)/python -m pytest -m 'slow and not drill' -s tests/accept
	$(BIN)/python -m pytest -m 'slow and not drill' -rP -n 3 --dist worksteal tests/integration tests/unit tests/cuda_ext # most wait

drills: $(STAMP) ## every shipped drill with its faults drawn from three hundred printed seeds, the crash points that `test` leaves out, four thousand drawn streams (about 25 minutes)
	$(BIN)/python -m pytest -m slow -s -o timeout=1800 tests/sim tests/properties

drills-real: $(STAMP) ## every shipped drill and three more done to the real trainer, two ranks on the CPU (about 10 minutes; WARM=1: the shipped ones with ranks in reserve)
	$(BIN)/python -m pytest -m 'slow and drill' -s tests/integration

# Slurm is installed where it is missing; elsewhere than on Debian as root that is for a person to do, and the tests say what they lack.
slurm:
	@command -v slurmctld >/dev/null || [ -x /usr/sbin/slurmctld ] || apt-get install -y --no-install-recommends slurm-wlm munge || true

cluster-demo: $(STAMP) slurm ## train the bundled GPT on a Slurm of three isolated nodes, hurt it three times and cut a node's power (root; Debian's slurm-wlm, munge; ten minutes)
	$(BIN)/python -m tests.cluster.demo

cluster-test: $(STAMP) slurm ## the launcher slurm on a real Slurm of three isolated nodes, and a filesystem with two clients (root; Debian's slurm-wlm, munge, glusterfs-server; 15 minutes)
	@command -v glusterfsd >/dev/null || [ -x /usr/sbin/glusterfsd ] || apt-get install -y --no-install-recommends glusterfs-server || true
	$(BIN)/python -m pytest -m slow -s tests/cluster

# The server is built once, below KUBERNETES_DIR: six minutes of the processor, with Debian bookworm's own sources and Go; nothing is installed.
export KUBERNETES_DIR ?= $(CURDIR)/.kubernetes
kubernetes-test: $(STAMP) ## the launcher kubernetes on a real API server, which it builds once (Debian, kubectl; five minutes)
	W=$(KUBERNETES_DIR) tests/kubernetes/build_apiserver.sh || true # the tests say what they lack
	$(BIN)/python -m pytest -m slow -s tests/kubernetes

chaos: $(STAMP)  ## fifty kinds of real faults done to the real trainer, each end compared bit for bit with an unhurt run's (about 30 minutes; KINDS="kill-rank hang" SEED=7 for some, TABLE=FILE for a table, WARM=1 with ranks in reserve)
	$(BIN)/python -m tests.chaos $(KINDS) $(if $(SEED),--seed $(SEED)) $(if $(TABLE),--table $(TABLE))

MINUTES ?= 20
soak: $(STAMP)   ## one run that is struck once a minute (MINUTES=20 SEED=7): what it survived, pages, goodput, lost steps, the supervisor's memory
	$(BIN)/python -m tests.chaos soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --shrink

trainers-test: $(STAMP) ## unchanged trainers under their profiles, with the real libraries, which it installs (minutes; two cores)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[libraries]'
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow tests/trainers

bench: $(STAMP)  ## measurements: start-up, memory, decision latency, overhead
	$(BENCH) tests/bench

bench-detect: $(STAMP) ## nine synthetic faults beside the published rules, and the labelled real logs
	$(BENCH) tests/bench/test_detect_bench.py

leave-one-out: $(STAMP) ## every detector constant chosen without one source of the labelled logs (six CPU minutes; SENTINEL_LOGS=DIR)
	$(BIN)/python tests/bench/leave_one_out.py

bench-replay: $(STAMP) ## recorded logs: rows a second, and 100 MB of each format in bounded memory
	$(BENCH) tests/bench/test_replay_speed.py tests/bench/test_replay_memory.py

bench-instructions: $(STAMP) ## instructions that a row of a log takes through the engine, by Valgrind (a quarter of an hour; BESIDE=DIR: another checkout in turn)
	$(if $(BESIDE),BESIDE=$(BESIDE)) $(BIN)/python -m tests.bench.row_instructions

bench-policy: $(STAMP) ## an expression per row beside the naive way, 200 rules loaded
	$(BENCH) tests/bench/test_policy_bench.py

bench-logs: $(STAMP) ## patterns of a policy over a log: MB/s with one and with ten
	$(BENCH) tests/bench/test_log_patterns_speed.py

bench-recovery: $(STAMP) ## a hundred drawn disasters under restarts only, a gradient gate, and sentinel (simulated)
	$(BENCH) tests/bench/test_recovery_bench.py

bench-telemetry: $(STAMP) ## the same training with all telemetry, with none, and told naively, in turn; what a step line costs
	$(BENCH) tests/bench/test_telemetry_overhead.py

bench-client: $(STAMP) ## each call of an attached loop, supervised and not; the digest of a save behind training
	$(BENCH) tests/bench/test_client_bench.py

bench-verify: $(STAMP) ## a checkpoint of 4 GiB verified by each word of the policy, beside sha256sum on all cores (GIB=8 DIR=/big for others)
	GIB=$(or $(GIB),4) $(if $(DIR),DIR=$(DIR)) $(BENCH) tests/bench/test_verify_bench.py

bench-watching: $(STAMP) ## the supervisor's processor time beside two ranks at twenty steps a second, in turn with the naive way (five minutes)
	$(BENCH) tests/bench/test_watching_bench.py

bench-agents: $(STAMP) ## one supervisor over 2,048 nodes and 16,384 ranks through their agents' files (a minute; NODES=2048 RANKS=8 SECONDS=60)
	$(if $(NODES),NODES=$(NODES)) $(if $(RANKS),RANKS=$(RANKS)) $(if $(SECONDS),SECONDS=$(SECONDS)) $(BENCH) tests/bench/test_agents_bench.py

bench-throughput: $(STAMP) ## steps a second of two ranks on two cores, watched and alone, in turn (ten minutes; on a quiet machine; PAIRS=10 STEPS=600)
	$(BENCH) tests/bench/test_watched_throughput.py

bench-launch: $(STAMP) ## from the command line to the trainer's start, beside the command alone (a minute; REPEATS=10)
	$(BENCH) tests/bench/test_launch_speed.py

bench-relaunch: $(STAMP) ## a killed rank to the next first step, part by part, cold and warm in turn: what is ours (two minutes; REPEATS=10; BESIDE=DIR: another checkout in turn)
	$(if $(BESIDE),BESIDE=$(BESIDE)) $(BENCH) tests/bench/test_relaunch_bench.py

bench-saving: $(STAMP) ## how long a save blocks training, and what share that is at the advised interval (a minute; PRESET=tiny SAVES=10)
	$(BENCH) tests/bench/test_saving_bench.py

bench-scrape: $(STAMP) ## a Prometheus scrape of a run of 500 attempts and incidents (seconds; REPEATS=10)
	$(BENCH) tests/bench/test_scrape_speed.py

bench-sealing: $(STAMP) ## what two processes that compute lose while a checkpoint of 1 GiB is sealed beside them (ten minutes; on a quiet machine; ROUNDS=6 for six)
	$(BENCH) tests/bench/test_sealing_bench.py

REPEATS ?= 5
compare: $(STAMP) ## kill, hang, NaN and poison under torchrun, ft_launcher and sentinel, cold and warm, in turn (an hour; REPEATS=1 for a look, NVRX=DIR)
	$(BIN)/python -m tests.compare --repeats $(REPEATS) --write docs/compare.md

bench-web: $(STAMP) ## ten viewers of the page of a run of 100,000 steps: what serving them costs
	$(BENCH) tests/bench/test_web_bench.py

bench-page: $(STAMP) ## the page of a run of a million steps in Chromium: first paint, state, curves
	$(BENCH) tests/bench/test_page_bench.py

bench-long-life: $(STAMP) ## a run of 60 days, 200 attempts, 500 incidents is made (1.5 GB): every command that reads it, the page, the loop (DIR=… keeps it)
	$(BIN)/python -m tests.bench.long_life $(if $(DIR),--dir $(DIR))

bench-kernels: $(STAMP) ## our kernels on this machine's processor beside what they replace in torch
	$(BIN)/python -m cuda_ext.bench --device cpu

gpu:             ## on a machine with a GPU and its own torch: build, measure, test, sanitize, and keep the record (MINUTES=9; STAGES="build values" for some)
	$(PYTHON) -m cuda_ext.gpu $(STAGES) $(if $(COPY_TO),--copy-to $(COPY_TO)) $(if $(WHEELS),--wheels $(WHEELS)) $(if $(MINUTES),--minutes $(MINUTES))

pictures: $(STAMP) ## every picture of README and docs, made anew from two real runs (three minutes on two quiet cores, ten on busy ones; needs Chromium; KEEP=DIR keeps the runs, FROM=DIR draws kept ones)
	$(BIN)/python -m tests.pictures $(if $(FROM),--from $(FROM)) $(if $(KEEP),--keep $(KEEP))

clean:           ## remove build products (not runs/)
	rm -rf .venv .venv-locked .kubernetes build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
