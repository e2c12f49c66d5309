/* Runs the kernels of an emitted program in the memory that they are given. */
#include "compile/runtime/core.h"

#include <string.h>

/* ---------------------------------------------------------------- memory */

static void *allocate_memory(model *model, size_t bytes) {
  const model_memory *all = &compiled_model.memory;
  const size_t unit = MODEL_ALIGNMENT;
  if (compiled_model.heap) return compiled_model.heap->allocate(bytes + 1);
  if (bytes > all->bytes - model->taken) return NULL;
  void *memory = all->data + model->taken;
  const size_t size = (bytes + unit - 1) / unit * unit, left = all->bytes - model->taken;
  model->taken += size < left ? size : left;
  return memory;
}

static void *core_allocate_scratch(void *pool, size_t bytes) {
  static char nothing;
  model *model = pool;
  const size_t size = kernel_scratch_size(bytes);
  if (bytes == 0) return &nothing;
  if (bytes > model->scratch_bytes || size > model->scratch_bytes - model->scratch_used)
    return NULL;
  void *memory = model->scratch + model->scratch_used;
  model->scratch_used += size;
  return memory;
}

/* ---------------------------------------------------------------- kernels */

static void core_fail(model *model, model_failure failure) {
  if (!model->failed) model->failed = failure;
}

static void check_fault(model *model) {
  if (model->fault.kind != KERNEL_FAULT_NONE) core_fail(model, (model_failure)model->fault.kind);
}

static size_t scratch_of(const model *model, const kernel_desc *desc, const void *args) {
  return desc->scratch ? desc->scratch(&model->kernel, args) : 0;
}

bool model_begin(model *model, const char *node) {
  if (!model->failed) model->node = node;
  return !model->failed;
}

void model_call(model *model, const kernel_desc *desc, const void *args) {
  if (model->failed) return;
  if (model->measures) {
    const size_t bytes = scratch_of(model, desc, args);
    if (bytes > model->scratch_bytes) model->scratch_bytes = bytes;
    return;
  }
  model->scratch_used = 0;
  if (!desc->run(&model->kernel, args)) core_fail(model, MODEL_NO_MEMORY);
  check_fault(model);
}

void model_call_on(model *model, int n_threads, const kernel_desc *desc, const void *args) {
  const int all = model->kernel.n_threads;
  if (n_threads < all) model->kernel.n_threads = n_threads;
  model_call(model, desc, args);
  model->kernel.n_threads = all;
}

/* Returns the first packed weight for this processor: number `index`, or any if index is negative.
 * NULL if none exists. */
static const model_packed *core_find_packed(int index) {
  const int n = compiled_model.n_packed;
  const char *level = n ? compiled_model.level() : "";
  for (const model_packed *p = compiled_model.packed; p < compiled_model.packed + n; p++)
    if ((index < 0 || p->number == index) && strcmp(p->level, level) == 0) return p;
  return NULL;
}

bool core_fits_processor(void) { return !compiled_model.n_packed || core_find_packed(-1); }

bool core_owns_packed_weight(const model *model, int index) {
  const model_packed *packed = core_find_packed(index);
  return !packed || model->packed_weights[index] != model_at(packed->data, 0);
}

void model_use_packed(model *model, int index) {
  const model_packed *packed = core_find_packed(index);
  if (!packed) core_fail(model, MODEL_PROCESSOR);
  if (packed) model->packed_weights[index] = model_at(packed->data, 0);
}

void model_pack(model *model, int index, const kernel_desc *desc, const void *args) {
  const model_packed *packed = core_find_packed(index);
  if (model->failed) return;
  model->scratch_bytes = scratch_of(model, desc, args);
  if (packed && packed->bytes == model->scratch_bytes) {
    model_use_packed(model, index);
    model->scratch_bytes = 0;
    return;
  }
  model->scratch_used = 0;
  model->scratch = model->packed_weights[index] = allocate_memory(model, model->scratch_bytes);
  if (!model->scratch || !desc->run(&model->kernel, args)) core_fail(model, MODEL_NO_MEMORY);
  model->scratch = NULL;
  model->scratch_bytes = 0;
}

bool model_begin_stretch(model *model) {
  model->kernel.stretch++;
  return !model->failed;
}

bool model_truth(const model *model, const void *memory) {
  return !model->failed && !model->measures && *(const unsigned char *)memory != 0;
}

/* ---------------------------------------------------------------- lifetime */

void core_reset(model *model) {
  model->kernel.stretch = 0;
  for (int i = 0; i < compiled_model.n_states; i++) {
    const model_state *state = &compiled_model.states[i];
    if (state->value) {
      memcpy(model->state + state->offset, state->value, state->bytes);
    } else {
      memset(model->state + state->offset, 0, state->bytes);
    }
  }
}

static void run_alone(void *pool, int64_t n, int64_t grain, kernel_body body, void *ctx) {
  (void)pool;
  (void)grain;
  if (n > 0) body(ctx, 0, n);
}

/* Only without a planner; otherwise schedules state their scratch memory. */
static void measure_scratch(model *model) {
  model->measures = true;
  compiled_model.run(model);
  model->measures = false;
  model->scratch = allocate_memory(model, model->scratch_bytes);
}

model_failure core_start(model *model) {
  kernel_context *context = &model->kernel;
  if (!context->parallel_for)
    *context = (kernel_context){.parallel_for = run_alone, .n_threads = 1};
  context->pool = model;
  context->fault = &model->fault;
  context->scratch = core_allocate_scratch;
  model->arena = allocate_memory(model, compiled_model.arena_bytes);
  model->state = allocate_memory(model, compiled_model.state_bytes);
  if (!model->arena || !model->state) return MODEL_NO_MEMORY;
  compiled_model.pack(model);
  if (model->failed) return model->failed;
  measure_scratch(model);
  model->node = NULL;
  if (!model->scratch) return MODEL_NO_MEMORY;
  core_reset(model);
  return MODEL_GOOD;
}

/* ---------------------------------------------------------------- runs */

model_failure core_run(model *model, const model_value *inputs) {
  model->failed = MODEL_GOOD;
  model->fault.kind = KERNEL_FAULT_NONE;
  for (int i = 0; i < compiled_model.info.methods->n_inputs; i++) {
    const model_place *place = &compiled_model.inputs[i];
    if (place->offset != MODEL_NOWHERE && place->bytes)
      memcpy(model->arena + place->offset, inputs[i].data, place->bytes);
  }
  compiled_model.run(model);
  return model->failed;
}

const void *core_output(const model *model, int i) {
  const model_place *place = &compiled_model.outputs[i];
  return place->value ? place->value : model->arena + place->offset;
}
