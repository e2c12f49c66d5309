/* A program that is written out, with a host's memory and threads, and errors in words. */
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "compile/runtime/core.h"
#include "compile/runtime/model.h"
#include "compile/runtime/planner.h"
#include "compile/runtime/pool.h"

/* ---------------------------------------------------------------- memory */

/* Zeroed; where memory is static `own`, what the program has for that. */
static void *take(void *own, size_t bytes) {
  void *p = compiled_model.heap ? compiled_model.heap->take(bytes + 1) : own;
  if (p) memset(p, 0, bytes);
  return p;
}

static void give(void *p) {
  if (compiled_model.heap) compiled_model.heap->give(p);
}

static clave_status status_of(const model *m, model_failure failure) {
  if (failure == MODEL_GOOD) return NULL;
  if (failure == MODEL_NO_MEMORY && !compiled_model.heap)
    return UNSUPPORTED("the kernels of this processor want more than %zu bytes of memory",
                       compiled_model.memory.bytes);
  if (failure == MODEL_PROCESSOR)
    return UNSUPPORTED("weights lie in it as packed for %s alone, and this processor is %s",
                       compiled_model.packed_for, compiled_model.level());
  clave_status st = failure == MODEL_NO_MEMORY ? status_no_memory() : fault_status(&m->fault);
  return m->node ? status_while(st, "%s", m->node) : st;
}

/* ---------------------------------------------------------------- lifetime */

clave_status model_create(model **out) {
  *out = take(compiled_model.memory.m, sizeof **out);
  return *out ? NULL : status_no_memory();
}

const model_info *model_get_info(const model *m) {
  (void)m;
  return &compiled_model.info;
}

void model_set_note(model *m, model_note_fn note, void *ctx) {
  m->note = note;
  m->note_ctx = ctx;
}

static void note_packing(const model *m) {
  text t = {0};
  if (core_fits_processor() || !m->note) return;
  text_printf(&t, "weights are packed for %s, not for %s: they are packed anew",
              compiled_model.packed_for, compiled_model.level());
  if (!t.failed) m->note(m->note_ctx, t.data);
  text_free(&t);
}

clave_status model_start(model *m, int n_threads) {
  const model_memory *own = &compiled_model.memory;
  m->forms = take(own->forms, (size_t)compiled_model.n_forms * sizeof *m->forms);
  m->rebased = take(own->rebased, (size_t)compiled_model.n_rebased * sizeof *m->rebased);
  if (!m->forms || !m->rebased) return status_no_memory();
  if (compiled_model.threads)
    TRY(compiled_model.threads->create(m, n_threads ? n_threads : compiled_model.info.n_threads));
  TRY(status_of(m, core_start(m)));
  note_packing(m);
  return NULL;
}

clave_status model_reset(model *m) {
  core_reset(m);
  return NULL;
}

void model_destroy(model *m) {
  if (!m) return;
  if (compiled_model.planner) compiled_model.planner->destroy(m);
  for (int i = 0; m->forms && i < compiled_model.n_forms; i++)
    if (core_owns_form(m, i)) give(m->forms[i]);
  give(m->forms);
  give(m->rebased);
  give(m->arena);
  give(m->state);
  give(m->scratch);
  if (compiled_model.threads) compiled_model.threads->destroy(m);
  give(m);
}

/* ---------------------------------------------------------------- runs */

clave_status model_run(model *m, int method, const model_value *inputs, model_value *outputs) {
  const model_method *of = &compiled_model.info.methods[method];
  if (compiled_model.planner) return compiled_model.planner->run(m, inputs, outputs);
  TRY(status_of(m, core_run(m, inputs)));
  for (int i = 0; i < of->n_outputs; i++) {
    outputs[i].data = core_output(m, i);
    memcpy(outputs[i].dims, of->outputs[i].dims, sizeof outputs[i].dims);
  }
  return NULL;
}
