/* The descriptor-driven decoder, shared by all formats. */
#include "serialize/decode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/number.h"
#include "base/utf8.h"
#include "serialize/fields.h"
#include "serialize/limits.h"

/* ---------------------------------------------------------------- errors */

static void append_decode_path(const decode_path *path, char *out, size_t size) {
  if (!path) return;
  append_decode_path(path->up, out, size);
  size_t n = strlen(out);
  if (path->name) {
    (void)snprintf(out + n, size - n, "%s%s", n ? "." : "", path->name);
  } else {
    (void)snprintf(out + n, size - n, "[%u]", path->index);
  }
}

clave_status decode_error(const decoder *decoder, const char *format, ...) {
  char path[512] = "", message[512];
  append_decode_path(decoder->path, path, sizeof path);
  va_list args;
  va_start(args, format);
  (void)number_vprint(message, sizeof message, format, args);
  va_end(args);
  return path[0] ? INVALID("%s: %s", path, message) : INVALID("%s", message);
}

clave_status decode_unknown(const decoder *decoder, const ir_enum *values, const char *value) {
  const char *what = values == &ir_op_enum ? "op" : values->name;
  clave_status st = decode_error(decoder, "unknown %s '%.200s'", what, value);
  if (decoder->version > IR_SCHEMA_VERSION) {
    st = status_while(st, "the program needs schema version %u, and this build supports version %d",
                      decoder->version, (int)IR_SCHEMA_VERSION);
  }
  return st;
}

/* ---------------------------------------------------------------- memory */

static clave_status alloc_decoded(decoder *decoder, size_t count, size_t size, void *out_pointer) {
  size_t bytes, total;
  if (!mul_size(count, size, &bytes) || !add_size(bytes, mem_pool_bytes(decoder->pool), &total) ||
      total > decoder->budget) {
    return decode_error(decoder, "the file decodes to more than %zu bytes", decoder->budget);
  }
  void *memory = mem_pool_alloc(decoder->pool, count, size);
  if (!memory) return status_no_memory();
  memcpy(out_pointer, &memory, sizeof memory);
  return NULL;
}

/* ---------------------------------------------------------------- values */

static clave_status decode_table(decoder *decoder, decode_node node, const ir_table *table,
                                 void *out);

static clave_status decode_string(decoder *decoder, const decode_node *node, char *to) {
  const char *bytes;
  size_t size;
  TRY(decoder->source->read_string(decoder, node, &bytes, &size));
  if (size > LIMIT_STRING)
    return decode_error(decoder, "expected a string of at most %d bytes, got %zu",
                        (int)LIMIT_STRING, size);
  if (memchr(bytes, 0, size)) return decode_error(decoder, "the string has a NUL character");
  if (!utf8_valid(bytes, size)) return decode_error(decoder, "the string is not valid UTF-8");
  char *copy;
  TRY(alloc_decoded(decoder, size + 1, 1, &copy));
  memcpy(copy, bytes, size);
  memcpy(to, &copy, sizeof copy);
  return NULL;
}

static clave_status decode_scalar_field(decoder *decoder, const decode_node *node,
                                        const ir_field *field, char *to) {
  decode_scalar scalar = {0};
  TRY(decoder->source->read_scalar(decoder, node, field->kind, field->enum_, &scalar));
  if ((field->kind == IR_FIELD_TID || field->kind == IR_FIELD_VID) &&
      (scalar.i < 0 || scalar.i >= (int64_t)IR_NONE)) {
    return decode_error(decoder, "expected slot 0 to %u, got %lld", IR_NONE - 1,
                        (long long)scalar.i);
  }
  bool real = field->kind == IR_FIELD_F64 || field->kind == IR_FIELD_OPT_F64;
  if (real && isnan(scalar.f))
    scalar.f = (double)NAN;          /* the same NaN in every format: JSON stores no payload */
  int32_t small = (int32_t)scalar.i; /* in range: the source has checked it for the kind */
  uint32_t word = (uint32_t)scalar.i;
  switch (field->kind) {
    case IR_FIELD_BOOL:
      *(bool *)(void *)to = scalar.i != 0;
      break;
    case IR_FIELD_I32:
    case IR_FIELD_ENUM:
      memcpy(to, &small, sizeof small);
      break;
    case IR_FIELD_U32:
    case IR_FIELD_TID:
    case IR_FIELD_VID:
      memcpy(to, &word, sizeof word);
      break;
    case IR_FIELD_OPT_I32:
      *(ir_opt_i32 *)(void *)to = (ir_opt_i32){small, true};
      break;
    case IR_FIELD_OPT_I64:
      *(ir_opt_i64 *)(void *)to = (ir_opt_i64){scalar.i, true};
      break;
    case IR_FIELD_OPT_F64:
      *(ir_opt_f64 *)(void *)to = (ir_opt_f64){scalar.f, true};
      break;
    default:
      memcpy(to, &scalar, sizeof scalar);
      break; /* I64 U64 F64 */
  }
  return NULL;
}

/* Decodes a field or an entry of a vector, of any kind except vectors and unions. */
static clave_status decode_value(decoder *decoder, const decode_node *node, const ir_field *field,
                                 char *to) {
  void *made;
  switch (field->kind) {
    case IR_FIELD_STRING:
      return decode_string(decoder, node, to);
    case IR_FIELD_INT_OR_VID:
      ((ir_int_or_vid *)(void *)to)->present = true;
      return decode_table(decoder, *node, &int_or_vid_table, to);
    case IR_FIELD_FLOAT_OR_VID:
      ((ir_float_or_vid *)(void *)to)->present = true;
      return decode_table(decoder, *node, &float_or_vid_table, to);
    case IR_FIELD_TABLE:
      TRY(alloc_decoded(decoder, 1, field->table->size, &made));
      memcpy(to, &made, sizeof made);
      return decode_table(decoder, *node, field->table, made);
    default:
      return decode_scalar_field(decoder, node, field, to);
  }
}

static clave_status decode_vector(decoder *decoder, const decode_node *node, const ir_field *field,
                                  char *to) {
  ir_field item = vector_item_field(field);
  ir_vector vector = {0};
  decode_node at;
  size_t size = vector_item_size(field);
  TRY(decoder->source->open_vector(decoder, node, item.kind, &vector.count, &at));
  if (vector.count > LIMIT_ITEMS)
    return decode_error(decoder, "expected at most %d entries, got %u", (int)LIMIT_ITEMS,
                        vector.count);
  if (vector.count == 0) return NULL;
  TRY(alloc_decoded(decoder, vector.count, size, &vector.items));
  memcpy(to, &vector, sizeof vector);
  decode_path here = {decoder->path, NULL, 0};
  decoder->path = &here;
  for (; here.index < vector.count; here.index++) {
    char *entry = (char *)vector.items + here.index * size;
    TRY(item.kind == IR_FIELD_TABLE ? decode_table(decoder, at, field->table, entry)
                                    : decode_value(decoder, &at, &item, entry));
    decoder->source->next_item(&at, item.kind);
  }
  decoder->path = here.up;
  return NULL;
}

/* Decodes an instruction's union: its type first, which selects the table of the value. */
static clave_status decode_union(decoder *decoder, const decode_node *table,
                                 const decode_node *node, const ir_field *field, char *base) {
  decode_node type_node;
  bool present;
  decode_scalar type = {0};
  TRY(decoder->source->find(decoder, table, field, true, &type_node, &present));
  if (!present) return decode_error(decoder, "the field %s_type is missing", field->name);
  TRY(decoder->source->read_scalar(decoder, &type_node, IR_FIELD_ENUM, field->enum_, &type));
  ir_op op = (ir_op)type.i;
  memcpy(base + field->type_offset, &op, sizeof op);
  void *made;
  TRY(alloc_decoded(decoder, 1, ir_op_tables[op]->size, &made));
  memcpy(base + field->offset, &made, sizeof made);
  return decode_table(decoder, *node, ir_op_tables[op], made);
}

static clave_status decode_field(decoder *decoder, const decode_node *table, const ir_field *field,
                                 char *base) {
  decode_node node;
  bool present;
  field_set_default(field, base);
  TRY(decoder->source->find(decoder, table, field, false, &node, &present));
  if (!present)
    return field->flags & IR_REQUIRED ? decode_error(decoder, "the field is missing") : NULL;
  if (field->kind == IR_FIELD_UNION) return decode_union(decoder, table, &node, field, base);
  if (field_is_vector(field->kind))
    return decode_vector(decoder, &node, field, base + field->offset);
  return decode_value(decoder, &node, field, base + field->offset);
}

static clave_status decode_table(decoder *decoder, decode_node node, const ir_table *table,
                                 void *out) {
  if (decoder->depth >= LIMIT_DEPTH)
    return decode_error(decoder, "the tables are nested deeper than %d", (int)LIMIT_DEPTH);
  decoder->depth++;
  TRY(decoder->source->open_table(decoder, table, &node));
  for (uint32_t i = 0; i < table->n_fields; i++) {
    decode_path here = {decoder->path, table->fields[i].name, 0};
    decoder->path = &here;
    TRY(decode_field(decoder, &node, &table->fields[i], out));
    decoder->path = here.up;
    if (table == &ir_program_table) decoder->version = ((const ir_program *)out)->version;
  }
  decoder->depth--;
  return NULL;
}

clave_status decode_root(decoder *decoder, decode_node root, size_t size, const ir_table *table,
                         void *out) {
  size_t budget;
  if (!mul_size(size, LIMIT_EXPANSION, &budget) ||
      !add_size(budget, LIMIT_EXPANSION_BASE, &budget) || budget > LIMIT_DECODED) {
    budget = LIMIT_DECODED;
  }
  decoder->budget = mem_pool_bytes(decoder->pool) + budget;
  return decode_table(decoder, root, table, out);
}
