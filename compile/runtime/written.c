/* Adds a host's memory and threads, and error messages, to the core of an emitted program. */
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "compile/runtime/core.h"
#include "compile/runtime/model.h"
#include "compile/runtime/planner.h"
#include "compile/runtime/pool.h"

/* ---------------------------------------------------------------- memory */

/* Returns zeroed memory: from the heap, or `own` if memory is static. */
static void *written_allocate(void *own, size_t bytes) {
  void *memory = compiled_model.heap ? compiled_model.heap->allocate(bytes + 1) : own;
  if (memory) memset(memory, 0, bytes);
  return memory;
}

static void written_release(void *memory) {
  if (compiled_model.heap) compiled_model.heap->release(memory);
}

static clave_status status_of(const model *model, model_failure failure) {
  if (failure == MODEL_GOOD) return NULL;
  if (failure == MODEL_NO_MEMORY && !compiled_model.heap)
    return UNSUPPORTED(
        "the kernels of this processor need more than the %zu bytes of memory that were compiled "
        "in",
        compiled_model.memory.bytes);
  if (failure == MODEL_PROCESSOR)
    return UNSUPPORTED("the program has only weights packed for %s, and this processor is %s",
                       compiled_model.packed_for, compiled_model.level());
  clave_status st = failure == MODEL_NO_MEMORY ? status_no_memory() : fault_status(&model->fault);
  return model->node ? status_while(st, "%s", model->node) : st;
}

/* ---------------------------------------------------------------- lifetime */

clave_status model_create(model **out) {
  *out = written_allocate(compiled_model.memory.model, sizeof **out);
  return *out ? NULL : status_no_memory();
}

const model_info *model_get_info(const model *model) {
  (void)model;
  return &compiled_model.info;
}

void model_set_note(model *model, model_note_fn note, void *ctx) {
  model->note = note;
  model->note_ctx = ctx;
}

static void note_packing(const model *model) {
  text text = {0};
  if (core_fits_processor() || !model->note) return;
  text_printf(&text, "the weights are packed for %s and are packed again for %s",
              compiled_model.packed_for, compiled_model.level());
  if (!text.failed) model->note(model->note_ctx, text.data);
  text_free(&text);
}

clave_status model_start(model *model, int n_threads) {
  const model_memory *own = &compiled_model.memory;
  model->packed_weights = written_allocate(
      own->packed_weights, (size_t)compiled_model.n_packed_weights * sizeof *model->packed_weights);
  model->rebased =
      written_allocate(own->rebased, (size_t)compiled_model.n_rebased * sizeof *model->rebased);
  if (!model->packed_weights || !model->rebased) return status_no_memory();
  if (compiled_model.threads)
    TRY(compiled_model.threads->create(model,
                                       n_threads ? n_threads : compiled_model.info.n_threads));
  TRY(status_of(model, core_start(model)));
  note_packing(model);
  return NULL;
}

clave_status model_reset(model *model) {
  core_reset(model);
  return NULL;
}

void model_destroy(model *model) {
  if (!model) return;
  if (compiled_model.planner) compiled_model.planner->destroy(model);
  for (int i = 0; model->packed_weights && i < compiled_model.n_packed_weights; i++)
    if (core_owns_packed_weight(model, i)) written_release(model->packed_weights[i]);
  written_release(model->packed_weights);
  written_release(model->rebased);
  written_release(model->arena);
  written_release(model->state);
  written_release(model->scratch);
  if (compiled_model.threads) compiled_model.threads->destroy(model);
  written_release(model);
}

/* ---------------------------------------------------------------- runs */

clave_status model_run(model *model, int method, const model_value *inputs, model_value *outputs) {
  const model_method *of = &compiled_model.info.methods[method];
  if (compiled_model.planner) return compiled_model.planner->run(model, inputs, outputs);
  TRY(status_of(model, core_run(model, inputs)));
  for (int i = 0; i < of->n_outputs; i++) {
    outputs[i].data = core_output(model, i);
    memcpy(outputs[i].dims, of->outputs[i].dims, sizeof outputs[i].dims);
  }
  return NULL;
}
