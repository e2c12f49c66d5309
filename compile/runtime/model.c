/* A compiled program's memory and threads, its errors in words. */
#include "compile/runtime/model.h"

#include <string.h>

#include "base/fault.h"
#include "compile/runtime/pool.h"

static clave_status status_of(const model *m, model_failure failure) {
  if (failure == MODEL_GOOD) return NULL;
  clave_status st = failure == MODEL_NO_MEMORY ? status_no_memory() : fault_status(&m->fault);
  return m->node ? status_while(st, "%s", m->node) : st;
}

/* ---------------------------------------------------------------- memory */

/* Zeroed; of a program whose memory is static what it has for that. */
static void *take(const model_info *info, void *own, size_t bytes) {
  void *p = info->heap ? info->heap->take(bytes + 1) : own;
  if (p) memset(p, 0, bytes);
  return p;
}

static void give(const model_info *info, void *p) {
  if (info->heap) info->heap->give(p);
}

/* ---------------------------------------------------------------- lifetime */

static clave_status start(model *m, int n_threads) {
  const model_info *info = m->info;
  const model_memory *own = &info->memory;
  m->forms = take(info, own->forms, (size_t)info->n_forms * sizeof *m->forms);
  m->rebased = take(info, own->rebased, (size_t)info->n_rebased * sizeof *m->rebased);
  if (!m->forms || !m->rebased) return status_no_memory();
  if (info->threads) TRY(info->threads->create(m, n_threads ? n_threads : info->n_threads));
  return status_of(m, model_start(m));
}

clave_status model_create(const model_info *info, int n_threads, model **out) {
  *out = NULL;
  model *m = take(info, info->memory.m, sizeof *m);
  if (!m) return status_no_memory();
  m->info = info;
  clave_status st = start(m, n_threads);
  if (st) {
    model_destroy(m);
    return st;
  }
  *out = m;
  return NULL;
}

void model_destroy(model *m) {
  if (!m) return;
  const model_info *info = m->info;
  for (int i = 0; m->forms && i < info->n_forms; i++) give(info, m->forms[i]);
  give(info, m->forms);
  give(info, m->rebased);
  give(info, m->arena);
  give(info, m->state);
  give(info, m->scratch);
  if (info->threads) info->threads->destroy(m);
  give(info, m);
}

/* ---------------------------------------------------------------- runs */

clave_status model_run(model *m, const void *const *inputs, void *const *outputs) {
  TRY(status_of(m, model_compute(m, inputs)));
  for (int i = 0; i < m->info->n_outputs; i++)
    if (m->info->outputs[i].bytes) memcpy(outputs[i], model_output(m, i), m->info->outputs[i].bytes);
  return NULL;
}
