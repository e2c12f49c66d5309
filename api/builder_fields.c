/* Setters of an instruction's fields, by name, checked against its descriptor. */
#include <string.h>

#include "api/builder.h"

/* ---------------------------------------------------------------- finding */

static clave_status builder_fields_find_field(const clave_builder *builder, const char *name,
                                              const ir_field **out) {
  if (!builder->table)
    return INVALID("field '%.200s' is set before an op has begun", name ? name : "");
  for (uint32_t i = 0; name && i < builder->table->n_fields; i++) {
    *out = &builder->table->fields[i];
    if (strcmp((*out)->name, name) == 0) return NULL;
  }
  return INVALID("%s has no field '%.200s'", builder->table->name, name ? name : "");
}

/* Names of field types, as in docs/reference/ops.md. */
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

static clave_status wrong_type(const ir_field *field, const char *given) {
  const char *is = field_names_chain(field) ? "a body" : type_names[field->kind];
  if (field->table == &ir_custom_kernel_table) is = "a list of kernels";
  return INVALID("the field is %s and accepts no %s", is, given);
}

/* Ends a setter: keeps its error, if any. */
static void end_set(clave_builder *builder, const char *field, clave_status st) {
  builder_fail_op(builder, status_while(st, "field %.200s", field ? field : ""));
}

/* ---------------------------------------------------------------- scalars */

static clave_status put_int(const ir_field *field, char *at, int64_t v) {
  bool narrow = field->kind == IR_FIELD_I32 || field->kind == IR_FIELD_OPT_I32;
  int64_t low = narrow ? INT32_MIN : field->kind == IR_FIELD_U32 ? 0 : INT64_MIN;
  int64_t high = narrow ? INT32_MAX : field->kind == IR_FIELD_U32 ? UINT32_MAX : INT64_MAX;
  int32_t small = (int32_t)v;
  uint32_t word = (uint32_t)v;
  if (v < low || v > high)
    return INVALID("expected %lld to %lld, got %lld", (long long)low, (long long)high,
                   (long long)v);
  switch (field->kind) {
    case IR_FIELD_I32:
      memcpy(at, &small, sizeof small);
      return NULL;
    case IR_FIELD_U32:
      if (field_names_chain(field)) return wrong_type(field, "integer");
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
      return wrong_type(field, "integer");
  }
}

static clave_status put_float(const ir_field *field, char *at, double v) {
  switch (field->kind) {
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
      return wrong_type(field, "float");
  }
}

static clave_status put_value(const clave_builder *builder, const ir_field *field, char *at,
                              clave_id id) {
  uint32_t vid;
  if (field->kind != IR_FIELD_VID && field->kind != IR_FIELD_INT_OR_VID &&
      field->kind != IR_FIELD_FLOAT_OR_VID)
    return wrong_type(field, "value");
  TRY(builder_index(builder, id, ID_VALUE, &vid));
  if (field->kind == IR_FIELD_VID) memcpy(at, &vid, sizeof vid);
  if (field->kind == IR_FIELD_INT_OR_VID)
    *(ir_int_or_vid *)(void *)at = (ir_int_or_vid){0, vid, true};
  if (field->kind == IR_FIELD_FLOAT_OR_VID)
    *(ir_float_or_vid *)(void *)at = (ir_float_or_vid){0, vid, true};
  return NULL;
}

/* Finds the value by its name in the schema, with or without the "_" after C keywords ("and_"). */
static clave_status put_enum(const ir_enum *values, const char *name, void *at) {
  for (uint32_t i = 0; name && i < values->count; i++) {
    const ir_enum_value *value = &values->values[i];
    size_t n = strlen(name);
    if (strncmp(value->name, name, n) != 0 || (value->name[n] && strcmp(value->name + n, "_") != 0))
      continue;
    memcpy(at, &value->number, sizeof value->number);
    return NULL;
  }
  return INVALID("unknown %s '%.200s'", values->name, name ? name : "");
}

static clave_status builder_fields_put_text(clave_builder *builder, const ir_field *field, char *at,
                                            const char *value) {
  if (field->kind == IR_FIELD_ENUM) return put_enum(field->enum_, value, at);
  if (field->kind != IR_FIELD_STRING) return wrong_type(field, "text");
  const char *copy = builder_text(builder, value);
  if (copy) memcpy(at, &copy, sizeof copy);
  return NULL;
}

/* Returns the address of a field of the current op; NULL on failure. */
static char *begin_set(clave_builder *builder, const char *name, const ir_field **field) {
  if (!builder_ready(builder)) return NULL;
  clave_status st = builder_fields_find_field(builder, name, field);
  builder_fail_op(builder, st);
  return st ? NULL : (char *)builder->op + (*field)->offset;
}

/* Works like begin_set, but also fails if the field is not of this kind. given: the kind of the
 * value, for the message. */
static char *begin_kind(clave_builder *builder, const char *name, ir_field_kind kind,
                        const char *given) {
  const ir_field *field;
  char *at = begin_set(builder, name, &field);
  if (!at || field->kind == kind) return at;
  end_set(builder, name, wrong_type(field, given));
  return NULL;
}

/* Ends a setter: writes the value to the field if `made` is good, else keeps that error. */
static void end_put(clave_builder *builder, const char *field, char *at, clave_status made,
                    const void *value, size_t size) {
  if (!made) memcpy(at, value, size);
  end_set(builder, field, made);
}

void clave_builder_set_int(clave_builder *builder, const char *field, int64_t value) {
  const ir_field *member;
  char *at = begin_set(builder, field, &member);
  if (at) end_set(builder, field, put_int(member, at, value));
}
void clave_builder_set_float(clave_builder *builder, const char *field, double value) {
  const ir_field *member;
  char *at = begin_set(builder, field, &member);
  if (at) end_set(builder, field, put_float(member, at, value));
}
void clave_builder_set_value(clave_builder *builder, const char *field, clave_id value) {
  const ir_field *member;
  char *at = begin_set(builder, field, &member);
  if (at) end_set(builder, field, put_value(builder, member, at, value));
}
void clave_builder_set_text(clave_builder *builder, const char *field, const char *value) {
  const ir_field *member;
  char *at = begin_set(builder, field, &member);
  if (at) end_set(builder, field, builder_fields_put_text(builder, member, at, value));
}

void clave_builder_set_bool(clave_builder *builder, const char *field, bool value) {
  char *at = begin_kind(builder, field, IR_FIELD_BOOL, "bool");
  if (at) end_put(builder, field, at, NULL, &value, sizeof value);
}

void clave_builder_set_tensor(clave_builder *builder, const char *field, clave_id id) {
  uint32_t tid = 0;
  char *at = begin_kind(builder, field, IR_FIELD_TID, "tensor");
  if (at)
    end_put(builder, field, at, builder_index(builder, id, ID_TENSOR, &tid), &tid, sizeof tid);
}

void clave_builder_set_body(clave_builder *builder, const char *field, clave_id body) {
  const ir_field *member;
  uint32_t index = 0;
  char *at = begin_set(builder, field, &member);
  if (!at) return;
  clave_status st = field_names_chain(member) ? builder_index(builder, body, ID_BODY, &index)
                                              : wrong_type(member, "body");
  end_put(builder, field, at, st, &index, sizeof index);
}

/* ---------------------------------------------------------------- lists */

void clave_builder_set_tensors(clave_builder *builder, const char *field, const clave_id *tensors,
                               uint32_t n) {
  ir_u32s tids;
  char *at = begin_kind(builder, field, IR_FIELD_TIDS, "tensors");
  if (at) end_put(builder, field, at, builder_tids(builder, tensors, n, &tids), &tids, sizeof tids);
}

void clave_builder_set_sizes(clave_builder *builder, const char *field, const int64_t *literals,
                             const clave_id *values, uint32_t n) {
  ir_int_or_vids sizes;
  char *at = begin_kind(builder, field, IR_FIELD_INT_OR_VIDS, "sizes");
  if (at)
    end_put(builder, field, at, builder_ints(builder, literals, values, n, &sizes), &sizes,
            sizeof sizes);
}

static clave_status copy_ints(clave_builder *builder, const int32_t *values, uint32_t n,
                              ir_i32s *out) {
  if (n > LIMIT_ITEMS || (n && !values))
    return INVALID("expected an array of %u integers, got NULL or too many", n);
  *out = (ir_i32s){mem_pool_alloc(builder->pool, (size_t)n + 1, sizeof *out->items), n};
  if (!out->items) return status_no_memory();
  if (n) memcpy(out->items, values, n * sizeof *values);
  return NULL;
}

void clave_builder_set_ints(clave_builder *builder, const char *field, const int32_t *values,
                            uint32_t n) {
  ir_i32s ints;
  char *at = begin_kind(builder, field, IR_FIELD_I32S, "integers");
  if (at) end_put(builder, field, at, copy_ints(builder, values, n, &ints), &ints, sizeof ints);
}

/* ---------------------------------------------------------------- steps */

_Static_assert(CLAVE_OPERAND_VALUE == (int)IR_OPERAND_SOURCE_VALUE &&
                   CLAVE_OPERAND_FLOAT == (int)IR_OPERAND_SOURCE_FLOAT,
               "operand sources");

static clave_status builder_fields_put_operand(const clave_builder *builder,
                                               const clave_operand *operand, ir_operand *out) {
  if ((unsigned)operand->source > CLAVE_OPERAND_VALUE)
    return INVALID("unknown operand source %d", (int)operand->source);
  *out = (ir_operand){.source = (ir_operand_source)operand->source};
  if (operand->source == CLAVE_OPERAND_INT) out->i = operand->i;
  if (operand->source == CLAVE_OPERAND_FLOAT) out->f = operand->f;
  if (operand->source == CLAVE_OPERAND_INPUT || operand->source == CLAVE_OPERAND_STEP)
    out->index = operand->index;
  return operand->source == CLAVE_OPERAND_VALUE
             ? builder_index(builder, operand->value, ID_VALUE, &out->index)
             : NULL;
}

static clave_status put_step(clave_builder *builder, const char *kind, clave_dtype type,
                             const clave_operand *operands, uint32_t n, ir_step *out) {
  if (!clave_dtype_name(type)) return INVALID("unknown dtype %d", (int)type);
  if (n > MAX_STEP_ARITY || (n && !operands))
    return INVALID("operands: expected at most %d, got %u", (int)MAX_STEP_ARITY, n);
  out->dtype = (dtype)type;
  TRY(put_enum(&ir_step_kind_enum, kind, &out->kind));
  out->operands.items = mem_pool_alloc(builder->pool, (size_t)n + 1, sizeof *out->operands.items);
  if (!out->operands.items) return status_no_memory();
  out->operands.count = n;
  for (uint32_t i = 0; i < n; i++)
    TRY(status_while(builder_fields_put_operand(builder, &operands[i], &out->operands.items[i]),
                     "operand %u", i));
  return NULL;
}

void clave_builder_step(clave_builder *builder, const char *kind, clave_dtype type,
                        const clave_operand *operands, uint32_t n) {
  const ir_field *field;
  char *at = begin_set(builder, "steps", &field);
  ir_step *step = at ? builder_append(builder, at, sizeof *step) : NULL;
  if (step)
    end_set(builder, "steps",
            status_while(put_step(builder, kind, type, operands, n, step), "step '%.200s'",
                         kind ? kind : ""));
}

/* ---------------------------------------------------------------- the end of an op */

static bool is_missing(const ir_field *field, const void *op) {
  uint32_t index;
  if (field_names_chain(field)) {
    memcpy(&index, (const char *)op + field->offset, sizeof index);
    return index == IR_NONE;
  }
  return (field->flags & IR_REQUIRED) && field_is_default(field, op);
}

void builder_close_op(clave_builder *builder) {
  if (!builder->table || builder->error) return;
  for (uint32_t i = 0; i < builder->table->n_fields; i++) {
    const ir_field *field = &builder->table->fields[i];
    if (is_missing(field, builder->op))
      builder_fail_op(builder, INVALID("field %s is not set", field->name));
  }
  builder->table = NULL;
}
