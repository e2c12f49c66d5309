/* Implements compile/runtime/model.h on the library: reads the embedded program and runs it in a
 * session. */
#include "compile/carried/carried.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "clave_files.h"
#include "compile/carried/device.h"
#include "compile/runtime/model.h"

/* A scalar input that --dim fixed at compile time. */
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
  mem_pool *pool;         /* owned; memory of the tables */
  model_info info;
  model_method *methods; /* in pool (n_methods) */
  uint32_t **places;     /* in pool: for each method, the program's index of each input */
  fixed_scalar *fixed;   /* in pool (n_fixed) */
  int n_fixed;
  model_note_fn note; /* NULL: notes are discarded */
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
    const carried_scalar *scalar = &carried.scalars[i];
    if (scalar->input == input && strcmp(scalar->method, method) == 0) return scalar;
  }
  return NULL;
}

/* Returns the index of the named size of a method, or -1 if sizes does not have it yet. */
static int carried_model_find_size(const model_method *method, const model_size *sizes,
                                   const char *name) {
  for (int i = 0; i < method->n_sizes; i++)
    if (strcmp(sizes[i].name, name) == 0) return i;
  return -1;
}

/* Returns the dim as info.h encodes it. Adds an input's new size to sizes, which has space. */
static int64_t dim_of(const clave_tensor_info *info, int i, bool is_input, model_method *method,
                      model_size *sizes) {
  if (info->dims[i] != CLAVE_DYNAMIC) return info->dims[i];
  const carried_dim *fixed = find_dim(info->dim_names[i]);
  if (fixed) return fixed->size;
  int size = carried_model_find_size(method, sizes, info->dim_names[i]);
  if (size < 0 && !is_input) return MODEL_FOLLOWS;
  if (size < 0) {
    size = method->n_sizes++;
    sizes[size] = (model_size){info->dim_names[i], info->min_dims[i], info->max_dims[i]};
  }
  return model_open_dim(size);
}

static model_argument argument_of(const clave_tensor_info *info, bool is_input,
                                  model_method *method, model_size *sizes) {
  model_argument argument = {.name = info->name,
                             .type = (dtype)info->dtype,
                             .is_scalar = info->is_scalar && is_input,
                             .rank = info->rank};
  for (int i = 0; i < info->rank; i++) argument.dims[i] = dim_of(info, i, is_input, method, sizes);
  return argument;
}

/* State while a method's tables are made. */
typedef struct tables {
  model *model;
  model_method *method;
  model_argument *inputs, *outputs;
  model_size *sizes;
  uint32_t *places;
} tables;

static clave_status make_tables(model *model, model_method *method, const clave_method_info *info,
                                tables *out) {
  const size_t n_in = info->n_inputs, n_out = info->n_outputs;
  *out =
      (tables){.model = model,
               .method = method,
               .inputs = mem_pool_alloc(model->pool, n_in + 1, sizeof *out->inputs),
               .outputs = mem_pool_alloc(model->pool, n_out + 1, sizeof *out->outputs),
               .sizes = mem_pool_alloc(model->pool, n_in * CLAVE_MAX_RANK + 1, sizeof *out->sizes),
               .places = mem_pool_alloc(model->pool, n_in + 1, sizeof *out->places)};
  *method = (model_method){
      .name = info->name, .inputs = out->inputs, .outputs = out->outputs, .sizes = out->sizes};
  model->places[method - model->methods] = out->places;
  return out->inputs && out->outputs && out->sizes && out->places ? NULL : status_no_memory();
}

static void carried_model_fix_scalar(model *model, int method, uint32_t index, clave_dtype type,
                                     int64_t value) {
  fixed_scalar *scalar = &model->fixed[model->n_fixed++];
  const double number = (double)value;
  *scalar = (fixed_scalar){.method = method, .index = index, .type = type, .value = {value != 0}};
  if (type == CLAVE_I64) memcpy(scalar->value, &value, sizeof value);
  if (type == CLAVE_F64) memcpy(scalar->value, &number, sizeof number);
}

static clave_status carried_model_add_input(tables *tables, uint32_t index) {
  model *model = tables->model;
  clave_tensor_info info = {.size = sizeof info};
  TRY(carried_status(clave_program_input(model->program, tables->method->name, index, &info)));
  const carried_scalar *fixed = find_scalar(tables->method->name, index);
  if (fixed) {
    carried_model_fix_scalar(model, (int)(tables->method - model->methods), index, info.dtype,
                             fixed->value);
    return NULL;
  }
  tables->places[tables->method->n_inputs] = index;
  tables->inputs[tables->method->n_inputs++] =
      argument_of(&info, true, tables->method, tables->sizes);
  return NULL;
}

static clave_status carried_model_add_output(tables *tables, uint32_t index) {
  clave_tensor_info info = {.size = sizeof info};
  TRY(carried_status(
      clave_program_output(tables->model->program, tables->method->name, index, &info)));
  tables->outputs[tables->method->n_outputs++] =
      argument_of(&info, false, tables->method, tables->sizes);
  return NULL;
}

static clave_status carried_model_add_method(model *model, const clave_method_info *info) {
  tables tables;
  TRY(make_tables(model, &model->methods[model->info.n_methods++], info, &tables));
  for (uint32_t i = 0; i < info->n_inputs; i++) TRY(carried_model_add_input(&tables, i));
  for (uint32_t i = 0; i < info->n_outputs; i++) TRY(carried_model_add_output(&tables, i));
  return NULL;
}

static clave_status carried_model_add_methods(model *model) {
  clave_program_info program_info = {.size = sizeof program_info};
  TRY(carried_status(clave_program_get_info(model->program, &program_info)));
  const size_t n = (size_t)program_info.n_methods + 1;
  model->methods = mem_pool_alloc(model->pool, n, sizeof *model->methods);
  model->places = mem_pool_alloc(model->pool, n, sizeof *model->places);
  model->fixed = mem_pool_alloc(model->pool, (size_t)carried.n_scalars + 1, sizeof *model->fixed);
  if (!model->methods || !model->places || !model->fixed) return status_no_memory();
  model->info.methods = model->methods;
  for (uint32_t i = 0; i < program_info.n_methods; i++) {
    clave_method_info info = {.size = sizeof info};
    TRY(carried_status(clave_program_method(model->program, i, &info)));
    if (!carried.method || strcmp(carried.method, info.name) == 0)
      TRY(carried_model_add_method(model, &info));
  }
  return NULL;
}

/* ---------------------------------------------------------------- lifetime */

static clave_status carried_model_load(model *model) {
  model->info =
      (model_info){.program = carried.name, .device = carried.device, .tests = carried.tests};
  TRY(mem_pool_create(&model->pool));
  TRY(carried_status(
      clave_program_load_clv(carried.clv, carried.size, carried.name, &model->program)));
  return carried_model_add_methods(model);
}

clave_status model_create(model **out) {
  *out = NULL;
  model *model = calloc(1, sizeof *model);
  if (!model) return status_no_memory();
  clave_status st = carried_model_load(model);
  if (st) {
    model_destroy(model);
    return st;
  }
  *out = model;
  return NULL;
}

const model_info *model_get_info(const model *model) { return &model->info; }

void model_set_note(model *model, model_note_fn note, void *ctx) {
  model->note = note;
  model->note_ctx = ctx;
}

/* Sets the fixed scalar inputs. */
static clave_status set_fixed(model *model) {
  for (int i = 0; i < model->n_fixed; i++) {
    fixed_scalar *scalar = &model->fixed[i];
    const clave_tensor value = clave_tensor_make(scalar->type, 0, NULL, scalar->value);
    TRY(carried_status(clave_session_set_input(model->session, model->methods[scalar->method].name,
                                               scalar->index, &value)));
  }
  return NULL;
}

clave_status model_start(model *model, int n_threads) {
  const clave_session_options options = {.size = sizeof options,
                                         .allow_custom_kernels = carried.allow_custom_kernels != 0};
  TRY(carried_open(n_threads, model->note, model->note_ctx, &model->device));
  TRY(carried_status(
      clave_session_create(model->program, model->device, &options, &model->session)));
  return set_fixed(model);
}

void model_destroy(model *model) {
  if (!model) return;
  clave_session_destroy(model->session);
  clave_device_destroy(model->device);
  clave_program_destroy(model->program);
  mem_pool_destroy(model->pool);
  free(model);
}

/* ---------------------------------------------------------------- runs */

static clave_status carried_model_bind_input(model *model, int method, int i,
                                             const model_value *value) {
  static char nothing;
  const model_method *of = &model->methods[method];
  const model_argument *argument = &of->inputs[i];
  void *data = value->data ? (void *)(uintptr_t)value->data : &nothing;
  const clave_tensor tensor =
      clave_tensor_make((clave_dtype)argument->type, argument->rank, value->dims, data);
  return carried_status(
      clave_session_bind_input(model->session, of->name, model->places[method][i], &tensor));
}

clave_status model_run(model *model, int method, const model_value *inputs, model_value *outputs) {
  const model_method *of = &model->methods[method];
  for (int i = 0; i < of->n_inputs; i++)
    TRY(carried_model_bind_input(model, method, i, &inputs[i]));
  TRY(carried_status(clave_session_run(model->session, of->name)));
  clave_tensor tensor;
  for (int i = 0; i < of->n_outputs; i++) /* checks all outputs before any is returned */
    TRY(carried_status(clave_session_output(model->session, of->name, (uint32_t)i, &tensor)));
  for (int i = 0; i < of->n_outputs; i++) {
    TRY(carried_status(clave_session_output(model->session, of->name, (uint32_t)i, &tensor)));
    outputs[i].data = tensor.data;
    memcpy(outputs[i].dims, tensor.dims, sizeof outputs[i].dims);
  }
  return NULL;
}

clave_status model_reset(model *model) {
  return carried_status(clave_session_reset(model->session));
}
