/* Answers queries about the platform and the device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/imitated_opencl/imitated.h"

struct _cl_platform_id {
  int unused;
};
static struct _cl_platform_id platform;
struct _cl_device_id imitated_device;

/* A query, its answer's name in a profile, the number of bytes (0: text), and the answer if the
 * profile has none. */
typedef struct answer_row {
  cl_uint what;
  const char *name;
  size_t bytes;
  const char *absent;
} answer_row;

enum { COMPUTE_CAPABILITY_MAJOR_NV = 0x4000, COMPUTE_CAPABILITY_MINOR_NV };
enum { SUB_GROUP_SIZES_INTEL = 0x4108 }; /* cl_intel_required_subgroup_size defines it */

static const answer_row platform_rows[] = {
    {CL_PLATFORM_NAME, "platform", 0, "Imitated"},
    {CL_PLATFORM_VENDOR, "vendor", 0, "Imitated"},
    {CL_PLATFORM_VERSION, "version", 0, "OpenCL 3.0 imitated"},
    {CL_PLATFORM_PROFILE, "profile", 0, "FULL_PROFILE"},
    {CL_PLATFORM_EXTENSIONS, "extensions", 0, ""},
};

static const answer_row device_rows[] = {
    {CL_DEVICE_NAME, "name", 0, "Imitated GPU"},
    {CL_DEVICE_VENDOR, "vendor", 0, "Imitated"},
    {CL_DRIVER_VERSION, "driver", 0, "1.0"},
    {CL_DEVICE_VERSION, "version", 0, "OpenCL 3.0 imitated"},
    {CL_DEVICE_OPENCL_C_VERSION, "c_version", 0, "OpenCL C 1.2 imitated"},
    {CL_DEVICE_PROFILE, "profile", 0, "FULL_PROFILE"},
    {CL_DEVICE_EXTENSIONS, "extensions", 0, ""},
    {CL_DEVICE_TYPE, "type", sizeof(cl_device_type), "4"}, /* CL_DEVICE_TYPE_GPU */
    {CL_DEVICE_VENDOR_ID, "vendor_id", sizeof(cl_uint), "0"},
    {CL_DEVICE_AVAILABLE, "available", sizeof(cl_bool), "1"},
    {CL_DEVICE_COMPILER_AVAILABLE, "compiler", sizeof(cl_bool), "1"},
    {CL_DEVICE_LINKER_AVAILABLE, "linker", sizeof(cl_bool), "1"},
    {CL_DEVICE_ENDIAN_LITTLE, "little_endian", sizeof(cl_bool), "1"},
    {CL_DEVICE_IMAGE_SUPPORT, "images", sizeof(cl_bool), "1"},
    {CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, "image_buffer", sizeof(size_t), "65536"},
    {CL_DEVICE_MAX_COMPUTE_UNITS, "units", sizeof(cl_uint), "32"},
    {CL_DEVICE_MAX_CLOCK_FREQUENCY, "clock", sizeof(cl_uint), "1000"},
    {CL_DEVICE_GLOBAL_MEM_SIZE, "memory", sizeof(cl_ulong), "8589934592"},
    {CL_DEVICE_MAX_MEM_ALLOC_SIZE, "max_alloc", sizeof(cl_ulong), "2147483648"},
    {CL_DEVICE_LOCAL_MEM_SIZE, "local", sizeof(cl_ulong), "32768"},
    {CL_DEVICE_LOCAL_MEM_TYPE, "local_type", sizeof(cl_device_local_mem_type), "1"}, /* CL_LOCAL */
    {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, "constant", sizeof(cl_ulong), "65536"},
    {CL_DEVICE_MAX_PARAMETER_SIZE, "parameters", sizeof(size_t), "1024"},
    {CL_DEVICE_MEM_BASE_ADDR_ALIGN, "align_bits", sizeof(cl_uint), "1024"},
    {CL_DEVICE_HOST_UNIFIED_MEMORY, "unified", sizeof(cl_bool), "0"},
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, "max_group", sizeof(size_t), "256"},
    {CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, "dimensions", sizeof(cl_uint), "3"},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, "vector", sizeof(cl_uint), "1"},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, "vector", sizeof(cl_uint), "1"},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, "half_vector", sizeof(cl_uint), "1"},
    {CL_DEVICE_SINGLE_FP_CONFIG, "fp_config", sizeof(cl_device_fp_config), "0xbf"},
    {CL_DEVICE_ADDRESS_BITS, "address_bits", sizeof(cl_uint), "64"},
    {CL_DEVICE_QUEUE_PROPERTIES, "queue", sizeof(cl_command_queue_properties), "3"},
    {CL_DEVICE_PROFILING_TIMER_RESOLUTION, "timer", sizeof(size_t), "1"},
    {CL_DEVICE_IMAGE2D_MAX_WIDTH, "image_width", sizeof(size_t), "16384"},
    {COMPUTE_CAPABILITY_MAJOR_NV, "capability_major", sizeof(cl_uint), "0"},
    {COMPUTE_CAPABILITY_MINOR_NV, "capability_minor", sizeof(cl_uint), "0"},
    {CL_DEVICE_IMAGE2D_MAX_HEIGHT, "image_height", sizeof(size_t), "16384"},
};

static cl_int answer_row_of(const answer_row *rows, size_t n, cl_uint what, size_t size,
                            void *value, size_t *size_ret) {
  for (size_t i = 0; i < n; i++) {
    if (rows[i].what != what) continue;
    const char *text = profile_text(rows[i].name, rows[i].absent);
    if (!rows[i].bytes) return answer_text(text, size, value, size_ret);
    const uint64_t number = strtoull(text, NULL, 0); /* the low bytes: the host is little-endian */
    return answer_bytes(&number, rows[i].bytes, size, value, size_ret);
  }
  return CL_INVALID_VALUE;
}

/* Answers with numbers of type size_t, parsed from a text. */
static cl_int answer_sizes(const char *text, size_t size, void *value, size_t *size_ret) {
  size_t numbers[8], n = 0;
  char *end = NULL;
  for (; n < sizeof numbers / sizeof *numbers && *text; text = end, n++)
    numbers[n] = strtoull(text, &end, 10);
  return answer_bytes(numbers, n * sizeof *numbers, size, value, size_ret);
}

cl_int CL_API_CALL clGetPlatformIDs(cl_uint n, cl_platform_id *platforms, cl_uint *count) {
  if (count) *count = 1;
  if (platforms && n) platforms[0] = &platform;
  return CL_SUCCESS;
}

cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id of, cl_platform_info what, size_t size,
                                     void *value, size_t *size_ret) {
  if (of != &platform) return CL_INVALID_PLATFORM;
  return answer_row_of(platform_rows, sizeof platform_rows / sizeof *platform_rows, what, size,
                       value, size_ret);
}

cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id of, cl_device_type type, cl_uint n,
                                  cl_device_id *devices, cl_uint *count) {
  if (of && of != &platform) return CL_INVALID_PLATFORM;
  if (!(type & (profile_number("type", CL_DEVICE_TYPE_GPU) | CL_DEVICE_TYPE_DEFAULT)))
    return CL_DEVICE_NOT_FOUND;
  if (count) *count = 1;
  if (devices && n) devices[0] = &imitated_device;
  return CL_SUCCESS;
}

/* Answers which products of packed bytes are accelerated: the profile has a digit for each. */
static cl_int answer_accelerated(const char *digits, size_t size, void *value, size_t *size_ret) {
  enum { PRODUCTS = 6 };
  cl_bool accelerated[PRODUCTS];
  for (int i = 0; i < PRODUCTS; i++) accelerated[i] = *digits ? *digits++ == '1' : 0;
  return answer_bytes(accelerated, sizeof accelerated, size, value, size_ret);
}

cl_int CL_API_CALL clGetDeviceInfo(cl_device_id of, cl_device_info what, size_t size, void *value,
                                   size_t *size_ret) {
  if (of != &imitated_device) return CL_INVALID_DEVICE;
  char name[32];
  (void)snprintf(name, sizeof name, "fail.%04x", what);
  if (profile_text(name, NULL)) return (cl_int)strtol(profile_text(name, "0"), NULL, 0);
  const char *extensions = profile_text("extensions", "");
  if (what == CL_DEVICE_MAX_WORK_ITEM_SIZES) {
    const size_t sizes[] = {profile_max_item(0), profile_max_item(1), profile_max_item(2)};
    return answer_bytes(sizes, sizeof sizes, size, value, size_ret);
  }
  if (what == CL_DEVICE_PLATFORM) {
    const cl_platform_id own = &platform;
    return answer_bytes(&own, sizeof own, size, value, size_ret);
  }
  if (what == CL_DEVICE_DOUBLE_FP_CONFIG || what == CL_DEVICE_HALF_FP_CONFIG) {
    const char *extension = what == CL_DEVICE_HALF_FP_CONFIG ? "cl_khr_fp16" : "cl_khr_fp64";
    const cl_device_fp_config config = strstr(extensions, extension) ? 0x3f : 0;
    return answer_bytes(&config, sizeof config, size, value, size_ret);
  }
  if (what == SUB_GROUP_SIZES_INTEL && profile_text("sub_groups", NULL))
    return answer_sizes(profile_text("sub_groups", ""), size, value, size_ret);
  const char *accelerated = profile_text("accelerated", NULL);
  if (what == CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED_KHR &&
      accelerated)
    return answer_accelerated(accelerated, size, value, size_ret);
  return answer_row_of(device_rows, sizeof device_rows / sizeof *device_rows, what, size, value,
                       size_ret);
}

#include "missing.inc" /* generated: the functions of cl.h that no file here defines; they fail */
