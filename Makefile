# Two commands do everything on a machine that has Python, make and git:
#   make demo    see it work          make test    prove that it does
# `make check` is the fast inner loop; `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
DEMO_READY := .venv/.demo-ready

.DEFAULT_GOAL := help
.PHONY: help demo test check fix constraints locked diagram walk bench-journal bench-interrupt bench-assistant bench-server bench-page bench-scale bench-steps bench-voice kit mutants web web-types agui-uis pictures docs clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

define install
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Midflight needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@echo "Installing the pinned versions into .venv (once) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
endef

$(INSTALLED): EXTRAS = dev
$(INSTALLED): pyproject.toml constraints.txt
	$(install)
	@touch $@ $(DEMO_READY)

# far less than the tests need; the models are there in case that there is a key
$(DEMO_READY): EXTRAS = anthropic,openai,server,tui
$(DEMO_READY): pyproject.toml constraints.txt
	$(install)
	@touch $@

demo: $(DEMO_READY)  ## an agent at work, to be interrupted: ARGS="--fresh", or --help for the rest
	@$(BIN)/midflight demo $(ARGS)

test: $(INSTALLED)  ## everything that CI runs
	@$(BIN)/python scripts/test.py

check: $(INSTALLED)  ## the fast inner loop: format, lint, types, imports, fast tests
	@$(BIN)/python scripts/test.py --fast

fix: $(INSTALLED)  ## format, and mend what the linter can mend
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

docs: $(INSTALLED)  ## build the site into site/, with no warning
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict && echo "Open site/index.html; to search it too: python3 -m http.server -d site"

constraints: $(INSTALLED)  ## choose the pinned versions anew
	@$(BIN)/uv pip compile --quiet --universal --upgrade --no-header --no-annotate --no-emit-index-url \
		--no-emit-find-links --extra dev --output-file constraints.txt pyproject.toml

locked: $(INSTALLED)  ## pin what the image installs by hash, in the versions of constraints.txt
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url \
		--no-emit-find-links -c constraints.txt --extra server --extra restate --output-file deploy/locked.txt pyproject.toml

diagram: $(INSTALLED)  ## redraw the state diagram in ARCHITECTURE.md from the table
	@$(BIN)/python scripts/diagram.py

walk: $(INSTALLED)  ## trace a step, a cancel, a message and a spoken "wait": WALK="--show step" prints the way itself
	@$(BIN)/python scripts/walk.py $(WALK)

bench-journal: $(INSTALLED)  ## measure the stores against raw SQLite and raw asyncpg
	@PYTHONPATH=tests $(BIN)/python bench/journal_rates.py

bench-interrupt: $(INSTALLED)  ## measure how soon a stop is heard, and what steps and paused runs cost
	@PYTHONPATH=tests $(BIN)/python bench/interrupt.py

bench-server: $(INSTALLED)  ## measure how soon a cancel over HTTP is heard, and what watching costs
	@PYTHONPATH=tests $(BIN)/python bench/http_server.py

bench-assistant: $(INSTALLED)  ## measure how soon a model call is closed and a message answered for
	@PYTHONPATH=tests $(BIN)/python bench/talking.py

bench-page: $(INSTALLED)  ## measure the page in a real browser: load, long runs, presses
	@PYTHONPATH=tests $(BIN)/python bench/browser.py

bench-voice: $(INSTALLED)  ## measure how well one can interrupt by voice, beside Pipecat (20 min)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check ttspico==0.3.2  # compiles C, so nothing else asks for it
	@for part in flite pocketsphinx-testdata asterisk-core-sounds-en-wav; do dpkg -s $$part >/dev/null 2>&1 || apt-get install -qq -y $$part >/dev/null || exit 1; done
	@PYTHONPATH=tests $(BIN)/python bench/speaking.py $(VOICE)

bench-scale: $(INSTALLED) tests/engines/node_modules/.package-lock.json  ## measure many machines: takeovers, aborts, steps, presses, 2,000 runs (16 min)
	@PYTHONPATH=tests $(BIN)/python bench/scale.py $(PARTS)

bench-steps: $(INSTALLED)  ## measure durable steps, stops and resumes, beside LangGraph, DBOS and raw SQLite (8 min): PARTS="--quick speed", or --help
	@PYTHONPATH=tests $(BIN)/python bench/steps.py $(PARTS)

tests/engines/node_modules/.package-lock.json: tests/engines/package-lock.json
	@npm ci --ignore-scripts --silent --no-audit --no-fund --prefix tests/engines

kit: $(INSTALLED)  ## the interruptibility kit on all runtimes it knows, and its page
	@$(BIN)/python bench/interruptibility.py $(KIT)

mutants: $(INSTALLED)  ## remove each protecting layer alone and see its test go red
	@$(BIN)/python scripts/mutants.py

pictures: $(INSTALLED)  ## take the pictures of the page anew, into docs/pictures
	@MIDFLIGHT_PICTURES=1 $(BIN)/python -m pytest -q -m picture tests/page
	@$(BIN)/python scripts/page_pictures.py

web-types: $(INSTALLED)  ## write the page's types anew from the structs of the server
	@$(BIN)/python scripts/web_types.py

web/node_modules/.package-lock.json: web/package-lock.json
	@npm install --no-save --ignore-scripts --silent --no-audit --no-fund --prefix web  # see install_locked in scripts/test.py

web: web/node_modules/.package-lock.json  ## build the page anew from web/, into the package
	@npm run --silent --prefix web build

agui-uis: tests/server/agui_uis/built/copilotkit.html  ## build the pages with CopilotKit and assistant-ui, for their tests

tests/server/agui_uis/node_modules/.package-lock.json: tests/server/agui_uis/package-lock.json
	@npm ci --ignore-scripts --silent --no-audit --no-fund --prefix tests/server/agui_uis

tests/server/agui_uis/built/copilotkit.html: tests/server/agui_uis/node_modules/.package-lock.json web/node_modules/.package-lock.json tests/server/agui_uis/vite.config.js $(wildcard tests/server/agui_uis/pages/*)
	@node web/node_modules/vite/bin/vite.js build --config tests/server/agui_uis/vite.config.js

clean:  ## remove what make has made
	@rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache web/node_modules tests/server/agui_uis/node_modules tests/server/agui_uis/built
