/* The verifier's first half: what is declared. Tensors, values, constants, initial states, the
 * schema version. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "ops/epilogue.h"
#include "serialize/limits.h"
#include "serialize/verify.h"

clave_status tensor_error(const ir_program *p, uint32_t tid, const char *message) {
  return INVALID("tensor %u ('%.200s') %s", tid, p->tensors.items[tid].name, message);
}

static int compare_strings(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static clave_status check_name(const char *name, const char *what, uint32_t index) {
  size_t n = strlen(name);
  if (n == 0) return INVALID("%s %u has no name", what, index);
  return n <= LIMIT_NAME ? NULL
                         : INVALID("%s %u: expected a name of at most %d bytes, got %zu", what,
                                   index, (int)LIMIT_NAME, n);
}

clave_status verify_names(const void *items, uint32_t count, size_t size, size_t offset,
                          const char *what) {
  if (count == 0) return NULL;
  const char **names = calloc(count, sizeof *names);
  if (!names) return status_no_memory();
  clave_status st = NULL;
  for (uint32_t i = 0; i < count && !st; i++) {
    memcpy(&names[i], (const char *)items + i * size + offset, sizeof names[i]);
    st = check_name(names[i], what, i);
  }
  if (!st) qsort(names, count, sizeof *names, compare_strings);
  for (uint32_t i = 1; i < count && !st; i++) {
    if (strcmp(names[i - 1], names[i]) == 0)
      st = INVALID("two %ss are named '%.200s'", what, names[i]);
  }
  free(names);
  return st;
}

/* ---------------------------------------------------------------- tensors */

static clave_status check_dim(const ir_program *p, const ir_int_or_vid *d, int64_t *out) {
  if (d->vid == IR_NONE) {
    *out = d->literal;
    return d->literal >= 0 ? NULL : INVALID("dimension of size %lld", (long long)d->literal);
  }
  *out = DIM_UNKNOWN;
  if (d->vid >= p->values.count)
    return INVALID("dimension is value %u, the program has %u", d->vid, p->values.count);
  if (p->values.items[d->vid].type != IR_VALUE_TYPE_INT)
    return INVALID("dimension is value %u, which is no int", d->vid);
  return NULL;
}

/* The known dimensions alone must not overflow, an empty one counted as 1. */
static bool size_fits(const tensor *t) {
  int64_t bytes = (int64_t)dtype_size(t->type);
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] > 1 && !mul_i64(bytes, t->dims[i], &bytes)) return false;
  }
  return true;
}

static bool all_known(const tensor *t) {
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] == DIM_UNKNOWN) return false;
  }
  return true;
}

static bool is_small_float(dtype t) { return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16; }

static clave_status make_groups(const ir_encoding *d, encoding *out) {
  if (d->bits < 2 || d->bits > 8) return INVALID("codes: expected 2 to 8 bits, got %d", d->bits);
  if (d->code != IR_CODE_KIND_INT && d->bits != 8)
    return INVALID("floats: expected 8 bits, got %d", d->bits);
  if (d->group < 0 || d->group % 16)
    return INVALID("groups: expected a multiple of 16, or 0 for whole rows, got %d", d->group);
  if (!is_small_float(d->scale))
    return INVALID("scales: expected F32, F16 or BF16, got %s", dtype_name(d->scale));
  out->kind = ENCODING_GROUPS;
  out->code = (uint8_t)d->code;
  out->bits = (uint8_t)d->bits;
  out->scale = (uint8_t)d->scale;
  out->has_zeros = d->has_zeros;
  out->group = (uint32_t)d->group;
  return NULL;
}

static clave_status make_blocks(const ir_encoding *d, const tensor *t, encoding *out) {
  if (!block_format_find(d->format, &out->format))
    return UNSUPPORTED("block format '%.40s' is not one of this build's", d->format);
  out->kind = ENCODING_BLOCKS;
  int size = block_format_at(out->format)->elements;
  tensor rows = *t;
  rows.encoding = *out;
  if (tensor_row(&rows) % size == 0) return NULL;
  return INVALID("rows: expected a multiple of %s's %d, got %lld", d->format, size,
                 (long long)tensor_row(&rows));
}

/* t has all but its encoding. */
static clave_status make_encoding(const ir_encoding *d, tensor *t) {
  encoding e = {0};
  size_t bytes;
  if (d->kind == IR_ENCODING_KIND_PLAIN) return NULL;
  if (d->kind == IR_ENCODING_KIND_BLOCKED)
    return UNSUPPORTED("encoding blocked is not one of this build's");
  if (!all_known(t)) return INVALID("is encoded, so its shape must be of numbers");
  if (!is_small_float(t->type))
    return INVALID("dtype: expected F32, F16 or BF16 as it is encoded, got %s",
                   dtype_name(t->type));
  if (d->axis < 0 || d->axis >= t->rank)
    return INVALID("rows along axis %d of a tensor of rank %d", d->axis, t->rank);
  e.axis = (uint8_t)d->axis;
  TRY(d->kind == IR_ENCODING_KIND_BLOCK_FORMAT ? make_blocks(d, t, &e) : make_groups(d, &e));
  t->encoding = e;
  return tensor_bytes(t, &bytes) ? NULL : INVALID("its size overflows");
}

static clave_status make_type(const ir_program *p, const ir_tensor *d, tensor *out) {
  if (strlen(d->name) > LIMIT_NAME)
    return INVALID("expected a name of at most %d bytes, got %zu", (int)LIMIT_NAME,
                   strlen(d->name));
  if (d->shape.count > MAX_RANK)
    return INVALID("expected rank 0 to %d, got %u", (int)MAX_RANK, d->shape.count);
  out->type = d->dtype;
  out->rank = (int)d->shape.count;
  for (int i = 0; i < out->rank; i++) TRY(check_dim(p, &d->shape.items[i], &out->dims[i]));
  if (!size_fits(out)) return INVALID("its size overflows");
  if (all_known(out)) tensor_set_contiguous(out);
  return d->encoding ? make_encoding(d->encoding, out) : NULL;
}

/* One dimension at most is a session's choice, between bounds. */
static clave_status check_state_shape(const ir_program *p, uint32_t tid) {
  const ir_int_or_vids *shape = &p->tensors.items[tid].shape;
  size_t bytes;
  int n_open = 0;
  for (uint32_t i = 0; i < shape->count; i++) {
    uint32_t vid = shape->items[i].vid;
    if (vid == IR_NONE) continue;
    const ir_value *v = &p->values.items[vid];
    if (!v->min.present || !v->max.present || v->min.value < 1)
      return INVALID("its dimension %u is value %u ('%.200s'), which needs bounds from 1 on", i,
                     vid, v->name);
    n_open++;
  }
  if (n_open > 1) return INVALID("its dimensions: expected at most one value, got %d", n_open);
  return program_state_bytes(p, tid, &bytes) ? NULL : INVALID("its size overflows");
}

static clave_status make_types(program *p) {
  const ir_tensors *tensors = &p->ir.tensors;
  p->types = mem_pool_alloc(p->pool, tensors->count, sizeof *p->types);
  if (!p->types) return status_no_memory();
  for (uint32_t i = 0; i < tensors->count; i++) {
    clave_status st = make_type(&p->ir, &tensors->items[i], &p->types[i]);
    if (st) return status_while(st, "tensor %u ('%.200s')", i, tensors->items[i].name);
    slot_kind kind = program_slot_kind(&p->ir, i);
    if (kind == SLOT_CONSTANT && !all_known(&p->types[i]))
      return tensor_error(&p->ir, i, "is a constant, so its shape must be of numbers");
    if (kind == SLOT_STATE)
      TRY(status_while(check_state_shape(&p->ir, i), "state %u ('%.200s')", i,
                       tensors->items[i].name));
    if (kind != SLOT_CONSTANT && p->types[i].encoding.kind)
      return tensor_error(&p->ir, i, "is encoded, which only constants can be");
  }
  return NULL;
}

/* ---------------------------------------------------------------- the rest */

static clave_status check_counts(const ir_program *p) {
  uint64_t slots = (uint64_t)p->constants.count + p->n_inputs + p->n_outputs + p->n_state;
  if (slots <= p->tensors.count) return NULL;
  return INVALID("%u constants, %u inputs, %u outputs and %u states, but only %u tensors",
                 p->constants.count, p->n_inputs, p->n_outputs, p->n_state, p->tensors.count);
}

static clave_status check_values(const ir_values *values) {
  for (uint32_t i = 0; i < values->count; i++) {
    const ir_value *v = &values->items[i];
    if (strlen(v->name) > LIMIT_NAME)
      return INVALID("value %u has a name of %zu bytes", i, strlen(v->name));
    bool bounded = v->min.present || v->max.present;
    if (bounded && v->type != IR_VALUE_TYPE_INT)
      return INVALID("value %u ('%.200s') has bounds but is no int", i, v->name);
    if (v->min.present && v->max.present && v->min.value > v->max.value) {
      return INVALID("value %u ('%.200s') has min %lld above max %lld", i, v->name,
                     (long long)v->min.value, (long long)v->max.value);
    }
  }
  return NULL;
}

static bool same_type(const tensor *a, const tensor *b) {
  return a->type == b->type && a->rank == b->rank &&
         memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static clave_status check_state_init(const program *p, const ir_state_init *s, bool *seen) {
  if (s->state >= p->ir.tensors.count || program_slot_kind(&p->ir, s->state) != SLOT_STATE) {
    return INVALID("tensor %u is no state", s->state);
  }
  if (s->constant >= p->ir.constants.count) return INVALID("tensor %u is no constant", s->constant);
  bool *one = &seen[s->state];
  if (*one) return tensor_error(&p->ir, s->state, "gets two initial values");
  *one = true;
  if (p->types[s->constant].encoding.kind)
    return INVALID("constant %u, an initial value, is encoded", s->constant);
  if (same_type(&p->types[s->state], &p->types[s->constant])) return NULL;
  return INVALID("state %u and its initial value, constant %u, differ in dtype or shape", s->state,
                 s->constant);
}

static clave_status check_state_inits(const program *p) {
  const ir_state_inits *inits = &p->ir.state_inits;
  bool *seen = calloc((size_t)p->ir.tensors.count + 1, sizeof *seen);
  if (!seen) return status_no_memory();
  clave_status st = NULL;
  for (uint32_t i = 0; i < inits->count && !st; i++) {
    st = status_while(check_state_init(p, &inits->items[i], seen), "state_inits[%u]", i);
  }
  free(seen);
  return st;
}

/* ---------------------------------------------------------------- versions */

enum { ENCODINGS_SINCE = 3, BLOCK_ROWS_SINCE = 6 /* of several dimensions */ };

static void need(version_need *n, int version, const char *what, const char *name) {
  if (version > n->version) *n = (version_need){version, what, name};
}
static void need_dtype(version_need *n, dtype t) {
  need(n, ir_dtype_since(t), "dtype ", dtype_name(t));
}

/* Of operands that may be encoded since a later version than their op. */
static void need_encoded(const ir_program *p, const ir_instruction *ins, version_need *n) {
  const ir_table *t = op_table[ins->op_type].table;
  for (uint32_t i = 0; i < t->n_fields; i++) {
    const ir_field *f = &t->fields[i];
    uint32_t tid;
    if (!f->encoded_since) continue;
    memcpy(&tid, (const char *)ins->op + f->offset, sizeof tid);
    if (tid < p->tensors.count && is_encoded(&p->tensors.items[tid]))
      need(n, f->encoded_since, "an encoding of ", f->name);
  }
}

version_need instruction_needs(const ir_program *p, const ir_instruction *ins) {
  const op_info *info = &op_table[ins->op_type];
  version_need n = {info->since, "op ", info->name};
  const ir_elementwise *e = ins->op;
  const ir_custom *c = ins->op;
  const ir_steps *steps = ins->op_type == IR_OP_ELEMENTWISE ? &e->steps : epilogue_of(ins);
  if (epilogue_of(ins)) need(&n, epilogue_since(ins->op_type), "an epilogue of ", info->name);
  need_encoded(p, ins, &n);
  for (uint32_t i = 0; steps && i < steps->count; i++) need_dtype(&n, steps->items[i].dtype);
  for (uint32_t k = 0; ins->op_type == IR_OP_CUSTOM && k < c->kernels.count; k++) {
    const ir_custom_parameters *all = &c->kernels.items[k].parameters;
    for (uint32_t i = 0; i < all->count; i++) need_dtype(&n, all->items[i].dtype);
  }
  return n;
}

static bool has_block_rows(const ir_tensor *t) {
  return t->encoding && t->encoding->kind == IR_ENCODING_KIND_BLOCK_FORMAT &&
         (int64_t)t->encoding->axis + 1 < t->shape.count;
}

version_need tensor_needs(const ir_tensor *t) {
  version_need n = {0};
  need_dtype(&n, t->dtype);
  if (is_encoded(t)) need(&n, ENCODINGS_SINCE, "an encoding", "");
  if (has_block_rows(t)) need(&n, BLOCK_ROWS_SINCE, "blocks in rows of several dimensions", "");
  return n;
}

static clave_status check_need(const ir_program *p, version_need n) {
  if ((uint32_t)n.version <= p->version) return NULL;
  return INVALID("%s%s needs schema version %d, the program says %u", n.what, n.name, n.version,
                 p->version);
}

/* All is of a version that the program says it needs, and that one is known here. */
static clave_status check_versions(const ir_program *p) {
  for (uint32_t c = 0; c < p->chains.count; c++) {
    const ir_instructions *list = &p->chains.items[c].instructions;
    for (uint32_t i = 0; i < list->count; i++)
      TRY(check_need(p, instruction_needs(p, &list->items[i])));
  }
  for (uint32_t i = 0; i < p->tensors.count; i++)
    TRY(check_need(p, tensor_needs(&p->tensors.items[i])));
  if (p->version <= IR_SCHEMA_VERSION) return NULL;
  return UNSUPPORTED("the program needs schema version %u, this build knows %d", p->version,
                     (int)IR_SCHEMA_VERSION);
}

clave_status verify_types(program *p) {
  const ir_constants *constants = &p->ir.constants;
  TRY(check_versions(&p->ir));
  TRY(check_counts(&p->ir));
  TRY(check_values(&p->ir.values));
  TRY(verify_names(constants->items, constants->count, sizeof *constants->items,
                   offsetof(ir_constant, name), "constant"));
  TRY(make_types(p));
  return check_state_inits(p);
}
