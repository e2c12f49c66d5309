/* The fields of the instruction that is being built, by name, checked against its descriptor. */
#include <string.h>

#include "api/builder.h"

/* ---------------------------------------------------------------- finding */

static clave_status find_field(const clave_builder *b, const char *name, const ir_field **out) {
  if (!b->table) return INVALID("field '%.200s' of no op", name ? name : "");
  for (uint32_t i = 0; name && i < b->table->n_fields; i++) {
    *out = &b->table->fields[i];
    if (strcmp((*out)->name, name) == 0) return NULL;
  }
  return INVALID("%s has no field '%.200s'", b->table->name, name ? name : "");
}

/* What a setter may be for, as docs/ops.md writes types. */
static const char *const type_names[] = {
    [IR_FIELD_BOOL] = "bool",
    [IR_FIELD_I32] = "int",
    [IR_FIELD_U32] = "uint",
    [IR_FIELD_I64] = "long",
    [IR_FIELD_U64] = "ulong",
    [IR_FIELD_F64] = "double",
    [IR_FIELD_ENUM] = "an enum",
    [IR_FIELD_TID] = "Tid",
    [IR_FIELD_VID] = "Vid",
    [IR_FIELD_STRING] = "string",
    [IR_FIELD_TABLE] = "a table",
    [IR_FIELD_INT_OR_VID] = "IntOrVid",
    [IR_FIELD_FLOAT_OR_VID] = "FloatOrVid",
    [IR_FIELD_OPT_I32] = "int",
    [IR_FIELD_OPT_I64] = "long",
    [IR_FIELD_OPT_F64] = "double",
    [IR_FIELD_I32S] = "[int]",
    [IR_FIELD_TIDS] = "[Tid]",
    [IR_FIELD_INT_OR_VIDS] = "[IntOrVid]",
    [IR_FIELD_TABLES] = "a list of steps",
    [IR_FIELD_UNION] = "an op",
};

static clave_status wrong_type(const ir_field *f, const char *given) {
  const char *is = field_names_chain(f) ? "a body" : type_names[f->kind];
  if (f->table == &ir_custom_kernel_table) is = "a list of kernels";
  return INVALID("is %s, which takes no %s", is, given);
}

/* Ends a setter: keeps its error, if there is one. */
static void end_set(clave_builder *b, const char *field, clave_status st) {
  builder_fail_op(b, status_while(st, "field %.200s", field ? field : ""));
}

/* ---------------------------------------------------------------- scalars */

static clave_status put_int(const ir_field *f, char *at, int64_t v) {
  bool narrow = f->kind == IR_FIELD_I32 || f->kind == IR_FIELD_OPT_I32;
  int64_t low = narrow ? INT32_MIN : f->kind == IR_FIELD_U32 ? 0 : INT64_MIN;
  int64_t high = narrow ? INT32_MAX : f->kind == IR_FIELD_U32 ? UINT32_MAX : INT64_MAX;
  int32_t small = (int32_t)v;
  uint32_t word = (uint32_t)v;
  if (v < low || v > high)
    return INVALID("expected %lld to %lld, got %lld", (long long)low, (long long)high,
                   (long long)v);
  switch (f->kind) {
    case IR_FIELD_I32:
      memcpy(at, &small, sizeof small);
      return NULL;
    case IR_FIELD_U32:
      if (field_names_chain(f)) return wrong_type(f, "integer");
      memcpy(at, &word, sizeof word);
      return NULL;
    case IR_FIELD_I64:
      memcpy(at, &v, sizeof v);
      return NULL;
    case IR_FIELD_OPT_I32:
      *(ir_opt_i32 *)(void *)at = (ir_opt_i32){small, true};
      return NULL;
    case IR_FIELD_OPT_I64:
      *(ir_opt_i64 *)(void *)at = (ir_opt_i64){v, true};
      return NULL;
    case IR_FIELD_INT_OR_VID:
      *(ir_int_or_vid *)(void *)at = (ir_int_or_vid){v, IR_NONE, true};
      return NULL;
    default:
      return wrong_type(f, "integer");
  }
}

static clave_status put_float(const ir_field *f, char *at, double v) {
  switch (f->kind) {
    case IR_FIELD_F64:
      memcpy(at, &v, sizeof v);
      return NULL;
    case IR_FIELD_OPT_F64:
      *(ir_opt_f64 *)(void *)at = (ir_opt_f64){v, true};
      return NULL;
    case IR_FIELD_FLOAT_OR_VID:
      *(ir_float_or_vid *)(void *)at = (ir_float_or_vid){v, IR_NONE, true};
      return NULL;
    default:
      return wrong_type(f, "float");
  }
}

static clave_status put_value(const clave_builder *b, const ir_field *f, char *at, clave_id id) {
  uint32_t vid;
  if (f->kind != IR_FIELD_VID && f->kind != IR_FIELD_INT_OR_VID && f->kind != IR_FIELD_FLOAT_OR_VID)
    return wrong_type(f, "value");
  TRY(builder_index(b, id, ID_VALUE, &vid));
  if (f->kind == IR_FIELD_VID) memcpy(at, &vid, sizeof vid);
  if (f->kind == IR_FIELD_INT_OR_VID) *(ir_int_or_vid *)(void *)at = (ir_int_or_vid){0, vid, true};
  if (f->kind == IR_FIELD_FLOAT_OR_VID)
    *(ir_float_or_vid *)(void *)at = (ir_float_or_vid){0, vid, true};
  return NULL;
}

/* By its name in the schema, also without the "_" that keeps words of C apart ("and_"). */
static clave_status put_enum(const ir_enum *e, const char *name, void *at) {
  for (uint32_t i = 0; name && i < e->count; i++) {
    const ir_enum_value *v = &e->values[i];
    size_t n = strlen(name);
    if (strncmp(v->name, name, n) != 0 || (v->name[n] && strcmp(v->name + n, "_") != 0)) continue;
    memcpy(at, &v->number, sizeof v->number);
    return NULL;
  }
  return INVALID("there is no %s '%.200s'", e->name, name ? name : "");
}

static clave_status put_text(clave_builder *b, const ir_field *f, char *at, const char *v) {
  if (f->kind == IR_FIELD_ENUM) return put_enum(f->enum_, v, at);
  if (f->kind != IR_FIELD_STRING) return wrong_type(f, "text");
  const char *copy = builder_text(b, v);
  if (copy) memcpy(at, &copy, sizeof copy);
  return NULL;
}

/* The place of a field of the op that is being built; NULL: failed. */
static char *begin_set(clave_builder *b, const char *name, const ir_field **f) {
  if (!builder_ready(b)) return NULL;
  clave_status st = find_field(b, name, f);
  builder_fail_op(b, st);
  return st ? NULL : (char *)b->op + (*f)->offset;
}

/* The same of a field of this kind, which takes `given`. */
static char *begin_kind(clave_builder *b, const char *name, ir_field_kind kind, const char *given) {
  const ir_field *f;
  char *at = begin_set(b, name, &f);
  if (!at || f->kind == kind) return at;
  end_set(b, name, wrong_type(f, given));
  return NULL;
}

/* Ends a setter whose value was made, or not. */
static void end_put(clave_builder *b, const char *field, char *at, clave_status made,
                    const void *value, size_t size) {
  if (!made) memcpy(at, value, size);
  end_set(b, field, made);
}

void clave_builder_set_int(clave_builder *b, const char *field, int64_t value) {
  const ir_field *f;
  char *at = begin_set(b, field, &f);
  if (at) end_set(b, field, put_int(f, at, value));
}
void clave_builder_set_float(clave_builder *b, const char *field, double value) {
  const ir_field *f;
  char *at = begin_set(b, field, &f);
  if (at) end_set(b, field, put_float(f, at, value));
}
void clave_builder_set_value(clave_builder *b, const char *field, clave_id value) {
  const ir_field *f;
  char *at = begin_set(b, field, &f);
  if (at) end_set(b, field, put_value(b, f, at, value));
}
void clave_builder_set_text(clave_builder *b, const char *field, const char *value) {
  const ir_field *f;
  char *at = begin_set(b, field, &f);
  if (at) end_set(b, field, put_text(b, f, at, value));
}

void clave_builder_set_bool(clave_builder *b, const char *field, bool value) {
  char *at = begin_kind(b, field, IR_FIELD_BOOL, "bool");
  if (at) end_put(b, field, at, NULL, &value, sizeof value);
}

void clave_builder_set_tensor(clave_builder *b, const char *field, clave_id id) {
  uint32_t tid = 0;
  char *at = begin_kind(b, field, IR_FIELD_TID, "tensor");
  if (at) end_put(b, field, at, builder_index(b, id, ID_TENSOR, &tid), &tid, sizeof tid);
}

void clave_builder_set_body(clave_builder *b, const char *field, clave_id body) {
  const ir_field *f;
  uint32_t index = 0;
  char *at = begin_set(b, field, &f);
  if (!at) return;
  clave_status st =
      field_names_chain(f) ? builder_index(b, body, ID_BODY, &index) : wrong_type(f, "body");
  end_put(b, field, at, st, &index, sizeof index);
}

/* ---------------------------------------------------------------- lists */

void clave_builder_set_tensors(clave_builder *b, const char *field, const clave_id *tensors,
                               uint32_t n) {
  ir_u32s tids;
  char *at = begin_kind(b, field, IR_FIELD_TIDS, "tensors");
  if (at) end_put(b, field, at, builder_tids(b, tensors, n, &tids), &tids, sizeof tids);
}

void clave_builder_set_sizes(clave_builder *b, const char *field, const int64_t *literals,
                             const clave_id *values, uint32_t n) {
  ir_int_or_vids sizes;
  char *at = begin_kind(b, field, IR_FIELD_INT_OR_VIDS, "sizes");
  if (at) end_put(b, field, at, builder_ints(b, literals, values, n, &sizes), &sizes, sizeof sizes);
}

static clave_status copy_ints(clave_builder *b, const int32_t *values, uint32_t n, ir_i32s *out) {
  if (n > LIMIT_ITEMS || (n && !values)) return INVALID("%u integers, none given", n);
  *out = (ir_i32s){mem_pool_alloc(b->pool, (size_t)n + 1, sizeof *out->items), n};
  if (!out->items) return status_no_memory();
  if (n) memcpy(out->items, values, n * sizeof *values);
  return NULL;
}

void clave_builder_set_ints(clave_builder *b, const char *field, const int32_t *values,
                            uint32_t n) {
  ir_i32s ints;
  char *at = begin_kind(b, field, IR_FIELD_I32S, "integers");
  if (at) end_put(b, field, at, copy_ints(b, values, n, &ints), &ints, sizeof ints);
}

/* ---------------------------------------------------------------- steps */

_Static_assert(CLAVE_OPERAND_VALUE == (int)IR_OPERAND_SOURCE_VALUE &&
                   CLAVE_OPERAND_FLOAT == (int)IR_OPERAND_SOURCE_FLOAT,
               "operand sources");

static clave_status put_operand(const clave_builder *b, const clave_operand *o, ir_operand *out) {
  if ((unsigned)o->source > CLAVE_OPERAND_VALUE)
    return INVALID("there is no operand source %d", (int)o->source);
  *out = (ir_operand){.source = (ir_operand_source)o->source};
  if (o->source == CLAVE_OPERAND_INT) out->i = o->i;
  if (o->source == CLAVE_OPERAND_FLOAT) out->f = o->f;
  if (o->source == CLAVE_OPERAND_INPUT || o->source == CLAVE_OPERAND_STEP) out->index = o->index;
  return o->source == CLAVE_OPERAND_VALUE ? builder_index(b, o->value, ID_VALUE, &out->index)
                                          : NULL;
}

static clave_status put_step(clave_builder *b, const char *kind, clave_dtype type,
                             const clave_operand *operands, uint32_t n, ir_step *out) {
  if (!clave_dtype_name(type)) return INVALID("there is no dtype %d", (int)type);
  if (n > MAX_STEP_ARITY || (n && !operands))
    return INVALID("operands: expected at most %d, got %u", (int)MAX_STEP_ARITY, n);
  out->dtype = (dtype)type;
  TRY(put_enum(&ir_step_kind_enum, kind, &out->kind));
  out->operands.items = mem_pool_alloc(b->pool, (size_t)n + 1, sizeof *out->operands.items);
  if (!out->operands.items) return status_no_memory();
  out->operands.count = n;
  for (uint32_t i = 0; i < n; i++)
    TRY(status_while(put_operand(b, &operands[i], &out->operands.items[i]), "operand %u", i));
  return NULL;
}

void clave_builder_step(clave_builder *b, const char *kind, clave_dtype type,
                        const clave_operand *operands, uint32_t n) {
  const ir_field *f;
  char *at = begin_set(b, "steps", &f);
  ir_step *step = at ? builder_append(b, at, sizeof *step) : NULL;
  if (step)
    end_set(b, "steps",
            status_while(put_step(b, kind, type, operands, n, step), "step '%.200s'",
                         kind ? kind : ""));
}

/* ---------------------------------------------------------------- the end of an op */

static bool is_missing(const ir_field *f, const void *op) {
  uint32_t index;
  if (field_names_chain(f)) {
    memcpy(&index, (const char *)op + f->offset, sizeof index);
    return index == IR_NONE;
  }
  return (f->flags & IR_REQUIRED) && field_is_default(f, op);
}

void builder_close_op(clave_builder *b) {
  if (!b->table || b->error) return;
  for (uint32_t i = 0; i < b->table->n_fields; i++) {
    const ir_field *f = &b->table->fields[i];
    if (is_missing(f, b->op)) builder_fail_op(b, INVALID("field %s is missing", f->name));
  }
  b->table = NULL;
}
