/* Writes structs of the decoded program as C initialisers. */
#include "compile/ir_text.h"

#include <inttypes.h>
#include <string.h>

#include "base/ascii.h"
#include "compile/fields.h"
#include "serialize/fields.h"

void write_ir_name(text *to, const char *name) {
  for (const char *c = name; *c; c++)
    text_printf(to, "%s%c", c > name && is_ascii_upper(*c) ? "_" : "", ascii_lower(*c));
}

/* ---------------------------------------------------------------- values */

typedef void (*value_writer)(text *to, const ir_field *field, const void *at);

static void write_bool(text *to, const ir_field *field, const void *at) {
  (void)field;
  text_puts(to, *(const bool *)at ? "true" : "false");
}

static void write_i32(text *to, const ir_field *field, const void *at) {
  (void)field;
  text_printf(to, "%" PRId32, *(const int32_t *)at);
}

static void ir_text_write_number(text *to, uint32_t n) {
  if (n == IR_NONE) {
    text_puts(to, "IR_NONE");
  } else {
    text_printf(to, "%" PRIu32, n);
  }
}

static void write_u32(text *to, const ir_field *field, const void *at) {
  (void)field;
  ir_text_write_number(to, *(const uint32_t *)at);
}

static void write_i64(text *to, const ir_field *field, const void *at) {
  (void)field;
  write_int(to, *(const int64_t *)at);
}

static void write_u64(text *to, const ir_field *field, const void *at) {
  (void)field;
  text_printf(to, "%" PRIu64 "u", *(const uint64_t *)at);
}

static void write_f64(text *to, const ir_field *field, const void *at) {
  (void)field;
  write_float(to, *(const double *)at);
}

static void ir_text_write_text(text *to, const ir_field *field, const void *at) {
  (void)field;
  write_string(to, *(const char *const *)at);
}

static const char *truth(bool b) { return b ? "true" : "false"; }

static void write_int_or_vid(text *to, const ir_field *field, const void *at) {
  const ir_int_or_vid *value = at;
  (void)field;
  text_puts(to, "{");
  write_int(to, value->literal);
  text_puts(to, ", ");
  ir_text_write_number(to, value->vid);
  text_printf(to, ", %s}", truth(value->present));
}

static void write_float_or_vid(text *to, const ir_field *field, const void *at) {
  const ir_float_or_vid *value = at;
  (void)field;
  text_puts(to, "{");
  write_float(to, value->literal);
  text_puts(to, ", ");
  ir_text_write_number(to, value->vid);
  text_printf(to, ", %s}", truth(value->present));
}

static void write_opt_i32(text *to, const ir_field *field, const void *at) {
  const ir_opt_i32 *opt_i32 = at;
  (void)field;
  text_printf(to, "{%" PRId32 ", %s}", opt_i32->value, truth(opt_i32->present));
}

static void write_opt_i64(text *to, const ir_field *field, const void *at) {
  const ir_opt_i64 *opt_i64 = at;
  (void)field;
  text_puts(to, "{");
  write_int(to, opt_i64->value);
  text_printf(to, ", %s}", truth(opt_i64->present));
}

static void write_opt_f64(text *to, const ir_field *field, const void *at) {
  const ir_opt_f64 *opt_f64 = at;
  (void)field;
  text_puts(to, "{");
  write_float(to, opt_f64->value);
  text_printf(to, ", %s}", truth(opt_f64->present));
}

static void write_struct_type(text *to, const ir_field *field) {
  text_puts(to, "ir_");
  write_ir_name(to, field->table->name);
}

static void ir_text_write_table(text *to, const ir_field *field, const void *at) {
  text_puts(to, "&(");
  write_struct_type(to, field);
  text_puts(to, ")");
  write_ir(to, field->table, *(const void *const *)at);
}

/* ---------------------------------------------------------------- vectors */

/* Writes "(TYPE[]){" before the items of a vector; the caller closes the braces. */
static void begin_items(text *to, const ir_field *field) {
  text_puts(to, "{(");
  if (field->kind == IR_FIELD_TABLES) {
    write_struct_type(to, field);
  } else {
    text_puts(to, field->kind == IR_FIELD_I32S   ? "int32_t"
                  : field->kind == IR_FIELD_TIDS ? "uint32_t"
                                                 : "ir_int_or_vid");
  }
  text_puts(to, "[]){");
}

static void write_item(text *to, const ir_field *field, const void *at) {
  if (field->kind == IR_FIELD_TABLES) {
    write_ir(to, field->table, at);
  } else if (field->kind == IR_FIELD_I32S) {
    write_i32(to, field, at);
  } else if (field->kind == IR_FIELD_TIDS) {
    write_u32(to, field, at);
  } else {
    write_int_or_vid(to, field, at);
  }
}

static void ir_text_write_vector(text *to, const ir_field *field, const void *at) {
  const ir_vector *vector = at;
  const size_t size = vector_item_size(field);
  begin_items(to, field);
  for (uint32_t i = 0; i < vector->count; i++) {
    if (i) text_puts(to, ", ");
    write_item(to, field, (const char *)vector->items + i * size);
  }
  text_printf(to, "}, %" PRIu32 "}", vector->count);
}

/* ---------------------------------------------------------------- structs */

static const value_writer writers[] = {
    [IR_FIELD_BOOL] = write_bool,
    [IR_FIELD_I32] = write_i32,
    [IR_FIELD_U32] = write_u32,
    [IR_FIELD_I64] = write_i64,
    [IR_FIELD_U64] = write_u64,
    [IR_FIELD_F64] = write_f64,
    [IR_FIELD_ENUM] = write_i32,
    [IR_FIELD_TID] = write_u32,
    [IR_FIELD_VID] = write_u32,
    [IR_FIELD_STRING] = ir_text_write_text,
    [IR_FIELD_TABLE] = ir_text_write_table,
    [IR_FIELD_INT_OR_VID] = write_int_or_vid,
    [IR_FIELD_FLOAT_OR_VID] = write_float_or_vid,
    [IR_FIELD_OPT_I32] = write_opt_i32,
    [IR_FIELD_OPT_I64] = write_opt_i64,
    [IR_FIELD_OPT_F64] = write_opt_f64,
    [IR_FIELD_I32S] = ir_text_write_vector,
    [IR_FIELD_TIDS] = ir_text_write_vector,
    [IR_FIELD_INT_OR_VIDS] = ir_text_write_vector,
    [IR_FIELD_TABLES] = ir_text_write_vector,
};

static const size_t sizes[] = {
    [IR_FIELD_BOOL] = sizeof(bool),    [IR_FIELD_I32] = sizeof(int32_t),
    [IR_FIELD_U32] = sizeof(uint32_t), [IR_FIELD_I64] = sizeof(int64_t),
    [IR_FIELD_U64] = sizeof(uint64_t), [IR_FIELD_F64] = sizeof(double),
    [IR_FIELD_ENUM] = sizeof(int32_t), [IR_FIELD_TID] = sizeof(uint32_t),
    [IR_FIELD_VID] = sizeof(uint32_t), [IR_FIELD_TABLE] = sizeof(void *),
};

/* True if a field can be omitted: an empty vector, or all zero bytes. Kinds of unknown size are
 * always written. */
static bool ir_text_is_zero(const ir_field *field, const char *at) {
  if (field_is_vector(field->kind)) return ((const ir_vector *)(const void *)at)->count == 0;
  const size_t size = (size_t)field->kind < sizeof sizes / sizeof *sizes ? sizes[field->kind] : 0;
  size_t zeros = 0;
  while (zeros < size && at[zeros] == 0) zeros++;
  return size && zeros == size;
}

void write_ir(text *to, const ir_table *table, const void *base) {
  bool any = false;
  text_puts(to, "{");
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *field = &table->fields[i];
    const char *at = (const char *)base + field->offset;
    if (ir_text_is_zero(field, at)) continue;
    text_printf(to, "%s.%s = ", any ? ", " : "", field->name);
    writers[field->kind](to, field, at);
    any = true;
  }
  text_puts(to, any ? "}" : "0}");
}
