# clave: everything is built out of tree in $(BUILD). `make help` explains the targets.
BUILD ?= build
CC ?= gcc
PYTHON ?= python3
SAN ?=
CFLAGS ?= -O2 -g
WARN = -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Wmissing-prototypes -Werror
STD = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -fwrapv -MMD -MP
INC = -I. -Iinclude -I$(BUILD)/gen
LIBS = -lcjson -lpthread -ldl -lm
ifneq ($(SAN),)
  SANFLAGS = -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined
endif

GEN_SRC = $(addprefix $(BUILD)/gen/,ir_desc.c op_table.c steps_table.c cpu_table.c opencl_table.c kernels_embed.c)
GEN_HDR = $(addprefix $(BUILD)/gen/,ir.h steps.def)
LIB_SRC = $(wildcard base/*.c serialize/*.c ops/*.c interp/*.c backend/cpu/*.c backend/cpu/kernels/*.c backend/opencl/*.c api/*.c)
LIB_OBJ = $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(GEN_SRC:$(BUILD)/gen/%.c=$(BUILD)/obj/gen/%.o)
CLI_OBJ = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard cli/*.c))
TEST_SRC = $(wildcard test/base/*.c test/serialize/*.c test/ops/*.c test/interp/*.c test/backend/*.c test/api/*.c)
TEST_BIN = $(TEST_SRC:%.c=$(BUILD)/%)

all: $(BUILD)/libclave.so $(BUILD)/libclave.a $(BUILD)/clave

$(GEN_HDR) $(filter-out %kernels_embed.c,$(GEN_SRC)) &: serialize/generate.py serialize/schema.fbs ops/elementwise.tsv
	@mkdir -p $(BUILD)/gen
	$(PYTHON) serialize/generate.py --out $(BUILD)/gen --skip-flatc

$(BUILD)/gen/kernels_embed.c: backend/opencl/embed.py $(wildcard kernels_cl/*)
	@mkdir -p $(BUILD)/gen
	$(PYTHON) backend/opencl/embed.py --out $@ $(wildcard kernels_cl/*.cl kernels_cl/*.h)

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c | $(GEN_HDR)
	@mkdir -p $(@D)
	$(CC) $(STD) $(WARN) $(CFLAGS) $(SANFLAGS) $(INC) -c $< -o $@
# CPU kernels are loops: let the compiler vectorise them.
$(BUILD)/obj/backend/cpu/kernels/%.o: CFLAGS += -O3
$(BUILD)/obj/%.o: %.c | $(GEN_HDR)
	@mkdir -p $(@D)
	$(CC) $(STD) $(WARN) $(CFLAGS) $(SANFLAGS) $(INC) -c $< -o $@

$(BUILD)/libclave.a: $(LIB_OBJ)
	@rm -f $@
	ar rcs $@ $^
$(BUILD)/libclave.so: $(LIB_OBJ)
	$(CC) -shared $(SANFLAGS) -Wl,-z,defs -o $@ $^ $(LIBS)
$(BUILD)/clave: $(CLI_OBJ) $(BUILD)/libclave.a
	$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/test/%: test/%.c $(BUILD)/libclave.a
	@mkdir -p $(@D)
	$(CC) $(STD) -Wall -Wextra $(CFLAGS) $(SANFLAGS) $(INC) -Itest $< -o $@ $(BUILD)/libclave.a -lcmocka $(LIBS)
tests: $(TEST_BIN)

.PHONY: all tests
-include $(shell find $(BUILD)/obj $(BUILD)/test -name '*.d' 2>/dev/null)
