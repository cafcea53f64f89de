# Everything runs from .venv, which is built from the hash-locked lists in .ci/locks and nothing else.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOCKED := $(VENV)/.locked
STAMP  := $(VENV)/.installed
LOCKS  := .ci/locks
UV     := uv==0.13.9
DEBIAN := python3 python3-venv openssl

# Pip's notices say nothing about this project; its errors still show.
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

# Directories that exist only once their part is written.
TYPED := scaler tests $(wildcard bench)

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint test-fast test-e2e test-vllm bench proto proto-check lock manifests docs faults debian-deps clean licences sbom audit fuzz mutants

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## Build .venv, again when a lock changed

# A half-built environment is worse than none, so it is built afresh and stamped last.
$(LOCKED): $(LOCKS)/dev.txt
	@echo "building $(VENV)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes -r $<
	@touch $@

# The project itself is quick, and changes with its metadata.
$(STAMP): $(LOCKED) pyproject.toml
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## Watch the scaler drive an emulated fleet
	@$(BIN)/slo-scaler demo

# One order on every run: what examples hypothesis draws depends on what was imported before. `make test-fast` shuffles.
# The files are shared out over the cores, each whole to one of them.
test: lint audit ## Lint, type check, import contracts, proto drift, audit, tests
	@$(BIN)/python -m pytest -q -m "not e2e and not vllm" -p randomly --randomly-seed=1 \
	-n auto --maxprocesses 8 --dist loadfile

lint: $(STAMP) proto-check ## Everything of `make test` but the tests
	@$(BIN)/ruff check --quiet --output-format concise
	@$(BIN)/ruff format --check --quiet || { echo "run: $(BIN)/ruff format"; exit 1; }
	@$(BIN)/mypy $(TYPED)
	@$(BIN)/lint-imports --no-logo

test-fast: $(STAMP) ## The tests alone, stopping at the first failure
	@$(BIN)/python -m pytest -q -x -m "not e2e and not vllm"

test-e2e: $(STAMP) ## Whole processes over real sockets
	@$(BIN)/python -m pytest -q -m e2e

test-vllm: $(STAMP) .venv-vllm/bin/vllm ## Against a real vLLM on this CPU (2.5 GB in .venv-vllm)
	@$(BIN)/python -m pytest -q -s -m vllm

.venv-vllm/bin/vllm:
	@echo "building .venv-vllm"
	@tests/vllm/install.sh .venv-vllm

$(VENV)/.fuzz: $(STAMP) $(LOCKS)/fuzz.txt
	@$(PIP) install --require-hashes -r $(LOCKS)/fuzz.txt
	@touch $@

# Properties about what others send, with twenty times as many examples, and then a minute of coverage-guided fuzzing of each harness.
HOSTILE = tests/fuzz tests/engines/test_exposition.py tests/contract/test_engine_rows.py tests/sim/test_traces_damaged.py \
	tests/calibration/test_damaged_files.py tests/test_settings.py tests/test_workload.py tests/test_key_map.py \
	tests/core/test_memory.py tests/edges/test_asked.py tests/edges/test_keda_bounds.py tests/edges/test_prometheus_promql.py \
	tests/cluster/test_arguments.py tests/cluster/test_pods.py tests/cluster/test_scaled_objects.py tests/cluster/test_selectors.py
fuzz: $(VENV)/.fuzz ## Hostile input by the thousand: properties, then a minute of atheris on each harness
	@$(BIN)/python -m pytest -q -m hypothesis --hypothesis-profile fuzz --timeout 1800 $(HOSTILE)
	@$(BIN)/python -m tests.fuzz.harness

mutants: $(VENV)/.fuzz ## Change the law in one place at a time, in build/mutants, and list what no test notices (hours)
	@rm -rf build/mutants && mkdir -p build/mutants && cp -r scaler tests pyproject.toml README.md build/mutants/
	@cd build/mutants && $(CURDIR)/$(BIN)/python -m mutmut run && $(CURDIR)/$(BIN)/python -m mutmut results

bench: $(STAMP) ## The benchmarks
	@$(BIN)/python -m bench

proto: $(STAMP) ## Regenerate scaler/pb from proto/
	@.ci/proto .

proto-check: $(STAMP) ## Fail if scaler/pb is not what proto/ generates
	@.ci/proto --check

# Dev is constrained by runtime, and build by dev: one version of everything, everywhere.
# Existing pins are kept unless UPGRADE=--upgrade.
COMPILE = $$tool/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header $(UPGRADE)
lock: ## Recompute the locks (UPGRADE=--upgrade takes newer releases)
	@tool=$$(mktemp -d) && trap 'rm -rf "$$tool"' EXIT && \
	$(PYTHON) -m venv $$tool && $$tool/bin/python -m pip --disable-pip-version-check -qq install $(UV) && \
	$(COMPILE) pyproject.toml -o $(LOCKS)/runtime.txt && \
	$(COMPILE) pyproject.toml --group dev -c $(LOCKS)/runtime.txt -o $(LOCKS)/dev.txt && \
	$(COMPILE) --group build -c $(LOCKS)/dev.txt -o $(LOCKS)/build.txt && \
	$(COMPILE) --group fuzz -c $(LOCKS)/dev.txt -o $(LOCKS)/fuzz.txt

manifests: $(STAMP) ## Write alerts and dashboards (RUNBOOKS=https://... is where docs/runbooks.md lies), render manifests/install.yaml
	@$(BIN)/python -m scaler.report.monitoring manifests/components/monitoring $(RUNBOOKS)
	@$(BIN)/kubectl kustomize manifests/overlays/cluster-wide > manifests/install.yaml

docs: $(STAMP) ## Write docs/reference.md from the code
	@$(BIN)/python .ci/reference.py docs/reference.md

faults: $(STAMP) ## Write docs/faults.md from the tests
	@$(BIN)/python .ci/faults.py docs/faults.md

licences: $(STAMP) ## Write docs/licences.md from the runtime lock
	@$(BIN)/python .ci/supply.py licences docs/licences.md

sbom: $(STAMP) ## Write dist/sbom.json (CycloneDX) of what the image runs
	@$(BIN)/python .ci/supply.py sbom dist/sbom.json

audit: $(STAMP) ## Known vulnerabilities in the runtime lock; says SKIPPED where no advisory service answers
	@$(BIN)/python .ci/supply.py audit

debian-deps: ## Install the Debian packages that the build and the tests need, if any is missing (root)
	@{ $(PYTHON) -c 'import ensurepip, venv' && command -v openssl; } >/dev/null 2>&1 || \
	{ apt-get -qq update && apt-get -qq install -y --no-install-recommends $(DEBIAN); }
	@# The status page is tried in a browser; without one those tests are skipped, so a failure here is none.
	@command -v chromium >/dev/null || { apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium; } || true
	@# The tests unpack a Prometheus of their own where none is installed; for that apt must know of it.
	@command -v prometheus >/dev/null || apt-cache show prometheus >/dev/null 2>&1 || apt-get -qq update

clean: ## Remove .venv, caches and build leftovers
	@rm -rf $(VENV) build dist *.egg-info .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache htmlcov
