/* compile/runtime/model.h over the library: the program lies in the executable, is read there, and
 * runs in a session. */
#include "compile/carried/carried.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "clave_files.h"
#include "compile/carried/device.h"
#include "compile/runtime/model.h"

/* A scalar input that --dim fixed when the program was compiled. */
typedef struct fixed_scalar {
  int method;
  uint32_t index;
  clave_dtype type;
  unsigned char value[8];
} fixed_scalar;

struct model {
  clave_program *program; /* owned */
  clave_device *device;   /* owned */
  clave_session *session; /* owned */
  mem_pool *pool;         /* owned: the tables */
  model_info info;
  model_method *methods; /* in pool (n_methods) */
  uint32_t **places;     /* in pool: by method, of each input its number in the program */
  fixed_scalar *fixed;   /* in pool (n_fixed) */
  int n_fixed;
  model_note_fn note; /* NULL: nobody listens */
  void *note_ctx;
};

/* ---------------------------------------------------------------- tables */

static const carried_dim *find_dim(const char *name) {
  for (int i = 0; i < carried.n_dims; i++)
    if (strcmp(carried.dims[i].name, name) == 0) return &carried.dims[i];
  return NULL;
}

static const carried_scalar *find_scalar(const char *method, uint32_t input) {
  for (int i = 0; i < carried.n_scalars; i++) {
    const carried_scalar *s = &carried.scalars[i];
    if (s->input == input && strcmp(s->method, method) == 0) return s;
  }
  return NULL;
}

/* sizes: with room for one more; -1: there is no such size. */
static int find_size(const model_method *m, const model_size *sizes, const char *name) {
  for (int i = 0; i < m->n_sizes; i++)
    if (strcmp(sizes[i].name, name) == 0) return i;
  return -1;
}

static int64_t dim_of(const clave_tensor_info *t, int i, bool is_input, model_method *m,
                      model_size *sizes) {
  if (t->dims[i] != CLAVE_DYNAMIC) return t->dims[i];
  const carried_dim *fixed = find_dim(t->dim_names[i]);
  if (fixed) return fixed->size;
  int size = find_size(m, sizes, t->dim_names[i]);
  if (size < 0 && !is_input) return MODEL_FOLLOWS;
  if (size < 0) {
    size = m->n_sizes++;
    sizes[size] = (model_size){t->dim_names[i], t->min_dims[i], t->max_dims[i]};
  }
  return model_open_dim(size);
}

static model_argument argument_of(const clave_tensor_info *t, bool is_input, model_method *m,
                                  model_size *sizes) {
  model_argument a = {.name = t->name,
                      .type = (dtype)t->dtype,
                      .is_scalar = t->is_scalar && is_input,
                      .rank = t->rank};
  for (int i = 0; i < t->rank; i++) a.dims[i] = dim_of(t, i, is_input, m, sizes);
  return a;
}

/* What a method's tables are made in. */
typedef struct tables {
  model *m;
  model_method *method;
  model_argument *inputs, *outputs;
  model_size *sizes;
  uint32_t *places;
} tables;

static clave_status make_tables(model *m, model_method *method, const clave_method_info *info,
                                tables *out) {
  const size_t n_in = info->n_inputs, n_out = info->n_outputs;
  *out = (tables){.m = m,
                  .method = method,
                  .inputs = mem_pool_alloc(m->pool, n_in + 1, sizeof *out->inputs),
                  .outputs = mem_pool_alloc(m->pool, n_out + 1, sizeof *out->outputs),
                  .sizes = mem_pool_alloc(m->pool, n_in * CLAVE_MAX_RANK + 1, sizeof *out->sizes),
                  .places = mem_pool_alloc(m->pool, n_in + 1, sizeof *out->places)};
  *method = (model_method){
      .name = info->name, .inputs = out->inputs, .outputs = out->outputs, .sizes = out->sizes};
  m->places[method - m->methods] = out->places;
  return out->inputs && out->outputs && out->sizes && out->places ? NULL : status_no_memory();
}

static void fix_scalar(model *m, int method, uint32_t index, clave_dtype type, int64_t value) {
  fixed_scalar *f = &m->fixed[m->n_fixed++];
  const double number = (double)value;
  *f = (fixed_scalar){.method = method, .index = index, .type = type, .value = {value != 0}};
  if (type == CLAVE_I64) memcpy(f->value, &value, sizeof value);
  if (type == CLAVE_F64) memcpy(f->value, &number, sizeof number);
}

static clave_status take_input(tables *t, uint32_t index) {
  model *m = t->m;
  clave_tensor_info info = {.size = sizeof info};
  TRY(carried_status(clave_program_input(m->program, t->method->name, index, &info)));
  const carried_scalar *fixed = find_scalar(t->method->name, index);
  if (fixed) {
    fix_scalar(m, (int)(t->method - m->methods), index, info.dtype, fixed->value);
    return NULL;
  }
  t->places[t->method->n_inputs] = index;
  t->inputs[t->method->n_inputs++] = argument_of(&info, true, t->method, t->sizes);
  return NULL;
}

static clave_status take_output(tables *t, uint32_t index) {
  clave_tensor_info info = {.size = sizeof info};
  TRY(carried_status(clave_program_output(t->m->program, t->method->name, index, &info)));
  t->outputs[t->method->n_outputs++] = argument_of(&info, false, t->method, t->sizes);
  return NULL;
}

static clave_status take_method(model *m, const clave_method_info *info) {
  tables t;
  TRY(make_tables(m, &m->methods[m->info.n_methods++], info, &t));
  for (uint32_t i = 0; i < info->n_inputs; i++) TRY(take_input(&t, i));
  for (uint32_t i = 0; i < info->n_outputs; i++) TRY(take_output(&t, i));
  return NULL;
}

static clave_status take_methods(model *m) {
  clave_program_info p = {.size = sizeof p};
  TRY(carried_status(clave_program_get_info(m->program, &p)));
  const size_t n = (size_t)p.n_methods + 1;
  m->methods = mem_pool_alloc(m->pool, n, sizeof *m->methods);
  m->places = mem_pool_alloc(m->pool, n, sizeof *m->places);
  m->fixed = mem_pool_alloc(m->pool, (size_t)carried.n_scalars + 1, sizeof *m->fixed);
  if (!m->methods || !m->places || !m->fixed) return status_no_memory();
  m->info.methods = m->methods;
  for (uint32_t i = 0; i < p.n_methods; i++) {
    clave_method_info info = {.size = sizeof info};
    TRY(carried_status(clave_program_method(m->program, i, &info)));
    if (!carried.method || strcmp(carried.method, info.name) == 0) TRY(take_method(m, &info));
  }
  return NULL;
}

/* ---------------------------------------------------------------- lifetime */

static clave_status load(model *m) {
  m->info = (model_info){.program = carried.name, .device = carried.device, .tests = carried.tests};
  TRY(mem_pool_create(&m->pool));
  TRY(carried_status(
      clave_program_load_bytes(carried.clv, carried.size, carried.name, &m->program)));
  return take_methods(m);
}

clave_status model_create(model **out) {
  *out = NULL;
  model *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  clave_status st = load(m);
  if (st) {
    model_destroy(m);
    return st;
  }
  *out = m;
  return NULL;
}

const model_info *model_get_info(const model *m) { return &m->info; }

void model_set_note(model *m, model_note_fn note, void *ctx) {
  m->note = note;
  m->note_ctx = ctx;
}

/* Inputs of the program whose values are known. */
static clave_status set_fixed(model *m) {
  for (int i = 0; i < m->n_fixed; i++) {
    fixed_scalar *f = &m->fixed[i];
    const clave_tensor value = clave_tensor_make(f->type, 0, NULL, f->value);
    TRY(carried_status(
        clave_session_set_input(m->session, m->methods[f->method].name, f->index, &value)));
  }
  return NULL;
}

clave_status model_start(model *m, int n_threads) {
  const clave_session_options s = {.size = sizeof s,
                                   .allow_custom_kernels = carried.allow_custom_kernels != 0};
  TRY(carried_open(n_threads, m->note, m->note_ctx, &m->device));
  TRY(carried_status(clave_session_create(m->program, m->device, &s, &m->session)));
  return set_fixed(m);
}

void model_destroy(model *m) {
  if (!m) return;
  clave_session_destroy(m->session);
  clave_device_destroy(m->device);
  clave_program_destroy(m->program);
  mem_pool_destroy(m->pool);
  free(m);
}

/* ---------------------------------------------------------------- runs */

static clave_status bind_input(model *m, int method, int i, const model_value *v) {
  static char nothing;
  const model_method *of = &m->methods[method];
  const model_argument *a = &of->inputs[i];
  void *data = v->data ? (void *)(uintptr_t)v->data : &nothing;
  const clave_tensor t = clave_tensor_make((clave_dtype)a->type, a->rank, v->dims, data);
  return carried_status(clave_session_bind_input(m->session, of->name, m->places[method][i], &t));
}

clave_status model_run(model *m, int method, const model_value *inputs, model_value *outputs) {
  const model_method *of = &m->methods[method];
  for (int i = 0; i < of->n_inputs; i++) TRY(bind_input(m, method, i, &inputs[i]));
  TRY(carried_status(clave_session_run(m->session, of->name)));
  clave_tensor t;
  for (int i = 0; i < of->n_outputs; i++) /* all of them are there, or none is given */
    TRY(carried_status(clave_session_output(m->session, of->name, (uint32_t)i, &t)));
  for (int i = 0; i < of->n_outputs; i++) {
    TRY(carried_status(clave_session_output(m->session, of->name, (uint32_t)i, &t)));
    outputs[i].data = t.data;
    memcpy(outputs[i].dims, t.dims, sizeof outputs[i].dims);
  }
  return NULL;
}

clave_status model_reset(model *m) { return carried_status(clave_session_reset(m->session)); }
