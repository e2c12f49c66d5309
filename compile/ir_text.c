/* Structs of the decoded program as C initialisers. */
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

typedef void (*value_writer)(text *to, const ir_field *f, const void *at);

static void write_bool(text *to, const ir_field *f, const void *at) {
  (void)f;
  text_puts(to, *(const bool *)at ? "true" : "false");
}

static void write_i32(text *to, const ir_field *f, const void *at) {
  (void)f;
  text_printf(to, "%" PRId32, *(const int32_t *)at);
}

static void write_number(text *to, uint32_t n) {
  if (n == IR_NONE) {
    text_puts(to, "IR_NONE");
  } else {
    text_printf(to, "%" PRIu32, n);
  }
}

static void write_u32(text *to, const ir_field *f, const void *at) {
  (void)f;
  write_number(to, *(const uint32_t *)at);
}

static void write_i64(text *to, const ir_field *f, const void *at) {
  (void)f;
  write_int(to, *(const int64_t *)at);
}

static void write_u64(text *to, const ir_field *f, const void *at) {
  (void)f;
  text_printf(to, "%" PRIu64 "u", *(const uint64_t *)at);
}

static void write_f64(text *to, const ir_field *f, const void *at) {
  (void)f;
  write_float(to, *(const double *)at);
}

static void write_text(text *to, const ir_field *f, const void *at) {
  (void)f;
  write_string(to, *(const char *const *)at);
}

static const char *truth(bool b) { return b ? "true" : "false"; }

static void write_int_or_vid(text *to, const ir_field *f, const void *at) {
  const ir_int_or_vid *v = at;
  (void)f;
  text_puts(to, "{");
  write_int(to, v->literal);
  text_puts(to, ", ");
  write_number(to, v->vid);
  text_printf(to, ", %s}", truth(v->present));
}

static void write_float_or_vid(text *to, const ir_field *f, const void *at) {
  const ir_float_or_vid *v = at;
  (void)f;
  text_puts(to, "{");
  write_float(to, v->literal);
  text_puts(to, ", ");
  write_number(to, v->vid);
  text_printf(to, ", %s}", truth(v->present));
}

static void write_opt_i32(text *to, const ir_field *f, const void *at) {
  const ir_opt_i32 *v = at;
  (void)f;
  text_printf(to, "{%" PRId32 ", %s}", v->value, truth(v->present));
}

static void write_opt_i64(text *to, const ir_field *f, const void *at) {
  const ir_opt_i64 *v = at;
  (void)f;
  text_puts(to, "{");
  write_int(to, v->value);
  text_printf(to, ", %s}", truth(v->present));
}

static void write_opt_f64(text *to, const ir_field *f, const void *at) {
  const ir_opt_f64 *v = at;
  (void)f;
  text_puts(to, "{");
  write_float(to, v->value);
  text_printf(to, ", %s}", truth(v->present));
}

static void write_struct_type(text *to, const ir_field *f) {
  text_puts(to, "ir_");
  write_ir_name(to, f->table->name);
}

static void write_table(text *to, const ir_field *f, const void *at) {
  text_puts(to, "&(");
  write_struct_type(to, f);
  text_puts(to, ")");
  write_ir(to, f->table, *(const void *const *)at);
}

/* ---------------------------------------------------------------- vectors */

/* (TYPE[]){ITEM, ...}, without the last brace. */
static void begin_items(text *to, const ir_field *f) {
  text_puts(to, "{(");
  if (f->kind == IR_FIELD_TABLES) {
    write_struct_type(to, f);
  } else {
    text_puts(to, f->kind == IR_FIELD_I32S   ? "int32_t"
                  : f->kind == IR_FIELD_TIDS ? "uint32_t"
                                             : "ir_int_or_vid");
  }
  text_puts(to, "[]){");
}

static void write_item(text *to, const ir_field *f, const void *at) {
  if (f->kind == IR_FIELD_TABLES) {
    write_ir(to, f->table, at);
  } else if (f->kind == IR_FIELD_I32S) {
    write_i32(to, f, at);
  } else if (f->kind == IR_FIELD_TIDS) {
    write_u32(to, f, at);
  } else {
    write_int_or_vid(to, f, at);
  }
}

static void write_vector(text *to, const ir_field *f, const void *at) {
  const ir_vector *v = at;
  const size_t size = vector_item_size(f);
  begin_items(to, f);
  for (uint32_t i = 0; i < v->count; i++) {
    if (i) text_puts(to, ", ");
    write_item(to, f, (const char *)v->items + i * size);
  }
  text_printf(to, "}, %" PRIu32 "}", v->count);
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
    [IR_FIELD_STRING] = write_text,
    [IR_FIELD_TABLE] = write_table,
    [IR_FIELD_INT_OR_VID] = write_int_or_vid,
    [IR_FIELD_FLOAT_OR_VID] = write_float_or_vid,
    [IR_FIELD_OPT_I32] = write_opt_i32,
    [IR_FIELD_OPT_I64] = write_opt_i64,
    [IR_FIELD_OPT_F64] = write_opt_f64,
    [IR_FIELD_I32S] = write_vector,
    [IR_FIELD_TIDS] = write_vector,
    [IR_FIELD_INT_OR_VIDS] = write_vector,
    [IR_FIELD_TABLES] = write_vector,
};

static const size_t sizes[] = {
    [IR_FIELD_BOOL] = sizeof(bool),    [IR_FIELD_I32] = sizeof(int32_t),
    [IR_FIELD_U32] = sizeof(uint32_t), [IR_FIELD_I64] = sizeof(int64_t),
    [IR_FIELD_U64] = sizeof(uint64_t), [IR_FIELD_F64] = sizeof(double),
    [IR_FIELD_ENUM] = sizeof(int32_t), [IR_FIELD_TID] = sizeof(uint32_t),
    [IR_FIELD_VID] = sizeof(uint32_t), [IR_FIELD_TABLE] = sizeof(void *),
};

/* Of kinds without a size: an empty vector; all else is written. */
static bool is_zero(const ir_field *f, const char *at) {
  if (field_is_vector(f->kind)) return ((const ir_vector *)(const void *)at)->count == 0;
  const size_t size = (size_t)f->kind < sizeof sizes / sizeof *sizes ? sizes[f->kind] : 0;
  size_t zeros = 0;
  while (zeros < size && at[zeros] == 0) zeros++;
  return size && zeros == size;
}

void write_ir(text *to, const ir_table *t, const void *base) {
  bool any = false;
  text_puts(to, "{");
  for (uint32_t i = 0; i < t->n_fields; i++) {
    const ir_field *f = &t->fields[i];
    const char *at = (const char *)base + f->offset;
    if (is_zero(f, at)) continue;
    text_printf(to, "%s.%s = ", any ? ", " : "", f->name);
    writers[f->kind](to, f, at);
    any = true;
  }
  text_puts(to, any ? "}" : "0}");
}
