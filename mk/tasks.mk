# Targets for users and CI: the demo, checks, measurements and documents.
DIGITS := $(sort $(wildcard examples/mnist/digits/*.pgm))
demo: ## installs missing packages, builds, recognises handwritten digits and writes some text
	@ci/deps demo
	@$(MAKE) --no-print-directory all $(BUILD)/demo
	@CLAVE_DEVICE=cpu $(BUILD)/demo examples/mnist/mnist.clv $(firstword $(DIGITS))
	@if $(BUILD)/clave devices --json | grep -q '"kind": *"opencl"'; then CLAVE_DEVICE=opencl $(BUILD)/demo examples/mnist/mnist.clv $(lastword $(DIGITS)); fi
	@echo "\nROMEO:"
	@$(BUILD)/clave generate examples/tinylm/tinylm.clv --prompt "ROMEO:" --temperature 0.8 --seed 3 --max-new-tokens 120
RING = ci/deps check && TORCH="$(TORCH)" ci/venv && SAN="$(SAN)" DEVICE="$(DEVICE)" BUILD="$(BUILD)" .venv/bin/python ci/check.py --ring
quick: ## builds, and runs lint, the C suite, the demo and a few op cases (a minute after the build)
	@$(RING) quick
check: ## installs missing packages, builds, and runs the same tests at every commit (at most 8 minutes on 2 cores)
	@$(RING) check
check-more: ## runs a larger sample of tests, drawn by the date (at most 40 minutes on 2 cores)
	@$(RING) more
check-all: ## runs all tests, including those that need hours; a second call continues a stopped run
	@$(RING) all
check-clean: ## runs make demo and make check in a fresh clone with a fresh HOME
	@ci/check_clean
conformance: all ## runs every sample of torch's operator database that is in scope, on DEVICE or both; writes docs/reference/coverage.md
	@ci/deps check
	@TORCH="$(TORCH)" ci/venv
	@for d in $(or $(DEVICE),cpu opencl); do .venv/bin/python test/conformance/run.py --device $$d --jobs $$(nproc) --failures || bad=1; done; [ -z "$$bad" ]
	@$(if $(DEVICE),,.venv/bin/python test/conformance/coverage.py)
bench-programs: $(BENCH_BIN)
bench: all $(BENCH_BIN) ## measures speed and writes the tables of docs/performance.md. CHECK=1: fails if a row exceeds its bound
	@.venv/bin/python bench/bench.py --build $(BUILD) $(if $(CHECK),--check)
mutants: ## plants each fault of test/mutants and checks that a test fails; writes docs/developers/mutants.md
	@ci/deps check
	@TORCH="$(TORCH)" ci/venv
	@$(MAKE) --no-print-directory -s all tests
	@.venv/bin/python test/cases/build.py | tail -n 1
	@.venv/bin/python test/mutants/run.py --write
lint: ## checks style, layers, sizes, exports, names and prose
	@$(MAKE) --no-print-directory all
	@ci/lint $(BUILD)
compile_commands.json: $(GEN_HDR) $(ARGS_HDR) ## writes the compile command of each C file, for editors and clang's tools
	@$(MAKE) --no-print-directory --always-make --dry-run V=1 all tests | $(PYTHON) mk/compile_commands.py
format: ## formats C and Python in the house style
	@git ls-files '*.c' '*.cc' '*.h' '*.cl' | xargs clang-format -i
	@.venv/bin/ruff check -q --fix . ; .venv/bin/ruff format -q .
site: all ## writes the documents and the error guide as HTML pages to build/site; fails on dead links
	@ci/venv docs
	@.venv-docs/bin/python docs/site.py $(BUILD)/site
fuzz: ## fuzzes each decoder for FUZZ_SECONDS (60), then runs FUZZ_GRAPHS (10000) new random programs, compiled, too
	@$(MAKE) --no-print-directory SAN=$(or $(SAN),address,undefined) SANFLAGS="-fsanitize=$(or $(SAN),address$(comma)undefined) -fsanitize=fuzzer-no-link" BUILD=build/fuzzing fuzz-targets
	@ci/fuzz build/fuzzing $(or $(FUZZ_SECONDS),60)
	@[ "$(FUZZ_GRAPHS)" = 0 ] || $(MAKE) --no-print-directory -s all
	@seed=$$(date +%s); for i in $$(seq 0 250 $$(($(or $(FUZZ_GRAPHS),10000) - 1))); do \
	  .venv/bin/python test/graphs/run.py --compiled --seed $$((seed + i)) --count 250 || exit 1; done
soak: tests ## runs sessions and conversations for SOAK_MINUTES (10) on each device, checks that memory does not grow; draws docs/pictures/soak.svg
	@ci/soak $(BUILD) $(or $(SOAK_MINUTES),10) $(or $(DEVICE),cpu opencl)
	@$(if $(DEVICE),,$(PYTHON) test/soak_plot.py --out docs/pictures/soak.svg $(BUILD)/soak/cpu.csv $(BUILD)/soak/opencl.csv)
