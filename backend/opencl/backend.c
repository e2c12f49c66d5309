/* Opens an OpenCL device as a backend: context, cache folder, the table of functions. */
#include "backend/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"
#include "backend/opencl/program/binaries.h"
#include "backend/opencl/program/cache.h"
#include "backend/opencl/program/marks.h"
#include "base/process.h"
#include "ops/custom.h"
#include "ops/epilogue.h"
#include "ops/upsample.h"

static void opencl_backend_destroy_device(backend *backend) {
  cl_device *device = (cl_device *)backend;
  if (!device) return;
  builders_destroy(device->builders);
  programs_destroy(device);
  life_sign_destroy(device->sign);
  clblast_close(device);
  if (!device_is_lost(device)) {
    if (device->caller_queue) device->cl->clReleaseCommandQueue(device->caller_queue);
    if (device->context) device->cl->clReleaseContext(device->context);
  }
  mutex_destroy(device->lock);
  mutex_destroy(device->note_lock);
  mutex_destroy(device->first_lock);
  mutex_destroy(device->trial_lock);
  free(device->cache_dir);
  free(device->kernel_dir);
  free(device);
}

typedef struct support_check {
  const rule_context *rules;
  const cl_device *device;
  bool needs_fp64;
} support_check;

static void opencl_backend_check_steps(support_check *check, const ir_instruction *ins) {
  const ir_steps *steps = ins->op_type == IR_OP_ELEMENTWISE
                              ? &((const ir_elementwise *)ins->op)->steps
                              : epilogue_of(ins);
  for (uint32_t i = 0; steps && i < steps->count; i++)
    if ((dtype)steps->items[i].dtype == DTYPE_F64) check->needs_fp64 = true;
}

/* Resizing 8-bit images needs doubles: weights are computed in double, then rounded. */
static void check_quantized(support_check *check, const ir_instruction *ins) {
  if (ins->op_type != IR_OP_UPSAMPLE) return;
  const ir_upsample *op = ins->op;
  if (upsample_is_quantized(op, check->rules->tensors[op->x].type)) check->needs_fp64 = true;
}

/* Returns why the device runs no kernel of a custom op, or NULL. */
static const char *refuse_custom(const support_check *check, const ir_custom *op) {
  const device_entry *entry = check->device->entry;
  const ir_custom_kernel *kernel = custom_kernel_for(op, entry->info.type);
  if (!kernel) return "the custom op has no kernel for devices of this type";
  return (uint64_t)custom_group_size(kernel) <= entry->traits.max_local
             ? NULL
             : "the kernel of the custom op needs larger groups than the device supports";
}

static bool device_supports(backend *backend, const rule_context *context,
                            const ir_instruction *ins, const char **reason) {
  support_check check = {.rules = context, .device = (cl_device *)backend};
  if (!opencl_table[ins->op_type]) {
    *reason = "the op has no OpenCL kernel and runs only on the CPU backend";
    return false;
  }
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (context->tensors[i.operand.tid].type == DTYPE_F64) check.needs_fp64 = true;
  opencl_backend_check_steps(&check, ins);
  check_quantized(&check, ins);
  *reason = ins->op_type == IR_OP_CUSTOM ? refuse_custom(&check, ins->op) : NULL;
  if (*reason) return false;
  if (!check.needs_fp64 || check.device->entry->traits.has_fp64) return true;
  *reason = "the device has no 64-bit floats (cl_khr_fp64)";
  return false;
}

static const backend_sharing sharing = {.adopt = opencl_buffer_adopt,
                                        .import = opencl_buffer_import,
                                        .acquire = opencl_acquire,
                                        .release = opencl_release,
                                        .begin = opencl_begin};
static const backend_overlap overlap = {.write = opencl_enqueue_write, .read = opencl_enqueue_read};
static const backend_building building = {.request = opencl_request,
                                          .build_all = opencl_build_all,
                                          .is_built = opencl_is_built,
                                          .was_refused = opencl_was_refused,
                                          .prepare = opencl_prepare,
                                          .cache_destroy = opencl_cache_destroy};
static const backend_proof proof = {.is_unproven = opencl_is_unproven, .prove = opencl_prove};
static const backend_profile profiling = {.enable = opencl_profile, .times = opencl_times};
static const backend_vtable opencl_vtable = {
    .destroy = opencl_backend_destroy_device,
    .buffer_create = opencl_buffer_create,
    .buffer_wrap = opencl_buffer_wrap,
    .buffer_destroy = opencl_buffer_destroy,
    .supports = device_supports,
    .stream_create = opencl_stream_create,
    .stream_destroy = opencl_stream_destroy,
    .record = opencl_record,
    .recording_destroy = opencl_recording_destroy,
    .run = opencl_run,
    .state_destroy = opencl_state_destroy,
    .pack = opencl_pack,
    .write = opencl_write,
    .read = opencl_read,
    .fill_zero = opencl_fill_zero,
    .copy = opencl_copy_buffer,
    .finish = opencl_finish,
    .sharing = &sharing,
    .overlap = &overlap,
    .building = &building,
    .proof = &proof,
    .profile = &profiling,
};

/* Opens the cache folder. An unusable cache costs time but is not an error: it leaves a note. */
static clave_status opencl_backend_open_cache(cl_device *device, const char *folder) {
  if (!folder) return NULL;
  clave_status st = cache_open(folder);
  if (!st) return (device->cache_dir = strdup(folder)) ? NULL : status_no_memory();
  device_note(device, "kernel binaries are not cached: %s", status_message(st));
  status_free(st);
  return NULL;
}

static clave_status create_context(cl_device *device) {
  cl_int code;
  cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                        (cl_context_properties)device->entry->platform, 0};
  device->context =
      device->cl->clCreateContext(properties, 1, &device->entry->id, NULL, NULL, &code);
  code = opencl_made(device->context, code);
  if (code == CL_SUCCESS) return NULL;
  device->context = NULL;
  return opencl_status(code, "clCreateContext");
}

enum { LAYOUTS_VERSION = 5 }; /* increment when a packed layout changes: test_packed_files.py */

static clave_status init_device(cl_device *device, const opencl_options *options) {
  TRY(mutex_create(&device->lock));
  TRY(mutex_create(&device->note_lock));
  TRY(mutex_create(&device->first_lock));
  TRY(mutex_create(&device->trial_lock));
  device->first_alone = quirk_first_alone(device->base.info.platform);
  device->large_grid = quirk_large_grid(device->base.info.platform);
  TRY(options && options->context ? adopt_context(device, options) : create_context(device));
  TRY(device_platform_key(&device->base.info, device->platform_key));
  TRY(instructions_choose(device));
  const bool builds_here = options && options->builds_here;
  TRY(trials_prepare(device, builds_here));
  if (!builds_here && (device->isolates || quirk_serial_builds(device->base.info.platform)))
    TRY(builders_create(&device->builders));
  if (!options) return NULL;
  device->message = options->message;
  device->message_ctx = options->message_ctx;
  if (options->kernel_dir) TRY(path_absolute(options->kernel_dir, &device->kernel_dir));
  TRY(binaries_use(device, options));
  return opencl_backend_open_cache(device, options->cache_dir);
}

clave_status opencl_backend_create(int index, const opencl_options *options, backend **out) {
  *out = NULL;
  const device_list *list;
  TRY(opencl_device_list(&list));
  if (index < 0 || index >= list->count)
    return INVALID("OpenCL device %d is out of range: there are %d", index, list->count);
  const char *reason;
  cl_device *device = calloc(1, sizeof *device);
  if (!device) return status_no_memory();
  device->entry = &list->entries[index];
  device->index = index;
  device->base.vt = &opencl_vtable;
  device->base.info = device->entry->info;
  (void)snprintf(device->weight_layout, sizeof device->weight_layout, "opencl %d width %u",
                 (int)LAYOUTS_VERSION, (unsigned)device->entry->traits.vector_width);
  device->base.info.weight_layout = device->weight_layout;
  clave_status st = opencl_functions(&device->cl, &reason);
  if (!st) st = init_device(device, options);
  if (st) {
    opencl_backend_destroy_device(&device->base);
    return status_while(st, "opening %s", list->entries[index].info.name);
  }
  *out = &device->base;
  return NULL;
}

clave_status opencl_save_binaries(backend *backend, const char *path) {
  cl_device *device = (cl_device *)backend;
  file_writer *writer = NULL;
  text entries = {0};
  clave_status st = programs_append(device, &entries);
  if (!st && !entries.size)
    st = UNSUPPORTED(
        "%s has no kernel binaries: nothing has run on it, or its driver returns no binaries",
        backend->info.name);
  if (!st) st = file_writer_create(path, &writer);
  if (!st) st = binaries_write(device, &entries, writer);
  file_writer_destroy(writer);
  text_free(&entries);
  return st;
}
