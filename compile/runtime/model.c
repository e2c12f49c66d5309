/* A compiled program's memory and its runs. */
#include "compile/runtime/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/threads.h"

/* ---------------------------------------------------------------- kernels */

static void *take_scratch(void *pool, size_t bytes) {
  static char nothing;
  model *m = pool;
  const size_t size = kernel_scratch_size(bytes);
  if (bytes == 0) return &nothing;
  if (bytes > m->scratch_bytes || size > m->scratch_bytes - m->scratch_used) return NULL;
  void *p = m->scratch + m->scratch_used;
  m->scratch_used += size;
  return p;
}

static void fail(model *m, clave_status st) {
  if (m->failed) {
    status_free(st);
  } else {
    m->failed = m->node ? status_while(st, "%s", m->node) : st;
  }
}

static void check_fault(model *m) {
  if (m->fault.kind != KERNEL_FAULT_NONE) fail(m, fault_status(&m->fault));
  m->fault.kind = KERNEL_FAULT_NONE;
}

static size_t scratch_of(const model *m, const kernel_desc *k, const void *args) {
  return k->scratch ? k->scratch(&m->kernel, args) : 0;
}

bool model_begin(model *m, const char *node) {
  m->node = node;
  return !m->failed;
}

void model_call(model *m, const kernel_desc *k, const void *args) {
  if (m->failed) return;
  if (m->measures) {
    const size_t bytes = scratch_of(m, k, args);
    if (bytes > m->scratch_bytes) m->scratch_bytes = bytes;
    return;
  }
  m->scratch_used = 0;
  if (!k->run(&m->kernel, args)) fail(m, status_no_memory());
  check_fault(m);
}

void model_call_on(model *m, int n_threads, const kernel_desc *k, const void *args) {
  const int all = m->kernel.n_threads;
  if (n_threads < all) m->kernel.n_threads = n_threads;
  model_call(m, k, args);
  m->kernel.n_threads = all;
}

void model_form(model *m, int index, const kernel_desc *k, const void *args) {
  if (m->failed) return;
  m->scratch_bytes = scratch_of(m, k, args);
  m->scratch_used = 0;
  m->scratch = m->forms[index] = memory_alloc(m->scratch_bytes + 1);
  if (!m->scratch || !k->run(&m->kernel, args)) fail(m, status_no_memory());
  m->scratch = NULL;
  m->scratch_bytes = 0;
}

bool model_begin_stretch(model *m) {
  m->kernel.stretch++;
  return !m->failed;
}

bool model_truth(const model *m, const void *p) {
  return !m->failed && !m->measures && *(const unsigned char *)p != 0;
}

/* ---------------------------------------------------------------- lifetime */

static clave_status end_run(model *m) {
  clave_status st = m->failed;
  m->failed = NULL;
  return st;
}

void model_reset(model *m) {
  m->kernel.stretch = 0;
  for (int i = 0; i < m->info->n_states; i++) {
    const model_state *s = &m->info->states[i];
    if (s->value) {
      memcpy(m->state + s->offset, s->value, s->bytes);
    } else {
      memset(m->state + s->offset, 0, s->bytes);
    }
  }
}

static clave_status take_memory(model *m) {
  const model_info *info = m->info;
  m->arena = memory_alloc(info->arena_bytes + 1);
  m->state = memory_alloc(info->state_bytes + 1);
  m->forms = calloc((size_t)info->n_forms + 1, sizeof *m->forms);
  m->rebased = calloc((size_t)info->n_rebased + 1, sizeof *m->rebased);
  return m->arena && m->state && m->forms && m->rebased ? NULL : status_no_memory();
}

static clave_status prepare(model *m) {
  TRY(take_memory(m));
  m->info->pack(m);
  TRY(end_run(m));
  m->measures = true;
  m->info->run(m);
  m->measures = false;
  TRY(end_run(m));
  m->scratch = memory_alloc(m->scratch_bytes + 1);
  if (!m->scratch) return status_no_memory();
  model_reset(m);
  return NULL;
}

static void run_parallel(void *pool, int64_t n, int64_t grain, kernel_body body, void *ctx) {
  const model *m = pool;
  if (n <= 0) return;
  const int64_t each = (n + m->kernel.n_threads - 1) / m->kernel.n_threads;
  if (grain < each && m->kernel.n_threads < thread_pool_size(m->threads)) grain = each;
  if (n <= grain) {
    body(ctx, 0, n);
  } else {
    thread_pool_for(m->threads, n, grain, body, ctx);
  }
}

clave_status model_create(const model_info *info, int n_threads, model **out) {
  *out = NULL;
  model *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  m->info = info;
  clave_status st = thread_pool_create(n_threads, &m->threads);
  if (!st) {
    m->kernel = (kernel_context){.parallel_for = run_parallel,
                                 .pool = m,
                                 .n_threads = thread_pool_size(m->threads),
                                 .fault = &m->fault,
                                 .scratch = take_scratch};
    st = prepare(m);
  }
  if (st) {
    model_destroy(m);
    return st;
  }
  *out = m;
  return NULL;
}

void model_destroy(model *m) {
  if (!m) return;
  for (int i = 0; m->forms && i < m->info->n_forms; i++) free(m->forms[i]);
  free(m->forms);
  free(m->rebased);
  free(m->arena);
  free(m->state);
  free(m->scratch);
  thread_pool_destroy(m->threads);
  free(m);
}

/* ---------------------------------------------------------------- runs */

clave_status model_run(model *m, const void *const *inputs, void *const *outputs) {
  const model_info *info = m->info;
  for (int i = 0; i < info->n_inputs; i++) {
    const model_argument *a = &info->inputs[i];
    if (a->offset != MODEL_NOWHERE && a->bytes) memcpy(m->arena + a->offset, inputs[i], a->bytes);
  }
  info->run(m);
  TRY(end_run(m));
  for (int i = 0; i < info->n_outputs; i++) {
    const model_argument *a = &info->outputs[i];
    const void *from = a->value ? a->value : m->arena + a->offset;
    if (a->bytes) memcpy(outputs[i], from, a->bytes);
  }
  return NULL;
}
