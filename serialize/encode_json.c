/* The JSON writer: integers from 2^53 on and non-finite numbers as strings, as the reader takes
 * them. */
#include <stdio.h>
#include <string.h>

#include "json/writer.h"
#include "serialize/encode.h"
#include "serialize/fields.h"

static void write_fields(json_writer *j, const ir_table *table, const void *base, bool tall);

static void write_table(json_writer *j, const char *key, const ir_table *table, const void *base,
                        bool tall) {
  (tall ? emit_object : emit_record)(j, key);
  write_fields(j, table, base, tall);
  emit_end_object(j);
}

static void write_enum(json_writer *j, const char *key, const ir_enum *e, const void *at) {
  int32_t number;
  memcpy(&number, at, sizeof number);
  const ir_enum_value *v = enum_by_number(e, number);
  if (v) {
    emit_string(j, key, v->name);
  } else {
    emit_integer(j, key, number);
  }
}

static void write_index(json_writer *j, const char *key, uint32_t index) {
  emit_record(j, key);
  emit_size(j, "idx", index);
  emit_end_object(j);
}

/* Programs and chains have a line per field, and per entry of their vectors of tables. */
static bool is_tall(const ir_table *table) {
  return table == &ir_program_table || table == &ir_chain_table;
}

static void write_vector(json_writer *j, const ir_field *f, const void *base, bool tall);

/* One of the kinds that are a number. */
static void write_number(json_writer *j, const char *key, ir_field_kind kind, const char *at) {
  int32_t small;
  int64_t wide;
  uint64_t natural;
  double real;
  switch (kind) {
    case IR_FIELD_I32:
    case IR_FIELD_OPT_I32:
      memcpy(&small, at, sizeof small);
      emit_integer(j, key, small);
      break;
    case IR_FIELD_I64:
    case IR_FIELD_OPT_I64:
      memcpy(&wide, at, sizeof wide);
      emit_i64(j, key, wide);
      break;
    case IR_FIELD_U64:
      memcpy(&natural, at, sizeof natural);
      emit_u64(j, key, natural);
      break;
    default:
      memcpy(&real, at, sizeof real);
      emit_f64(j, key, real);
      break;
  }
}

/* key: NULL in a vector. tall: the table that it is a field of has a line per field. */
static void write_value(json_writer *j, const char *key, const ir_field *f, const char *base,
                        bool tall) {
  const char *at = base + f->offset;
  uint32_t word;
  void *pointer;
  switch (f->kind) {
    case IR_FIELD_BOOL:
      emit_bool(j, key, *(const bool *)(const void *)at);
      break;
    case IR_FIELD_ENUM:
      write_enum(j, key, f->enum_, at);
      break;
    case IR_FIELD_U32:
      memcpy(&word, at, sizeof word);
      emit_size(j, key, word);
      break;
    case IR_FIELD_TID:
    case IR_FIELD_VID:
      memcpy(&word, at, sizeof word);
      write_index(j, key, word);
      break;
    case IR_FIELD_I32:
    case IR_FIELD_OPT_I32:
    case IR_FIELD_I64:
    case IR_FIELD_OPT_I64:
    case IR_FIELD_U64:
    case IR_FIELD_F64:
    case IR_FIELD_OPT_F64:
      write_number(j, key, f->kind, at);
      break;
    case IR_FIELD_STRING:
      memcpy(&pointer, at, sizeof pointer);
      emit_string(j, key, pointer ? pointer : "");
      break;
    case IR_FIELD_TABLE:
      memcpy(&pointer, at, sizeof pointer);
      write_table(j, key, f->table, pointer, false);
      break;
    case IR_FIELD_INT_OR_VID:
    case IR_FIELD_FLOAT_OR_VID:
      write_table(j, key, field_table(f), at, false);
      break;
    default:
      write_vector(j, f, base, tall);
      break;
  }
}

static void write_vector(json_writer *j, const ir_field *f, const void *base, bool tall) {
  ir_vector v = vector_at(f, base);
  ir_field item = vector_item_field(f);
  size_t size = vector_item_size(f);
  bool in_lines = tall && f->kind == IR_FIELD_TABLES;
  (in_lines ? emit_array : emit_list)(j, f->name);
  for (uint32_t i = 0; i < v.count; i++) {
    const char *entry = (const char *)v.items + i * size;
    if (item.kind == IR_FIELD_TABLE) {
      write_table(j, NULL, f->table, entry, in_lines && is_tall(f->table));
    } else {
      write_value(j, NULL, &item, entry, false);
    }
  }
  emit_end_array(j);
}

/* The op of an instruction: the key that names it, then its table. */
static void write_union(json_writer *j, const ir_field *f, const char *base) {
  char type_key[64];
  ir_op op;
  void *pointer;
  memcpy(&op, base + f->type_offset, sizeof op);
  memcpy(&pointer, base + f->offset, sizeof pointer);
  (void)snprintf(type_key, sizeof type_key, "%s_type", f->name);
  emit_string(j, type_key, ir_op_tables[op]->name);
  write_table(j, f->name, ir_op_tables[op], pointer, false);
}

static void write_fields(json_writer *j, const ir_table *table, const void *base, bool tall) {
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *f = &table->fields[i];
    if (field_is_default(f, base) && !(f->flags & IR_REQUIRED)) continue;
    if (f->kind == IR_FIELD_UNION) {
      write_union(j, f, base);
    } else {
      write_value(j, f->name, f, base, tall);
    }
  }
}

clave_status encode_json(const ir_program *p, text *out) {
  json_writer j = {.out = out};
  write_table(&j, NULL, &ir_program_table, p, true);
  return text_status(out);
}
