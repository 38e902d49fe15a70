# `make demo` exports an example and shows where each node came from. `make test` runs all tests.
# Both install their dependencies into .venv.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
LIBRARIES := .venvs/libraries
DOCS := .venvs/docs
WHEEL := .venvs/wheel
# The wheel and the command run on every Linux with this version of glibc or a newer one.
GLIBC := 2.17

# Instruction sets that stand in for other CPUs, the oldest first. The tests' numbers hold on each.
CPUS := SSE4_2 AVX2 AVX512
# `make test` runs one of every SAMPLE parameters of each test, and one of every SAMPLE slow tests. The commit
# decides which, so that the tests of many commits run everything. `make test-all` runs everything at once.
SAMPLE ?= 32
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
export JAX2ONNX_TEST_SEED ?= $(COMMIT)

# Python compiles a module once, not in each process that a test starts, even if the environment forbids it to write
# beside the sources.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/bytecode

.PHONY: help demo demo-wheel test test-all test-quick compile develop check test-rust test-python test-wheel test-wheel-quick test-oldest-runtime test-jax-versions test-runtimes test-libraries test-faults test-precision-faults docs wheel build bench bench-runtime rewrites generate generate-proto options fuzz fuzz-numbers sweep grid viewer clean tools

help:
	@echo "make demo               build, export an example, print the table of its nodes"
	@echo "make test               run the Rust tests and a sample of the Python tests, which depends on the commit"
	@echo "make check              check formats, lints and types"
	@echo "make test-quick         run the Rust unit tests, and a small sample of the Python tests"
	@echo "make test-all           run all checks and all tests, with the release build and for other CPUs"
	@echo "make bench              measure the cost of an export, as ratios"
	@echo "make bench-runtime      compare the run time of exported models with others"
	@echo "make rewrites           measure how many nodes each rewrite saves"
	@echo "make generate           regenerate the files that CONTRIBUTING.md lists"
	@echo "make options            regenerate the signature of to_onnx from the table of options"
	@echo "make fuzz               run the fuzz targets, SECONDS each"
	@echo "make fuzz-numbers       compare random programs with JAX for SECONDS, from SEED on"
	@echo "make sweep              try every public function of jnp, jax.nn, jax.lax and jax.scipy"
	@echo "make grid               compare every elementwise function with JAX at special values of every type"
	@echo "make test-jax-versions  run the end-to-end tests with the oldest and the newest JAX"
	@echo "make test-runtimes      run the end-to-end cases with four ONNX Runtimes, and programs in other runtimes"
	@echo "make test-libraries     compare programs of Keras, diffrax, brax and other libraries with JAX"
	@echo "make test-faults        kill exports at every system call, fill the disk, and write one path together"
	@echo "make docs               build the documentation site"
	@echo "make wheel              build a wheel for any Linux and the command alone, and try the wheel"
	@echo "make viewer             rebuild the viewer of \`jax2onnx view\`; needs node"
	@echo "make test-numeric-faults  put faults into models, and count how many compare finds"
	@echo "make test-precision-faults  plant problems of float16, and count how many sensitivity ranks first"
	@echo "make clean              remove build results and the cache of the tests"

# Only what the example needs: a build without optimizations, while pip installs JAX and ONNX.
demo: $(VENV)/maturin
	@echo "building jax2onnx, and installing JAX and ONNX into $(VENV)"
	@$(MAKE) --no-print-directory -j2 $(VENV)/basics demo-wheel
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall target/demo/*.whl
	@$(PY) examples/demo.py

demo-wheel: $(VENV)/maturin
	@rm -rf target/demo
	@$(VENV)/bin/maturin build --profile dev --out target/demo >$(VENV)/demo.log 2>&1 \
		|| { cat $(VENV)/demo.log >&2; exit 1; }

# While pip installs JAX and the libraries on one core, the other one compiles.
test: $(VENV)/maturin
	@$(MAKE) --no-print-directory -j2 $(VENV)/installed compile
	@$(MAKE) --no-print-directory -j2 --output-sync develop test-rust
	@$(MAKE) --no-print-directory test-python
	@$(MAKE) --no-print-directory -j2 --output-sync test-oldest-runtime test-wheel-quick

test-all:
	@$(MAKE) --no-print-directory check test-rust SAMPLE=1
	@$(MAKE) --no-print-directory build
	$(PYTEST) python/tests
	$(PY) tools/test_wheel.py

# The Python module has no tests in Rust. It takes part all the same, so that its build uses the same crates: those that
# it shares with the tests are then compiled once, with the same features.
CARGO_TEST := cargo test --quiet --workspace
compile: | tools
	$(CARGO_TEST) --no-run
	cargo build --quiet --package jax2onnx-python

check: develop
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	$(VENV)/bin/ruff format --check --quiet python examples benches tools
	$(VENV)/bin/ruff check --quiet python examples benches tools
	$(VENV)/bin/mypy

# The tests that a change to a crate breaks first. The same parameters at every commit, so that their references are in the cache;
# only for the current CPU.
QUICK := $(addprefix python/tests/,errors export loops numbers passes)
test-quick: develop
	cargo test --quiet --workspace --lib
	JAX2ONNX_TEST_SEED= $(PYTEST_HERE) -m "not slow" --sample 60 $(QUICK)

test-rust: | tools
	JAX2ONNX_TEST_SAMPLE=$(SAMPLE) $(CARGO_TEST)

test-python: develop
	$(PYTEST) --sample $(SAMPLE) python/tests

PYTEST_HERE = $(PY) -m pytest -q -n 2 --dist worksteal
PYTEST = JAX2ONNX_TEST_CPUS="$(CPUS)" $(PYTEST_HERE)

test-oldest-runtime: $(VENV)/installed
	$(PY) tools/test_runtimes.py --sample

# The wheel alone, in an empty environment, used from an unrelated directory.
test-wheel: $(VENV)/installed
	$(PY) tools/test_wheel.py

test-wheel-quick: $(VENV)/installed
	$(PY) tools/test_wheel.py --quick

# A wheel for any Linux, tried with every Python at hand, and the command alone; both in dist.
wheel: $(VENV)/installed $(WHEEL)/installed
	rm -rf dist
	PATH="$(CURDIR)/$(WHEEL)/bin:$$PATH" maturin build --quiet --release --zig --compatibility manylinux2014 --out dist
	PATH="$(CURDIR)/$(WHEEL)/bin:$$PATH" cargo zigbuild --quiet --release -p jax2onnx-cli \
		--target $$(rustc -vV | sed -n 's/^host: //p').$(GLIBC)
	cp target/$$(rustc -vV | sed -n 's/^host: //p')/release/jax2onnx dist/
	$(WHEEL)/bin/auditwheel show dist/*.whl
	$(PY) tools/test_wheel.py dist/*.whl --everywhere

test-jax-versions: build
	$(PY) tools/test_jax_versions.py $(JAX)

test-runtimes: build
	$(PY) tools/test_runtimes.py
	$(PY) tools/matrix.py --write

# Programs of other libraries, and Keras' own tests of its export, in an environment of their own; writes
# docs/libraries.md. Like the path that
# maturin writes into .venv, `jax2onnx.pth` names the folder of `jax2onnx` and `testkit`.
test-libraries: build $(LIBRARIES)/installed
	@echo "$(CURDIR)/python" >"$$($(LIBRARIES)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/jax2onnx.pth"
	$(LIBRARIES)/bin/python -m pytest -q python/tests/repository/test_docs.py -k recipe
	$(LIBRARIES)/bin/python -m pytest -q python/tests/errors/test_training_mode.py
	KERAS_BACKEND=jax $(LIBRARIES)/bin/python -m pytest -q -p no:cacheprovider --pyargs keras.src.export.onnx_test
	$(LIBRARIES)/bin/python tools/libraries.py

# The documentation as a site that works offline, in target/site. A broken link is an error.
# The page on commands contains their help, which the build without optimizations prints too.
docs: $(DOCS)/installed demo-wheel
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall target/demo/*.whl
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict
	@echo "open target/site/index.html"

# Faults while files are written; writes the table of docs/reliability.md.
test-faults: build
	$(PY) tools/faults.py

# Faults in the numbers of models; the table of docs/comparing.md.
test-numeric-faults: build
	$(PY) tools/numeric_faults.py

test-precision-faults: build
	$(PY) tools/precision_faults.py

# Exported models in ONNX Runtime, beside those of the Python package and `jax.jit`.
bench-runtime: build
	$(PY) benches/runtime.py
	$(PY) benches/recurrences.py

# What each rewrite is worth, in nodes. `benches/rewrites.py --time` measures the time.
rewrites: build
	PYTHONPATH=tools $(PY) benches/rewrites.py --fresh

bench: build
	$(PY) benches/export.py
	$(PY) benches/scaling.py
	$(PY) benches/weights.py
	$(PY) benches/large.py
	$(PY) benches/provenance.py
	$(PY) benches/compare.py
	cargo build --quiet --release -p jax2onnx-cli
	$(PY) benches/command.py
	$(PY) benches/view.py

# A row of crates/options/src/table.rs is part of the signature of `to_onnx`, its documentation and a page.
options: develop
	$(PY) tools/options.py
	$(PY) tools/fixtures.py

# CONTRIBUTING.md lists what is generated. The tables come first, because they are compiled in.
generate: $(VENV)/installed
	$(PY) tools/generate_operators.py
	$(PY) tools/generate_kernels.py
	$(PY) tools/probe.py --write
	$(PY) tools/generate_types.py
	$(PY) tools/generate_costs.py
	$(MAKE) build
	$(PY) tools/options.py
	$(PY) tools/primitives.py
	$(MAKE) build
	$(PY) tools/layers.py
	$(PY) tools/fixtures.py
	$(PY) tools/failures.py
	$(PY) tools/command_fixtures.py
	$(PY) tools/capture.py

# Downloads the compiler of protobuf.
generate-proto: $(VENV)/installed
	cargo run --quiet --manifest-path tools/generate-proto/Cargo.toml -- \
		$$($(PY) -c "import onnx, os; print(os.path.dirname(onnx.__file__))") target/proto
	mv target/proto/onnx.rs crates/onnx/src/proto/generated.rs
	mv target/proto/schema.rs crates/onnx/src/proto/schema/generated.rs
	cargo fmt --package jax2onnx-onnx

# Needs a nightly compiler and cargo-fuzz. `cargo test` runs the same functions briefly.
# A run that takes longer than -timeout seconds or more than -rss_limit_mb of memory is a failure.
SECONDS ?= 600
FUZZ_LIMITS := -max_len=65536 -timeout=10 -rss_limit_mb=1024
fuzz:
	@cargo fuzz --version >/dev/null 2>&1 || { echo "cargo-fuzz is missing: cargo install cargo-fuzz" >&2; exit 1; }
	for target in $$(cargo +nightly fuzz list); do \
		mkdir -p target/fuzz-corpus/$$target fuzz/corpus/$$target; \
		cargo +nightly fuzz run $$target target/fuzz-corpus/$$target fuzz/corpus/$$target -- \
			$(FUZZ_LIMITS) -max_total_time=$(SECONDS) || exit 1; \
	done

fuzz-numbers: build
	$(PY) tools/fuzz_numbers.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(THEME),--theme $(THEME))

# Every public function of JAX's array modules against JAX; writes docs/coverage.md.
sweep: build
	$(PY) tools/sweep.py

# Every elementwise function and type against JAX at special values; writes docs/grid.md.
grid: build
	$(PY) tools/grid.py --jobs 2

# The module without optimizations, which compiles in a tenth of the time of `build`.
develop: $(VENV)/installed
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop >$(VENV)/build.log 2>&1 \
		|| { cat $(VENV)/build.log >&2; exit 1; }

build: $(VENV)/installed
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --release >$(VENV)/build.log 2>&1 \
		|| { cat $(VENV)/build.log >&2; exit 1; }

$(VENV)/maturin: requirements-dev.txt | tools
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check -c requirements-dev.txt maturin
	@touch $@

$(VENV)/basics: $(VENV)/maturin
	@$(PY) -m pip install --quiet --disable-pip-version-check -c requirements-dev.txt jax jaxlib ml_dtypes numpy onnx
	@touch $@

$(VENV)/installed: $(VENV)/maturin
	@echo "installing the development dependencies into $(VENV)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-dev.txt
	@touch $@

$(DOCS)/installed: requirements-docs.txt | tools
	@echo "installing MkDocs into $(DOCS)"
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

$(WHEEL)/installed: requirements-wheel.txt | tools
	@echo "installing what builds wheels into $(WHEEL)"
	@$(PYTHON) -m venv $(WHEEL)
	@$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-wheel.txt
	@touch $@

$(LIBRARIES)/installed: requirements-libraries.txt | tools
	@echo "installing the libraries into $(LIBRARIES)"
	@$(PYTHON) -m venv $(LIBRARIES)
	@$(LIBRARIES)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-libraries.txt
	@$(LIBRARIES)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps keras-hub==0.32.0
	@touch $@

tools:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.90 or newer, see https://rustup.rs" >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: install Python 3.11 or newer, or name it with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11: install Python 3.11 or newer, or name it with PYTHON=..." >&2; exit 1; }

# The viewer of `jax2onnx view`, which needs node. The built files are committed, so that a build needs no node.
viewer:
	npm --prefix viewer ci --no-audit --no-fund
	npm --prefix viewer run check
	npm --prefix viewer run build

clean:
	rm -rf target $(VENV) .venvs .cache dist viewer/node_modules python/jax2onnx/_core*.so
