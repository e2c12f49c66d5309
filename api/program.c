/* Programs: loads, saves and describes them, and shares their stores and executables. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"
#include "clave_builder.h"
#include "clave_files.h"
#include "clave_host.h"
#include "serialize/encode.h"

/* ---------------------------------------------------------------- lifetime */

clave_status program_wrap(program *program, clave_program **out) {
  clave_program *wrapped = calloc(1, sizeof *wrapped);
  if (!wrapped) {
    program_destroy(program);
    return status_no_memory();
  }
  wrapped->holds = 1;
  wrapped->program = program;
  clave_status st = mutex_create(&wrapped->lock);
  if (!st) st = mem_pool_create(&wrapped->pool);
  if (st) {
    clave_program_destroy(wrapped);
    return st;
  }
  *out = wrapped;
  return NULL;
}

clave_status clave_program_create(const void *flatbuffer, size_t size,
                                  const clave_tensor *constants, size_t n, clave_program **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  constant_data *data = calloc(n + 1, sizeof *data);
  if (!data) return status_no_memory();
  clave_status st = NULL;
  for (size_t i = 0; i < n && !st; i++) {
    tensor tensor = tensor_from_public(&constants[i]);
    data[i] = (constant_data){.type = tensor.type,
                              .rank = tensor.rank,
                              .dims = constants[i].dims,
                              .data = constants[i].data};
    if (tensor.rank < 0 || tensor.rank > MAX_RANK) {
      st = INVALID("constant %zu: expected rank 0 to %d, got %d", i, MAX_RANK, tensor.rank);
    } else if (!tensor_is_contiguous(&tensor)) {
      st = INVALID("constant %zu is not contiguous", i);
    }
  }
  program *program;
  if (!st)
    st = program_create(flatbuffer, size, &(constant_source){.list = data, .n = n}, &program);
  free(data);
  return st ? st : program_wrap(program, out);
}

typedef struct name_search {
  clave_find_fn find;
  void *ctx;
  int64_t dims[CLAVE_MAX_RANK]; /* dims of the constant found last */
} name_search;

static clave_status api_program_find_constant(void *ctx, const char *name, constant_data *data) {
  name_search *search = ctx;
  clave_tensor found = clave_tensor_make((clave_dtype)data->type, data->rank, data->dims, NULL);
  if (!search->find(search->ctx, name, &found))
    return INVALID("the host has no constant of this name");
  const tensor tensor = tensor_from_public(&found);
  if (tensor.rank < 0 || tensor.rank > MAX_RANK)
    return INVALID("expected rank 0 to %d, got %d", MAX_RANK, tensor.rank);
  if (!tensor_is_contiguous(&tensor)) return INVALID("the host's constant is not contiguous");
  memcpy(search->dims, found.dims, sizeof search->dims);
  *data = (constant_data){
      .type = tensor.type, .rank = tensor.rank, .dims = search->dims, .data = found.data};
  return NULL;
}

clave_status clave_program_create_by_name(const void *flatbuffer, size_t size, clave_find_fn find,
                                          void *ctx, clave_program **out) {
  OWN_FLOAT_ENV;
  program *program;
  name_search search = {.find = find, .ctx = ctx};
  *out = NULL;
  TRY(program_create(flatbuffer, size,
                     &(constant_source){.find = api_program_find_constant, .ctx = &search},
                     &program));
  return program_wrap(program, out);
}

clave_status clave_program_own_constants(clave_program *program) {
  if (program_is_in_use(program))
    return INVALID("constants must be copied before sessions use the program");
  return program_own_constants(program->program);
}

clave_status clave_program_save(const clave_program *program, const char *path) {
  OWN_FLOAT_ENV;
  return program_save(program->program, path);
}
clave_status clave_program_encode(const clave_program *program, void **flatbuffer, size_t *bytes) {
  OWN_FLOAT_ENV;
  text text = {0};
  *flatbuffer = NULL;
  *bytes = 0;
  clave_status st = encode_flatbuffer(&program->program->ir, &text);
  if (st) {
    text_free(&text);
    return st;
  }
  *flatbuffer = text.data;
  *bytes = text.size;
  return NULL;
}
clave_status clave_program_check_hashes(const clave_program *program) {
  return program_check_hashes(program->program);
}

void clave_program_destroy(clave_program *program) {
  if (!program || --program->holds > 0) return;
  for (size_t i = 0; i < program->n_stores; i++) constant_store_destroy(program->stores[i].store);
  for (size_t i = 0; i < program->n_executables; i++)
    executable_destroy(program->executables[i].executable);
  free(program->stores);
  free(program->executables);
  program_destroy(program->program);
  clave_program_destroy(program->base);
  mem_pool_destroy(program->pool);
  mutex_destroy(program->lock);
  free(program);
}

/* ---------------------------------------------------------------- constants on devices */

static clave_status add_store(clave_program *program, backend *backend, constant_store **out) {
  shared_store *more = realloc(program->stores, (program->n_stores + 1) * sizeof *more);
  if (!more) return status_no_memory();
  program->stores = more;
  TRY(constant_store_create(program->program, backend, out));
  program->stores[program->n_stores++] = (shared_store){*out, 1};
  return NULL;
}

clave_status program_take_store(clave_program *program, backend *backend, constant_store **out) {
  *out = NULL;
  mutex_lock(program->lock);
  for (size_t i = 0; i < program->n_stores && !*out; i++) {
    if (constant_store_backend(program->stores[i].store) != backend) continue;
    program->stores[i].users++;
    *out = program->stores[i].store;
  }
  clave_status st = *out ? NULL : add_store(program, backend, out);
  mutex_unlock(program->lock);
  return st;
}

void program_release_store(clave_program *program, constant_store *store) {
  if (!store) return;
  mutex_lock(program->lock);
  for (size_t i = 0; i < program->n_stores; i++) {
    if (program->stores[i].store != store || --program->stores[i].users) continue;
    constant_store_destroy(store);
    program->stores[i] = program->stores[--program->n_stores];
    break;
  }
  mutex_unlock(program->lock);
}

/* ---------------------------------------------------------------- executables */

static clave_status add_executable(clave_program *program, const device_set *set,
                                   const executable_options *options, executable **out) {
  shared_executable *more =
      realloc(program->executables, (program->n_executables + 1) * sizeof *more);
  if (!more) return status_no_memory();
  program->executables = more;
  TRY(executable_create(program->program, set, options, out));
  program->executables[program->n_executables++] = (shared_executable){*out, 1};
  return NULL;
}

clave_status program_take_executable(clave_program *program, const device_set *set,
                                     const executable_options *options, executable **out) {
  *out = NULL;
  mutex_lock(program->lock);
  for (size_t i = 0; i < program->n_executables && !*out; i++) {
    if (!executable_is_of(program->executables[i].executable, set, options)) continue;
    program->executables[i].users++;
    *out = program->executables[i].executable;
  }
  clave_status st = *out ? NULL : add_executable(program, set, options, out);
  mutex_unlock(program->lock);
  return st;
}

void program_release_executable(clave_program *program, executable *executable) {
  if (!executable) return;
  mutex_lock(program->lock);
  for (size_t i = 0; i < program->n_executables; i++) {
    if (program->executables[i].executable != executable || --program->executables[i].users)
      continue;
    executable_destroy(executable);
    program->executables[i] = program->executables[--program->n_executables];
    break;
  }
  mutex_unlock(program->lock);
}

/* ---------------------------------------------------------------- queries */

clave_status clave_program_get_info(const clave_program *program, clave_program_info *info) {
  const ir_program *ir = &program->program->ir;
  clave_program_info own = {.producer = ir->producer,
                            .metadata = ir->metadata,
                            .version = ir->version,
                            .n_methods = ir->methods.count,
                            .n_slots = ir->tensors.count,
                            .n_constants = ir->constants.count,
                            .n_state = ir->n_state};
  uint32_t state = ir->constants.count + ir->n_inputs + ir->n_outputs;
  for (uint32_t i = 0; i < ir->tensors.count; i++) {
    size_t bytes;
    if (i < ir->constants.count && tensor_bytes(&program->program->types[i], &bytes))
      own.constant_bytes += bytes;
    if (i >= state && i < state + ir->n_state && program_state_bytes(ir, i, &bytes))
      own.state_bytes += bytes;
  }
  return sized_write(&own, info, SIZED(clave_program_info, state_bytes));
}

static clave_status api_program_refuse_method(const ir_methods *methods, const char *name) {
  text names = {0};
  for (uint32_t i = 0; i < methods->count; i++)
    text_printf(&names, "%s'%s'", i ? ", " : "", methods->items[i].name);
  clave_status st = text_status(&names);
  if (!st)
    st = INVALID("unknown method '%s'; the methods of the program are %s", name ? name : "",
                 names.data ? names.data : "none");
  text_free(&names);
  return st;
}

/* Returns a method's index, or the number of methods if none has this name. */
static uint32_t find_name(const ir_methods *methods, const char *name) {
  for (uint32_t i = 0; i < methods->count; i++)
    if (methods->items[i].name == name) return i;
  for (uint32_t i = 0; i < methods->count; i++)
    if (strcmp(methods->items[i].name, name) == 0) return i;
  return methods->count;
}

clave_status program_find_method(const clave_program *program, const char *name, uint32_t *out) {
  const ir_methods *methods = &program->program->ir.methods;
  uint32_t found = name ? find_name(methods, name) : 0;
  bool exists = found < methods->count;
  *out = exists ? found : 0;
  return exists ? NULL : api_program_refuse_method(methods, name);
}

clave_status clave_program_method(const clave_program *program, uint32_t index,
                                  clave_method_info *info) {
  const ir_methods *methods = &program->program->ir.methods;
  if (index >= methods->count)
    return INVALID("index %u is out of range: the program has %u methods", index, methods->count);
  const ir_method *method = &methods->items[index];
  clave_method_info own = {.name = method->name,
                           .metadata = method->metadata,
                           .n_inputs = method->inputs.count,
                           .n_outputs = method->outputs.count,
                           .n_nodes = program_count_nodes(&program->program->ir, method->chain)};
  return sized_write(&own, info, SIZED(clave_method_info, n_nodes));
}

static void api_program_describe_dim(const ir_program *program, const ir_int_or_vid *value, int i,
                                     clave_tensor_info *info) {
  info->dims[i] = info->min_dims[i] = info->max_dims[i] = value->literal;
  if (value->vid == IR_NONE) return;
  const ir_value *size = &program->values.items[value->vid];
  info->dims[i] = CLAVE_DYNAMIC;
  info->min_dims[i] = size->min.present && size->min.value > 0 ? size->min.value : 0;
  info->max_dims[i] = size->max.present ? size->max.value : INT64_MAX;
  info->dim_names[i] = size->name;
}

_Static_assert(CLAVE_ENCODING_PLAIN == (int)IR_ENCODING_KIND_PLAIN &&
                   CLAVE_ENCODING_GROUPS == (int)IR_ENCODING_KIND_GROUP_QUANTIZED &&
                   CLAVE_ENCODING_BLOCKS == (int)IR_ENCODING_KIND_BLOCK_FORMAT,
               "encodings");

static clave_status describe_slot(const clave_program *program, uint32_t slot,
                                  clave_tensor_info *info) {
  static const clave_slot_kind kinds[] = {CLAVE_SLOT_CONSTANT, CLAVE_SLOT_INPUT, CLAVE_SLOT_OUTPUT,
                                          CLAVE_SLOT_STATE, CLAVE_SLOT_TEMPORARY};
  const ir_program *ir = &program->program->ir;
  if (slot >= ir->tensors.count)
    return INVALID("index %u is out of range: the program has %u slots", slot, ir->tensors.count);
  const ir_tensor *tensor = &ir->tensors.items[slot];
  *info = (clave_tensor_info){
      .name = tensor->name,
      .dtype = (clave_dtype)tensor->dtype,
      .rank = (int)tensor->shape.count,
      .slot = slot,
      .kind = kinds[program_slot_kind(ir, slot)],
      .encoding = tensor->encoding ? (clave_encoding)tensor->encoding->kind : CLAVE_ENCODING_PLAIN};
  (void)encoding_text(&program->program->types[slot].encoding, info->encoding_text,
                      sizeof info->encoding_text);
  if (slot < ir->constants.count) info->name = ir->constants.items[slot].name;
  for (int i = 0; i < info->rank; i++)
    api_program_describe_dim(ir, &tensor->shape.items[i], i, info);
  return NULL;
}

static clave_status api_program_write_info(const clave_tensor_info *own, clave_tensor_info *out) {
  return sized_write(own, out, SIZED(clave_tensor_info, encoding));
}

clave_status clave_program_slot(const clave_program *program, uint32_t slot,
                                clave_tensor_info *info) {
  clave_tensor_info own;
  TRY(describe_slot(program, slot, &own));
  return api_program_write_info(&own, info);
}

static clave_status api_program_describe_argument(const clave_program *program,
                                                  const ir_argument *argument,
                                                  clave_tensor_info *info) {
  static const clave_dtype scalar_dtypes[] = {CLAVE_I64, CLAVE_F64, CLAVE_BOOL};
  if (argument->tensor != IR_NONE) {
    TRY(describe_slot(program, argument->tensor, info));
  } else {
    *info = (clave_tensor_info){
        .dtype = scalar_dtypes[program->program->ir.values.items[argument->value].type],
        .is_scalar = true,
        .slot = argument->value};
  }
  info->name = argument->name;
  return NULL;
}

static clave_status api_program_find_argument(const clave_program *program, const char *method,
                                              uint32_t index, bool output,
                                              clave_tensor_info *info) {
  uint32_t m;
  TRY(program_find_method(program, method, &m));
  const ir_method *i = &program->program->ir.methods.items[m];
  const ir_arguments *list = output ? &i->outputs : &i->inputs;
  if (index >= list->count)
    return INVALID("%s %u is out of range: method '%s' has %u of them", output ? "output" : "input",
                   index, i->name, list->count);
  clave_tensor_info own;
  TRY(api_program_describe_argument(program, &list->items[index], &own));
  return api_program_write_info(&own, info);
}

clave_status clave_program_input(const clave_program *program, const char *method, uint32_t index,
                                 clave_tensor_info *info) {
  return api_program_find_argument(program, method, index, false, info);
}
clave_status clave_program_output(const clave_program *program, const char *method, uint32_t index,
                                  clave_tensor_info *info) {
  return api_program_find_argument(program, method, index, true, info);
}

clave_status clave_program_state(const clave_program *program, uint32_t index,
                                 clave_tensor_info *info) {
  const ir_program *ir = &program->program->ir;
  if (index >= ir->n_state)
    return INVALID("index %u is out of range: the program has %u states", index, ir->n_state);
  return clave_program_slot(program, ir->constants.count + ir->n_inputs + ir->n_outputs + index,
                            info);
}

const void *clave_program_section(const clave_program *program, const char *tag, size_t *size) {
  const program_section *section = program_find_section(program->program, tag);
  *size = section ? section->size : 0;
  return section ? section->data : NULL;
}
clave_status clave_program_set_section(clave_program *program, const char *tag, const void *data,
                                       size_t size) {
  return program_set_section(program->program, tag, data, size, false);
}
clave_status clave_program_set_metadata(clave_program *program, const char *metadata) {
  return program_set_metadata(program->program, metadata);
}

clave_status clave_program_constant(const clave_program *program, uint32_t slot,
                                    clave_tensor *out) {
  if (slot >= program->program->ir.constants.count)
    return INVALID("index %u is out of range: the program has %u constants", slot,
                   program->program->ir.constants.count);
  tensor_to_public(&program->program->types[slot], program->program->constants[slot], out);
  return NULL;
}

bool program_is_in_use(clave_program *program) {
  mutex_lock(program->lock);
  bool is = program->n_stores > 0;
  mutex_unlock(program->lock);
  return is;
}
