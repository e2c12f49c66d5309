# Objects, libraries and the command line tool. The stamp rebuilds objects when a flag changes.
FLAGS_STAMP = $(BUILD)/flags
ifneq ($(file <$(FLAGS_STAMP)),$(COMPILE))
  $(shell mkdir -p $(BUILD))$(file >$(FLAGS_STAMP),$(COMPILE))
endif
$(BUILD)/obj/backend/cpu/kernels/%.o: EXTRA = $(FAST) -fno-trapping-math# loops for the vectoriser; nobody reads floating-point traps
$(BUILD)/obj/llm/sampler.o $(BUILD)/obj/base/encoding.o: EXTRA = $(FAST) -fno-trapping-math
# clang takes minutes to optimise what the sanitizers add, above all to unrolled tiles, and a second to compile it as it is.
TILES = $(basename $(wildcard $(CPU_KERNELS:%=%/*_kernels.c)) $(addprefix backend/cpu/kernels/,conv/depthwise_integer conv/depthwise_lanes conv/depthwise_bf16 gemm/few_rows gemm/pairs conv/pointwise_bf16 elementwise/step_rows))
UNTIMED = backend/opencl interp cli ops compile api delegate serialize json jinja# rooms without long loops
# No run spends its time in these, and gcc compiles them a third faster so; CFLAGS without -O2 stand as they are.
COLD = cli compile interp/tune
ifneq ($(SAN),)
$(TILES:%=$(BUILD)/obj/%.o) $(UNTIMED:%=$(BUILD)/obj/%/%.o): EXTRA = -O0
else
$(COLD:%=$(BUILD)/obj/%/%.o): EXTRA = $(if $(filter -O2 -O3,$(CFLAGS)),-O1)
endif
$(BUILD)/obj/gen/%.o: $(GEN)/%.c $(FLAGS_STAMP) | $(GEN_HDR) $(ARGS_HDR)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE) -c $< -o $@
$(BUILD)/obj/%.o: %.c $(FLAGS_STAMP) | $(GEN_HDR) $(ARGS_HDR)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE) -c $< -o $@

$(filter $(BUILD)/obj/backend/opencl/%,$(LIB_OBJ)): | $(GEN)/args_checked

# libclave.a hides all but clave_*, as the shared library does; our own tests see everything in obj/internal.a.
# A section for each function (--unique: of equal names, too), so that what an executable does not call stays out of it.
$(BUILD)/libclave.a: $(LIB_OBJ)
	@rm -f $@
	$(call say,LD,$@)$(LD) -r --unique -o $(BUILD)/obj/clave.o $^
	$(quiet)$(CROSS)objcopy --localize-hidden $(BUILD)/obj/clave.o
	$(call say,AR,$@)$(AR) rcs $@ $(BUILD)/obj/clave.o
INTERNAL = $(BUILD)/obj/internal.a
# Every C file of library, tool, plugin and compiled programs, read by the compiler of another processor; links nothing.
EVERY_SRC = $(sort $(LIB_SRC) $(CLI_SRC) $(MAIN_SRC) $(wildcard delegate/*.c compile/*/*.c))
syntax: $(GEN_HDR) $(ARGS_HDR)
	@printf '%s\n' $(EVERY_SRC) | xargs -n 40 -P 2 $(CC) $(STD) $(WARN) $(CFLAGS) -I. -Iinclude -I$(GEN) -fsyntax-only
kernel-objects: $(filter $(BUILD)/obj/backend/cpu/kernels/%,$(LIB_OBJ))
$(INTERNAL): $(LIB_OBJ)
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^
$(BUILD)/libclave_main.a: $(MAIN_OBJ)
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^
# Drivers, and what is found once a process, stay where a host unloads a plugin: so does the library (nodelete).
$(BUILD)/libclave.so: $(LIB_OBJ)
	$(call say,LD,$@)$(CC) -shared $(SANFLAGS) -Wl,-z,nodelete $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-soname,libclave.so.$(ABI) -o $@ $^ $(LIBS)
	@ln -sf libclave.so $@.$(ABI)
$(BUILD)/libclave_delegate.so: $(DELEGATE_OBJ) $(BUILD)/libclave.so
	$(call say,LD,$@)$(CC) -shared $(SANFLAGS) $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-soname,libclave_delegate.so -Wl,-rpath,'$$ORIGIN' -o $@ $(DELEGATE_OBJ) $(LDFLAGS) -L$(BUILD) -lclave -pthread -lm
$(BUILD)/clave: $(CLI_OBJ) $(BUILD)/libclave.a
	$(call say,LD,$@)$(CC) $(SANFLAGS) -o $@ $^ $(EDIT) $(LIBS)
	@$(if $(EDIT)$(CROSS),,echo "clave: chats have no line editing: libedit (Debian: libedit-dev) is not installed")

$(BUILD)/share/made: cli/pages.py $(BUILD)/clave
	@rm -rf $(@D) && mkdir -p $(@D)
	$(quiet)$(BUILD)/clave command-tables > $(BUILD)/tables.json
	$(call say,GEN,$@)$(PYTHON) $< $(BUILD)/tables.json $(@D)
	@touch $@

docs/reference/cli.md: docs/cli.py $(BUILD)/share/made
	$(call say,GEN,$@)$(PYTHON) $< $(BUILD)/tables.json $@

$(BUILD)/demo: $(BUILD)/obj/examples/mnist/demo.o $(BUILD)/libclave.a
	$(call say,LD,$@)$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/run_llama: $(BUILD)/obj/examples/llama/run_llama.o $(BUILD)/libclave.a
	$(call say,LD,$@)$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)
