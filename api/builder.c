/* Programs built call by call: slots, methods, bodies, and the program made of them. */
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

/* The index of a tensor of one kind. */
static clave_status index_of_kind(const clave_builder *b, clave_id id, slot_kind kind,
                                  uint32_t *index) {
  TRY(builder_index(b, id, ID_TENSOR, index));
  slot_kind is = b->kinds.items[*index];
  if (is == kind) return NULL;
  return INVALID("tensor '%.200s': expected kind %s, got %s", b->ir.tensors.items[*index].name,
                 slot_kind_name(kind), slot_kind_name(is));
}

/* ---------------------------------------------------------------- lifetime */

clave_status clave_builder_create(clave_builder **out) {
  *out = NULL;
  clave_builder *b = calloc(1, sizeof *b);
  if (!b) return status_no_memory();
  clave_status st = mem_pool_create(&b->pool);
  if (!st) st = mem_pool_create(&b->data);
  if (st) {
    clave_builder_destroy(b);
    return st;
  }
  b->ir.producer = "clave " CLAVE_VERSION;
  b->ir.metadata = "";
  *out = b;
  return NULL;
}

void clave_builder_destroy(clave_builder *b) {
  if (!b) return;
  mem_pool_destroy(b->pool);
  mem_pool_destroy(b->data);
  status_free(b->error);
  free(b);
}

const char *clave_builder_error(const clave_builder *b) {
  return b && b->error ? status_message(b->error) : NULL;
}

static void set_string(clave_builder *b, const char **to, const char *s) {
  const char *copy = builder_text(b, s);
  if (copy) *to = copy;
}

void clave_builder_producer(clave_builder *b, const char *name) {
  if (builder_ready(b)) set_string(b, &b->ir.producer, name);
}
void clave_builder_metadata(clave_builder *b, const char *json) {
  if (builder_ready(b)) set_string(b, &b->ir.metadata, json);
}

/* ---------------------------------------------------------------- tensors and values */

static clave_id add_tensor(clave_builder *b, slot_kind kind, const char *name, clave_dtype type,
                           ir_int_or_vids shape) {
  slot_kind *k = builder_append(b, &b->kinds, sizeof *k);
  ir_tensor *t = k ? builder_append(b, &b->ir.tensors, sizeof *t) : NULL;
  const char *copy = t ? builder_text(b, name) : NULL;
  if (!copy) return 0;
  *k = kind;
  *t = (ir_tensor){.dtype = (dtype)type, .shape = shape, .name = copy};
  return make_id(ID_TENSOR, b->ir.tensors.count);
}

static clave_status check_type(clave_dtype type, int rank) {
  if (!clave_dtype_name(type)) return INVALID("there is no dtype %d", (int)type);
  if (rank >= 0 && rank <= MAX_RANK) return NULL;
  return INVALID("expected rank 0 to %d, got %d", (int)MAX_RANK, rank);
}

clave_id clave_builder_tensor(clave_builder *b, clave_slot_kind kind, const char *name,
                              clave_dtype type, int rank, const int64_t *dims,
                              const clave_id *values) {
  ir_int_or_vids shape = {0};
  if (!builder_ready(b)) return 0;
  clave_status st = check_type(type, rank);
  if (!st && (kind < CLAVE_SLOT_INPUT || kind > CLAVE_SLOT_TEMPORARY))
    st = INVALID("kind: expected an input, output, state or temporary, got %d", (int)kind);
  if (!st) st = builder_ints(b, dims, values, (uint32_t)rank, &shape);
  if (!st) return add_tensor(b, (slot_kind)kind, name, type, shape);
  builder_fail(b, status_while(st, "tensor '%.200s'", name ? name : ""));
  return 0;
}

/* The bytes that the program will read: the caller's, or a copy. */
static clave_status take_data(clave_builder *b, const clave_tensor *given, bool copy,
                              constant_data *out) {
  size_t bytes;
  if (!given) return INVALID("no data are given");
  TRY(check_type(given->dtype, given->rank));
  tensor t = tensor_from_public(given);
  if (!tensor_bytes(&t, &bytes)) return INVALID("its size is negative or overflows");
  if (bytes && !given->data) return INVALID("no data are given");
  if (!copy && !tensor_is_contiguous(&t))
    return INVALID("its data are not contiguous: they can be copied, not borrowed");
  int64_t *dims = mem_pool_alloc(b->pool, MAX_RANK, sizeof *dims);
  void *copied = copy ? mem_pool_alloc(b->data, bytes + 1, 1) : NULL;
  if (!dims || (copy && !copied)) return status_no_memory();
  memcpy(dims, t.dims, sizeof t.dims);
  if (copy && bytes) copy_to_contiguous(&t, given->data, copied);
  *out = (constant_data){t.type, t.rank, dims, copy ? copied : given->data};
  return NULL;
}

static void add_constant(clave_builder *b, const char *name, const constant_data *data) {
  ir_constant *c = builder_append(b, &b->ir.constants, sizeof *c);
  constant_data *d = c ? builder_append(b, &b->constants, sizeof *d) : NULL;
  if (!d) return;
  *d = *data;
  set_string(b, &c->name, name);
}

clave_id clave_builder_constant(clave_builder *b, const char *name, const clave_tensor *given,
                                bool copy) {
  OWN_FLOAT_ENV;
  constant_data data;
  ir_int_or_vids shape;
  if (!builder_ready(b)) return 0;
  clave_status st = take_data(b, given, copy, &data);
  if (!st) st = builder_ints(b, data.dims, NULL, (uint32_t)data.rank, &shape);
  builder_fail(b, status_while(st, "constant '%.200s'", name ? name : ""));
  if (st) return 0;
  add_constant(b, name, &data);
  return b->error ? 0 : add_tensor(b, SLOT_CONSTANT, name, given->dtype, shape);
}

/* axis: from which dimension on a row goes. */
static clave_status parse_encoding(clave_builder *b, const char *form, int axis,
                                   ir_encoding **out) {
  encoding e;
  if (!form || !encoding_parse(form, &e))
    return INVALID(
        "encoding: expected int2 to int8, e4m3 or e5m2, with :GROUP, :zeros and :f16, :bf16 or "
        ":f32 after it, or a name of llama.cpp's blocks, got '%.40s'",
        form ? form : "");
  ir_encoding *ir = mem_pool_alloc(b->pool, 1, sizeof *ir);
  if (!ir) return status_no_memory();
  *ir = (ir_encoding){.axis = axis, .format = ""};
  if (e.kind == ENCODING_BLOCKS) {
    ir->kind = IR_ENCODING_KIND_BLOCK_FORMAT;
    ir->format = block_format_at(e.format)->name;
  } else {
    ir->kind = IR_ENCODING_KIND_GROUP_QUANTIZED;
    ir->bits = e.bits;
    ir->group = (int32_t)e.group;
    ir->scale = (dtype)e.scale;
    ir->has_zeros = e.has_zeros;
    ir->code = (ir_code_kind)e.code;
  }
  *out = ir;
  return NULL;
}

/* Rows that begin at another dimension than the last are told by how many dimensions are before. */
static int rows_axis(int rank, const clave_tensor *rows) {
  return rows && rows->rank >= 2 && rows->rank < rank ? rows->rank - 1 : rank - 1;
}

clave_id clave_builder_encoded(clave_builder *b, const char *name, const char *form,
                               clave_dtype type, int rank, const int64_t *dims,
                               const clave_tensor *rows, bool copy) {
  constant_data data;
  ir_int_or_vids shape;
  ir_encoding *e = NULL;
  if (!builder_ready(b)) return 0;
  clave_status st = check_type(type, rank);
  if (!st) st = parse_encoding(b, form, rows_axis(rank, rows), &e);
  if (!st) st = take_data(b, rows, copy, &data);
  if (!st) st = builder_ints(b, dims, NULL, (uint32_t)rank, &shape);
  builder_fail(b, status_while(st, "constant '%.200s'", name ? name : ""));
  if (st) return 0;
  add_constant(b, name, &data);
  clave_id id = b->error ? 0 : add_tensor(b, SLOT_CONSTANT, name, type, shape);
  if (id) b->ir.tensors.items[b->ir.tensors.count - 1].encoding = e;
  return id;
}

static clave_status value_type(clave_dtype type, ir_value_type *out) {
  *out = type == CLAVE_F64    ? IR_VALUE_TYPE_FLOAT
         : type == CLAVE_BOOL ? IR_VALUE_TYPE_BOOL
                              : IR_VALUE_TYPE_INT;
  if (type == CLAVE_I64 || type == CLAVE_F64 || type == CLAVE_BOOL) return NULL;
  return INVALID("dtype: expected I64, F64 or BOOL, got %d", (int)type);
}

clave_id clave_builder_value(clave_builder *b, const char *name, clave_dtype type, int64_t min,
                             int64_t max) {
  ir_value_type kind;
  if (!builder_ready(b)) return 0;
  builder_fail(b, status_while(value_type(type, &kind), "value '%.200s'", name ? name : ""));
  ir_value *v = b->error ? NULL : builder_append(b, &b->ir.values, sizeof *v);
  if (!v) return 0;
  v->type = kind;
  v->min = (ir_opt_i64){min, min != INT64_MIN};
  v->max = (ir_opt_i64){max, max != INT64_MAX};
  set_string(b, &v->name, name);
  return b->error ? 0 : make_id(ID_VALUE, b->ir.values.count);
}

void clave_builder_initial(clave_builder *b, clave_id state, clave_id constant) {
  ir_state_init init;
  if (!builder_ready(b)) return;
  clave_status st = index_of_kind(b, state, SLOT_STATE, &init.state);
  if (!st) st = index_of_kind(b, constant, SLOT_CONSTANT, &init.constant);
  builder_fail(b, status_while(st, "initial value"));
  ir_state_init *made = st ? NULL : builder_append(b, &b->ir.state_inits, sizeof *made);
  if (made) *made = init;
}

/* ---------------------------------------------------------------- methods */

static ir_method *current_method(clave_builder *b) {
  if (!builder_ready(b)) return NULL;
  if (b->ir.methods.count) return &b->ir.methods.items[b->ir.methods.count - 1];
  builder_fail(b, INVALID("no method is begun"));
  return NULL;
}

void clave_builder_method(clave_builder *b, const char *name) {
  if (!builder_ready(b)) return;
  builder_close_op(b);
  if (b->depth) builder_fail(b, INVALID("method '%.200s' begins in a body", name ? name : ""));
  const char *copy = b->error ? NULL : builder_text(b, name);
  ir_method *m = copy ? builder_append(b, &b->ir.methods, sizeof *m) : NULL;
  ir_chain *c = m ? builder_append(b, &b->ir.chains, sizeof *c) : NULL;
  if (!c) return;
  m->name = c->name = copy;
  m->metadata = "";
  m->chain = b->ir.chains.count - 1;
}

void clave_builder_method_metadata(clave_builder *b, const char *json) {
  ir_method *m = current_method(b);
  if (m) set_string(b, &m->metadata, json);
}

static void add_argument(clave_builder *b, ir_arguments *list, slot_kind kind, const char *name,
                         clave_id id) {
  ir_argument a = {.tensor = IR_NONE, .value = IR_NONE};
  clave_status st = id >> ID_SHIFT == ID_VALUE ? builder_index(b, id, ID_VALUE, &a.value)
                                               : index_of_kind(b, id, kind, &a.tensor);
  builder_close_op(b);
  builder_fail(b, status_while(st, "%s '%.200s'", slot_kind_name(kind), name ? name : ""));
  ir_argument *made = b->error ? NULL : builder_append(b, list, sizeof *made);
  if (!made) return;
  *made = a;
  set_string(b, &made->name, name);
}

void clave_builder_input(clave_builder *b, const char *name, clave_id id) {
  ir_method *m = current_method(b);
  if (m) add_argument(b, &m->inputs, SLOT_INPUT, name, id);
}
void clave_builder_output(clave_builder *b, const char *name, clave_id id) {
  ir_method *m = current_method(b);
  if (m) add_argument(b, &m->outputs, SLOT_OUTPUT, name, id);
}

void clave_builder_update(clave_builder *b, clave_id state, clave_id value) {
  ir_state_update u;
  ir_method *m = current_method(b);
  if (!m) return;
  clave_status st = index_of_kind(b, state, SLOT_STATE, &u.state);
  if (!st) st = builder_index(b, value, ID_TENSOR, &u.value);
  builder_close_op(b);
  builder_fail(b, status_while(st, "update"));
  ir_state_update *made = b->error ? NULL : builder_append(b, &m->updates, sizeof *made);
  if (made) *made = u;
}

/* ---------------------------------------------------------------- bodies */

clave_id clave_builder_body(clave_builder *b, const char *name, const clave_id *args,
                            uint32_t n_args) {
  ir_u32s tids = {0};
  if (!current_method(b)) return 0;
  builder_close_op(b);
  clave_status st = b->depth == LIMIT_CHAIN_DEPTH
                        ? INVALID("bodies nested deeper than %d", (int)LIMIT_CHAIN_DEPTH)
                        : builder_tids(b, args, n_args, &tids);
  builder_fail(b, status_while(st, "args of body '%.200s'", name ? name : ""));
  ir_chain *c = b->error ? NULL : builder_append(b, &b->bodies, sizeof *c);
  if (!c) return 0;
  c->args = tids;
  set_string(b, &c->name, name);
  b->open[b->depth++] = b->bodies.count - 1;
  return b->error ? 0 : make_id(ID_BODY, b->bodies.count);
}

void clave_builder_end_body(clave_builder *b, const clave_id *results, uint32_t n_results) {
  ir_u32s tids;
  if (!builder_ready(b)) return;
  builder_close_op(b);
  if (!b->depth) {
    builder_fail(b, INVALID("no body is begun"));
    return;
  }
  ir_chain *c = builder_chain(b);
  clave_status st = builder_tids(b, results, n_results, &tids);
  builder_fail(b, status_while(st, "results of body '%.200s'", c->name));
  if (b->error) return;
  c->results = tids;
  b->depth--;
}

/* ---------------------------------------------------------------- instructions */

/* By the schema's name or the op's own; IR_OP_NONE: there is none. */
static ir_op find_op(const char *name) {
  for (int i = 1; name && i < IR_OP_COUNT; i++) {
    if (strcmp(name, op_table[i].name) == 0 || strcmp(name, op_table[i].table->name) == 0)
      return (ir_op)i;
  }
  return IR_OP_NONE;
}

static void add_instruction(clave_builder *b, ir_op type, const char *name) {
  const ir_table *table = op_table[type].table;
  void *op = builder_alloc(b, 1, table->size);
  const char *copy = op ? builder_text(b, name) : NULL;
  ir_instructions *list = &builder_chain(b)->instructions;
  ir_instruction *ins = copy ? builder_append(b, list, sizeof *ins) : NULL;
  if (!ins) return;
  *ins = (ir_instruction){.op_type = type, .op = op, .name = copy};
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *f = &table->fields[i];
    const uint32_t none = IR_NONE;
    field_set_default(f, op);
    if (field_names_chain(f)) memcpy((char *)op + f->offset, &none, sizeof none);
  }
  b->table = table;
  b->op = op;
}

void clave_builder_op(clave_builder *b, const char *op, const char *name) {
  if (!current_method(b)) return;
  ir_op type = find_op(op);
  builder_close_op(b);
  if (type == IR_OP_NONE)
    builder_fail(b,
                 INVALID("there is no op '%.200s'; node '%.200s'", op ? op : "", name ? name : ""));
  if (!b->error) add_instruction(b, type, name);
}

/* ---------------------------------------------------------------- finish */

/* Slots' numbers, by the order in which the tensors were made, and the tensors in that of slots. */
static clave_status number_slots(clave_builder *b, uint32_t **numbers) {
  ir_tensors *t = &b->ir.tensors;
  uint32_t n = 0, counts[SLOT_TEMPORARY + 1] = {0};
  ir_tensor *ordered = mem_pool_alloc(b->pool, (size_t)t->count + 1, sizeof *ordered);
  *numbers = mem_pool_alloc(b->pool, (size_t)t->count + 1, sizeof **numbers);
  if (!ordered || !*numbers) return status_no_memory();
  for (int kind = SLOT_CONSTANT; kind <= SLOT_TEMPORARY; kind++) {
    for (uint32_t i = 0; i < t->count; i++) {
      if ((int)b->kinds.items[i] != kind) continue;
      ordered[n] = t->items[i];
      (*numbers)[i] = n++;
      counts[kind]++;
    }
  }
  t->items = ordered;
  b->ir.n_inputs = counts[SLOT_INPUT];
  b->ir.n_outputs = counts[SLOT_OUTPUT];
  b->ir.n_state = counts[SLOT_STATE];
  return NULL;
}

static clave_status number_all(clave_builder *b) {
  uint32_t *slots, *chains = mem_pool_alloc(b->pool, (size_t)b->bodies.count + 1, sizeof *chains);
  if (!chains) return status_no_memory();
  TRY(number_slots(b, &slots));
  for (uint32_t i = 0; i < b->bodies.count; i++) {
    chains[i] = b->ir.chains.count;
    ir_chain *c = builder_append(b, &b->ir.chains, sizeof *c);
    if (!c) return status_no_memory();
    *c = b->bodies.items[i];
  }
  table_numbers to = {.tensors = slots,
                      .n_tensors = b->ir.tensors.count,
                      .chains = chains,
                      .n_chains = b->bodies.count};
  table_renumber(&to, &ir_program_table, &b->ir);
  return NULL;
}

static clave_status make_program(clave_builder *b, program **out) {
  text bytes = {0};
  clave_status st = number_all(b);
  if (!st) st = encode_flatbuffer(&b->ir, &bytes);
  if (!st)
    st = program_create(bytes.data, bytes.size,
                        &(constant_source){.list = b->constants.items, .n = b->constants.count},
                        out);
  text_free(&bytes);
  return st;
}

clave_status clave_builder_finish(clave_builder *b, clave_program **out) {
  OWN_FLOAT_ENV;
  program *p;
  *out = NULL;
  if (!b) return INVALID("no builder is given");
  if (b->finished) return INVALID("the builder is used up");
  builder_close_op(b);
  if (!b->error && b->depth) builder_fail(b, INVALID("%u bodies are not ended", b->depth));
  b->finished = true;
  clave_status st = b->error;
  b->error = NULL;
  TRY(st);
  TRY(make_program(b, &p));
  p->data = b->data;
  b->data = NULL;
  return program_wrap(p, out);
}
