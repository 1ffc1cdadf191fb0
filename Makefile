# Two commands, each from nothing: `make verify` checks the claims and draws the figures; `make test` tests mfcheck.
PYTHON  ?= python3
PROFILE ?= quick
SEED    ?= 0
OUT     ?= outcomes
BIN     := .venv/bin
READY   := .venv/ready

.PHONY: verify test readme clean

verify: $(READY)
	@mkdir -p $(OUT); status=0; \
	$(BIN)/pytest paper_checks -n auto --mfcheck-profile $(PROFILE) --mfcheck-seed $(SEED) --mfcheck-out $(OUT) || status=$$?; \
	$(BIN)/mfcheck wikitext --preset small --recorded --out $(OUT) >$(OUT)/wikitext.txt || status=$$?; \
	$(BIN)/mfcheck figures --outcomes $(OUT) || status=$$?; \
	$(BIN)/mfcheck report --outcomes $(OUT) || status=$$?; \
	exit $$status

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto

# What README and docs show (claims table, a printed sample, the gallery), from the outcomes of the last `make verify`.
readme: $(READY)
	$(BIN)/mfcheck report --outcomes $(OUT) --readme README.md
	$(BIN)/mfcheck figures --outcomes $(OUT) --out docs/figures --format png,gif --dpi 110 --page docs/gallery.md

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf .venv build *.egg-info outcomes
