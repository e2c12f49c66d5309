/* The kernels of a program that is written out, in memory that they are given. */
#include "compile/runtime/core.h"

#include <string.h>

/* ---------------------------------------------------------------- memory */

static void *take_memory(model *m, size_t bytes) {
  const model_memory *all = &compiled_model.memory;
  const size_t unit = MODEL_ALIGNMENT;
  if (compiled_model.heap) return compiled_model.heap->take(bytes + 1);
  if (bytes > all->bytes - m->taken) return NULL;
  void *p = all->data + m->taken;
  const size_t size = (bytes + unit - 1) / unit * unit, left = all->bytes - m->taken;
  m->taken += size < left ? size : left;
  return p;
}

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

/* ---------------------------------------------------------------- kernels */

static void fail(model *m, model_failure failure) {
  if (!m->failed) m->failed = failure;
}

static void check_fault(model *m) {
  if (m->fault.kind != KERNEL_FAULT_NONE) fail(m, (model_failure)m->fault.kind);
}

static size_t scratch_of(const model *m, const kernel_desc *k, const void *args) {
  return k->scratch ? k->scratch(&m->kernel, args) : 0;
}

bool model_begin(model *m, const char *node) {
  if (!m->failed) m->node = node;
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
  if (!k->run(&m->kernel, args)) fail(m, MODEL_NO_MEMORY);
  check_fault(m);
}

void model_call_on(model *m, int n_threads, const kernel_desc *k, const void *args) {
  const int all = m->kernel.n_threads;
  if (n_threads < all) m->kernel.n_threads = n_threads;
  model_call(m, k, args);
  m->kernel.n_threads = all;
}

/* The first for this processor: of form `index`, or where that is negative of any. NULL: none. */
static const model_packed *find_packed(int index) {
  const int n = compiled_model.n_packed;
  const char *level = n ? compiled_model.level() : "";
  for (const model_packed *p = compiled_model.packed; p < compiled_model.packed + n; p++)
    if ((index < 0 || p->form == index) && strcmp(p->level, level) == 0) return p;
  return NULL;
}

bool core_fits_processor(void) { return !compiled_model.n_packed || find_packed(-1); }

bool core_owns_form(const model *m, int index) {
  const model_packed *p = find_packed(index);
  return !p || m->forms[index] != model_at(p->data, 0);
}

void model_packed_form(model *m, int index) {
  const model_packed *p = find_packed(index);
  if (!p) fail(m, MODEL_PROCESSOR);
  if (p) m->forms[index] = model_at(p->data, 0);
}

void model_form(model *m, int index, const kernel_desc *k, const void *args) {
  const model_packed *p = find_packed(index);
  if (m->failed) return;
  m->scratch_bytes = scratch_of(m, k, args);
  if (p && p->bytes == m->scratch_bytes) {
    model_packed_form(m, index);
    m->scratch_bytes = 0;
    return;
  }
  m->scratch_used = 0;
  m->scratch = m->forms[index] = take_memory(m, m->scratch_bytes);
  if (!m->scratch || !k->run(&m->kernel, args)) fail(m, MODEL_NO_MEMORY);
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

void core_reset(model *m) {
  m->kernel.stretch = 0;
  for (int i = 0; i < compiled_model.n_states; i++) {
    const model_state *s = &compiled_model.states[i];
    if (s->value) {
      memcpy(m->state + s->offset, s->value, s->bytes);
    } else {
      memset(m->state + s->offset, 0, s->bytes);
    }
  }
}

static void run_alone(void *pool, int64_t n, int64_t grain, kernel_body body, void *ctx) {
  (void)pool;
  (void)grain;
  if (n > 0) body(ctx, 0, n);
}

/* With a planner schedules say. */
static void measure_scratch(model *m) {
  m->measures = true;
  compiled_model.run(m);
  m->measures = false;
  m->scratch = take_memory(m, m->scratch_bytes);
}

model_failure core_start(model *m) {
  kernel_context *k = &m->kernel;
  if (!k->parallel_for) *k = (kernel_context){.parallel_for = run_alone, .n_threads = 1};
  k->pool = m;
  k->fault = &m->fault;
  k->scratch = take_scratch;
  m->arena = take_memory(m, compiled_model.arena_bytes);
  m->state = take_memory(m, compiled_model.state_bytes);
  if (!m->arena || !m->state) return MODEL_NO_MEMORY;
  compiled_model.pack(m);
  if (m->failed) return m->failed;
  measure_scratch(m);
  m->node = NULL;
  if (!m->scratch) return MODEL_NO_MEMORY;
  core_reset(m);
  return MODEL_GOOD;
}

/* ---------------------------------------------------------------- runs */

model_failure core_run(model *m, const model_value *inputs) {
  m->failed = MODEL_GOOD;
  m->fault.kind = KERNEL_FAULT_NONE;
  for (int i = 0; i < compiled_model.info.methods->n_inputs; i++) {
    const model_place *a = &compiled_model.inputs[i];
    if (a->offset != MODEL_NOWHERE && a->bytes)
      memcpy(m->arena + a->offset, inputs[i].data, a->bytes);
  }
  compiled_model.run(m);
  return m->failed;
}

const void *core_output(const model *m, int i) {
  const model_place *a = &compiled_model.outputs[i];
  return a->value ? a->value : m->arena + a->offset;
}
