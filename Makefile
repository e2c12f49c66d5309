# clave: everything is built out of tree in $(BUILD), in one make. `make help` lists the targets.
SILENT := $(findstring s,$(firstword -$(MAKEFLAGS)))
MAKEFLAGS += --no-builtin-rules
# Without -j one goal is made on every processor; several goals are made one after the other, as `make clean all` expects.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS) $(shell echo "$$MAKEFLAGS"))$(word 2,$(MAKECMDGOALS)),0)
  MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif
.DELETE_ON_ERROR:
SAN ?=#          sanitizers, e.g. address,undefined: builds with clang in a folder of its own
V ?=#            1: shows each command, not "CC FILE"
DEVICE ?=#       what `make check` runs the op cases on, e.g. opencl:0 (default: cpu and opencl)
TORCH ?=#        a CPU build of torch for `make check`: a wheel, or a folder of wheels
CROSS ?=#        the prefix of another processor's tools, e.g. aarch64-linux-gnu-: builds in a folder of its own
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
VERSION = 0.2.0
ABI = 0#         of libclave.so: a new number where a program built for the last one may not run
PYTHON ?= python3
# Sanitized code takes clang much longer at -O2. -g1 names functions and lines: variables would take a fifth of the build's time.
# To look at them in a debugger: make CFLAGS='-O2 -g'.
CFLAGS ?= $(if $(SAN),-O1,-O2) -g1
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
# $(call say,CC,FILE) before a command shows "CC FILE" instead of it. Where V=1 the command is shown; with make -s nothing is.
say = $(quiet)$(if $(filter 1,$(V))$(SILENT),,echo '$1 $2';)
quiet = $(if $(filter 1,$(V)),,@)
GEN = $(BUILD)/gen
WARN = -Wall -Wextra -Wpedantic -Wconversion -Wno-unknown-warning-option -Wshadow=local -Wvla -Wmissing-prototypes -Werror
STD = -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -DCLAVE_VERSION='"$(VERSION)"' -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -fwrapv -ffunction-sections -fdata-sections
COMPILE = $(CC) $(STD) $(WARN) $(CFLAGS) $(EXTRA) $(SANFLAGS) -MMD -MP -I. -Iinclude -I$(GEN)
# Sanitizers look up C++'s throw at the start, and drivers that are opened later do throw.
# -pthread, and not -lpthread: on riscv64 it also links libatomic, which has the exchanges of single bytes.
LIBS = $(LDFLAGS) -lpcre2-8 -lutf8proc -pthread -ldl -lm $(if $(SAN),-Wl$(comma)--no-as-needed -lstdc++)
comma = ,

CPU_KERNELS = $(patsubst %/,%,backend/cpu/kernels/ $(wildcard backend/cpu/kernels/*/))
OPENCL = backend/opencl $(addprefix backend/opencl/,device program launch ops ops/conv ops/gemm ops/attention)
ROOMS = base json serialize ops interp interp/graph interp/passes interp/plan interp/run interp/check interp/tune backend/cpu $(CPU_KERNELS) $(OPENCL) compile api tokenizer jinja llm
GEN_HDR = $(addprefix $(GEN)/,ir.h op_rules.h cpu_ops.h opencl_ops.h steps.def)
ARGS_HDR = $(GEN)/kernel_args.h
GEN_SRC = $(addprefix $(GEN)/,ir_desc.c op_table.c work_table.c steps_table.c cpu_table.c opencl_table.c)
LIB_SRC := $(wildcard $(ROOMS:%=%/*.c))
LIB_OBJ = $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(patsubst $(GEN)/%.c,$(BUILD)/obj/gen/%.o,$(GEN_SRC) $(GEN)/kernels_embed.c $(GEN)/compile_tables.c)
# The tool has objects of json/ and base/ of its own: the library shows it no more than anybody else.
# Its chats have line editing where libedit is installed: the tool alone is linked with that.
EDIT := $(if $(CROSS),,$(if $(wildcard /usr/include/histedit.h /usr/local/include/histedit.h),-ledit))
CLI_SRC := $(filter-out $(if $(EDIT),cli/no_editor.c,cli/editor.c),$(wildcard cli/*.c))
CLI_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(CLI_SRC) $(wildcard json/*.c) $(addprefix base/,clock.c distance.c drawn.c dtype.c file.c file_guard.c file_map.c file_writer.c float_env.c memory.c npy.c number.c path.c process.c small_alloc.c sha256.c status.c text.c threads.c))
# What executables that carry their program link ahead of libclave.a: their command lines.
MAIN_SRC := $(wildcard base/*.c json/*.c compile/carried/*.c) $(addprefix compile/runtime/,main.c arguments.c files.c safetensors.c tensors.c verify.c) \
  $(filter-out cli/main.c cli/editor.c,$(wildcard cli/*.c))
MAIN_OBJ := $(MAIN_SRC:%.c=$(BUILD)/obj/%.o)
# The plugin is over the public headers, with objects of base/ of its own, and finds libclave.so beside itself.
DELEGATE_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard delegate/*.c) $(addprefix base/,clock.c float_env.c memory.c number.c small_alloc.c sized.c status.c text.c threads.c))
TEST_SRC := $(wildcard $(addprefix test/,$(addsuffix /test_*.c,$(filter-out backend/cpu/kernels% backend/opencl/%,$(ROOMS)) backend cli delegate)))
TEST_BIN = $(TEST_SRC:%.c=$(BUILD)/%)
FUZZ_SRC := $(wildcard test/fuzz/fuzz_*.c)
FAULT_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard test/fault/run_*.c))
BENCH_BIN = $(patsubst %.c,$(BUILD)/%,$(filter-out bench/common.c,$(wildcard bench/*.c)))
PY_GEN = python/clave/_generated
KERNELS := $(wildcard $(addprefix kernels_cl/,*.cl *.h */*.cl */*.h)) base/decode.h base/float8.h

PAGES = $(if $(CROSS)$(SAN),,$(BUILD)/share/made docs/reference/cli.md)# manual pages, completions, a page: the tool that was built prints its tables
all: $(BUILD)/libclave.so $(BUILD)/libclave.a $(BUILD)/libclave_main.a $(BUILD)/libclave_delegate.so $(BUILD)/clave $(PY_GEN)/schema.py $(PAGES) ## library, plugin and command line tool

# The rules by subject; those that people call have a help text behind ##.
include $(addprefix mk/,generate.mk objects.mk executorch.mk tests.mk install.mk packages.mk tasks.mk)

help: ## this list
	@sed -n 's/^\([a-z._-]*\):.* ## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 30
	@echo "  options: V=1 SAN=address,undefined DEVICE=opencl:0 TORCH=wheel BUILD=build CC=gcc PREFIX=/usr/local DESTDIR="

.PHONY: all syntax kernel-objects executorch wheel-files install-strip install-debug uninstall dist deb wheel site tests emulated bench-programs fuzz-targets fuzz-replays demo quick check check-more check-all check-clean conformance bench mutants lint format fuzz soak install clean help compile_commands.json
.SECONDARY:
-include $(patsubst %.o,%.d,$(sort $(LIB_OBJ) $(CLI_OBJ) $(MAIN_OBJ) $(DELEGATE_OBJ) $(EMULATED_OBJ))) \
  $(patsubst %.c,$(BUILD)/obj/%.d,$(TEST_SRC) test/replay.c test/soak.c $(wildcard test/delegate/*/*.c test/fuzz/*.c bench/*.c test/fault/*.c examples/*/*.c))
