/* Opens an OpenCL device as a backend: context, cache folder, the table of functions. */
#include "backend/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"
#include "backend/opencl/program/binaries.h"
#include "backend/opencl/program/cache.h"
#include "base/hash.h"
#include "base/process.h"
#include "ops/custom.h"
#include "ops/epilogue.h"
#include "ops/upsample.h"

static void destroy_device(backend *b) {
  cl_device *d = (cl_device *)b;
  if (!d) return;
  builders_destroy(d->builders);
  programs_destroy(d);
  clblast_close(d);
  if (d->callers) d->cl->clReleaseCommandQueue(d->callers);
  if (d->context) d->cl->clReleaseContext(d->context);
  mutex_destroy(d->lock);
  mutex_destroy(d->note_lock);
  mutex_destroy(d->first_lock);
  free(d->cache_dir);
  free(d->kernel_dir);
  free(d);
}

typedef struct support_check {
  const rule_context *rules;
  const cl_device *device;
  bool needs_fp64;
} support_check;

static void check_steps(support_check *c, const ir_instruction *ins) {
  const ir_steps *steps = ins->op_type == IR_OP_ELEMENTWISE
                              ? &((const ir_elementwise *)ins->op)->steps
                              : epilogue_of(ins);
  for (uint32_t i = 0; steps && i < steps->count; i++)
    if ((dtype)steps->items[i].dtype == DTYPE_F64) c->needs_fp64 = true;
}

/* Weights of resized 8-bit images are computed in doubles and then rounded to integers. */
static void check_quantized(support_check *c, const ir_instruction *ins) {
  if (ins->op_type != IR_OP_UPSAMPLE) return;
  const ir_upsample *op = ins->op;
  if (upsample_is_quantized(op, c->rules->tensors[op->x].type)) c->needs_fp64 = true;
}

/* Why the device runs no kernel of a custom op, or NULL. */
static const char *refuse_custom(const support_check *c, const ir_custom *op) {
  const device_entry *e = c->device->entry;
  const ir_custom_kernel *k = custom_kernel_for(op, e->info.type);
  if (!k) return "it has no kernel for devices of this type";
  return (uint64_t)custom_group_size(k) <= e->traits.max_local
             ? NULL
             : "its kernel's groups are larger than the device's";
}

static bool device_supports(backend *b, const rule_context *c, const ir_instruction *ins,
                            const char **reason) {
  support_check check = {.rules = c, .device = (cl_device *)b};
  if (!opencl_table[ins->op_type]) {
    *reason = "the op runs on the CPU backend alone";
    return false;
  }
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (c->tensors[i.o.tid].type == DTYPE_F64) check.needs_fp64 = true;
  check_steps(&check, ins);
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
                                          .prepare = opencl_prepare,
                                          .cache_destroy = opencl_cache_destroy};
static const backend_proof proof = {.is_unproven = opencl_is_unproven, .prove = opencl_prove};
static const backend_profile profiling = {.enable = opencl_profile, .times = opencl_times};
static const backend_vtable opencl_vtable = {
    .destroy = destroy_device,
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

/* The "flags" line of the first CPU, or nothing. */
static void append_cpu_flags(text *t) {
  FILE *f = fopen("/proc/cpuinfo", "r");
  if (!f) return;
  char line[4096];
  while (fgets(line, sizeof line, f)) {
    if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0) continue;
    text_append(t, line, strlen(line));
    break;
  }
  fclose(f);
}

/* With the CPU's flags: PoCL's code for one machine may be illegal on another. */
static clave_status find_platform_key(cl_device *d) {
  const backend_info *i = &d->base.info;
  text t = {0};
  text_printf(&t, "%s\n%s\n%s\n%zu\n", i->platform, i->name, i->driver, sizeof(void *));
  if (strcmp(i->type, "CPU") == 0) append_cpu_flags(&t);
  clave_status st = text_status(&t);
  if (!st) hash_bytes_128(t.data, t.size, d->platform_key);
  text_free(&t);
  return st;
}

/* A cache that cannot be used costs time, never a run. */
static clave_status open_cache(cl_device *d, const char *folder) {
  if (!folder) return NULL;
  clave_status st = cache_open(folder);
  if (!st) return (d->cache_dir = strdup(folder)) ? NULL : status_no_memory();
  device_note(d, "kernel binaries are not kept: %s", status_message(st));
  status_free(st);
  return NULL;
}

static clave_status create_context(cl_device *d) {
  cl_int code;
  cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                        (cl_context_properties)d->entry->platform, 0};
  d->context = d->cl->clCreateContext(properties, 1, &d->entry->id, NULL, NULL, &code);
  if (code == CL_SUCCESS) return NULL;
  d->context = NULL;
  return opencl_status(code, "clCreateContext");
}

enum { LAYOUTS_VERSION = 5 }; /* grows when a kernel packs otherwise: test_packed_files.py */

static clave_status init_device(cl_device *d, const opencl_options *o) {
  TRY(mutex_create(&d->lock));
  TRY(mutex_create(&d->note_lock));
  TRY(mutex_create(&d->first_lock));
  d->first_alone = quirk_first_alone(d->base.info.platform);
  d->large_grid = quirk_large_grid(d->base.info.platform);
  TRY(o && o->context ? adopt_context(d, o) : create_context(d));
  TRY(find_platform_key(d));
  TRY(instructions_choose(d));
  if (quirk_serial_builds(d->base.info.platform) && !(o && o->builds_here))
    TRY(builders_create(&d->builders));
  if (!o) return NULL;
  d->message = o->message;
  d->message_ctx = o->message_ctx;
  if (o->kernel_dir) TRY(path_absolute(o->kernel_dir, &d->kernel_dir));
  TRY(binaries_take(d, o));
  return open_cache(d, o->cache_dir);
}

clave_status opencl_backend_create(int index, const opencl_options *o, backend **out) {
  *out = NULL;
  const device_list *list;
  TRY(opencl_device_list(&list));
  if (index < 0 || index >= list->count)
    return INVALID("there is no OpenCL device %d; there are %d", index, list->count);
  const char *reason;
  cl_device *d = calloc(1, sizeof *d);
  if (!d) return status_no_memory();
  d->entry = &list->entries[index];
  d->index = index;
  d->base.vt = &opencl_vtable;
  d->base.info = d->entry->info;
  (void)snprintf(d->weight_layout, sizeof d->weight_layout, "opencl %d width %u",
                 (int)LAYOUTS_VERSION, (unsigned)d->entry->traits.vector_width);
  d->base.info.weight_layout = d->weight_layout;
  clave_status st = opencl_functions(&d->cl, &reason);
  if (!st) st = init_device(d, o);
  if (st) {
    destroy_device(&d->base);
    return status_while(st, "opening %s", list->entries[index].info.name);
  }
  *out = &d->base;
  return NULL;
}

clave_status opencl_save_binaries(backend *b, const char *path) {
  cl_device *d = (cl_device *)b;
  file_writer *w = NULL;
  text entries = {0};
  clave_status st = programs_append(d, &entries);
  if (!st && !entries.size)
    st = UNSUPPORTED("%s has no kernel binaries: nothing ran there, or its driver gives none",
                     b->info.name);
  if (!st) st = file_writer_create(path, &w);
  if (!st) st = binaries_write(d, &entries, w);
  file_writer_destroy(w);
  text_free(&entries);
  return st;
}
