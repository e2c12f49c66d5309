/* The list of OpenCL devices of every platform, in order, without those that cannot be used, and
 * the traits of each. Made once per process. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device/device.h"
#include "backend/opencl/device/driver_folder.h"
#include "base/device_class.h"
#include "base/process.h"

enum { MAX_PLATFORMS = 32, MAX_PLATFORM_DEVICES = 64, MAX_TEXT = 1 << 16, MAX_UNITS = 1 << 16 };

/* Extensions that are used if a device has them. */
static const char *const used_extensions[] = {"cl_khr_fp64",
                                              "cl_khr_fp16",
                                              "cl_khr_integer_dot_product",
                                              "cl_arm_integer_dot_product_accumulate_int8",
                                              "cl_arm_integer_dot_product_int8",
                                              "cl_qcom_dot_product8",
                                              "cl_khr_external_memory_dma_buf",
                                              "cl_arm_import_memory_dma_buf",
                                              "cl_khr_subgroups",
                                              "cl_intel_required_subgroup_size",
                                              "cl_intel_subgroups",
                                              "cl_intel_subgroup_matrix_multiply_accumulate"};

/* Returns a device string as one line; NULL if memory runs out. MAX_TEXT limits its length. */
static char *device_text(const cl_functions *cl, cl_device_id id, cl_device_info what) {
  size_t size = 0;
  if (cl->clGetDeviceInfo(id, what, 0, NULL, &size) != CL_SUCCESS || size > MAX_TEXT) size = 0;
  char *text = calloc(1, size + 1);
  if (text && size && cl->clGetDeviceInfo(id, what, size, text, NULL) != CL_SUCCESS) text[0] = 0;
  for (char *c = text; c && *c; c++)
    if ((unsigned char)*c < 32) *c = ' ';
  return text;
}

static char *platform_text(const cl_functions *cl, cl_platform_id id, cl_platform_info what) {
  size_t size = 0;
  if (cl->clGetPlatformInfo(id, what, 0, NULL, &size) != CL_SUCCESS || size > MAX_TEXT) size = 0;
  char *text = calloc(1, size + 1);
  if (text && size && cl->clGetPlatformInfo(id, what, size, text, NULL) != CL_SUCCESS) text[0] = 0;
  return text;
}

static uint64_t device_number(const cl_functions *cl, cl_device_id id, cl_device_info what,
                              size_t size) {
  uint64_t v = 0; /* drivers fill the low bytes, so the host must be little-endian */
  return cl->clGetDeviceInfo(id, what, size, &v, NULL) == CL_SUCCESS ? v : 0;
}
static uint64_t device_uint(const cl_functions *cl, cl_device_id id, cl_device_info what) {
  return device_number(cl, id, what, sizeof(cl_uint));
}
static uint64_t device_ulong(const cl_functions *cl, cl_device_id id, cl_device_info what) {
  return device_number(cl, id, what, sizeof(cl_ulong));
}

static const char *opencl_devices_type_name(cl_device_type type) {
  if (type & CL_DEVICE_TYPE_GPU) return "GPU";
  if (type & CL_DEVICE_TYPE_ACCELERATOR) return "accelerator";
  if (type & CL_DEVICE_TYPE_CPU) return "CPU";
  return "custom";
}

/* True if "OpenCL <major>.<minor> ..." is at least this version. */
static bool version_is(const char *version, int least, int min_minor) {
  int major = 0, minor = 0;
  const char *at = strncmp(version, "OpenCL ", 7) == 0 ? version + 7 : "";
  while (*at >= '0' && *at <= '9' && major < 1000) major = major * 10 + (*at++ - '0');
  if (*at == '.') minor = at[1] >= '0' && at[1] <= '9' ? at[1] - '0' : 0;
  return major > least || (major == least && minor >= min_minor);
}

/* Returns why a device with the embedded profile cannot be used, or NULL. Kernels need 64-bit
 * integers for element counts and infinities for masks. Its less exact functions and small limits
 * only move single ops to the CPU backend. */
static const char *refuse_embedded(const cl_functions *cl, cl_device_id id,
                                   const char *extensions) {
  const uint64_t single = device_ulong(cl, id, CL_DEVICE_SINGLE_FP_CONFIG);
  if (!has_word(extensions, "cles_khr_int64"))
    return "the device has the embedded profile without 64-bit integers (cles_khr_int64)";
  if (!(single & CL_FP_INF_NAN))
    return "the device has the embedded profile without infinities and NaN (CL_FP_INF_NAN)";
  return NULL;
}

/* Sets *reason to why the device cannot be used, or NULL. `entry` has its names. */
static clave_status find_refusal(const cl_functions *cl, const device_entry *entry,
                                 const char **reason) {
  const char *linker = quirk_linker(entry->info.platform, entry->info.name);
  *reason = quirk_refusal(entry->info.platform, entry->info.name);
  if (!*reason && linker && !environment_provide(linker))
    *reason = "the compiler of the driver needs the linker ld, which is not on PATH";
  if (!*reason && !device_uint(cl, entry->id, CL_DEVICE_AVAILABLE))
    *reason = "the device is not available";
  if (!*reason && !device_uint(cl, entry->id, CL_DEVICE_COMPILER_AVAILABLE))
    *reason = "the driver has no compiler";
  if (!*reason && !version_is(entry->info.version, 1, 2))
    *reason = "the device is older than OpenCL 1.2";
  if (!*reason && !device_uint(cl, entry->id, CL_DEVICE_ENDIAN_LITTLE))
    *reason = "the device is big-endian";
  if (*reason) return NULL;
  char *profile = device_text(cl, entry->id, CL_DEVICE_PROFILE),
       *extensions = device_text(cl, entry->id, CL_DEVICE_EXTENSIONS);
  clave_status st = profile && extensions ? NULL : status_no_memory();
  if (!st && strcmp(profile, "FULL_PROFILE") != 0)
    *reason = refuse_embedded(cl, entry->id, extensions);
  free(profile);
  free(extensions);
  return st;
}

static clave_status join_texts(const char *name, const char *version, char **out) {
  text text = {0};
  text_printf(&text, "%s (%s)", name, version);
  clave_status st = text_status(&text);
  if (st) text_free(&text);
  *out = st ? NULL : text.data;
  return st;
}

static clave_status describe_extensions(const char *all, char **out) {
  text text = {0};
  text_append(&text, "", 0);
  for (size_t i = 0; i < sizeof used_extensions / sizeof *used_extensions; i++)
    if (has_word(all, used_extensions[i]))
      text_printf(&text, "%s%s", text.size ? " " : "", used_extensions[i]);
  clave_status st = text_status(&text);
  *out = text.data ? text.data : calloc(1, 1);
  if (!st && !*out) st = status_no_memory();
  return st;
}

static clave_status describe_platform(const cl_functions *cl, device_entry *entry) {
  char *name = platform_text(cl, entry->platform, CL_PLATFORM_NAME),
       *version = platform_text(cl, entry->platform, CL_PLATFORM_VERSION);
  char *joined = NULL;
  clave_status st = name && version ? join_texts(name, version, &joined) : status_no_memory();
  entry->info.platform = joined;
  free(name);
  free(version);
  return st;
}

/* Returns the largest work-group of one or two dimensions, of any shape. */
static size_t largest_group(const cl_functions *cl, cl_device_id id) {
  enum { MAX_DIMS = 16 };
  size_t most = (size_t)device_number(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t)),
         sizes[MAX_DIMS] = {0};
  if (cl->clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, NULL) !=
      CL_SUCCESS)
    return most;
  for (int i = 0; i < 2; i++)
    if (sizes[i] < most) most = sizes[i];
  return most;
}

/* Returns the smallest sub-group size that kernels can require, or 0 if it is unknown. */
static uint32_t find_min_lanes(const cl_functions *cl, cl_device_id id, const char *extensions) {
  enum { SUB_GROUP_SIZES_INTEL = 0x4108, MAX_SIZES = 16 };
  size_t sizes[MAX_SIZES] = {0}, bytes = 0, least = 0;
  if (!has_word(extensions, "cl_intel_required_subgroup_size") ||
      cl->clGetDeviceInfo(id, SUB_GROUP_SIZES_INTEL, sizeof sizes, sizes, &bytes) != CL_SUCCESS)
    return 0;
  for (size_t i = 0; i < MAX_SIZES && i < bytes / sizeof *sizes; i++)
    if (!least || sizes[i] < least) least = sizes[i];
  return (uint32_t)least;
}

/* Returns the compute capability of an NVIDIA GPU, ten times the major number plus the minor one,
 * or 0 if it is unknown. */
static uint32_t find_capability(const cl_functions *cl, cl_device_id id, const char *extensions) {
  enum { MAJOR_NV = 0x4000, MINOR_NV = 0x4001, MAX_MAJOR = 1000 };
  if (!has_word(extensions, "cl_nv_device_attribute_query")) return 0;
  const uint64_t major = device_uint(cl, id, MAJOR_NV), minor = device_uint(cl, id, MINOR_NV);
  return major < MAX_MAJOR ? (uint32_t)(10 * major + (minor < 10 ? minor : 9)) : 0;
}

/* Sets is_cpu and is_gpu by the device's type or by CLAVE_DEVICE_CLASS. A device of several types
 * counts as a GPU: GPU kernels are right everywhere, unless groups are smaller than they need. */
static clave_status describe_class(cl_device_type type, device_entry *entry) {
  device_traits *traits = &entry->traits;
  traits->is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
  traits->is_cpu = !traits->is_gpu && (type & CL_DEVICE_TYPE_CPU) &&
                   !quirk_lanes(entry->info.platform, entry->info.name);
  device_class given;
  TRY(device_class_read(&given));
  if (given.cpu || given.gpu) {
    traits->is_cpu = given.cpu;
    traits->is_gpu = given.gpu;
  }
  traits->always_wide = given.wide;
  traits->is_slow = given.slow;
  if (traits->max_local < LOCAL_SIZE) {
    traits->is_cpu = true;
    traits->is_gpu = false;
  }
  return NULL;
}

/* Estimates the device's speed. Compute units alone cannot be compared: a unit has 128 lanes on one
 * GPU and 8 on another. Adreno reports a clock of 1 MHz if it does not know its own. */
static void describe_speed(backend_info *info) {
  enum { USUAL_MHZ = 1000 };
  const uint64_t clock = info->clock_mhz > 1 ? info->clock_mhz : USUAL_MHZ;
  const bool is_gpu = strcmp(info->type, "GPU") == 0;
  const uint64_t lanes = is_gpu ? quirk_unit_lanes(info->platform, info->name) : 1;
  info->speed = (uint64_t)info->compute_units * lanes * clock / 1000;
}

/* Sets which host memory is used in place. Drivers of GPUs use pages of whole cache lines in place,
 * and silently copy other memory. */
static void describe_wraps(backend_info *info) {
  enum { PAGE = 4096, LINE = 64 };
  if (!info->shares_host_memory || quirk_copies(info->platform)) return;
  info->wrap_alignment = info->runs_on_host ? info->alignment : PAGE;
  info->wrap_multiple = info->runs_on_host ? 1 : LINE;
}

static void describe_limits(const cl_functions *cl, device_entry *entry, const char *extensions) {
  cl_device_type type = device_ulong(cl, entry->id, CL_DEVICE_TYPE);
  backend_info *info = &entry->info;
  device_traits *traits = &entry->traits;
  info->kind = "opencl";
  info->is_trusted = quirk_trusted(info->platform);
  info->type = opencl_devices_type_name(type);
  info->memory = device_ulong(cl, entry->id, CL_DEVICE_GLOBAL_MEM_SIZE);
  info->max_alloc = device_ulong(cl, entry->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  uint64_t align = device_uint(cl, entry->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
  info->alignment = align > 64 && align <= 4096 ? (size_t)align : 64;
  uint64_t units = device_uint(cl, entry->id, CL_DEVICE_MAX_COMPUTE_UNITS);
  info->compute_units = units < 1 ? 1 : units > MAX_UNITS ? MAX_UNITS : (uint32_t)units;
  info->clock_mhz = (uint32_t)device_uint(cl, entry->id, CL_DEVICE_MAX_CLOCK_FREQUENCY);
  describe_speed(info);
  info->shares_host_memory = device_uint(cl, entry->id, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
  info->runs_on_host = info->shares_host_memory && strcmp(info->type, "CPU") == 0;
  describe_wraps(info);
  traits->has_fp64 = has_word(extensions, "cl_khr_fp64");
  const uint64_t width = device_uint(cl, entry->id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
  traits->has_half = has_word(extensions, "cl_khr_fp16");
  traits->doubles_halves = device_uint(cl, entry->id, CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF) > width ||
                           quirk_doubles_halves(info->platform, info->name);
  traits->shares_host_memory = info->shares_host_memory;
  traits->compute_units = info->compute_units;
  traits->vector_width = width >= 16 ? 16 : width >= 8 ? 8 : 4;
  traits->max_local = largest_group(cl, entry->id);
  traits->min_lanes = find_min_lanes(cl, entry->id, extensions);
  traits->max_groups = quirk_max_groups(info->platform);
  traits->capability = find_capability(cl, entry->id, extensions);
  traits->registers = quirk_registers(info->platform, info->name);
  traits->local_memory = device_ulong(cl, entry->id, CL_DEVICE_LOCAL_MEM_SIZE);
  traits->max_alloc = info->max_alloc;
  if (device_uint(cl, entry->id, CL_DEVICE_IMAGE_SUPPORT))
    traits->image_texels =
        device_number(cl, entry->id, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, sizeof(size_t));
  traits->reads_images = quirk_images(info->platform);
  /* On a CPU, local memory is cached like all memory. */
  traits->shares_badly = device_uint(cl, entry->id, CL_DEVICE_LOCAL_MEM_TYPE) == CL_GLOBAL &&
                         strcmp(info->type, "CPU") != 0;
  uint64_t single = device_ulong(cl, entry->id, CL_DEVICE_SINGLE_FP_CONFIG);
  entry->correct_division = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  traits->has_fma = (single & CL_FP_FMA) != 0;
}

/* Returns the vendor's part of "OpenCL <major>.<minor> <vendor's part>". */
static const char *vendor_part(const char *version) {
  for (int words = 0; words < 2 && *version; words++) {
    version += strcspn(version, " ");
    version += strspn(version, " ");
  }
  return version;
}

/* Sets name and version. The vendor's part of the version replaces a name without a model. */
static clave_status describe_name(const cl_functions *cl, device_entry *entry) {
  char *name = device_text(cl, entry->id, CL_DEVICE_NAME),
       *version = device_text(cl, entry->id, CL_DEVICE_VERSION);
  entry->info.name = name;
  entry->info.version = version;
  if (!name || !version) return status_no_memory();
  const char *maker = quirk_maker(entry->info.platform), *model = vendor_part(version);
  if (!maker || !*model || strpbrk(name, "0123456789")) return NULL;
  text full = {0};
  text_printf(&full, "%s %s", maker, model);
  clave_status st = text_status(&full);
  if (st) text_free(&full);
  if (st) return st;
  free(name);
  entry->info.name = full.data;
  return NULL;
}

static clave_status describe_device(const cl_functions *cl, device_entry *entry) {
  TRY(describe_platform(cl, entry));
  TRY(describe_name(cl, entry));
  entry->info.driver = device_text(cl, entry->id, CL_DRIVER_VERSION);
  char *extensions = device_text(cl, entry->id, CL_DEVICE_EXTENSIONS), *used = NULL;
  clave_status st = entry->info.driver && extensions ? describe_extensions(extensions, &used)
                                                     : status_no_memory();
  entry->info.extensions = used;
  entry->traits.opencl_3 = version_is(entry->info.version, 3, 0);
  if (!st) describe_limits(cl, entry, extensions);
  if (!st) st = describe_class(device_ulong(cl, entry->id, CL_DEVICE_TYPE), entry);
  free(extensions);
  return st;
}

static void free_entry(device_entry *entry) {
  free((char *)entry->info.name);
  free((char *)entry->info.platform);
  free((char *)entry->info.driver);
  free((char *)entry->info.version);
  free((char *)entry->info.extensions);
}

static void opencl_devices_free_list(device_list *list) {
  if (!list) return;
  for (int i = 0; i < list->count; i++) free_entry(&list->entries[i]);
  free(list->entries);
  free(list->infos);
  free(list->reason);
  free(list);
}

/* Adds the device to the list, or the reason for its absence to `left_out`. */
static clave_status add_device(const cl_functions *cl, device_list *list, cl_platform_id platform,
                               cl_device_id id, text *left_out) {
  device_entry entry = {.platform = platform, .id = id};
  const char *refusal = NULL;
  clave_status st = describe_device(cl, &entry);
  if (!st) st = find_refusal(cl, &entry, &refusal);
  device_entry *grown = NULL;
  if (!st && !refusal) {
    grown = realloc(list->entries, sizeof *grown * (size_t)(list->count + 1));
    if (!grown) st = status_no_memory();
  }
  if (refusal)
    text_printf(left_out, "%s%s on %s: %s", left_out->size ? "; " : "", entry.info.name,
                entry.info.platform, refusal);
  if (st || refusal) {
    free_entry(&entry);
    return st;
  }
  list->entries = grown;
  list->entries[list->count++] = entry;
  return NULL;
}

static void note_files(const cl_functions *cl, cl_platform_id platform, device_list *list) {
  char *name = platform_text(cl, platform, CL_PLATFORM_NAME);
  if (!name || quirk_files(name)) list->has_files = true;
  free(name);
}

static void explain_empty(const cl_functions *cl, cl_platform_id platform, device_list *list,
                          text *left_out) {
  char *name = platform_text(cl, platform, CL_PLATFORM_NAME);
  const char *reason = name ? quirk_empty(name) : NULL;
  free(name);
  if (!reason) return;
  list->explained = true;
  text_printf(left_out, "%s%s", left_out->size ? "; " : "", reason);
}

static clave_status add_platform(const cl_functions *cl, device_list *list, cl_platform_id platform,
                                 text *left_out) {
  cl_device_id ids[MAX_PLATFORM_DEVICES] = {NULL};
  cl_uint n = 0;
  note_files(cl, platform, list);
  cl_int code = cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_PLATFORM_DEVICES, ids, &n);
  if (code != CL_SUCCESS) { /* no device, or a broken platform: others may work */
    explain_empty(cl, platform, list, left_out);
    return NULL;
  }
  for (cl_uint i = 0; i < n && i < MAX_PLATFORM_DEVICES && ids[i]; i++)
    TRY(add_device(cl, list, platform, ids[i], left_out));
  return NULL;
}

static clave_status opencl_devices_fill_list(device_list *list, text *left_out) {
  const char *reason;
  const cl_functions *cl;
  TRY(opencl_functions(&cl, &reason));
  if (!cl) {
    text_printf(left_out, "%s", reason);
    return NULL;
  }
  cl_platform_id ids[MAX_PLATFORMS] = {NULL};
  cl_uint n = 0;
  if (cl->clGetPlatformIDs(MAX_PLATFORMS, ids, &n) != CL_SUCCESS)
    n = 0; /* -1001: the loader found no platform */
  for (cl_uint i = 0; i < n && i < MAX_PLATFORMS && ids[i]; i++)
    TRY(add_platform(cl, list, ids[i], left_out));
  list->infos = calloc((size_t)list->count + 1, sizeof *list->infos);
  if (!list->infos) return status_no_memory();
  for (int i = 0; i < list->count; i++) list->infos[i] = list->entries[i].info;
  if (list->count == 0)
    text_printf(left_out, "%sno OpenCL device%s", left_out->size ? "; " : "",
                list->explained
                    ? ""
                    : ": install the package pocl-opencl-icd for the CPU, or the driver "
                      "of your GPU");
  return NULL;
}

static clave_status opencl_devices_make_list(device_list **out) {
  device_list *list = calloc(1, sizeof *list);
  if (!list) return status_no_memory();
  text left_out = {0};
  clave_status st = opencl_devices_fill_list(list, &left_out);
  if (!st) st = text_status(&left_out);
  list->reason = left_out.data;
  *out = st ? NULL : list;
  if (st) opencl_devices_free_list(list);
  return st;
}

clave_status opencl_device_list(const device_list **out) {
  static device_list *published;
  *out = __atomic_load_n(&published, __ATOMIC_ACQUIRE);
  if (*out) return NULL;
  device_list *mine, *expected = NULL;
  driver_folder_enter();
  clave_status st = opencl_devices_make_list(&mine);
  driver_folder_leave(st || mine->has_files); /* kept after an error: a later call may use it */
  if (st) return st;
  *out = mine;
  if (!__atomic_compare_exchange_n(&published, &expected, mine, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    opencl_devices_free_list(mine);
    *out = expected;
  }
  return NULL;
}
