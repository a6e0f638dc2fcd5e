# Needs make and a Python of 3.11 or newer; everything else is installed into .venv.

PYTHON ?= python3
UV ?= uv
RUN ?= run
TESTS ?= -n 2

PIP = .venv/bin/python -m pip --disable-pip-version-check install --quiet
# The lock is complete. With dependencies resolved once more, pip would take a newer release for a
# requirement with extras, such as sqlalchemy[asyncio], and then refuse it for want of a hash.
INSTALL = $(PIP) --no-deps --require-hashes -r $< && $(PIP) --no-deps --no-build-isolation -e .

# One set of versions for every Python and platform, with hashes and without a registry's address.
LOCK = $(UV) pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
    --fork-strategy fewest --generate-hashes --no-annotate --no-emit-index-url \
    --custom-compile-command "make lock"

.PHONY: help run test test-all soak check docs docs-serve bench reproduction lock clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

run: .venv/run.stamp  ## train the demo: table, picture, page (RUN="..." for another command)
	.venv/bin/stragglers $(RUN)

test: .venv/dev.stamp  ## run the tests but the slow ones (TESTS="..." for other pytest options)
	.venv/bin/python -m pytest $(TESTS)

test-all: test  ## run the slow tests as well
	.venv/bin/python -m pytest $(TESTS) -m "slow and not soak"

soak: .venv/dev.stamp  ## every preset a little, every algorithm for long and killed at random
	.venv/bin/python -m pytest $(TESTS) -m "" tests/config/test_presets.py
	.venv/bin/python -m benchmarks.soak
	.venv/bin/python -m benchmarks.kills
	.venv/bin/python -m benchmarks.mutants --jobs 2 --near

check: .venv/dev.stamp  ## lint, formatting and types
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pyright

docs: .venv/dev.stamp  ## build the documentation strictly, into build/docs
	rm -rf build/docs
	.venv/bin/python -m sphinx -W --keep-going -q -j 2 -b html docs build/docs
	.venv/bin/python docs/check_site.py build/docs

docs-serve: .venv/dev.stamp  ## build what changed of the documentation and show it on this machine
	.venv/bin/python -m sphinx -q -j 2 -b html docs build/docs
	.venv/bin/python -m http.server --bind 127.0.0.1 --directory build/docs 8000

bench: .venv/run.stamp  ## run the benchmarks
	.venv/bin/python -m benchmarks.plan
	.venv/bin/python -m benchmarks.engine
	.venv/bin/python -m benchmarks.peers

reproduction: .venv/run.stamp  ## write the pages of docs/results from reproduction/results
	.venv/bin/python -m reproduction

lock:  ## pin the newest dependencies again (needs uv)
	$(LOCK) --group dev -o requirements-dev.lock
	$(LOCK) --group build -c requirements-dev.lock -o requirements.lock

clean:  ## remove .venv and what tools left behind
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The development lock holds the other one, so it serves `make run` as well.
.venv/run.stamp: requirements.lock pyproject.toml | .venv/bin/python
	@echo "Installing $< into .venv (about 0.7 GB, once)"
	@$(INSTALL)
	@touch $@

.venv/dev.stamp: requirements-dev.lock pyproject.toml | .venv/bin/python
	@echo "Installing $< into .venv (about 1.3 GB, once)"
	@$(INSTALL)
	@touch .venv/run.stamp $@

.venv/bin/python:
	@for python in "$(PYTHON)" python3.11 python3.12 python3.13 python3.14; do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "Creating .venv with $$python"; \
	        exec "$$python" -m venv .venv; \
	    fi; \
	done; \
	echo "$(PYTHON) is no Python of 3.11 or newer; name one: make PYTHON=/path/to/python" >&2; \
	exit 2
