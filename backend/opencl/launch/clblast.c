/* Opens CLBlast and runs its products on a stream. */
#include "backend/opencl/launch/clblast.h"

#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program/build_messages.h"
#include "backend/opencl/program/marks.h"
#include "base/hash.h"

static bool clblast_find_function(library *library, const char *name, void *to) {
  void *from = library_symbol(library, name);
  memcpy(to, &from, sizeof from);
  return from != NULL;
}

/* CLBlast is linked with libOpenCL.so.1. If we use another library, CLBlast rejects our objects. */
static bool uses_our_library(cl_device *device, library *library) {
  void *theirs = library_symbol(library, "clGetPlatformIDs"), *ours;
  memcpy(&ours, &device->cl->clGetPlatformIDs, sizeof ours);
  if (theirs == ours) return true;
  device_note(device, "CLBlast is not used: it is linked with another OpenCL library than %s",
              device->cl->file);
  return false;
}

static clblast *open_clblast(cl_device *device) {
  cl_int code;
  clblast *clblast = calloc(1, sizeof *clblast);
  if (!clblast) return NULL;
  status_free(library_open("libclblast.so.1", &clblast->library));
  if (!clblast->library) return clblast;
  bool all =
      uses_our_library(device, clblast->library) &&
      clblast_find_function(clblast->library, "CLBlastSgemmWithTempBuffer", &clblast->gemm) &&
      clblast_find_function(clblast->library, "CLBlastSGemmTempBufferSize", &clblast->temp_size) &&
      clblast_find_function(clblast->library, "CLBlastSgemmStridedBatched", &clblast->batched);
  if (all)
    clblast->queue = device->cl->clCreateCommandQueue(device->context, device->entry->id, 0, &code);
  all = all && clblast->queue;
  if (!all) {
    library_close(clblast->library);
    clblast->library = NULL;
  }
  return clblast;
}

clblast *clblast_of(cl_device *device) {
  mutex_lock(device->lock);
  if (!device->blas) device->blas = open_clblast(device);
  clblast *clblast = device->blas;
  mutex_unlock(device->lock);
  return clblast && clblast->library ? clblast : NULL;
}

void clblast_close(cl_device *device) {
  clblast *clblast = device->blas;
  if (!clblast) return;
  if (clblast->queue && !device_is_lost(device)) device->cl->clReleaseCommandQueue(clblast->queue);
  if (!device_is_lost(device)) library_close(clblast->library); /* closing it calls the driver */
  free(clblast);
  device->blas = NULL;
}

/* ---------------------------------------------------------------- a product */

/* A matrix with the current buffer of its slot. */
typedef struct placed_matrix {
  cl_mem memory;
  size_t offset;
} placed_matrix;

static placed_matrix place_matrix(const matrix *matrix, const run_operands *operands) {
  const bound_tensor *tensor = &operands->tensors[matrix->slot];
  return (placed_matrix){((const cl_buffer *)tensor->buf)->memory,
                         matrix->offset + tensor->buffer_offset / sizeof(float)};
}

static clave_status run_product(cl_stream *stream, const blas_call *call,
                                const run_operands *operands) {
  const clblast *clblast = stream->device->blas;
  const placed_matrix a = place_matrix(&call->a, operands), b = place_matrix(&call->b, operands),
                      out = place_matrix(&call->out, operands);
  cl_mem temporary = operands->scratch ? ((const cl_buffer *)operands->scratch)->memory : NULL;
  clave_status st;
  cl_event *event = stream_event(stream, &st);
  if (st) return st;
  CLBlastStatusCode code;
  if (call->batches > 1) {
    code = clblast->batched(CLBlastLayoutRowMajor, call->a.transpose, call->b.transpose, call->m,
                            call->n, call->k, call->alpha, a.memory, a.offset, call->a.ld,
                            call->a.stride, b.memory, b.offset, call->b.ld, call->b.stride,
                            call->beta, out.memory, out.offset, call->out.ld, call->out.stride,
                            call->batches, &stream->queue, event);
  } else {
    code = clblast->gemm(CLBlastLayoutRowMajor, call->a.transpose, call->b.transpose, call->m,
                         call->n, call->k, call->alpha, a.memory, a.offset, call->a.ld, b.memory,
                         b.offset, call->b.ld, call->beta, out.memory, out.offset, call->out.ld,
                         &stream->queue, event, temporary);
  }
  if (code != CLBlastSuccess) return opencl_status((cl_int)code, "CLBlastSgemm");
  if (event && *event) stream->n_events++;
  return NULL;
}

/* ---------------------------------------------------------------- the first product */

static const char about[] = "the products of CLBlast";

/* Hashes the device, its driver and CLBlast. */
static void trial_key(const cl_device *device, uint64_t key[2]) {
  const clblast *clblast = device->blas;
  const void *function;
  memcpy(&function, &clblast->gemm, sizeof function);
  const uint64_t all[] = {device->platform_key[0], device->platform_key[1], device->driver_stamp,
                          library_stamp(function)};
  hash_bytes_128(all, sizeof all, key);
}

/* Has a child process compile CLBlast's programs with the driver, unless one did before. If no
 * child can, marks that this process does, and sets *marks. Fails if a driver did not survive them.
 */
static clave_status try_programs(cl_device *device, const uint64_t key[2], bool *marks) {
  const char *folder = device->cache_dir;
  const greeting task = {.device = device->index, .task = TASK_CLBLAST};
  const found_mark found = folder ? mark_find(folder, key) : (found_mark){.state = MARK_NONE};
  char reason[128];
  if (found.state == MARK_ACCEPTED) return NULL;
  if (found.state == MARK_REFUSED) return UNSUPPORTED("%s", found.reason);
  const int seconds = 2 * device->build_timeout_s; /* for two programs */
  const child_outcome outcome = child_try(&task, seconds, reason, sizeof reason);
  if (outcome == CHILD_HARMED) {
    if (folder) mark_refuse(folder, key, about, reason);
    return UNSUPPORTED("%s", reason);
  }
  if (!folder) return NULL;
  if (outcome == CHILD_GOOD) {
    mark_accept(folder, key, about);
    return NULL;
  }
  if (found.state == MARK_DEAD && !found.is_expired) return UNSUPPORTED("%s", trial_has_ended);
  if (!device->sign) device->sign = life_sign_create(folder);
  *marks = device->sign && mark_try(folder, key, device->sign, &found, false, about);
  return NULL;
}

clave_status blas_run(cl_stream *stream, const blas_call *call, const run_operands *operands) {
  cl_device *device = stream->device;
  if (!device->isolates || __atomic_load_n(&device->blas_accepted, __ATOMIC_RELAXED))
    return run_product(stream, call, operands);
  uint64_t key[2];
  bool marks = false;
  trial_key(device, key);
  mutex_lock(device->trial_lock);
  clave_status st = device->blas_accepted ? NULL : try_programs(device, key, &marks);
  if (!st) st = run_product(stream, call, operands);
  if (marks && st) mark_remove(device->cache_dir, key);
  if (marks && !st) mark_accept(device->cache_dir, key, about);
  if (!st) __atomic_store_n(&device->blas_accepted, true, __ATOMIC_RELAXED);
  mutex_unlock(device->trial_lock);
  return st;
}

bool blas_is_refused(const cl_device *device) {
  return __atomic_load_n(&device->blas_refused, __ATOMIC_RELAXED);
}

void blas_refuse(cl_device *device, const struct clave_error *why) {
  if (!__atomic_exchange_n(&device->blas_refused, true, __ATOMIC_RELAXED))
    device_note(device, "CLBlast fails on %s (%s), so clave's own kernels run instead",
                device->base.info.name, status_message(why));
}
