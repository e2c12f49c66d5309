# Builds ClaveBackend for ExecuTorch with the headers and the library of ExecuTorch's Python package. It calls libclave_delegate.so, which
# must be in the same folder.
EXECUTORCH ?= $(firstword $(wildcard .venv-executorch/lib/python*/site-packages/executorch))
EXECUTORCH_VERSION = $(patsubst executorch-%.dist-info,%,$(notdir $(wildcard $(addsuffix -*.dist-info,$(EXECUTORCH)))))
EXECUTORCH_FLAGS = -DCLAVE_EXECUTORCH_VERSION='"$(or $(EXECUTORCH_VERSION),unknown)"' -DC10_USING_CUSTOM_GENERATED_MACROS -DET_EVENT_TRACER_ENABLED $(addprefix -isystem $(EXECUTORCH)/include,/ /executorch/runtime/core/portable_type/c10)
COMPILE_CXX = $(CXX) -std=c++17 $(filter-out -std=% -D%,$(STD)) $(filter-out -Wmissing-prototypes -Wvla,$(WARN)) $(CFLAGS) $(SANFLAGS) -I. -Iinclude -Idelegate $(EXECUTORCH_FLAGS)
executorch: $(BUILD)/libclave_executorch.so $(BUILD)/run_pte ## builds the backend for the ExecuTorch package in the folder EXECUTORCH (default: the one of ci/venv executorch)
$(BUILD)/libclave_executorch.so: $(wildcard delegate/executorch/*) delegate/clave_delegate.h include/clave.h $(BUILD)/libclave_delegate.so $(FLAGS_STAMP)
	@[ -e "$(EXECUTORCH)/include" ] || { echo "EXECUTORCH=$(EXECUTORCH): no ExecuTorch package in this folder; ci/venv executorch installs one" >&2; exit 1; }
	$(call say,CXX,$@)$(COMPILE_CXX) -shared $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../executorch/lib' -o $@ $(filter %.cc,$^) $(LDFLAGS) -L$(BUILD) -lclave_delegate -lclave -L$(EXECUTORCH)/lib -lexecutorch
$(BUILD)/run_pte: examples/executorch/run_pte.cc $(BUILD)/libclave_executorch.so
	$(call say,CXX,$@)$(COMPILE_CXX) -Wl,-rpath,'$$ORIGIN:$(abspath $(EXECUTORCH))/lib' -o $@ $< $(LDFLAGS) -Wl,--no-as-needed -L$(BUILD) -lclave_executorch -Wl,-rpath-link,$(BUILD) -L$(EXECUTORCH)/lib -lexecutorch -lexecutorch_kernels_optimized
