/* The JSON writer: our own text, so that numbers keep every digit and nothing depends on the
 * locale. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serialize/encode.h"
#include "serialize/fields.h"

static void write_table(text *out, const ir_table *table, const void *base, int indent);

static void put(text *out, const char *s) { text_append(out, s, strlen(s)); }

void encode_json_string(const char *s, text *out) {
  put(out, "\"");
  for (const char *plain = s;; s++) {
    unsigned char c = (unsigned char)*s;
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    text_append(out, plain, (size_t)(s - plain));
    plain = s + 1;
    if (!c) break;
    if (c == '"' || c == '\\') {
      text_printf(out, "\\%c", c);
    } else {
      text_printf(out, "\\u%04x", c);
    }
  }
  put(out, "\"");
}

static void write_int(text *out, int64_t v) {
  bool exact = v > -(INT64_C(1) << 53) && v < INT64_C(1) << 53;
  text_printf(out, exact ? "%" PRId64 : "\"%" PRId64 "\"", v);
}

static void write_u64(text *out, uint64_t v) {
  text_printf(out, v < UINT64_C(1) << 53 ? "%" PRIu64 : "\"%" PRIu64 "\"", v);
}

static void write_double(text *out, double v) {
  char digits[40];
  if (!isfinite(v)) {
    put(out, isnan(v) ? "\"nan\"" : v > 0 ? "\"inf\"" : "\"-inf\"");
    return;
  }
  (void)snprintf(digits, sizeof digits, "%.17g", v);
  for (char *c = digits; *c; c++) {
    if (!strchr("+-0123456789e", *c)) *c = '.'; /* the locale's decimal point */
  }
  put(out, digits);
}

static void write_enum(text *out, const ir_enum *e, const void *at) {
  int32_t number;
  memcpy(&number, at, sizeof number);
  const ir_enum_value *v = enum_by_number(e, number);
  text_printf(out, v ? "\"%s\"" : "%s%d", v ? v->name : "", number);
}

/* Programs and chains have a line per field, and per entry of their vectors of tables. */
static bool is_tall(const ir_table *table) {
  return table == &ir_program_table || table == &ir_chain_table;
}

static void write_line(text *out, int indent) {
  if (indent >= 0) text_printf(out, "\n%*s", indent, "");
}

static void write_vector(text *out, const ir_field *f, const void *base, int indent);

static void write_value(text *out, const ir_field *f, const char *base, int indent) {
  const char *at = base + f->offset;
  uint32_t word;
  int32_t small;
  int64_t wide;
  uint64_t unsigned_wide;
  double real;
  void *pointer;
  switch (f->kind) {
    case IR_FIELD_BOOL:
      put(out, *(const bool *)(const void *)at ? "true" : "false");
      break;
    case IR_FIELD_ENUM:
      write_enum(out, f->enum_, at);
      break;
    case IR_FIELD_U32:
      memcpy(&word, at, sizeof word);
      write_u64(out, word);
      break;
    case IR_FIELD_TID:
    case IR_FIELD_VID:
      memcpy(&word, at, sizeof word);
      text_printf(out, "{\"idx\": %u}", word);
      break;
    case IR_FIELD_I32:
    case IR_FIELD_OPT_I32:
      memcpy(&small, at, sizeof small);
      write_int(out, small);
      break;
    case IR_FIELD_I64:
    case IR_FIELD_OPT_I64:
      memcpy(&wide, at, sizeof wide);
      write_int(out, wide);
      break;
    case IR_FIELD_U64:
      memcpy(&unsigned_wide, at, sizeof unsigned_wide);
      write_u64(out, unsigned_wide);
      break;
    case IR_FIELD_F64:
    case IR_FIELD_OPT_F64:
      memcpy(&real, at, sizeof real);
      write_double(out, real);
      break;
    case IR_FIELD_STRING:
      memcpy(&pointer, at, sizeof pointer);
      encode_json_string(pointer ? pointer : "", out);
      break;
    case IR_FIELD_TABLE:
      memcpy(&pointer, at, sizeof pointer);
      write_table(out, f->table, pointer, -1);
      break;
    case IR_FIELD_INT_OR_VID:
    case IR_FIELD_FLOAT_OR_VID:
      write_table(out, field_table(f), at, -1);
      break;
    default:
      write_vector(out, f, base, indent);
      break;
  }
}

static void write_vector(text *out, const ir_field *f, const void *base, int indent) {
  ir_vector v = vector_at(f, base);
  ir_field item = vector_item_field(f);
  size_t size = vector_item_size(f);
  int inner = indent >= 0 && f->kind == IR_FIELD_TABLES ? indent + 2 : -1;
  put(out, "[");
  for (uint32_t i = 0; i < v.count; i++) {
    const char *entry = (const char *)v.items + i * size;
    if (i) put(out, inner >= 0 ? "," : ", ");
    write_line(out, inner);
    if (item.kind == IR_FIELD_TABLE) {
      write_table(out, f->table, entry, inner);
    } else {
      write_value(out, &item, entry, -1);
    }
  }
  write_line(out, v.count && inner >= 0 ? indent : -1);
  put(out, "]");
}

/* The op of an instruction: the key that names it, then its table. */
static void write_union(text *out, const ir_field *f, const char *base) {
  ir_op op;
  void *pointer;
  memcpy(&op, base + f->type_offset, sizeof op);
  memcpy(&pointer, base + f->offset, sizeof pointer);
  text_printf(out, "\"%s_type\": \"%s\", \"%s\": ", f->name, ir_op_tables[op]->name, f->name);
  write_table(out, ir_op_tables[op], pointer, -1);
}

/* indent: of the table's own line, -1 within a line. */
static void write_table(text *out, const ir_table *table, const void *base, int indent) {
  int inner = indent >= 0 && is_tall(table) ? indent + 2 : -1;
  bool first = true;
  put(out, "{");
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *f = &table->fields[i];
    if (field_is_default(f, base) && !(f->flags & IR_REQUIRED)) continue;
    if (!first) put(out, inner >= 0 ? "," : ", ");
    first = false;
    write_line(out, inner);
    if (f->kind == IR_FIELD_UNION) {
      write_union(out, f, base);
      continue;
    }
    text_printf(out, "\"%s\": ", f->name);
    write_value(out, f, base, inner);
  }
  write_line(out, !first && inner >= 0 ? indent : -1);
  put(out, "}");
}

clave_status encode_json(const ir_program *p, text *out) {
  write_table(out, &ir_program_table, p, 0);
  put(out, "\n");
  return text_status(out);
}
