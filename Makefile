# Every target works in a fresh clone with only Python >= 3.10, a C++ compiler, make and a
# package index: it makes $(VENV), installs what it needs and does its job.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
ARGS   ?=
# Rooms whose tests build little machine code.
QUICK  := $(addprefix tests/,base formats machine patterns pruning inspection)

BIN := $(VENV)/bin
NATIVE := $(shell find native emulator/native python/native examples/cpp -name '*.[ch]' -o -name '*.cc' -o -name '*.hpp') \
          $(wildcard benchmarks/gpu/hopper/kernels/*)
# Reinstall when the package list or anything the native library is built from changes.
SOURCES := pyproject.toml constraints.txt CMakeLists.txt $(shell find native -type f) \
           python/pyproject.toml python/CMakeLists.txt python/tvm_sparse_runtime/version.py \
           $(shell find python/native emulator/native -type f) \
           $(addprefix emulator/,pyproject.toml CMakeLists.txt tvm_sparse_emulator/version.py)
# They are children of the environment, so that removing it removes them.
BASE  := $(VENV)/.installed
DEV   := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench

# tvm-ffi would compile a torch extension at import; TVM would pin the caller's thread to a core.
export TVM_FFI_DISABLE_TORCH_C_DLPACK := 1
export TVM_BIND_THREADS := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-slow lint style types format docs bench operators wheels clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(BASE)  ## Train, prune, compile, check and export a small network (under 3 minutes)
	$(BIN)/tvm-sparse demo $(ARGS)

quick: $(DEV)  ## Run the tests that compile little (two minutes on one core)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(QUICK) $(ARGS)

test: $(DEV)  ## Run the tests, slow ones left out
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-slow: $(DEV)  ## Run the slow tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow $(ARGS)

lint: $(DEV)  ## Check style, sentences, types and the direction of imports
	@$(MAKE) --no-print-directory --jobs $(JOBS) --output-sync=target --keep-going types style

style: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)
	$(BIN)/python tools/prose.py
	$(BIN)/python tools/staged_tree.py imports

types: $(DEV)
	$(BIN)/python tools/staged_tree.py mypy

format: $(DEV)  ## Rewrite the sources in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(NATIVE)

docs: $(DEV)  ## Build the documentation as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

bench: $(BENCH)  ## Measure the demo and whole networks, renew README.md and docs/performance
	mkdir -p build benchmarks/results
	$(BIN)/tvm-sparse demo --json > build/demo.json
	$(BIN)/python -m benchmarks.harness.rows build/demo.json benchmarks/results/demo.json
	$(BIN)/python -m benchmarks.cpu_models $(ARGS)
	$(BIN)/python -m benchmarks.pages
	$(BIN)/python tools/readme_figures.py

operators: $(DEV)  ## Run PyTorch's and ONNX's operator tests, renew docs/operators.md
	for suite in pytorch opened onnx onnx_constants onnx_opened; do \
	    OMP_NUM_THREADS=1 $(BIN)/python -m tests.suites $$suite --jobs $(JOBS) || exit; \
	done
	$(BIN)/python tools/operators_page.py

wheels: $(DEV)  ## Build the release files of all distributions
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[release]'
	$(BIN)/python tools/wheels.py

clean:  ## Remove the environment and everything built
	rm -rf $(VENV) build python/build emulator/build dist *.egg-info *.tvms .mypy_cache .ruff_cache .hypothesis .coverage

$(VENV)/pyvenv.cfg:
	sh tools/make_venv.sh $(PYTHON) $(VENV)

$(BASE): $(VENV)/pyvenv.cfg $(SOURCES)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ./python --editable '.[demo]'
	@touch $@

$(DEV): $(VENV)/pyvenv.cfg $(SOURCES)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ./python --editable ./emulator \
	    --editable '.[cuda,dev,zoo]'
	@touch $(BASE) $@

$(BENCH): $(VENV)/pyvenv.cfg $(SOURCES)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ./python --editable ./emulator \
	    --editable '.[bench,zoo]'
	@touch $(BASE) $@
