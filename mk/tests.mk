# Builds test programs, fuzz targets and benchmarks, each from a C file with a main function.
$(BUILD)/test/%$(EXE): $(BUILD)/obj/test/%.o $(INTERNAL)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(SANFLAGS) -o $@ $^ -lcmocka $(LIBS)
# The host of an earlier release uses the headers in its own folder, and links nothing of clave.
$(BUILD)/obj/test/delegate/release_1/%.o: EXTRA = -Itest/delegate/release_1
$(BUILD)/test/delegate/test_abi: $(BUILD)/obj/test/delegate/test_abi.o $(BUILD)/obj/test/delegate/release_1/host.o
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(SANFLAGS) -o $@ $^ $(LDFLAGS) -lcmocka -pthread -ldl $(if $(SAN),-Wl$(comma)--no-as-needed -lstdc++)
$(filter $(BUILD)/test/delegate/%,$(TEST_BIN)): | $(BUILD)/libclave_delegate.so
# cmocka.h needs these headers before it, but clang-format sorts includes.
$(BUILD)/obj/test/%.o: EXTRA = -O0 -U_FORTIFY_SOURCE -Itest -include setjmp.h -include stdarg.h -include stddef.h -include stdint.h
$(BUILD)/obj/test/%.o: WARN = -Wall -Wextra -Werror $(SYSTEM_WARN)
$(BUILD)/obj/bench/%.o: EXTRA = -fopenmp -O3
$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/obj/bench/common.o $(INTERNAL)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(SANFLAGS) -fopenmp -o $@ $^ -lopenblas $(LIBS) -lOpenCL
$(BUILD)/fuzz/%: test/fuzz/%.c $(LIB_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)clang $(STD) -g -O1 -I. -Iinclude -I$(GEN) -Itest -fsanitize=fuzzer,$(or $(SAN),address,undefined) -o $@ $^ $(LIBS)
$(BUILD)/fuzz/fuzz_npy $(BUILD)/fuzz/replay_fuzz_npy: $(BUILD)/obj/cli/npy.o
$(BUILD)/fuzz/fuzz_delegate $(BUILD)/fuzz/replay_fuzz_delegate: $(filter $(BUILD)/obj/delegate/%,$(DELEGATE_OBJ))
# Links a fuzz target without libFuzzer, to run it on the files of a corpus.
$(BUILD)/fuzz/replay_%: $(BUILD)/obj/test/fuzz/%.o $(BUILD)/obj/test/fuzz/main.o $(INTERNAL)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(SANFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)
# Fault tests wrap the allocators that the project's objects call, and load a stub libOpenCL.so.1 before the real one.
WRAPPED = malloc calloc realloc aligned_alloc posix_memalign strdup strndup
$(FAULT_BIN): $(BUILD)/test/fault/%: $(BUILD)/obj/test/fault/%.o $(BUILD)/obj/test/fault/alloc.o $(BUILD)/obj/test/fault/loop.o $(INTERNAL)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(SANFLAGS) $(WRAPPED:%=-Wl$(comma)--wrap=%) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)
$(BUILD)/test/fault/run_delegate_faults: $(filter $(BUILD)/obj/delegate/%,$(DELEGATE_OBJ))
$(BUILD)/stub/libOpenCL.so.1: test/stub_opencl/stub.c test/stub_opencl/dma_buf.h test/stub_opencl/opencl.h test/stub_opencl/hostile.h test/stub_opencl/harm.h test/stub_opencl/generate.py
	$(call say,GEN,$@)$(PYTHON) test/stub_opencl/generate.py --header $(or $(CL_HEADER),/usr/include/CL/cl.h) --out $(@D)/calls.inc --map $(@D)/stub.map
	$(call say,LD,$@)$(CC) -std=gnu11 -Wall -Wextra -g -fPIC -shared -I. -I$(@D) -Wl,-soname,$(@F) -Wl,--version-script=$(@D)/stub.map -o $@ $< -ldl
# An OpenCL device that does not exist, for tests of limits and kernels of GPUs (test/imitated_opencl).
IMITATED_SRC := $(wildcard test/imitated_opencl/*.c)
$(BUILD)/imitated/libOpenCL.so.1: $(IMITATED_SRC) test/imitated_opencl/imitated.h test/stub_opencl/opencl.h test/stub_opencl/generate.py
	$(call say,GEN,$@)$(PYTHON) test/stub_opencl/generate.py --header $(or $(CL_HEADER),/usr/include/CL/cl.h) --out $(@D)/missing.inc --map $(@D)/imitated.map --own $(IMITATED_SRC)
	$(call say,LD,$@)$(CC) -std=gnu11 -Wall -Wextra -g -O1 -fPIC -shared -I. -I$(@D) -Wl,-soname,$(@F) -Wl,--version-script=$(@D)/imitated.map -o $@ $(IMITATED_SRC)
tests: $(TEST_BIN) $(BUILD)/test/replay$(EXE) $(if $(SYSTEM),,$(BUILD)/libclave_delegate.so $(BUILD)/test/soak $(FAULT_BIN) $(BUILD)/stub/libOpenCL.so.1 $(BUILD)/imitated/libOpenCL.so.1)
fuzz-replays: $(FUZZ_SRC:test/fuzz/%.c=$(BUILD)/fuzz/replay_%)
fuzz-targets: $(FUZZ_SRC:test/fuzz/%.c=$(BUILD)/fuzz/%)
# Builds the C tests of the CPU backend and replay with the kernels for AVX-512 and AMX. test/emulated implements these instructions in C for
# AVX2. Unrolled tiles would need minutes to optimise, so they are compiled without optimisation.
EMULATED_OBJ := $(patsubst %.c,$(BUILD)/emulated/%.o,$(shell grep -lE 'TARGET_A(VX512|MX)|support/avx512.h' $(CPU_KERNELS:%=%/*.c)) test/emulated/amx.c)
EMULATED_BIN := $(patsubst %.c,$(BUILD)/emulated/%,$(wildcard test/backend/test_cpu_*.c) test/replay.c)
$(BUILD)/emulated/%.o: EXTRA = $(if $(filter $(TILES),$*),-O0,-O2) -mavx2 -mfma -mf16c -fno-trapping-math -fno-strict-aliasing -Wno-psabi -include test/emulated/avx512.h
$(BUILD)/emulated/%.o: WARN = -Wall -Wextra -Werror
$(BUILD)/emulated/%.o: %.c test/emulated/avx512.h $(FLAGS_STAMP) | $(GEN_HDR) $(ARGS_HDR)
	@mkdir -p $(@D)
	$(call say,CC,$@)$(COMPILE) -c $< -o $@
$(BUILD)/emulated/%: $(BUILD)/obj/%.o $(EMULATED_OBJ) $(INTERNAL)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) -o $@ $^ -lcmocka $(LIBS)
emulated: $(EMULATED_BIN)
