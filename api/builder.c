/* Builds programs call by call: slots, methods, bodies, and the finished program. */
#include "api/builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "interp/host_copy.h"
#include "serialize/copy.h"
#include "serialize/encode.h"

/* ---------------------------------------------------------------- ids */

static clave_id make_id(id_kind kind, uint32_t count) {
  return (clave_id)kind << ID_SHIFT | (count - 1);
}

/* Sets *index to the index of a tensor. Fails with INVALID if the tensor is of another kind. */
static clave_status index_of_kind(const clave_builder *builder, clave_id id, slot_kind kind,
                                  uint32_t *index) {
  TRY(builder_index(builder, id, ID_TENSOR, index));
  slot_kind is = builder->kinds.items[*index];
  if (is == kind) return NULL;
  return INVALID("tensor '%.200s': expected kind %s, got %s",
                 builder->ir.tensors.items[*index].name, slot_kind_name(kind), slot_kind_name(is));
}

/* ---------------------------------------------------------------- lifetime */

clave_status clave_builder_create(clave_builder **out) {
  *out = NULL;
  clave_builder *builder = calloc(1, sizeof *builder);
  if (!builder) return status_no_memory();
  clave_status st = mem_pool_create(&builder->pool);
  if (!st) st = mem_pool_create(&builder->data);
  if (st) {
    clave_builder_destroy(builder);
    return st;
  }
  builder->ir.producer = "clave " CLAVE_VERSION;
  builder->ir.metadata = "";
  *out = builder;
  return NULL;
}

void clave_builder_destroy(clave_builder *builder) {
  if (!builder) return;
  mem_pool_destroy(builder->pool);
  mem_pool_destroy(builder->data);
  status_free(builder->error);
  free(builder);
}

const char *clave_builder_error(const clave_builder *builder) {
  return builder && builder->error ? status_message(builder->error) : NULL;
}

static void set_string(clave_builder *builder, const char **to, const char *text) {
  const char *copy = builder_text(builder, text);
  if (copy) *to = copy;
}

void clave_builder_producer(clave_builder *builder, const char *name) {
  if (builder_ready(builder)) set_string(builder, &builder->ir.producer, name);
}
void clave_builder_metadata(clave_builder *builder, const char *json) {
  if (builder_ready(builder)) set_string(builder, &builder->ir.metadata, json);
}

/* ---------------------------------------------------------------- tensors and values */

static clave_id api_builder_add_tensor(clave_builder *builder, slot_kind kind, const char *name,
                                       clave_dtype type, ir_int_or_vids shape) {
  slot_kind *added = builder_append(builder, &builder->kinds, sizeof *added);
  ir_tensor *tensor = added ? builder_append(builder, &builder->ir.tensors, sizeof *tensor) : NULL;
  const char *copy = tensor ? builder_text(builder, name) : NULL;
  if (!copy) return 0;
  *added = kind;
  *tensor = (ir_tensor){.dtype = (dtype)type, .shape = shape, .name = copy};
  return make_id(ID_TENSOR, builder->ir.tensors.count);
}

static clave_status api_builder_check_type(clave_dtype type, int rank) {
  if (!clave_dtype_name(type)) return INVALID("unknown dtype %d", (int)type);
  if (rank >= 0 && rank <= MAX_RANK) return NULL;
  return INVALID("expected rank 0 to %d, got %d", (int)MAX_RANK, rank);
}

clave_id clave_builder_tensor(clave_builder *builder, clave_slot_kind kind, const char *name,
                              clave_dtype type, int rank, const int64_t *dims,
                              const clave_id *values) {
  ir_int_or_vids shape = {0};
  if (!builder_ready(builder)) return 0;
  clave_status st = api_builder_check_type(type, rank);
  if (!st && (kind < CLAVE_SLOT_INPUT || kind > CLAVE_SLOT_TEMPORARY))
    st = INVALID("kind: expected an input, output, state or temporary, got %d", (int)kind);
  if (!st) st = builder_ints(builder, dims, values, (uint32_t)rank, &shape);
  if (!st) return api_builder_add_tensor(builder, (slot_kind)kind, name, type, shape);
  builder_fail(builder, status_while(st, "tensor '%.200s'", name ? name : ""));
  return 0;
}

/* Sets *out to the data of a constant as the program will read it: the caller's bytes, or a copy of
 * them. */
static clave_status store_data(clave_builder *builder, const clave_tensor *given, bool copy,
                               constant_data *out) {
  size_t bytes;
  if (!given) return INVALID("the tensor or its data is NULL");
  TRY(api_builder_check_type(given->dtype, given->rank));
  tensor tensor = tensor_from_public(given);
  if (!tensor_bytes(&tensor, &bytes))
    return INVALID("the size of the data is negative or overflows");
  if (bytes && !given->data) return INVALID("the tensor or its data is NULL");
  if (!copy && !tensor_is_contiguous(&tensor))
    return INVALID("the data are not contiguous, so they can be copied but not borrowed");
  int64_t *dims = mem_pool_alloc(builder->pool, MAX_RANK, sizeof *dims);
  void *copied = copy ? mem_pool_alloc(builder->data, bytes + 1, 1) : NULL;
  if (!dims || (copy && !copied)) return status_no_memory();
  memcpy(dims, tensor.dims, sizeof tensor.dims);
  if (copy && bytes) copy_to_contiguous(&tensor, given->data, copied);
  *out = (constant_data){tensor.type, tensor.rank, dims, copy ? copied : given->data};
  return NULL;
}

static void api_builder_add_constant(clave_builder *builder, const char *name,
                                     const constant_data *given) {
  ir_constant *constant = builder_append(builder, &builder->ir.constants, sizeof *constant);
  constant_data *added =
      constant ? builder_append(builder, &builder->constants, sizeof *added) : NULL;
  if (!added) return;
  *added = *given;
  set_string(builder, &constant->name, name);
}

clave_id clave_builder_constant(clave_builder *builder, const char *name, const clave_tensor *given,
                                bool copy) {
  OWN_FLOAT_ENV;
  constant_data data;
  ir_int_or_vids shape;
  if (!builder_ready(builder)) return 0;
  clave_status st = store_data(builder, given, copy, &data);
  if (!st) st = builder_ints(builder, data.dims, NULL, (uint32_t)data.rank, &shape);
  builder_fail(builder, status_while(st, "constant '%.200s'", name ? name : ""));
  if (st) return 0;
  api_builder_add_constant(builder, name, &data);
  return builder->error ? 0
                        : api_builder_add_tensor(builder, SLOT_CONSTANT, name, given->dtype, shape);
}

/* Parses the text of an encoding. axis: first dimension of a row. */
static clave_status parse_encoding(clave_builder *builder, const char *text, int axis,
                                   ir_encoding **out) {
  encoding encoding;
  if (!text || !encoding_parse(text, &encoding))
    return INVALID(
        "encoding: expected int2 to int8, e4m3 or e5m2, with :GROUP, :zeros and :f16, :bf16 or "
        ":f32 after it, or a name of llama.cpp's blocks, got '%.40s'",
        text ? text : "");
  ir_encoding *ir = mem_pool_alloc(builder->pool, 1, sizeof *ir);
  if (!ir) return status_no_memory();
  *ir = (ir_encoding){.axis = axis, .format = ""};
  if (encoding.kind == ENCODING_BLOCKS) {
    ir->kind = IR_ENCODING_KIND_BLOCK_FORMAT;
    ir->format = block_format_at(encoding.format)->name;
  } else {
    ir->kind = IR_ENCODING_KIND_GROUP_QUANTIZED;
    ir->bits = encoding.bits;
    ir->group = (int32_t)encoding.group;
    ir->scale = (dtype)encoding.scale;
    ir->has_zeros = encoding.has_zeros;
    ir->code = (ir_code_kind)encoding.code;
  }
  *out = ir;
  return NULL;
}

/* Returns the first dimension of a row of an encoded constant: its last dimension, or that of the
 * stored `rows`, if their rank is lower. */
static int rows_axis(int rank, const clave_tensor *rows) {
  return rows && rows->rank >= 2 && rows->rank < rank ? rows->rank - 1 : rank - 1;
}

clave_id clave_builder_encoded(clave_builder *builder, const char *name, const char *encoding_text,
                               clave_dtype type, int rank, const int64_t *dims,
                               const clave_tensor *rows, bool copy) {
  constant_data data;
  ir_int_or_vids shape;
  ir_encoding *encoding = NULL;
  if (!builder_ready(builder)) return 0;
  clave_status st = api_builder_check_type(type, rank);
  if (!st) st = parse_encoding(builder, encoding_text, rows_axis(rank, rows), &encoding);
  if (!st) st = store_data(builder, rows, copy, &data);
  if (!st) st = builder_ints(builder, dims, NULL, (uint32_t)rank, &shape);
  builder_fail(builder, status_while(st, "constant '%.200s'", name ? name : ""));
  if (st) return 0;
  api_builder_add_constant(builder, name, &data);
  clave_id id =
      builder->error ? 0 : api_builder_add_tensor(builder, SLOT_CONSTANT, name, type, shape);
  if (id) builder->ir.tensors.items[builder->ir.tensors.count - 1].encoding = encoding;
  return id;
}

static clave_status api_builder_value_type(clave_dtype type, ir_value_type *out) {
  *out = type == CLAVE_F64    ? IR_VALUE_TYPE_FLOAT
         : type == CLAVE_BOOL ? IR_VALUE_TYPE_BOOL
                              : IR_VALUE_TYPE_INT;
  if (type == CLAVE_I64 || type == CLAVE_F64 || type == CLAVE_BOOL) return NULL;
  return INVALID("dtype: expected I64, F64 or BOOL, got %d", (int)type);
}

clave_id clave_builder_value(clave_builder *builder, const char *name, clave_dtype type,
                             int64_t min, int64_t max) {
  ir_value_type kind;
  if (!builder_ready(builder)) return 0;
  builder_fail(builder, status_while(api_builder_value_type(type, &kind), "value '%.200s'",
                                     name ? name : ""));
  ir_value *value =
      builder->error ? NULL : builder_append(builder, &builder->ir.values, sizeof *value);
  if (!value) return 0;
  value->type = kind;
  value->min = (ir_opt_i64){min, min != INT64_MIN};
  value->max = (ir_opt_i64){max, max != INT64_MAX};
  set_string(builder, &value->name, name);
  return builder->error ? 0 : make_id(ID_VALUE, builder->ir.values.count);
}

void clave_builder_initial(clave_builder *builder, clave_id state, clave_id constant) {
  ir_state_init init;
  if (!builder_ready(builder)) return;
  clave_status st = index_of_kind(builder, state, SLOT_STATE, &init.state);
  if (!st) st = index_of_kind(builder, constant, SLOT_CONSTANT, &init.constant);
  builder_fail(builder, status_while(st, "initial value"));
  ir_state_init *made = st ? NULL : builder_append(builder, &builder->ir.state_inits, sizeof *made);
  if (made) *made = init;
}

/* ---------------------------------------------------------------- methods */

static ir_method *current_method(clave_builder *builder) {
  if (!builder_ready(builder)) return NULL;
  if (builder->ir.methods.count) return &builder->ir.methods.items[builder->ir.methods.count - 1];
  builder_fail(builder, INVALID("no method has begun: call clave_builder_method first"));
  return NULL;
}

void clave_builder_method(clave_builder *builder, const char *name) {
  if (!builder_ready(builder)) return;
  builder_close_op(builder);
  if (builder->depth)
    builder_fail(builder,
                 INVALID("method '%.200s' begins inside a body: call clave_builder_end_body first",
                         name ? name : ""));
  const char *copy = builder->error ? NULL : builder_text(builder, name);
  ir_method *method = copy ? builder_append(builder, &builder->ir.methods, sizeof *method) : NULL;
  ir_chain *chain = method ? builder_append(builder, &builder->ir.chains, sizeof *chain) : NULL;
  if (!chain) return;
  method->name = chain->name = copy;
  method->metadata = "";
  method->chain = builder->ir.chains.count - 1;
}

void clave_builder_method_metadata(clave_builder *builder, const char *json) {
  ir_method *method = current_method(builder);
  if (method) set_string(builder, &method->metadata, json);
}

static void add_argument(clave_builder *builder, ir_arguments *list, slot_kind kind,
                         const char *name, clave_id id) {
  ir_argument a = {.tensor = IR_NONE, .value = IR_NONE};
  clave_status st = id >> ID_SHIFT == ID_VALUE ? builder_index(builder, id, ID_VALUE, &a.value)
                                               : index_of_kind(builder, id, kind, &a.tensor);
  builder_close_op(builder);
  builder_fail(builder, status_while(st, "%s '%.200s'", slot_kind_name(kind), name ? name : ""));
  ir_argument *made = builder->error ? NULL : builder_append(builder, list, sizeof *made);
  if (!made) return;
  *made = a;
  set_string(builder, &made->name, name);
}

void clave_builder_input(clave_builder *builder, const char *name, clave_id id) {
  ir_method *method = current_method(builder);
  if (method) add_argument(builder, &method->inputs, SLOT_INPUT, name, id);
}
void clave_builder_output(clave_builder *builder, const char *name, clave_id id) {
  ir_method *method = current_method(builder);
  if (method) add_argument(builder, &method->outputs, SLOT_OUTPUT, name, id);
}

bool clave_builder_make_output(clave_builder *builder, const char *name, clave_id id) {
  uint32_t index;
  ir_method *method = current_method(builder);
  if (!method) return true; /* finish returns the error */
  builder_close_op(builder);
  clave_status st = index_of_kind(builder, id, SLOT_TEMPORARY, &index);
  if (st || builder->depth || builder->kinds.items[index] != SLOT_TEMPORARY) {
    status_free(st);
    return false;
  }
  builder->kinds.items[index] = SLOT_OUTPUT;
  set_string(builder, &builder->ir.tensors.items[index].name, name);
  add_argument(builder, &method->outputs, SLOT_OUTPUT, name, id);
  return true;
}

void clave_builder_update(clave_builder *builder, clave_id state, clave_id value) {
  ir_state_update u;
  ir_method *method = current_method(builder);
  if (!method) return;
  clave_status st = index_of_kind(builder, state, SLOT_STATE, &u.state);
  if (!st) st = builder_index(builder, value, ID_TENSOR, &u.value);
  builder_close_op(builder);
  builder_fail(builder, status_while(st, "update"));
  ir_state_update *made =
      builder->error ? NULL : builder_append(builder, &method->updates, sizeof *made);
  if (made) *made = u;
}

/* ---------------------------------------------------------------- bodies */

clave_id clave_builder_body(clave_builder *builder, const char *name, const clave_id *args,
                            uint32_t n_args) {
  ir_u32s tids = {0};
  if (!current_method(builder)) return 0;
  builder_close_op(builder);
  clave_status st = builder->depth == LIMIT_CHAIN_DEPTH
                        ? INVALID("bodies are nested deeper than %d", (int)LIMIT_CHAIN_DEPTH)
                        : builder_tids(builder, args, n_args, &tids);
  builder_fail(builder, status_while(st, "args of body '%.200s'", name ? name : ""));
  ir_chain *chain =
      builder->error ? NULL : builder_append(builder, &builder->bodies, sizeof *chain);
  if (!chain) return 0;
  chain->args = tids;
  set_string(builder, &chain->name, name);
  builder->open[builder->depth++] = builder->bodies.count - 1;
  return builder->error ? 0 : make_id(ID_BODY, builder->bodies.count);
}

void clave_builder_end_body(clave_builder *builder, const clave_id *results, uint32_t n_results) {
  ir_u32s tids;
  if (!builder_ready(builder)) return;
  builder_close_op(builder);
  if (!builder->depth) {
    builder_fail(builder, INVALID("no body has begun: call clave_builder_body first"));
    return;
  }
  ir_chain *chain = builder_chain(builder);
  clave_status st = builder_tids(builder, results, n_results, &tids);
  builder_fail(builder, status_while(st, "results of body '%.200s'", chain->name));
  if (builder->error) return;
  chain->results = tids;
  builder->depth--;
}

/* ---------------------------------------------------------------- instructions */

/* Finds an op by its name: "LayerNorm" or "layer_norm". IR_OP_NONE if none exists. */
static ir_op find_op(const char *name) {
  for (int i = 1; name && i < IR_OP_COUNT; i++) {
    if (strcmp(name, op_table[i].name) == 0 || strcmp(name, op_table[i].table->name) == 0)
      return (ir_op)i;
  }
  return IR_OP_NONE;
}

static void add_instruction(clave_builder *builder, ir_op type, const char *name) {
  const ir_table *table = op_table[type].table;
  void *op = builder_alloc(builder, 1, table->size);
  const char *copy = op ? builder_text(builder, name) : NULL;
  ir_instructions *list = &builder_chain(builder)->instructions;
  ir_instruction *ins = copy ? builder_append(builder, list, sizeof *ins) : NULL;
  if (!ins) return;
  *ins = (ir_instruction){.op_type = type, .op = op, .name = copy};
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *field = &table->fields[i];
    const uint32_t none = IR_NONE;
    field_set_default(field, op);
    if (field_names_chain(field)) memcpy((char *)op + field->offset, &none, sizeof none);
  }
  builder->table = table;
  builder->op = op;
}

void clave_builder_op(clave_builder *builder, const char *op, const char *name) {
  if (!current_method(builder)) return;
  ir_op type = find_op(op);
  builder_close_op(builder);
  if (type == IR_OP_NONE)
    builder_fail(builder,
                 INVALID("unknown op '%.200s'; node '%.200s'", op ? op : "", name ? name : ""));
  if (!builder->error) add_instruction(builder, type, name);
}

/* ---------------------------------------------------------------- finish */

/* Numbers the slots by kind and sorts the tensors by number. *numbers receives the new number of
 * each old index. */
static clave_status api_builder_number_slots(clave_builder *builder, uint32_t **numbers) {
  ir_tensors *tensors = &builder->ir.tensors;
  uint32_t n = 0, counts[SLOT_TEMPORARY + 1] = {0};
  ir_tensor *ordered = mem_pool_alloc(builder->pool, (size_t)tensors->count + 1, sizeof *ordered);
  *numbers = mem_pool_alloc(builder->pool, (size_t)tensors->count + 1, sizeof **numbers);
  if (!ordered || !*numbers) return status_no_memory();
  for (int kind = SLOT_CONSTANT; kind <= SLOT_TEMPORARY; kind++) {
    for (uint32_t i = 0; i < tensors->count; i++) {
      if ((int)builder->kinds.items[i] != kind) continue;
      ordered[n] = tensors->items[i];
      (*numbers)[i] = n++;
      counts[kind]++;
    }
  }
  tensors->items = ordered;
  builder->ir.n_inputs = counts[SLOT_INPUT];
  builder->ir.n_outputs = counts[SLOT_OUTPUT];
  builder->ir.n_state = counts[SLOT_STATE];
  return NULL;
}

static clave_status number_all(clave_builder *builder) {
  uint32_t *slots,
      *chains = mem_pool_alloc(builder->pool, (size_t)builder->bodies.count + 1, sizeof *chains);
  if (!chains) return status_no_memory();
  TRY(api_builder_number_slots(builder, &slots));
  for (uint32_t i = 0; i < builder->bodies.count; i++) {
    chains[i] = builder->ir.chains.count;
    ir_chain *chain = builder_append(builder, &builder->ir.chains, sizeof *chain);
    if (!chain) {
      clave_status st = builder->error;
      builder->error = NULL;
      return st;
    }
    *chain = builder->bodies.items[i];
  }
  table_numbers to = {.tensors = slots,
                      .n_tensors = builder->ir.tensors.count,
                      .chains = chains,
                      .n_chains = builder->bodies.count};
  table_renumber(&to, &ir_program_table, &builder->ir);
  return NULL;
}

static clave_status api_builder_make_program(clave_builder *builder, program **out) {
  text bytes = {0};
  clave_status st = number_all(builder);
  if (!st) st = encode_flatbuffer(&builder->ir, &bytes);
  if (!st)
    st = program_create(
        bytes.data, bytes.size,
        &(constant_source){.list = builder->constants.items, .n = builder->constants.count}, out);
  text_free(&bytes);
  return st;
}

clave_status clave_builder_finish(clave_builder *builder, clave_program **out) {
  OWN_FLOAT_ENV;
  program *program;
  *out = NULL;
  if (!builder) return INVALID("the builder is NULL");
  if (builder->finished) return INVALID("the builder has already finished a program");
  builder_close_op(builder);
  if (!builder->error && builder->depth)
    builder_fail(builder, INVALID("%u bodies are open: call clave_builder_end_body for each",
                                  builder->depth));
  builder->finished = true;
  clave_status st = builder->error;
  builder->error = NULL;
  TRY(st);
  TRY(api_builder_make_program(builder, &program));
  program->data = builder->data;
  builder->data = NULL;
  return program_wrap(program, out);
}
