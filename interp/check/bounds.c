/* Runs a custom kernel with each result between two guard zones, which reveal writes outside the
 * result. Then copies the results to their destinations. */
#include "interp/check/bounds.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 4096, GUARD_PATTERN = 0xa5 };

typedef struct guarded {
  uint32_t tid;
  size_t bytes;
  buffer *buf; /* owned: a guard zone, the result, a guard zone */
} guarded;

typedef struct bounds_check {
  const checking *checking;
  backend *backend;
  stream *queue;
  guarded *results;      /* owned (n) */
  bound_tensor *tensors; /* owned (n_slots + 2): the operands, with results in guarded memory */
  uint32_t n;
} bounds_check;

/* ---------------------------------------------------------------- before the launch */

static clave_status fill_guards(const bounds_check *check, const guarded *guarded) {
  size_t total = guarded->bytes + 2 * GUARD_BYTES;
  void *pattern = malloc(total);
  if (!pattern) return status_no_memory();
  memset(pattern, GUARD_PATTERN, total);
  clave_status st = check->backend->vt->write(check->queue, guarded->buf, 0, pattern, total);
  free(pattern);
  return st;
}

static clave_status guard_result(bounds_check *check, uint32_t tid) {
  bound_tensor *tensor = &check->tensors[tid];
  guarded *g = &check->results[check->n];
  if (tensor_numel(&tensor->tensor) == 0) return NULL;
  *g = (guarded){.tid = tid};
  TRY(known_bytes(&tensor->tensor, &g->bytes));
  TRY(check->backend->vt->buffer_create(check->backend, g->bytes + 2 * GUARD_BYTES, &g->buf));
  check->n++;
  TRY(fill_guards(check, g));
  tensor->buf = g->buf;
  tensor->buffer_offset =
      GUARD_BYTES - (size_t)tensor->tensor.offset * dtype_size(tensor->tensor.type);
  return NULL;
}

static clave_status guard_results(bounds_check *check, const run_operands *operands) {
  const ir_custom *op = check->checking->nd->instruction->op;
  size_t slots = (size_t)slot_count(check->checking->session->prog) + 2;
  check->results = calloc((size_t)op->results.count + 1, sizeof *check->results);
  check->tensors = malloc(slots * sizeof *check->tensors);
  if (!check->results || !check->tensors) return status_no_memory();
  memcpy(check->tensors, operands->tensors, slots * sizeof *check->tensors);
  for (uint32_t i = 0; i < op->results.count; i++) TRY(guard_result(check, op->results.items[i]));
  return NULL;
}

/* ---------------------------------------------------------------- after the launch */

static bool is_touched(const unsigned char *zone) {
  for (size_t i = 0; i < GUARD_BYTES; i++)
    if (zone[i] != GUARD_PATTERN) return true;
  return false;
}

static clave_status check_zone(const bounds_check *check, const guarded *guarded, size_t offset,
                               const char *where) {
  unsigned char zone[GUARD_BYTES];
  const ir_custom *op = check->checking->nd->instruction->op;
  const tensor *tensor = &check->tensors[guarded->tid].tensor;
  char shape[128];
  TRY(check->backend->vt->read(check->queue, guarded->buf, offset, zone, sizeof zone));
  if (!is_touched(zone)) return NULL;
  return status_new(STATUS_DEVICE, "the kernel of %s writes %s its result (%s %s)", op->target,
                    where, dtype_name(tensor->type),
                    tensor_shape_text(tensor, shape, sizeof shape));
}

static clave_status take_result(const bounds_check *check, const guarded *guarded) {
  const bound_tensor *to = &check->checking->nd->tensors[guarded->tid];
  TRY(check_zone(check, guarded, 0, "before"));
  TRY(check_zone(check, guarded, GUARD_BYTES + guarded->bytes, "after"));
  return check->backend->vt->copy(
      check->queue, to->buf,
      to->buffer_offset + (size_t)to->tensor.offset * dtype_size(to->tensor.type), guarded->buf,
      GUARD_BYTES, guarded->bytes);
}

clave_status run_guarded(const checking *checking, const recording *recording, void **state,
                         const run_operands *operands) {
  bounds_check check = {.checking = checking,
                        .backend = checking->session->devices.backends[checking->backend],
                        .queue = checking->session->streams[checking->backend]};
  run_operands own = *operands;
  clave_status st = guard_results(&check, operands);
  own.tensors = check.tensors;
  if (!st) st = check.backend->vt->run(check.queue, recording, state, &own, checking->number);
  for (uint32_t i = 0; i < check.n && !st; i++) st = take_result(&check, &check.results[i]);
  device_fault fault;
  clave_status end = check.n ? check.backend->vt->finish(check.queue, &fault) : NULL;
  for (uint32_t i = 0; i < check.n; i++)
    check.backend->vt->buffer_destroy(check.backend, check.results[i].buf);
  free(check.results);
  free(check.tensors);
  if (!st) return end;
  status_free(end);
  return st;
}
