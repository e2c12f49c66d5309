# clave: everything is built out of tree in $(BUILD), in one make. `make help` lists the targets.
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
SAN ?=#          sanitizers, e.g. address,undefined: builds with clang in a folder of its own
DEVICE ?=#       what `make check` runs the op cases on, e.g. opencl:0 (default: cpu and opencl)
TORCH ?=#        a CPU build of torch for `make check`: a wheel, or a folder of wheels
CROSS ?=#        the prefix of another processor's tools, e.g. aarch64-linux-gnu-: builds in a folder of its own
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
VERSION = 0.1.0
ABI = 0#         of libclave.so: a new number where a program built for the last one may not run
PYTHON ?= python3
# Sanitized code takes clang much longer at -O2; their reports name functions and lines alone.
CFLAGS ?= $(if $(SAN),-O1 -g1,-O2 -g)
FAST = $(if $(SAN),,-O3)
ifneq ($(SAN),)
  BUILD ?= build/san
  CC := clang
  CXX := clang++
  SANFLAGS = -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined
endif
ifneq ($(CROSS),)
  BUILD ?= build/$(CROSS:%-=%)
  AR := $(CROSS)ar
  LD := $(CROSS)ld
endif
ifeq ($(origin CC),default)
  CC := $(CROSS)gcc
endif
BUILD ?= build
GEN = $(BUILD)/gen
WARN = -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Wmissing-prototypes -Werror
STD = -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -DCLAVE_VERSION='"$(VERSION)"' -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -fwrapv -ffunction-sections -fdata-sections
COMPILE = $(CC) $(STD) $(WARN) $(CFLAGS) $(EXTRA) $(SANFLAGS) -MMD -MP -I. -Iinclude -I$(GEN)
# Sanitizers look up C++'s throw at the start, and drivers that are opened later do throw.
# -pthread, and not -lpthread: on riscv64 it also links libatomic, which has the exchanges of single bytes.
LIBS = $(LDFLAGS) -lpcre2-8 -lutf8proc -pthread -ldl -lm $(if $(SAN),-Wl$(comma)--no-as-needed -lstdc++)
comma = ,

ROOMS = base json serialize ops interp interp/graph interp/passes backend/cpu backend/cpu/kernels backend/opencl compile api tokenizer jinja llm
GEN_HDR = $(addprefix $(GEN)/,ir.h op_rules.h cpu_ops.h opencl_ops.h steps.def)
ARGS_HDR = $(GEN)/kernel_args.h
GEN_SRC = $(addprefix $(GEN)/,ir_desc.c op_table.c work_table.c steps_table.c cpu_table.c opencl_table.c)
LIB_SRC := $(wildcard $(ROOMS:%=%/*.c))
LIB_OBJ = $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(patsubst $(GEN)/%.c,$(BUILD)/obj/gen/%.o,$(GEN_SRC) $(GEN)/kernels_embed.c $(GEN)/compile_tables.c)
# The tool has objects of json/ and base/ of its own: the library shows it no more than anybody else.
# Its chats have line editing where libedit is installed: the tool alone is linked with that.
EDIT := $(if $(CROSS),,$(if $(wildcard /usr/include/histedit.h /usr/local/include/histedit.h),-ledit))
CLI_SRC := $(filter-out $(if $(EDIT),cli/no_editor.c,cli/editor.c),$(wildcard cli/*.c))
CLI_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(CLI_SRC) $(wildcard json/*.c) $(addprefix base/,clock.c drawn.c dtype.c file.c file_guard.c file_map.c file_writer.c float_env.c memory.c npy.c number.c path.c process.c room.c sha256.c status.c text.c threads.c))
# What executables that carry their program link ahead of libclave.a: their command lines.
MAIN_SRC := $(wildcard base/*.c json/*.c compile/carried/*.c) $(addprefix compile/runtime/,main.c arguments.c files.c safetensors.c tensors.c verify.c) \
  $(filter-out cli/main.c cli/editor.c,$(wildcard cli/*.c))
MAIN_OBJ := $(MAIN_SRC:%.c=$(BUILD)/obj/%.o)
# The plugin is over the public headers, with objects of base/ of its own, and finds libclave.so beside itself.
DELEGATE_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard delegate/*.c) $(addprefix base/,clock.c float_env.c memory.c number.c room.c sized.c status.c text.c threads.c))
TEST_SRC := $(wildcard $(addprefix test/,$(addsuffix /test_*.c,$(filter-out backend/cpu/kernels,$(ROOMS)) backend cli delegate)))
TEST_BIN = $(TEST_SRC:%.c=$(BUILD)/%)
FUZZ_SRC := $(wildcard test/fuzz/fuzz_*.c)
FAULT_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard test/fault/run_*.c))
BENCH_BIN = $(patsubst %.c,$(BUILD)/%,$(filter-out bench/common.c,$(wildcard bench/*.c)))
PY_GEN = python/clave/_generated
KERNELS := $(wildcard kernels_cl/*.cl kernels_cl/*.h) base/decode.h base/float8.h

PAGES = $(if $(CROSS)$(SAN),,$(BUILD)/share/made)# manual pages, completions: the tool that was built prints its tables
all: $(BUILD)/libclave.so $(BUILD)/libclave.a $(BUILD)/libclave_main.a $(BUILD)/libclave_delegate.so $(BUILD)/clave $(PY_GEN)/schema.py $(PAGES) ## library, plugin and command line tool

# ---- generated sources, rewritten only when what they come from changed
$(GEN_HDR) $(GEN_SRC) $(PY_GEN)/schema.py docs/ops.md &: $(wildcard serialize/*.py) serialize/schema.fbs ops/elementwise.tsv
	$(PYTHON) serialize/generate.py --out $(GEN) --python $(PY_GEN) --docs docs --skip-flatc
$(GEN)/kernels_embed.c $(ARGS_HDR) &: backend/opencl/embed.py $(KERNELS)
	@mkdir -p $(GEN)
	$(PYTHON) $< --out $(GEN)/kernels_embed.c --header $(ARGS_HDR) $(KERNELS)
$(GEN)/args_checked: backend/opencl/check_args.py $(ARGS_HDR) $(wildcard backend/opencl/*.c)
	$(PYTHON) $< --kernels $(KERNELS) --sources $(filter %.c,$^)
	@touch $@

# What compiled programs are built of.
COMPILED := $(wildcard base/*.[ch] backend/cpu/kernels/*.[ch] compile/runtime/*.[ch]) $(addprefix compile/carried/,carried.h close.h library.h) \
  $(addprefix json/,json.h syntax.c writer.h writer.c) \
  $(filter-out %/backend.c %/running.c,$(wildcard backend/cpu/*.[ch])) $(filter-out ops/work.%,$(wildcard ops/*.[ch])) backend/backend.h compile/open/planned.h compile/open/planned.c compile/open/by_rule.c \
  $(addprefix interp/,arena.h arena.c executable.h interp.h plan_control.c plan_narrow.c plan_op.c plan_part.c plan_storage.c planner.h planner.c scalar.h scalar.c schedule.h schedule.c graph/graph.h graph/graph.c) \
  serialize/program.h serialize/numbering.c
COMPILED := $(filter-out base/tuning_%.c,$(COMPILED))
COMPILED_GEN = $(addprefix $(GEN)/,steps.def ir.h ir_desc.c op_rules.h cpu_ops.h steps_table.c)
$(GEN)/compile_tables.c: compile/sources.py backend/opencl/embed.py $(COMPILED) $(COMPILED_GEN)
	$(PYTHON) $< --out $@ $(COMPILED_GEN:%=--generated %) $(COMPILED)

# ---- objects; the stamp rebuilds them when a flag changes
FLAGS_STAMP = $(BUILD)/flags
ifneq ($(file <$(FLAGS_STAMP)),$(COMPILE))
  $(shell mkdir -p $(BUILD))$(file >$(FLAGS_STAMP),$(COMPILE))
endif
$(BUILD)/obj/backend/cpu/kernels/%.o: EXTRA = $(FAST) -fno-trapping-math# loops for the vectoriser; nobody reads floating-point traps
$(BUILD)/obj/llm/sampler.o $(BUILD)/obj/base/encoding.o: EXTRA = $(FAST) -fno-trapping-math
# clang takes minutes to optimise what the sanitizers add, above all to unrolled tiles, and a second to compile it as it is.
TILES = $(basename $(notdir $(wildcard backend/cpu/kernels/*_kernels.c))) depthwise_integer depthwise_lanes depthwise_narrow few_rows pairs pointwise_narrow step_rows
UNTIMED = backend/opencl interp cli ops compile api delegate serialize json jinja# rooms without long loops
ifneq ($(SAN),)
$(TILES:%=$(BUILD)/obj/backend/cpu/kernels/%.o) $(UNTIMED:%=$(BUILD)/obj/%/%.o): EXTRA = -O0
endif
$(BUILD)/obj/gen/%.o: $(GEN)/%.c $(FLAGS_STAMP) | $(GEN_HDR) $(ARGS_HDR)
	@mkdir -p $(@D)
	$(COMPILE) -c $< -o $@
$(BUILD)/obj/%.o: %.c $(FLAGS_STAMP) | $(GEN_HDR) $(ARGS_HDR)
	@mkdir -p $(@D)
	$(COMPILE) -c $< -o $@

$(filter $(BUILD)/obj/backend/opencl/%,$(LIB_OBJ)): | $(GEN)/args_checked

# libclave.a hides all but clave_*, as the shared library does; our own tests see everything in obj/internal.a.
# A section for each function (--unique: of equal names, too), so that what an executable does not call stays out of it.
$(BUILD)/libclave.a: $(LIB_OBJ)
	@rm -f $@
	$(LD) -r --unique -o $(BUILD)/obj/clave.o $^
	$(CROSS)objcopy --localize-hidden $(BUILD)/obj/clave.o
	$(AR) rcs $@ $(BUILD)/obj/clave.o
INTERNAL = $(BUILD)/obj/internal.a
# Every C file of library, tool, plugin and compiled programs, read by the compiler of another processor; links nothing.
EVERY_SRC = $(sort $(LIB_SRC) $(CLI_SRC) $(MAIN_SRC) $(wildcard delegate/*.c compile/*/*.c))
syntax: $(GEN_HDR) $(ARGS_HDR)
	@printf '%s\n' $(EVERY_SRC) | xargs -n 40 -P 2 $(CC) $(STD) $(WARN) $(CFLAGS) -I. -Iinclude -I$(GEN) -fsyntax-only
kernel-objects: $(filter $(BUILD)/obj/backend/cpu/kernels/%,$(LIB_OBJ))
$(INTERNAL): $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(BUILD)/libclave_main.a: $(MAIN_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
# Drivers, and what is found once a process, stay where a host unloads a plugin: so does the library (nodelete).
$(BUILD)/libclave.so: $(LIB_OBJ)
	$(CC) -shared $(SANFLAGS) -Wl,-z,nodelete $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-soname,libclave.so.$(ABI) -o $@ $^ $(LIBS)
	@ln -sf libclave.so $@.$(ABI)
$(BUILD)/libclave_delegate.so: $(DELEGATE_OBJ) $(BUILD)/libclave.so
	$(CC) -shared $(SANFLAGS) $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-soname,libclave_delegate.so -Wl,-rpath,'$$ORIGIN' -o $@ $(DELEGATE_OBJ) $(LDFLAGS) -L$(BUILD) -lclave -pthread -lm
# ClaveBackend for ExecuTorch, against the headers and the library of its Python package; beside libclave_delegate.so, which it calls.
EXECUTORCH ?= $(firstword $(wildcard .venv-executorch/lib/python*/site-packages/executorch))
EXECUTORCH_VERSION = $(patsubst executorch-%.dist-info,%,$(notdir $(wildcard $(addsuffix -*.dist-info,$(EXECUTORCH)))))
EXECUTORCH_FLAGS = -DCLAVE_EXECUTORCH_VERSION='"$(or $(EXECUTORCH_VERSION),unknown)"' -DC10_USING_CUSTOM_GENERATED_MACROS -DET_EVENT_TRACER_ENABLED $(addprefix -isystem $(EXECUTORCH)/include,/ /executorch/runtime/core/portable_type/c10)
COMPILE_CXX = $(CXX) -std=c++17 $(filter-out -std=% -D%,$(STD)) $(filter-out -Wmissing-prototypes -Wvla,$(WARN)) $(CFLAGS) $(SANFLAGS) -I. -Iinclude -Idelegate $(EXECUTORCH_FLAGS)
executorch: $(BUILD)/libclave_executorch.so $(BUILD)/run_pte ## the backend for ExecuTorch, whose Python package EXECUTORCH names (default: that of ci/venv executorch)
$(BUILD)/libclave_executorch.so: $(wildcard delegate/executorch/*) delegate/clave_delegate.h include/clave.h $(BUILD)/libclave_delegate.so $(FLAGS_STAMP)
	@[ -e "$(EXECUTORCH)/include" ] || { echo "EXECUTORCH=$(EXECUTORCH): no package of ExecuTorch is there; ci/venv executorch installs one" >&2; exit 1; }
	$(COMPILE_CXX) -shared $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../executorch/lib' -o $@ $(filter %.cc,$^) $(LDFLAGS) -L$(BUILD) -lclave_delegate -lclave -L$(EXECUTORCH)/lib -lexecutorch
$(BUILD)/run_pte: examples/executorch/run_pte.cc $(BUILD)/libclave_executorch.so
	$(COMPILE_CXX) -Wl,-rpath,'$$ORIGIN:$(abspath $(EXECUTORCH))/lib' -o $@ $< $(LDFLAGS) -Wl,--no-as-needed -L$(BUILD) -lclave_executorch -Wl,-rpath-link,$(BUILD) -L$(EXECUTORCH)/lib -lexecutorch -lexecutorch_kernels_optimized
$(BUILD)/clave: $(CLI_OBJ) $(BUILD)/libclave.a
	$(CC) $(SANFLAGS) -o $@ $^ $(EDIT) $(LIBS)
	@$(if $(EDIT)$(CROSS),,echo "clave: chats have no line editing: libedit (Debian: libedit-dev) is not installed")

$(BUILD)/share/made: cli/pages.py $(BUILD)/clave
	@rm -rf $(@D) && mkdir -p $(@D)
	$(BUILD)/clave command-tables > $(BUILD)/tables.json
	$(PYTHON) $< $(BUILD)/tables.json $(@D)
	@touch $@

# What the Python wheel carries: a library and a tool that need libc and libm alone. Their own libraries are linked statically.
STATIC = -Wl,-Bstatic -lpcre2-8 -lutf8proc -Wl,-Bdynamic -pthread -ldl -lm
EDIT_LIBS = edit bsd md tinfo
STATIC_EDIT := $(if $(EDIT),$(if $(strip $(foreach l,$(EDIT_LIBS),$(if $(wildcard /usr/lib/*/lib$l.a),,$l))),$(EDIT),-Wl$(comma)-Bstatic $(EDIT_LIBS:%=-l%) -Wl$(comma)-Bdynamic))
$(BUILD)/wheel/libclave.so: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) -shared -s -Wl,-z,defs -Wl,-soname,$(@F) -Wl,--exclude-libs,ALL -o $@ $^ $(LDFLAGS) $(STATIC)
$(BUILD)/wheel/clave: $(CLI_OBJ) $(BUILD)/wheel/libclave.so
	$(CC) -s -Wl,-rpath,'$$ORIGIN' -o $@ $^ $(LDFLAGS) $(STATIC_EDIT) -pthread -ldl -lm
$(BUILD)/wheel/libclave_delegate.so: $(DELEGATE_OBJ) $(BUILD)/wheel/libclave.so
	$(CC) -shared -s -Wl,-z,defs -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' -o $@ $^ $(LDFLAGS) -pthread -lm
# What `clave compile` links with: without debugging information, and with the libraries that language models need.
$(BUILD)/wheel/%.a: $(BUILD)/%.a
	@mkdir -p $(@D)
	$(CROSS)objcopy --strip-debug $< $@
$(addprefix $(BUILD)/wheel/,libpcre2-8.a libutf8proc.a):
	@mkdir -p $(@D)
	$(CROSS)objcopy --strip-debug $$($(CC) -print-file-name=$(@F)) $@
wheel-files: $(addprefix $(BUILD)/wheel/,libclave.so libclave_delegate.so clave libclave.a libclave_main.a libpcre2-8.a libutf8proc.a)

$(BUILD)/demo: $(BUILD)/obj/examples/mnist/demo.o $(BUILD)/libclave.a
	$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/run_llama: $(BUILD)/obj/examples/llama/run_llama.o $(BUILD)/libclave.a
	$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)

# ---- tests: C files with a main each
$(BUILD)/test/%: $(BUILD)/obj/test/%.o $(INTERNAL)
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) -o $@ $^ -lcmocka $(LIBS)
# A host of an earlier release: the headers in its folder go before ours, and nothing of clave is linked.
$(BUILD)/obj/test/delegate/release_1/%.o: EXTRA = -Itest/delegate/release_1
$(BUILD)/test/delegate/test_abi: $(BUILD)/obj/test/delegate/test_abi.o $(BUILD)/obj/test/delegate/release_1/host.o
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) -o $@ $^ $(LDFLAGS) -lcmocka -pthread -ldl $(if $(SAN),-Wl$(comma)--no-as-needed -lstdc++)
$(filter $(BUILD)/test/delegate/%,$(TEST_BIN)): | $(BUILD)/libclave_delegate.so
# cmocka.h needs these first, wherever clang-format sorts it.
$(BUILD)/obj/test/%.o: EXTRA = $(if $(SAN),-O0) -Itest -include setjmp.h -include stdarg.h -include stddef.h -include stdint.h
$(BUILD)/obj/test/%.o: WARN = -Wall -Wextra -Werror
$(BUILD)/obj/bench/%.o: EXTRA = -fopenmp -O3
$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/obj/bench/common.o $(INTERNAL)
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) -fopenmp -o $@ $^ -lopenblas $(LIBS) -lOpenCL
$(BUILD)/fuzz/%: test/fuzz/%.c $(LIB_OBJ)
	@mkdir -p $(@D)
	clang $(STD) -g -O1 -I. -Iinclude -I$(GEN) -Itest -fsanitize=fuzzer,$(or $(SAN),address,undefined) -o $@ $^ $(LIBS)
$(BUILD)/fuzz/fuzz_npy $(BUILD)/fuzz/replay_fuzz_npy: $(BUILD)/obj/cli/npy.o
$(BUILD)/fuzz/fuzz_delegate $(BUILD)/fuzz/replay_fuzz_delegate: $(filter $(BUILD)/obj/delegate/%,$(DELEGATE_OBJ))
# A decoder's fuzz target without libFuzzer: runs on the files of a corpus.
$(BUILD)/fuzz/replay_%: $(BUILD)/obj/test/fuzz/%.o $(BUILD)/obj/test/fuzz/main.o $(INTERNAL)
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)
# Fault tests: the allocators that our objects call are wrapped, and a libOpenCL.so.1 of ours goes before the real one.
WRAPPED = malloc calloc realloc aligned_alloc posix_memalign strdup strndup
$(FAULT_BIN): $(BUILD)/test/fault/%: $(BUILD)/obj/test/fault/%.o $(BUILD)/obj/test/fault/alloc.o $(BUILD)/obj/test/fault/loop.o $(INTERNAL)
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) $(WRAPPED:%=-Wl$(comma)--wrap=%) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)
$(BUILD)/test/fault/run_delegate_faults: $(filter $(BUILD)/obj/delegate/%,$(DELEGATE_OBJ))
$(BUILD)/stub/libOpenCL.so.1: test/stub_opencl/stub.c test/stub_opencl/dma_buf.h test/stub_opencl/generate.py
	$(PYTHON) test/stub_opencl/generate.py --header $(or $(CL_HEADER),/usr/include/CL/cl.h) --out $(@D)/calls.inc --map $(@D)/stub.map
	$(CC) -std=gnu11 -Wall -Wextra -g -fPIC -shared -I. -I$(@D) -Wl,-soname,$(@F) -Wl,--version-script=$(@D)/stub.map -o $@ $< -ldl
tests: $(BUILD)/libclave_delegate.so $(TEST_BIN) $(BUILD)/test/replay $(BUILD)/test/soak $(FAULT_BIN) $(BUILD)/stub/libOpenCL.so.1
fuzz-replays: $(FUZZ_SRC:test/fuzz/%.c=$(BUILD)/fuzz/replay_%)
fuzz-targets: $(FUZZ_SRC:test/fuzz/%.c=$(BUILD)/fuzz/%)

DIGITS := $(sort $(wildcard examples/mnist/digits/*.pgm))
demo: ## installs what is missing, builds, recognises handwritten digits and writes some text
	@ci/deps demo
	@$(MAKE) --no-print-directory all
	@$(MAKE) --no-print-directory -s $(BUILD)/demo
	@CLAVE_DEVICE=cpu $(BUILD)/demo examples/mnist/mnist.clv $(firstword $(DIGITS))
	@if $(BUILD)/clave devices --json | grep -q '"kind": *"opencl"'; then CLAVE_DEVICE=opencl $(BUILD)/demo examples/mnist/mnist.clv $(lastword $(DIGITS)); fi
	@echo "\nROMEO:"
	@$(BUILD)/clave generate examples/tinylm/tinylm.clv --prompt "ROMEO:" --temperature 0.8 --seed 3 --max-new-tokens 120
check: ## installs what is missing, builds, and runs the tests (about 45 minutes on 2 cores)
	@ci/deps check
	@TORCH="$(TORCH)" ci/venv
	@SAN="$(SAN)" DEVICE="$(DEVICE)" BUILD="$(BUILD)" .venv/bin/python ci/check.py
check-all: ## all of what make check runs a part of, and what is long: hours; goes on where it was stopped
	@ci/deps check
	@TORCH="$(TORCH)" ci/venv
	@SAN="$(SAN)" DEVICE="$(DEVICE)" BUILD="$(BUILD)" .venv/bin/python ci/check.py --all
check-clean: ## both set-up commands in a fresh clone with a fresh home
	@ci/check_clean
conformance: all ## every sample of torch's operator database in scope, on DEVICE or both; writes docs/coverage.md
	@ci/deps check
	@TORCH="$(TORCH)" ci/venv
	@for d in $(or $(DEVICE),cpu opencl); do .venv/bin/python test/conformance/run.py --device $$d --jobs $$(nproc) --failures || bad=1; done; [ -z "$$bad" ]
	@$(if $(DEVICE),,.venv/bin/python test/conformance/coverage.py)
bench-programs: $(BENCH_BIN)
bench: all $(BENCH_BIN) ## measures; writes the tables of docs/performance.md. CHECK=1: fails where a row is over its bound
	@.venv/bin/python bench/bench.py --build $(BUILD) $(if $(CHECK),--check)
mutants: ## plants every fault of test/mutants, says who notices; writes docs/mutants.md
	@ci/deps check
	@TORCH="$(TORCH)" ci/venv
	@$(MAKE) --no-print-directory -s all tests
	@.venv/bin/python test/cases/build.py | tail -n 1
	@.venv/bin/python test/mutants/run.py --write
lint: ## style, layers, sizes and exports
	@$(MAKE) --no-print-directory all
	@ci/lint $(BUILD)
format: ## rewrites C and Python in the house style
	@git ls-files '*.c' '*.cc' '*.h' '*.cl' | xargs clang-format -i
	@.venv/bin/ruff check -q --fix . ; .venv/bin/ruff format -q .
site: all ## the documents as pages in build/site, with the error guide; fails on dead links
	@ci/venv docs
	@.venv-docs/bin/python docs/site.py $(BUILD)/site
fuzz: ## fuzzes each decoder for FUZZ_SECONDS (60); FUZZ_GRAPHS (10000) new random programs, compiled too
	@$(MAKE) --no-print-directory SAN=$(or $(SAN),address,undefined) SANFLAGS="-fsanitize=$(or $(SAN),address$(comma)undefined) -fsanitize=fuzzer-no-link" BUILD=build/fuzzing fuzz-targets
	@ci/fuzz build/fuzzing $(or $(FUZZ_SECONDS),60)
	@[ "$(FUZZ_GRAPHS)" = 0 ] || $(MAKE) --no-print-directory -s all
	@seed=$$(date +%s); for i in $$(seq 0 250 $$(($(or $(FUZZ_GRAPHS),10000) - 1))); do \
	  .venv/bin/python test/graphs/run.py --compiled --seed $$((seed + i)) --count 250 || exit 1; done
soak: tests ## SOAK_MINUTES (10) of sessions and conversations on each device: memory stays flat; draws docs/soak.svg
	@ci/soak $(BUILD) $(or $(SOAK_MINUTES),10) $(or $(DEVICE),cpu opencl)
	@$(if $(DEVICE),,$(PYTHON) test/soak_plot.py --out docs/soak.svg $(BUILD)/soak/cpu.csv $(BUILD)/soak/opencl.csv)
# What `make install` puts where, of which `make uninstall` takes each away again.
SHARED = $(if $(PAGES),$(patsubst $(BUILD)/share/%,%,$(filter-out %/made,$(shell find $(BUILD)/share -type f 2>/dev/null))))
FILLED = sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|; s|@MINOR@|$(basename $(VERSION))|; s|@ABI@|$(ABI)|; \
  s|@TO_PREFIX@|$(shell realpath -m --relative-to=$(LIBDIR)/cmake/clave $(PREFIX))|'
# What builds the backend for a version of ExecuTorch, where that is.
EXECUTORCH_SOURCES = $(wildcard delegate/executorch/*) delegate/clave_delegate.h include/clave.h
# Files are installed without debugging information, which is most of their size. What they name as their debug file is made
# beside the build and goes where debuggers look first, .debug/, by `make install-debug`. INSTALL_STRIP= installs files as built.
INSTALL_STRIP ?= --strip-debug
SHARED_LIBRARIES = libclave.so libclave_delegate.so libclave_executorch.so
DEBUG_FILES = $(addprefix $(BUILD)/debug/,$(addsuffix .debug,clave libclave.so libclave_delegate.so $(notdir $(wildcard $(BUILD)/libclave_executorch.so))))
$(BUILD)/debug/%.debug: $(BUILD)/%
	@mkdir -p $(@D)
	$(CROSS)objcopy --only-keep-debug --compress-debug-sections $< $@
	@chmod 644 $@
# $(call installed,FILE,TO,MODE) of an executable or a library, $(call installed_archive,FILE,TO)
installed = rm -f $2 && $(if $(INSTALL_STRIP),$(CROSS)objcopy $(INSTALL_STRIP) --add-gnu-debuglink=$(BUILD)/debug/$(notdir $1).debug $1 $2 && chmod $3 $2,install -m $3 $1 $2)
installed_archive = rm -f $2 && $(if $(INSTALL_STRIP),$(CROSS)objcopy --strip-debug $1 $2 && chmod 644 $2,install -m 644 $1 $2)
INSTALLED = $(addprefix $(PREFIX)/,$(EXECUTORCH_SOURCES:%=share/clave/%) bin/clave bin/.debug/clave.debug $(wildcard include/*.h) include/clave_delegate.h $(addprefix share/,$(SHARED))) $(addprefix $(LIBDIR)/,$(SHARED_LIBRARIES:%=.debug/%.debug) libclave.a libclave_main.a libclave_delegate.so libclave_executorch.so libclave.so \
  libclave.so.$(ABI) libclave.so.$(VERSION) pkgconfig/clave.pc cmake/clave/claveConfig.cmake cmake/clave/claveConfigVersion.cmake)
install: all $(if $(INSTALL_STRIP),$(DEBUG_FILES)) ## library, headers, tool, manual pages, pkg-config and CMake files under $(DESTDIR)$(PREFIX)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/cmake/clave
	install -m 644 include/*.h $(DESTDIR)$(PREFIX)/include
	$(call installed_archive,$(BUILD)/libclave.a,$(DESTDIR)$(LIBDIR)/libclave.a)
	$(call installed_archive,$(BUILD)/libclave_main.a,$(DESTDIR)$(LIBDIR)/libclave_main.a)
	$(call installed,$(BUILD)/libclave.so,$(DESTDIR)$(LIBDIR)/libclave.so.$(VERSION),644)
	ln -sf libclave.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libclave.so.$(ABI)
	ln -sf libclave.so.$(ABI) $(DESTDIR)$(LIBDIR)/libclave.so
	install -m 644 delegate/clave_delegate.h $(DESTDIR)$(PREFIX)/include
	$(call installed,$(BUILD)/libclave_delegate.so,$(DESTDIR)$(LIBDIR)/libclave_delegate.so,755)
	[ ! -e $(BUILD)/libclave_executorch.so ] || { $(call installed,$(BUILD)/libclave_executorch.so,$(DESTDIR)$(LIBDIR)/libclave_executorch.so,755); }
	for f in $(EXECUTORCH_SOURCES); do install -D -m $$([ -x $$f ] && echo 755 || echo 644) $$f $(DESTDIR)$(PREFIX)/share/clave/$$f || exit 1; done
	$(call installed,$(BUILD)/clave,$(DESTDIR)$(PREFIX)/bin/clave,755)
	for f in $(SHARED); do install -D -m 644 $(BUILD)/share/$$f $(DESTDIR)$(PREFIX)/share/$$f || exit 1; done
	$(FILLED) packaging/clave.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/clave.pc
	for f in Config ConfigVersion; do $(FILLED) packaging/clave$$f.cmake.in > $(DESTDIR)$(LIBDIR)/cmake/clave/clave$$f.cmake; done
install-strip: ## the same, without the symbols' names, too
	@$(MAKE) --no-print-directory install INSTALL_STRIP=--strip-unneeded
install-debug: $(DEBUG_FILES) ## what debuggers need beside what make install has put there
	install -d $(DESTDIR)$(PREFIX)/bin/.debug $(DESTDIR)$(LIBDIR)/.debug
	install -m 644 $(BUILD)/debug/clave.debug $(DESTDIR)$(PREFIX)/bin/.debug
	install -m 644 $(filter-out %/clave.debug,$(DEBUG_FILES)) $(DESTDIR)$(LIBDIR)/.debug
uninstall: $(PAGES) ## removes what make install has put there
	rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	@for d in $(PREFIX)/bin/.debug $(LIBDIR)/.debug; do [ ! -d $(DESTDIR)$$d ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)$$d; done
	@[ ! -d $(DESTDIR)$(LIBDIR)/cmake/clave ] || rmdir $(DESTDIR)$(LIBDIR)/cmake/clave
	@for d in clave/delegate/executorch clave/delegate clave/include clave; do [ ! -d $(DESTDIR)$(PREFIX)/share/$$d ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)$(PREFIX)/share/$$d; done
dist: ## the sources of the last commit: build/clave-VERSION.tar.gz
	@mkdir -p $(BUILD)
	git archive --format=tar --prefix=clave-$(VERSION)/ HEAD | gzip -n9 > $(BUILD)/clave-$(VERSION).tar.gz
deb: dist ## Debian packages of the last commit, in build/deb
	@packaging/deb $(BUILD) $(VERSION)
wheel: ## a Python wheel with library and tool, in build/dist
	@PYTHON=$(PYTHON) packaging/wheel $(BUILD)
clean: ## removes build/
	rm -rf build
help: ## this list
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22
	@echo "  options: SAN=address,undefined DEVICE=opencl:0 TORCH=wheel BUILD=build CC=gcc PREFIX=/usr/local DESTDIR="

.PHONY: all syntax kernel-objects executorch wheel-files install-strip install-debug uninstall dist deb wheel site tests bench-programs fuzz-targets fuzz-replays demo check check-all check-clean conformance bench mutants lint format fuzz soak install clean help
.SECONDARY:
-include $(patsubst %.o,%.d,$(sort $(LIB_OBJ) $(CLI_OBJ) $(MAIN_OBJ) $(DELEGATE_OBJ))) \
  $(patsubst %.c,$(BUILD)/obj/%.d,$(TEST_SRC) test/replay.c test/soak.c $(wildcard test/delegate/*/*.c test/fuzz/*.c bench/*.c test/fault/*.c examples/*/*.c))
