/* Programs: loading, saving, and what is in them. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"
#include "clave_builder.h"
#include "clave_files.h"
#include "clave_host.h"
#include "serialize/encode.h"

/* ---------------------------------------------------------------- lifetime */

clave_status program_wrap(program *p, clave_program **out) {
  clave_program *c = calloc(1, sizeof *c);
  if (!c) {
    program_destroy(p);
    return status_no_memory();
  }
  c->holds = 1;
  c->p = p;
  clave_status st = mutex_create(&c->lock);
  if (!st) st = mem_pool_create(&c->pool);
  if (st) {
    clave_program_destroy(c);
    return st;
  }
  *out = c;
  return NULL;
}

clave_status clave_program_load(const char *path, const clave_program_options *options,
                                clave_program **out) {
  OWN_FLOAT_ENV;
  clave_program_options o;
  program *p;
  *out = NULL;
  TRY(sized_read(options, &o, SIZED(clave_program_options, consts)));
  TRY(program_load(path, o.consts, &p));
  return program_wrap(p, out);
}

clave_status clave_program_load_bytes(const void *clv, size_t size, const char *name,
                                      clave_program **out) {
  OWN_FLOAT_ENV;
  program *p;
  *out = NULL;
  TRY(program_load_bytes(clv, size, name, &p));
  return program_wrap(p, out);
}

clave_status clave_program_create(const void *flatbuffer, size_t size,
                                  const clave_tensor *constants, size_t n, clave_program **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  constant_data *data = calloc(n + 1, sizeof *data);
  if (!data) return status_no_memory();
  clave_status st = NULL;
  for (size_t i = 0; i < n && !st; i++) {
    tensor t = tensor_from_public(&constants[i]);
    data[i] = (constant_data){
        .type = t.type, .rank = t.rank, .dims = constants[i].dims, .data = constants[i].data};
    if (t.rank < 0 || t.rank > MAX_RANK) {
      st = INVALID("constant %zu: expected rank 0 to %d, got %d", i, MAX_RANK, t.rank);
    } else if (!tensor_is_contiguous(&t)) {
      st = INVALID("constant %zu is not contiguous", i);
    }
  }
  program *p;
  if (!st) st = program_create(flatbuffer, size, &(constant_source){.list = data, .n = n}, &p);
  free(data);
  return st ? st : program_wrap(p, out);
}

typedef struct name_search {
  clave_find_fn find;
  void *ctx;
  int64_t dims[CLAVE_MAX_RANK]; /* of the last that was found */
} name_search;

static clave_status find_constant(void *ctx, const char *name, constant_data *c) {
  name_search *s = ctx;
  clave_tensor found = clave_tensor_make((clave_dtype)c->type, c->rank, c->dims, NULL);
  if (!s->find(s->ctx, name, &found)) return INVALID("the caller has no such constant");
  const tensor t = tensor_from_public(&found);
  if (t.rank < 0 || t.rank > MAX_RANK)
    return INVALID("expected rank 0 to %d, got %d", MAX_RANK, t.rank);
  if (!tensor_is_contiguous(&t)) return INVALID("is not contiguous");
  memcpy(s->dims, found.dims, sizeof s->dims);
  *c = (constant_data){.type = t.type, .rank = t.rank, .dims = s->dims, .data = found.data};
  return NULL;
}

clave_status clave_program_create_by_name(const void *flatbuffer, size_t size, clave_find_fn find,
                                          void *ctx, clave_program **out) {
  OWN_FLOAT_ENV;
  program *p;
  name_search s = {.find = find, .ctx = ctx};
  *out = NULL;
  TRY(program_create(flatbuffer, size, &(constant_source){.find = find_constant, .ctx = &s}, &p));
  return program_wrap(p, out);
}

clave_status clave_program_own_constants(clave_program *c) {
  if (program_is_in_use(c)) return INVALID("constants are copied before sessions use the program");
  return program_own_constants(c->p);
}

clave_status clave_program_save(const clave_program *c, const char *path) {
  OWN_FLOAT_ENV;
  return program_save(c->p, path);
}
clave_status clave_program_encode(const clave_program *c, void **flatbuffer, size_t *bytes) {
  OWN_FLOAT_ENV;
  text t = {0};
  *flatbuffer = NULL;
  *bytes = 0;
  clave_status st = encode_flatbuffer(&c->p->ir, &t);
  if (st) {
    text_free(&t);
    return st;
  }
  *flatbuffer = t.data;
  *bytes = t.size;
  return NULL;
}
clave_status clave_program_check_hashes(const clave_program *c) {
  return program_check_hashes(c->p);
}

void clave_program_destroy(clave_program *c) {
  if (!c || --c->holds > 0) return;
  for (size_t i = 0; i < c->n_stores; i++) constant_store_destroy(c->stores[i].store);
  for (size_t i = 0; i < c->n_executables; i++) executable_destroy(c->executables[i].x);
  free(c->stores);
  free(c->executables);
  program_destroy(c->p);
  clave_program_destroy(c->base);
  mem_pool_destroy(c->pool);
  mutex_destroy(c->lock);
  free(c);
}

/* ---------------------------------------------------------------- constants on devices */

static clave_status add_store(clave_program *c, backend *b, constant_store **out) {
  shared_store *more = realloc(c->stores, (c->n_stores + 1) * sizeof *more);
  if (!more) return status_no_memory();
  c->stores = more;
  TRY(constant_store_create(c->p, b, out));
  c->stores[c->n_stores++] = (shared_store){*out, 1};
  return NULL;
}

clave_status program_take_store(clave_program *c, backend *b, constant_store **out) {
  *out = NULL;
  mutex_lock(c->lock);
  for (size_t i = 0; i < c->n_stores && !*out; i++) {
    if (constant_store_backend(c->stores[i].store) != b) continue;
    c->stores[i].users++;
    *out = c->stores[i].store;
  }
  clave_status st = *out ? NULL : add_store(c, b, out);
  mutex_unlock(c->lock);
  return st;
}

void program_release_store(clave_program *c, constant_store *store) {
  if (!store) return;
  mutex_lock(c->lock);
  for (size_t i = 0; i < c->n_stores; i++) {
    if (c->stores[i].store != store || --c->stores[i].users) continue;
    constant_store_destroy(store);
    c->stores[i] = c->stores[--c->n_stores];
    break;
  }
  mutex_unlock(c->lock);
}

/* ---------------------------------------------------------------- executables */

static clave_status add_executable(clave_program *c, const device_set *d,
                                   const executable_options *o, executable **out) {
  shared_executable *more = realloc(c->executables, (c->n_executables + 1) * sizeof *more);
  if (!more) return status_no_memory();
  c->executables = more;
  TRY(executable_create(c->p, d, o, out));
  c->executables[c->n_executables++] = (shared_executable){*out, 1};
  return NULL;
}

clave_status program_take_executable(clave_program *c, const device_set *d,
                                     const executable_options *o, executable **out) {
  *out = NULL;
  mutex_lock(c->lock);
  for (size_t i = 0; i < c->n_executables && !*out; i++) {
    if (!executable_is_of(c->executables[i].x, d, o)) continue;
    c->executables[i].users++;
    *out = c->executables[i].x;
  }
  clave_status st = *out ? NULL : add_executable(c, d, o, out);
  mutex_unlock(c->lock);
  return st;
}

void program_release_executable(clave_program *c, executable *x) {
  if (!x) return;
  mutex_lock(c->lock);
  for (size_t i = 0; i < c->n_executables; i++) {
    if (c->executables[i].x != x || --c->executables[i].users) continue;
    executable_destroy(x);
    c->executables[i] = c->executables[--c->n_executables];
    break;
  }
  mutex_unlock(c->lock);
}

/* ---------------------------------------------------------------- what is in it */

clave_status clave_program_get_info(const clave_program *c, clave_program_info *info) {
  const ir_program *p = &c->p->ir;
  clave_program_info own = {.producer = p->producer,
                            .metadata = p->metadata,
                            .version = p->version,
                            .n_methods = p->methods.count,
                            .n_slots = p->tensors.count,
                            .n_constants = p->constants.count,
                            .n_state = p->n_state};
  uint32_t state = p->constants.count + p->n_inputs + p->n_outputs;
  for (uint32_t i = 0; i < p->tensors.count; i++) {
    size_t bytes;
    if (i < p->constants.count && tensor_bytes(&c->p->types[i], &bytes))
      own.constant_bytes += bytes;
    if (i >= state && i < state + p->n_state && program_state_bytes(p, i, &bytes))
      own.state_bytes += bytes;
  }
  return sized_write(&own, info, SIZED(clave_program_info, state_bytes));
}

static clave_status refuse_method(const ir_methods *methods, const char *name) {
  text names = {0};
  for (uint32_t i = 0; i < methods->count; i++)
    text_printf(&names, "%s'%s'", i ? ", " : "", methods->items[i].name);
  clave_status st = text_status(&names);
  if (!st)
    st = INVALID("no method '%s'; the program has %s", name ? name : "",
                 names.data ? names.data : "none");
  text_free(&names);
  return st;
}

/* Returns the number of methods if none has this name. */
static uint32_t find_name(const ir_methods *methods, const char *name) {
  for (uint32_t i = 0; i < methods->count; i++)
    if (methods->items[i].name == name) return i;
  for (uint32_t i = 0; i < methods->count; i++)
    if (strcmp(methods->items[i].name, name) == 0) return i;
  return methods->count;
}

clave_status program_find_method(const clave_program *c, const char *name, uint32_t *out) {
  const ir_methods *methods = &c->p->ir.methods;
  uint32_t found = name ? find_name(methods, name) : 0;
  bool exists = found < methods->count;
  *out = exists ? found : 0;
  return exists ? NULL : refuse_method(methods, name);
}

clave_status clave_program_method(const clave_program *c, uint32_t index, clave_method_info *info) {
  const ir_methods *m = &c->p->ir.methods;
  if (index >= m->count) return INVALID("method %u of a program with %u", index, m->count);
  const ir_method *i = &m->items[index];
  clave_method_info own = {.name = i->name,
                           .metadata = i->metadata,
                           .n_inputs = i->inputs.count,
                           .n_outputs = i->outputs.count,
                           .n_nodes = program_count_nodes(&c->p->ir, i->chain)};
  return sized_write(&own, info, SIZED(clave_method_info, n_nodes));
}

static void describe_dim(const ir_program *p, const ir_int_or_vid *d, int i,
                         clave_tensor_info *info) {
  info->dims[i] = info->min_dims[i] = info->max_dims[i] = d->literal;
  if (d->vid == IR_NONE) return;
  const ir_value *v = &p->values.items[d->vid];
  info->dims[i] = CLAVE_DYNAMIC;
  info->min_dims[i] = v->min.present && v->min.value > 0 ? v->min.value : 0;
  info->max_dims[i] = v->max.present ? v->max.value : INT64_MAX;
  info->dim_names[i] = v->name;
}

_Static_assert(CLAVE_ENCODING_PLAIN == (int)IR_ENCODING_KIND_PLAIN &&
                   CLAVE_ENCODING_GROUPS == (int)IR_ENCODING_KIND_GROUP_QUANTIZED &&
                   CLAVE_ENCODING_BLOCKS == (int)IR_ENCODING_KIND_BLOCK_FORMAT,
               "encodings");

static clave_status describe_slot(const clave_program *c, uint32_t slot, clave_tensor_info *info) {
  static const clave_slot_kind kinds[] = {CLAVE_SLOT_CONSTANT, CLAVE_SLOT_INPUT, CLAVE_SLOT_OUTPUT,
                                          CLAVE_SLOT_STATE, CLAVE_SLOT_TEMPORARY};
  const ir_program *p = &c->p->ir;
  if (slot >= p->tensors.count)
    return INVALID("slot %u of a program with %u", slot, p->tensors.count);
  const ir_tensor *t = &p->tensors.items[slot];
  *info = (clave_tensor_info){
      .name = t->name,
      .dtype = (clave_dtype)t->dtype,
      .rank = (int)t->shape.count,
      .slot = slot,
      .kind = kinds[program_slot_kind(p, slot)],
      .encoding = t->encoding ? (clave_encoding)t->encoding->kind : CLAVE_ENCODING_PLAIN};
  (void)encoding_text(&c->p->types[slot].encoding, info->encoding_text, sizeof info->encoding_text);
  if (slot < p->constants.count) info->name = p->constants.items[slot].name;
  for (int i = 0; i < info->rank; i++) describe_dim(p, &t->shape.items[i], i, info);
  return NULL;
}

static clave_status write_info(const clave_tensor_info *own, clave_tensor_info *out) {
  return sized_write(own, out, SIZED(clave_tensor_info, encoding));
}

clave_status clave_program_slot(const clave_program *c, uint32_t slot, clave_tensor_info *info) {
  clave_tensor_info own;
  TRY(describe_slot(c, slot, &own));
  return write_info(&own, info);
}

static clave_status describe_argument(const clave_program *c, const ir_argument *a,
                                      clave_tensor_info *info) {
  static const clave_dtype scalar_dtypes[] = {CLAVE_I64, CLAVE_F64, CLAVE_BOOL};
  if (a->tensor != IR_NONE) {
    TRY(describe_slot(c, a->tensor, info));
  } else {
    *info = (clave_tensor_info){.dtype = scalar_dtypes[c->p->ir.values.items[a->value].type],
                                .is_scalar = true,
                                .slot = a->value};
  }
  info->name = a->name;
  return NULL;
}

static clave_status find_argument(const clave_program *c, const char *method, uint32_t index,
                                  bool output, clave_tensor_info *info) {
  uint32_t m;
  TRY(program_find_method(c, method, &m));
  const ir_method *i = &c->p->ir.methods.items[m];
  const ir_arguments *list = output ? &i->outputs : &i->inputs;
  if (index >= list->count)
    return INVALID("%s %u of method '%s', which has %u", output ? "output" : "input", index,
                   i->name, list->count);
  clave_tensor_info own;
  TRY(describe_argument(c, &list->items[index], &own));
  return write_info(&own, info);
}

clave_status clave_program_input(const clave_program *c, const char *method, uint32_t index,
                                 clave_tensor_info *info) {
  return find_argument(c, method, index, false, info);
}
clave_status clave_program_output(const clave_program *c, const char *method, uint32_t index,
                                  clave_tensor_info *info) {
  return find_argument(c, method, index, true, info);
}

clave_status clave_program_state(const clave_program *c, uint32_t index, clave_tensor_info *info) {
  const ir_program *p = &c->p->ir;
  if (index >= p->n_state) return INVALID("state %u of a program with %u", index, p->n_state);
  return clave_program_slot(c, p->constants.count + p->n_inputs + p->n_outputs + index, info);
}

const void *clave_program_section(const clave_program *c, const char *tag, size_t *size) {
  const program_section *s = program_find_section(c->p, tag);
  *size = s ? s->size : 0;
  return s ? s->data : NULL;
}
clave_status clave_program_set_section(clave_program *c, const char *tag, const void *data,
                                       size_t size) {
  return program_set_section(c->p, tag, data, size, false);
}
clave_status clave_program_set_metadata(clave_program *c, const char *metadata) {
  return program_set_metadata(c->p, metadata);
}

clave_status clave_program_constant(const clave_program *c, uint32_t slot, clave_tensor *out) {
  if (slot >= c->p->ir.constants.count)
    return INVALID("constant %u of a program with %u", slot, c->p->ir.constants.count);
  tensor_to_public(&c->p->types[slot], c->p->constants[slot], out);
  return NULL;
}

bool program_is_in_use(clave_program *c) {
  mutex_lock(c->lock);
  bool is = c->n_stores > 0;
  mutex_unlock(c->lock);
  return is;
}
