# Builds clave out of tree in $(BUILD), with a single make instead of one for each folder. `make help` lists the targets.
SILENT := $(findstring s,$(firstword -$(MAKEFLAGS)))
MAKEFLAGS += --no-builtin-rules
# Without -j a single goal uses all processors. Several goals run one after the other, as `make clean all` expects.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS) $(shell echo "$$MAKEFLAGS"))$(word 2,$(MAKECMDGOALS)),0)
  MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif
.DELETE_ON_ERROR:
SAN ?=#          sanitizers, e.g. address,undefined: builds with clang in build/san
V ?=#            1: shows each command instead of "CC FILE"
DEVICE ?=#       the device on which `make check` runs the op cases, e.g. opencl:0 (default: cpu and opencl)
TORCH ?=#        a CPU build of torch for `make check`: a wheel, or a folder of wheels
CROSS ?=#        the prefix of another processor's tools, e.g. aarch64-linux-gnu-: builds in build/aarch64-linux-gnu
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
VERSION = 0.2.0
ABI = 0#         the ABI number of libclave.so: changes if programs built for the previous number may not run
PYTHON ?= python3
# clang needs much longer for sanitized code at -O2. -g1 describes functions and lines. Variables would add a fifth to the build's time;
# to see them in a debugger, use make CFLAGS='-O2 -g'.
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
# $(call say,CC,FILE) before a command shows "CC FILE" instead of the command. V=1 shows the command, make -s shows nothing.
say = $(quiet)$(if $(filter 1,$(V))$(SILENT),,echo '$1 $2';)
quiet = $(if $(filter 1,$(V)),,@)
GEN = $(BUILD)/gen
WARN = -Wall -Wextra -Wpedantic -Wconversion -Wno-unknown-warning-option -Wshadow=local -Wvla -Wmissing-prototypes -Werror
STD = -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -DCLAVE_VERSION='"$(VERSION)"' -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -fwrapv -ffunction-sections -fdata-sections
COMPILE = $(CC) $(STD) $(WARN) $(CFLAGS) $(EXTRA) $(SANFLAGS) -MMD -MP -I. -Iinclude -I$(GEN)
# libstdc++ is linked with sanitizers, because they look up C++'s throw at the start, and drivers that are opened later use it.
# -pthread is used instead of -lpthread, because on riscv64 it also links libatomic, which has the atomic exchange of a byte.
LIBS = $(LDFLAGS) -lpcre2-8 -lutf8proc -pthread -ldl -lm $(if $(SAN),-Wl$(comma)--no-as-needed -lstdc++)
comma = ,

# Another system: its folders have C files that replace those of the same name, and further ones.
SYSTEM := $(if $(findstring mingw32,$(CROSS)),windows,$(if $(findstring android,$(CROSS)),android))
SYSTEM_FOLDERS := $(if $(SYSTEM),base/$(SYSTEM) base/childless)
replaced = $(if $(SYSTEM),$(foreach f,$1,$(firstword $(wildcard $(if $(filter base/%,$f),$(SYSTEM_FOLDERS:%=%/$(notdir $f))) $(dir $f)$(SYSTEM)/$(notdir $f)) $f)),$1)
ifeq ($(SYSTEM),windows)
  SYSTEM_SRC := $(filter-out $(patsubst base/%,base/windows/%,$(wildcard base/*.c)),$(wildcard base/windows/*.c))
  # MinGW's macros such as isnan convert to float, and its printf accepts the formats of C99, which gcc does not know.
  STD += -DPCRE2_STATIC -DUTF8PROC_STATIC -D__USE_MINGW_ANSI_STDIO=1 -Ibase/windows/include -include base/windows/posix.h
  SYSTEM_WARN = -Wno-float-conversion -Wno-format
  WARN += $(SYSTEM_WARN)
  # gcc does not align AVX variables on Windows' stack (its bug 54412); the assembler replaces the moves that need alignment.
  STD += -Wa,-muse-unaligned-vector-move
  LIBS = $(LDFLAGS) -static -lpcre2-8 -lutf8proc -lpthread -lm
  EXE = .exe
endif
ifeq ($(SYSTEM),android)
  WARN += -Wno-enum-float-conversion# a warning of clang 16 and later
endif

CPU_KERNELS = $(patsubst %/,%,backend/cpu/kernels/ $(wildcard backend/cpu/kernels/*/))
OPENCL = backend/opencl $(addprefix backend/opencl/,device program launch ops ops/conv ops/gemm ops/attention)
ROOMS = base json serialize ops interp interp/graph interp/passes interp/plan interp/run interp/check interp/tune backend/cpu $(CPU_KERNELS) $(OPENCL) compile import import/gguf import/onnx import/tflite api tokenizer jinja llm
GEN_HDR = $(addprefix $(GEN)/,ir.h op_rules.h cpu_ops.h opencl_ops.h steps.def)
ARGS_HDR = $(GEN)/kernel_args.h
GEN_SRC = $(addprefix $(GEN)/,ir_desc.c op_table.c work_table.c steps_table.c cpu_table.c opencl_table.c)
LIB_SRC := $(call replaced,$(wildcard $(ROOMS:%=%/*.c))) $(SYSTEM_SRC)
LIB_OBJ = $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(patsubst $(GEN)/%.c,$(BUILD)/obj/gen/%.o,$(GEN_SRC) $(GEN)/kernels_embed.c $(GEN)/compile_tables.c)
# The tool links its own copies of objects of json/ and base/, because the library exports only its public API. Its chats have line editing
# if libedit is installed. Only the tool links libedit.
EDIT := $(if $(CROSS),,$(if $(wildcard /usr/include/histedit.h /usr/local/include/histedit.h),-ledit))
CLI_SRC := $(call replaced,$(filter-out $(if $(EDIT),cli/no_editor.c,cli/editor.c),$(wildcard cli/*.c))) $(wildcard cli/$(SYSTEM)/start.c)
CLI_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(CLI_SRC) $(SYSTEM_SRC) $(wildcard json/*.c) $(call replaced,$(addprefix base/,children.c clock.c distance.c drawn.c dtype.c file.c file_guard.c file_map.c file_target.c file_target_name.c file_writer.c float_env.c memory.c memory_pages.c memory_size.c npy.c number.c path.c process.c small_alloc.c sha256.c status.c text.c threads.c)))
# Objects of libclave_main.a: the command line of an executable that carries its program, linked before libclave.a.
MAIN_SRC := $(wildcard base/*.c json/*.c compile/carried/*.c) $(addprefix compile/runtime/,main.c arguments.c files.c safetensors.c tensors.c verify.c) \
  $(filter-out cli/main.c cli/editor.c,$(wildcard cli/*.c))
MAIN_OBJ := $(MAIN_SRC:%.c=$(BUILD)/obj/%.o)
# The plugin uses the public headers and its own copies of objects of base/. It finds libclave.so in its own folder.
DELEGATE_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard delegate/*.c) $(addprefix base/,clock.c float_env.c memory.c memory_pages.c number.c small_alloc.c sized.c status.c text.c threads.c))
TEST_SRC := $(wildcard $(addprefix test/,$(addsuffix /test_*.c,$(filter-out backend/cpu/kernels% backend/opencl/%,$(ROOMS)) backend cli delegate)))
# Windows has no links, permissions, signals of mappings, dlfcn.h or traps of floats, which these tests use, and starts no processes.
NOT_ON_windows = $(wildcard test/backend/test_opencl_*.c test/delegate/*.c) $(addprefix test/,$(addprefix base/test_,dma_buf.c file.c file_guard.c loaded_code.c number.c process.c threads.c tuning.c) $(addprefix api/test_,clients.c dma_buf.c guard.c host_floats.c opencl_host.c opencl_memory.c))
TEST_SRC := $(filter-out $(NOT_ON_$(SYSTEM)),$(TEST_SRC)) $(if $(SYSTEM),$(wildcard test/base/$(SYSTEM)/test_*.c))
TEST_BIN = $(TEST_SRC:%.c=$(BUILD)/%$(EXE))
FUZZ_SRC := $(wildcard test/fuzz/fuzz_*.c)
FAULT_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard test/fault/run_*.c))
BENCH_BIN = $(patsubst %.c,$(BUILD)/%,$(filter-out bench/common.c,$(wildcard bench/*.c)))
PY_GEN = python/clave/_generated
KERNELS := $(wildcard $(addprefix kernels_cl/,*.cl *.h */*.cl */*.h)) base/decode.h base/decode_grids.h base/float8.h

PAGES = $(if $(CROSS)$(SAN),,$(BUILD)/share/made docs/reference/cli.md docs/reference/imported_ops.md)# manual pages, completions and a page, from the built tool's tables
ifeq ($(SYSTEM),windows)
all: $(BUILD)/clave.dll $(BUILD)/libclave.a $(BUILD)/clave.exe
endif
all: $(if $(SYSTEM),,$(BUILD)/libclave.so $(BUILD)/libclave.a $(BUILD)/libclave_main.a $(BUILD)/libclave_delegate.so $(BUILD)/clave $(PY_GEN)/schema.py $(PAGES)) ## builds the library, the plugin and the command line tool

# The rules by subject. A target for users has a help text after ##.
include $(addprefix mk/,generate.mk objects.mk executorch.mk tests.mk install.mk packages.mk tasks.mk)

help: ## prints this list
	@sed -n 's/^\([a-z._-]*\):.* ## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 30
	@echo "  options: V=1 SAN=address,undefined DEVICE=opencl:0 TORCH=wheel BUILD=build CC=gcc PREFIX=/usr/local DESTDIR="

.PHONY: all syntax objects list-objects kernel-objects executorch wheel-files install-strip install-debug uninstall dist deb wheel site tests emulated bench-programs fuzz-targets fuzz-replays demo quick check check-more check-all check-clean conformance bench mutants lint format fuzz soak install clean help compile_commands.json
.SECONDARY:
-include $(patsubst %.o,%.d,$(sort $(LIB_OBJ) $(CLI_OBJ) $(MAIN_OBJ) $(DELEGATE_OBJ) $(EMULATED_OBJ))) \
  $(patsubst %.c,$(BUILD)/obj/%.d,$(TEST_SRC) test/replay.c test/soak.c $(wildcard test/delegate/*/*.c test/fuzz/*.c bench/*.c test/fault/*.c examples/*/*.c))
