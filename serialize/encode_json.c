/* The JSON writer. Integers of 2^53 or more and non-finite numbers are strings, as the reader
 * expects. */
#include <stdio.h>
#include <string.h>

#include "json/writer.h"
#include "serialize/encode.h"
#include "serialize/fields.h"

static void write_fields(json_writer *writer, const ir_table *table, const void *base,
                         bool multiline);

static void encode_json_write_table(json_writer *writer, const char *key, const ir_table *table,
                                    const void *base, bool multiline) {
  (multiline ? emit_object : emit_record)(writer, key);
  write_fields(writer, table, base, multiline);
  emit_end_object(writer);
}

static void encode_json_write_enum(json_writer *writer, const char *key, const ir_enum *values,
                                   const void *at) {
  int32_t number;
  memcpy(&number, at, sizeof number);
  const ir_enum_value *value = enum_by_number(values, number);
  if (value) {
    emit_string(writer, key, value->name);
  } else {
    emit_integer(writer, key, number);
  }
}

static void write_index(json_writer *writer, const char *key, uint32_t index) {
  emit_record(writer, key);
  emit_size(writer, "idx", index);
  emit_end_object(writer);
}

/* True for programs and chains, which have one line per field and per entry of their vectors of
 * tables. */
static bool is_multiline(const ir_table *table) {
  return table == &ir_program_table || table == &ir_chain_table;
}

static void encode_json_write_vector(json_writer *writer, const ir_field *field, const void *base,
                                     bool multiline);

/* Writes a field of a numeric kind. */
static void encode_json_write_number(json_writer *writer, const char *key, ir_field_kind kind,
                                     const char *at) {
  int32_t small;
  int64_t wide;
  uint64_t natural;
  double real;
  switch (kind) {
    case IR_FIELD_I32:
    case IR_FIELD_OPT_I32:
      memcpy(&small, at, sizeof small);
      emit_integer(writer, key, small);
      break;
    case IR_FIELD_I64:
    case IR_FIELD_OPT_I64:
      memcpy(&wide, at, sizeof wide);
      emit_i64(writer, key, wide);
      break;
    case IR_FIELD_U64:
      memcpy(&natural, at, sizeof natural);
      emit_u64(writer, key, natural);
      break;
    default:
      memcpy(&real, at, sizeof real);
      emit_f64(writer, key, real);
      break;
  }
}

/* key: NULL in a vector. multiline: the enclosing table has one line per field. */
static void encode_json_write_value(json_writer *writer, const char *key, const ir_field *field,
                                    const char *base, bool multiline) {
  const char *at = base + field->offset;
  uint32_t word;
  void *pointer;
  switch (field->kind) {
    case IR_FIELD_BOOL:
      emit_bool(writer, key, *(const bool *)(const void *)at);
      break;
    case IR_FIELD_ENUM:
      encode_json_write_enum(writer, key, field->enum_, at);
      break;
    case IR_FIELD_U32:
      memcpy(&word, at, sizeof word);
      emit_size(writer, key, word);
      break;
    case IR_FIELD_TID:
    case IR_FIELD_VID:
      memcpy(&word, at, sizeof word);
      write_index(writer, key, word);
      break;
    case IR_FIELD_I32:
    case IR_FIELD_OPT_I32:
    case IR_FIELD_I64:
    case IR_FIELD_OPT_I64:
    case IR_FIELD_U64:
    case IR_FIELD_F64:
    case IR_FIELD_OPT_F64:
      encode_json_write_number(writer, key, field->kind, at);
      break;
    case IR_FIELD_STRING:
      memcpy(&pointer, at, sizeof pointer);
      emit_string(writer, key, pointer ? pointer : "");
      break;
    case IR_FIELD_TABLE:
      memcpy(&pointer, at, sizeof pointer);
      encode_json_write_table(writer, key, field->table, pointer, false);
      break;
    case IR_FIELD_INT_OR_VID:
    case IR_FIELD_FLOAT_OR_VID:
      encode_json_write_table(writer, key, field_table(field), at, false);
      break;
    default:
      encode_json_write_vector(writer, field, base, multiline);
      break;
  }
}

static void encode_json_write_vector(json_writer *writer, const ir_field *field, const void *base,
                                     bool multiline) {
  ir_vector vector = vector_at(field, base);
  ir_field item = vector_item_field(field);
  size_t size = vector_item_size(field);
  bool in_lines = multiline && field->kind == IR_FIELD_TABLES;
  (in_lines ? emit_array : emit_list)(writer, field->name);
  for (uint32_t i = 0; i < vector.count; i++) {
    const char *entry = (const char *)vector.items + i * size;
    if (item.kind == IR_FIELD_TABLE) {
      encode_json_write_table(writer, NULL, field->table, entry,
                              in_lines && is_multiline(field->table));
    } else {
      encode_json_write_value(writer, NULL, &item, entry, false);
    }
  }
  emit_end_array(writer);
}

/* Writes an instruction's op: the key with its type, then its table. */
static void write_union(json_writer *writer, const ir_field *field, const char *base) {
  char type_key[64];
  ir_op op;
  void *pointer;
  memcpy(&op, base + field->type_offset, sizeof op);
  memcpy(&pointer, base + field->offset, sizeof pointer);
  (void)snprintf(type_key, sizeof type_key, "%s_type", field->name);
  emit_string(writer, type_key, ir_op_tables[op]->name);
  encode_json_write_table(writer, field->name, ir_op_tables[op], pointer, false);
}

static void write_fields(json_writer *writer, const ir_table *table, const void *base,
                         bool multiline) {
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *field = &table->fields[i];
    if (field_is_default(field, base) && !(field->flags & IR_REQUIRED)) continue;
    if (field->kind == IR_FIELD_UNION) {
      write_union(writer, field, base);
    } else {
      encode_json_write_value(writer, field->name, field, base, multiline);
    }
  }
}

clave_status encode_json(const ir_program *program, text *out) {
  json_writer writer = {.out = out};
  encode_json_write_table(&writer, NULL, &ir_program_table, program, true);
  return text_status(out);
}
