# Builds objects, libraries and the command line tool. The stamp makes objects again when a flag changes.
FLAGS_STAMP = $(BUILD)/flags
ifneq ($(file <$(FLAGS_STAMP)),$(COMPILE))
  $(shell mkdir -p $(BUILD))$(file >$(FLAGS_STAMP),$(COMPILE))
endif
$(BUILD)/obj/backend/cpu/kernels/%.o: EXTRA = $(FAST) -fno-trapping-math# lets gcc vectorise loops; the kernels do not use floating-point traps
$(BUILD)/obj/llm/sampler.o $(BUILD)/obj/base/encoding.o: EXTRA = $(FAST) -fno-trapping-math
# clang needs minutes to optimise the code that sanitizers add, mainly to unrolled tiles, but a second to compile it without optimisation.
TILES = $(basename $(wildcard $(CPU_KERNELS:%=%/*_kernels.c)) $(addprefix backend/cpu/kernels/,conv/depthwise_integer conv/depthwise_lanes conv/depthwise_bf16 gemm/few_rows gemm/pairs conv/pointwise_bf16 elementwise/step_rows))
UNTIMED = backend/opencl interp cli ops compile api delegate serialize json jinja# rooms without long loops
# Rooms whose code is not critical for speed: gcc compiles them a third faster at -O1. CFLAGS without -O2 or -O3 are not changed.
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

# libclave.a hides all symbols except clave_*, like the shared library. Tests link obj/internal.a, which hides nothing.
# Each function has its own section (--unique: also functions with equal names), so that executables do not contain unused functions.
# Windows' objects have no hidden symbols and give functions different sections, so there the list of public functions decides.
# The linker keeps one of several equal .refptr sections, so their names stay global, too.
HIDE = $(if $(EXE),--wildcard --keep-global-symbol='.refptr.*' --keep-global-symbols=$(BUILD)/public,--localize-hidden)
$(BUILD)/libclave.a: $(LIB_OBJ) | $(if $(EXE),$(BUILD)/public)
	@rm -f $@
	$(call say,LD,$@)$(LD) -r $(if $(EXE),,--unique) -o $(BUILD)/obj/clave.o $^
	$(quiet)$(CROSS)objcopy $(HIDE) $(BUILD)/obj/clave.o
	$(call say,AR,$@)$(AR) rcs $@ $(BUILD)/obj/clave.o
INTERNAL = $(BUILD)/obj/internal.a
# Checks the syntax of every C file of library, tool, plugin and compiled programs, for ci/cross.
EVERY_SRC = $(sort $(LIB_SRC) $(CLI_SRC) $(MAIN_SRC) $(wildcard delegate/*.c compile/*/*.c))
syntax: $(GEN_HDR) $(ARGS_HDR)
	@printf '%s\n' $(EVERY_SRC) | xargs -n 40 -P 2 $(CC) $(STD) $(WARN) $(CFLAGS) -I. -Iinclude -I$(GEN) -fsyntax-only
# Every object of library and tool, without linking, for ci/android.
objects: $(LIB_OBJ) $(CLI_OBJ)
list-objects:
	@printf '%s\n' $(sort $(LIB_OBJ) $(CLI_OBJ))
kernel-objects: $(filter $(BUILD)/obj/backend/cpu/kernels/%,$(LIB_OBJ))
$(INTERNAL): $(LIB_OBJ)
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^
$(BUILD)/libclave_main.a: $(MAIN_OBJ)
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^
# The library stays loaded if a host unloads a plugin (nodelete), because OpenCL drivers and the library's per-process state stay, too.
$(BUILD)/libclave.so: $(LIB_OBJ)
	$(call say,LD,$@)$(CC) -shared $(SANFLAGS) -Wl,-z,nodelete $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-soname,libclave.so.$(ABI) -o $@ $^ $(LIBS)
	@ln -sf libclave.so $@.$(ABI)
$(BUILD)/libclave_delegate.so: $(DELEGATE_OBJ) $(BUILD)/libclave.so
	$(call say,LD,$@)$(CC) -shared $(SANFLAGS) $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-soname,libclave_delegate.so -Wl,-rpath,'$$ORIGIN' -o $@ $(DELEGATE_OBJ) $(LDFLAGS) -L$(BUILD) -lclave -pthread -lm
$(BUILD)/clave$(EXE): $(CLI_OBJ) $(BUILD)/libclave.a
	$(call say,LD,$@)$(CC) $(SANFLAGS) $(if $(EXE),-municode) -o $@ $^ $(EDIT) $(LIBS)
	@$(if $(EDIT)$(CROSS),,echo "clave: chats have no line editing: libedit (Debian: libedit-dev) is not installed")

# The public functions, one in a line, and Windows' library, which exports them.
$(BUILD)/public: packaging/debian/libclave0.symbols
	@sed -n 's/^ \(clave_[a-z0-9_]*\)@Base .*/\1/p' $< > $@
$(BUILD)/clave.dll: $(LIB_OBJ) | $(BUILD)/public
	@(echo EXPORTS; cat $(BUILD)/public) > $(BUILD)/clave.def
	$(call say,LD,$@)$(CC) -shared -o $@ $(BUILD)/clave.def $^ $(LIBS) -Wl,--out-implib,$(BUILD)/libclave.dll.a

$(BUILD)/share/made: cli/pages.py $(BUILD)/clave
	@rm -rf $(@D) && mkdir -p $(@D)
	$(quiet)$(BUILD)/clave command-tables > $(BUILD)/tables.json
	$(quiet)$(BUILD)/clave inspect --formats --json > $(BUILD)/imported_ops.json
	$(call say,GEN,$@)$(PYTHON) $< $(BUILD)/tables.json $(@D)
	@touch $@

docs/reference/cli.md: docs/cli.py $(BUILD)/share/made
	$(call say,GEN,$@)$(PYTHON) $< $(BUILD)/tables.json $@
docs/reference/imported_ops.md: docs/imported_ops.py $(BUILD)/share/made
	$(call say,GEN,$@)$(PYTHON) $< $(BUILD)/imported_ops.json $@

$(BUILD)/demo: $(BUILD)/obj/examples/mnist/demo.o $(BUILD)/libclave.a
	$(call say,LD,$@)$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/run_llama: $(BUILD)/obj/examples/llama/run_llama.o $(BUILD)/libclave.a
	$(call say,LD,$@)$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)
