/* Opens libOpenCL.so.1 at run time as a table of functions, and turns OpenCL's error codes into
 * statuses. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device/device.h"
#include "base/file.h"

typedef struct loaded {
  cl_functions functions;
  library *library;
  const char *reason; /* why it is unusable, or NULL */
} loaded;

static const char *const no_loader =
    "no OpenCL loader (libOpenCL.so.1): install the package ocl-icd-libopencl1, and "
    "pocl-opencl-icd for the CPU";

static void *loader_find_function(loaded *loaded, const char *name) {
  void *from = library_symbol(loaded->library, name);
  if (!from)
    loaded->reason =
        "libOpenCL.so.1 is older than OpenCL 1.2: install the package ocl-icd-libopencl1";
  return from;
}

static clave_status load_functions(loaded *loaded) {
  clave_status st = library_open("libOpenCL.so.1", &loaded->library);
  if (st) {
    if (status_code_of(st) == STATUS_NO_MEMORY) return st;
    status_free(st);
    loaded->reason = no_loader;
    return NULL;
  }
  void *from;
#define X(name)                               \
  from = loader_find_function(loaded, #name); \
  memcpy(&loaded->functions.name, &from, sizeof from);
  CL_FUNCTIONS(X)
#undef X
  from = library_symbol(loaded->library, "clCreateBufferWithProperties");
  memcpy(&loaded->functions.create_with_properties, &from, sizeof from);
  return NULL;
}

static clave_status load_new(loaded **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return status_no_memory();
  clave_status st = load_functions(*out);
  if (st) free(*out);
  return st;
}

clave_status opencl_functions(const cl_functions **out, const char **reason) {
  static loaded *published;
  loaded *loaded = __atomic_load_n(&published, __ATOMIC_ACQUIRE), *mine, *expected = NULL;
  *out = NULL;
  *reason = NULL;
  if (!loaded) {
    TRY(load_new(&mine));
    loaded = mine;
    if (!__atomic_compare_exchange_n(&published, &expected, mine, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
      library_close(mine->library);
      free(mine);
      loaded = expected;
    }
  }
  *reason = loaded->reason;
  *out = loaded->reason ? NULL : &loaded->functions;
  return NULL;
}

typedef struct code_name {
  cl_int code;
  const char *name;
} code_name;

#define ROW(code) \
  { code, #code }
static const code_name code_names[] = {
    ROW(CL_DEVICE_NOT_FOUND),
    ROW(CL_DEVICE_NOT_AVAILABLE),
    ROW(CL_COMPILER_NOT_AVAILABLE),
    ROW(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    ROW(CL_OUT_OF_RESOURCES),
    ROW(CL_OUT_OF_HOST_MEMORY),
    ROW(CL_PROFILING_INFO_NOT_AVAILABLE),
    ROW(CL_BUILD_PROGRAM_FAILURE),
    ROW(CL_MAP_FAILURE),
    ROW(CL_INVALID_VALUE),
    ROW(CL_INVALID_PLATFORM),
    ROW(CL_INVALID_DEVICE),
    ROW(CL_INVALID_CONTEXT),
    ROW(CL_INVALID_QUEUE_PROPERTIES),
    ROW(CL_INVALID_COMMAND_QUEUE),
    ROW(CL_INVALID_HOST_PTR),
    ROW(CL_INVALID_MEM_OBJECT),
    ROW(CL_INVALID_BINARY),
    ROW(CL_INVALID_BUILD_OPTIONS),
    ROW(CL_INVALID_PROGRAM),
    ROW(CL_INVALID_PROGRAM_EXECUTABLE),
    ROW(CL_INVALID_KERNEL_NAME),
    ROW(CL_INVALID_KERNEL_DEFINITION),
    ROW(CL_INVALID_KERNEL),
    ROW(CL_INVALID_ARG_INDEX),
    ROW(CL_INVALID_ARG_VALUE),
    ROW(CL_INVALID_ARG_SIZE),
    ROW(CL_INVALID_KERNEL_ARGS),
    ROW(CL_INVALID_WORK_DIMENSION),
    ROW(CL_INVALID_WORK_GROUP_SIZE),
    ROW(CL_INVALID_WORK_ITEM_SIZE),
    ROW(CL_INVALID_GLOBAL_OFFSET),
    ROW(CL_INVALID_EVENT_WAIT_LIST),
    ROW(CL_INVALID_EVENT),
    ROW(CL_INVALID_OPERATION),
    ROW(CL_INVALID_BUFFER_SIZE),
    ROW(CL_INVALID_GLOBAL_WORK_SIZE),
    ROW(CL_INVALID_PROPERTY),
};

static const char *name_of_code(cl_int code) {
  for (size_t i = 0; i < sizeof code_names / sizeof *code_names; i++)
    if (code_names[i].code == code) return code_names[i].name;
  return "unknown error";
}

clave_status opencl_status(cl_int code, const char *call) {
  const bool is_memory = code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return status_new(is_memory ? STATUS_NO_MEMORY : STATUS_DEVICE, "%s: %s (%d)", call,
                    name_of_code(code), code);
}

clave_status opencl_refusal(cl_int code, const char *call) {
  return UNSUPPORTED("%s: %s (%d)", call, name_of_code(code), code);
}
