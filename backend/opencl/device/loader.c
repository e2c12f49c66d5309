/* Opens the OpenCL library at run time as a table of functions, and turns OpenCL's error codes into
 * statuses. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device/device.h"

typedef struct loaded {
  cl_functions functions;
  opencl_library library;
  clave_status refusal; /* owned: why there is no library; or NULL */
} loaded;

static clave_status find_functions(void *functions_, const opencl_library *library) {
  cl_functions *functions = functions_;
  void *from;
#define X(name)                                                                              \
  from = opencl_library_find(library, #name);                                                \
  memcpy(&functions->name, &from, sizeof from);                                              \
  if (!from)                                                                                 \
    return UNSUPPORTED("%s has no function %s, so it is older than OpenCL 1.2 or no OpenCL", \
                       library->file, #name);
  CL_FUNCTIONS(X)
#undef X
  from = opencl_library_find(library, "clCreateBufferWithProperties");
  memcpy(&functions->create_with_properties, &from, sizeof from);
  functions->file = library->file;
  return NULL;
}

static clave_status load_new(loaded **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return status_no_memory();
  clave_status st = opencl_library_open(find_functions, &(*out)->functions, &(*out)->library);
  if (st && status_code_of(st) == STATUS_NO_MEMORY) {
    free(*out);
    return st;
  }
  (*out)->refusal = st;
  return NULL;
}

static void free_loaded(loaded *loaded) {
  opencl_library_close(&loaded->library);
  status_free(loaded->refusal);
  free(loaded);
}

/* Sets *out to the functions, which are loaded once per process; a thread that loses the race to
 * publish them frees its copy. */
static clave_status get_loaded(const loaded **out) {
  static loaded *published;
  loaded *mine, *expected = NULL;
  *out = __atomic_load_n(&published, __ATOMIC_ACQUIRE);
  if (*out) return NULL;
  TRY(load_new(&mine));
  *out = mine;
  if (!__atomic_compare_exchange_n(&published, &expected, mine, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    free_loaded(mine);
    *out = expected;
  }
  return NULL;
}

clave_status opencl_functions(const cl_functions **out, const char **reason) {
  const loaded *loaded;
  *out = NULL;
  *reason = NULL;
  TRY(get_loaded(&loaded));
  if (loaded->refusal)
    *reason = status_message(loaded->refusal);
  else
    *out = &loaded->functions;
  return NULL;
}

clave_status opencl_library_file(const char **out) {
  const char *reason;
  const cl_functions *cl;
  *out = NULL;
  TRY(opencl_functions(&cl, &reason));
  if (cl) *out = cl->file;
  return NULL;
}

typedef struct code_name {
  cl_int code;
  const char *name;
} code_name;

enum { NO_OBJECT = 1 }; /* our own code: the codes of drivers are not positive */

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
    {NO_OBJECT, "success without an object"},
};

static const char *name_of_code(cl_int code) {
  for (size_t i = 0; i < sizeof code_names / sizeof *code_names; i++)
    if (code_names[i].code == code) return code_names[i].name;
  return "unknown error";
}

cl_int opencl_made(const void *object, cl_int code) {
  return code == CL_SUCCESS && !object ? NO_OBJECT : code;
}

clave_status opencl_status(cl_int code, const char *call) {
  const bool is_memory = code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return status_new(is_memory ? STATUS_NO_MEMORY : STATUS_DEVICE, "%s: %s (%d)", call,
                    name_of_code(code), code);
}

clave_status opencl_refusal(cl_int code, const char *call) {
  return UNSUPPORTED("%s: %s (%d)", call, name_of_code(code), code);
}
