/* FlatBuffers as a source for the decoder. Every read is bounds-checked and tolerates any
 * alignment. Offsets may point anywhere in the file; the decoder's budget limits the memory for
 * shared tables. */
#include <stdio.h>
#include <string.h>

#include "serialize/decode.h"
#include "serialize/fields.h"

enum { HEADER_BYTES = 8 /* root offset and file identifier */ };

bool is_flatbuffer_program(const void *data, size_t size) {
  return size >= HEADER_BYTES && memcmp((const char *)data + 4, IR_FILE_IDENTIFIER, 4) == 0;
}

static bool in_file(const decoder *decoder, size_t position, size_t n) {
  return position <= decoder->size && n <= decoder->size - position;
}

static clave_status decode_flatbuffer_read_bytes(const decoder *decoder, size_t position, void *out,
                                                 size_t n) {
  if (!in_file(decoder, position, n)) {
    return decode_error(decoder, "%zu bytes at %zu run past the end of %zu bytes", n, position,
                        decoder->size);
  }
  memcpy(out, decoder->data + position, n);
  return NULL;
}

/* Sets *out to the position that the offset stored at `position` points to. */
static clave_status follow(const decoder *decoder, size_t position, size_t *out) {
  uint32_t offset;
  TRY(decode_flatbuffer_read_bytes(decoder, position, &offset, sizeof offset));
  if (!in_file(decoder, position, offset)) {
    return decode_error(decoder, "offset %u at %zu points past the end of %zu bytes", offset,
                        position, decoder->size);
  }
  *out = position + offset;
  return NULL;
}

/* A table's vtable: its position and size in bytes, and the size of the table's inline part. */
typedef struct vtable {
  size_t position;
  uint16_t bytes, table_bytes;
} vtable;

static clave_status read_vtable(const decoder *decoder, size_t table, vtable *out) {
  int32_t back;
  TRY(decode_flatbuffer_read_bytes(decoder, table, &back, sizeof back));
  int64_t position = (int64_t)table - back;
  if (position < 0 || !in_file(decoder, (size_t)position, 4)) {
    return decode_error(decoder,
                        "table at %zu has its vtable at %lld, outside the %zu bytes of the file",
                        table, (long long)position, decoder->size);
  }
  out->position = (size_t)position;
  TRY(decode_flatbuffer_read_bytes(decoder, out->position, &out->bytes, 2));
  TRY(decode_flatbuffer_read_bytes(decoder, out->position + 2, &out->table_bytes, 2));
  if (out->bytes < 4 || out->bytes % 2 || !in_file(decoder, out->position, out->bytes)) {
    return decode_error(decoder, "table at %zu has a vtable of %u bytes", table, out->bytes);
  }
  if (out->table_bytes < 4 || !in_file(decoder, table, out->table_bytes)) {
    return decode_error(decoder, "table at %zu has %u bytes, and the file has %zu", table,
                        out->table_bytes, decoder->size);
  }
  return NULL;
}

static clave_status decode_flatbuffer_open_table(decoder *decoder, const ir_table *table,
                                                 decode_node *node) {
  (void)table; /* fields that the descriptor lacks are from a later schema; they are ignored, as in
                  FlatBuffers */
  vtable vtable;
  TRY(follow(decoder, node->position, &node->position));
  return read_vtable(decoder, node->position, &vtable);
}

/* Returns the size of a value stored inline, in a table or a vector. */
static size_t inline_bytes(ir_field_kind kind) {
  switch (kind) {
    case IR_FIELD_BOOL:
    case IR_FIELD_ENUM:
      return 1;
    case IR_FIELD_I64:
    case IR_FIELD_U64:
    case IR_FIELD_F64:
    case IR_FIELD_OPT_I64:
    case IR_FIELD_OPT_F64:
      return 8;
    default:
      return 4; /* 32-bit numbers, slots, offsets */
  }
}

static clave_status decode_flatbuffer_find(decoder *decoder, const decode_node *table,
                                           const ir_field *field, bool of_type, decode_node *out,
                                           bool *present) {
  vtable vtable;
  TRY(read_vtable(decoder, table->position, &vtable));
  size_t slot = (size_t)field->slot + (field->kind == IR_FIELD_UNION && !of_type),
         entry = 4 + 2 * slot;
  uint16_t offset = 0;
  if (entry + 2 <= vtable.bytes)
    TRY(decode_flatbuffer_read_bytes(decoder, vtable.position + entry, &offset, sizeof offset));
  *present = offset != 0;
  size_t bytes = inline_bytes(of_type ? IR_FIELD_ENUM : field->kind);
  if (*present && (offset < 4 || offset + bytes > vtable.table_bytes)) {
    return decode_error(decoder, "field at %u is outside its table of %u bytes", offset,
                        vtable.table_bytes);
  }
  out->position = table->position + offset;
  return NULL;
}

static clave_status decode_flatbuffer_read_enum(decoder *decoder, size_t position,
                                                const ir_enum *values, decode_scalar *out) {
  uint8_t number;
  char digits[16];
  TRY(decode_flatbuffer_read_bytes(decoder, position, &number, 1));
  out->i = number;
  if (enum_by_number(values, number)) return NULL;
  (void)snprintf(digits, sizeof digits, "%u", number);
  return decode_unknown(decoder, values, digits);
}

static clave_status decode_flatbuffer_read_scalar(decoder *decoder, const decode_node *node,
                                                  ir_field_kind kind, const ir_enum *values,
                                                  decode_scalar *out) {
  uint8_t byte;
  int32_t small;
  uint32_t word;
  switch (kind) {
    case IR_FIELD_ENUM:
      return decode_flatbuffer_read_enum(decoder, node->position, values, out);
    case IR_FIELD_BOOL:
      TRY(decode_flatbuffer_read_bytes(decoder, node->position, &byte, 1));
      out->i = byte != 0;
      return NULL;
    case IR_FIELD_I32:
    case IR_FIELD_OPT_I32:
      TRY(decode_flatbuffer_read_bytes(decoder, node->position, &small, sizeof small));
      out->i = small;
      return NULL;
    case IR_FIELD_U32:
    case IR_FIELD_TID:
    case IR_FIELD_VID:
      TRY(decode_flatbuffer_read_bytes(decoder, node->position, &word, sizeof word));
      out->i = word;
      return NULL;
    default:
      return decode_flatbuffer_read_bytes(decoder, node->position, out, sizeof *out);
  }
}

static clave_status decode_flatbuffer_read_string(decoder *decoder, const decode_node *node,
                                                  const char **out, size_t *size) {
  size_t position;
  uint32_t length;
  TRY(follow(decoder, node->position, &position));
  TRY(decode_flatbuffer_read_bytes(decoder, position, &length, sizeof length));
  if (!in_file(decoder, position + 4, length)) {
    return decode_error(decoder, "string of %u bytes at %zu runs past the end of %zu bytes", length,
                        position, decoder->size);
  }
  *out = (const char *)decoder->data + position + 4;
  *size = length;
  return NULL;
}

static clave_status decode_flatbuffer_open_vector(decoder *decoder, const decode_node *node,
                                                  ir_field_kind item, uint32_t *count,
                                                  decode_node *first) {
  size_t position;
  TRY(follow(decoder, node->position, &position));
  TRY(decode_flatbuffer_read_bytes(decoder, position, count, sizeof *count));
  first->position = position + 4;
  if (*count > (decoder->size - first->position) / inline_bytes(item)) {
    return decode_error(decoder, "%u entries at %zu run past the end of %zu bytes", *count,
                        position, decoder->size);
  }
  return NULL;
}

static void decode_flatbuffer_next_item(decode_node *node, ir_field_kind item) {
  node->position += inline_bytes(item);
}

static const decode_source flatbuffer_source = {
    decode_flatbuffer_open_table,  decode_flatbuffer_find,        decode_flatbuffer_read_scalar,
    decode_flatbuffer_read_string, decode_flatbuffer_open_vector, decode_flatbuffer_next_item};

clave_status decode_flatbuffer(const void *data, size_t size, mem_pool *pool, ir_program *out) {
  decoder decoder = {.source = &flatbuffer_source, .data = data, .size = size, .pool = pool};
  if (!is_flatbuffer_program(data, size)) {
    return INVALID("not a FlatBuffers program: %zu bytes without the identifier %s", size,
                   IR_FILE_IDENTIFIER);
  }
  return decode_root(&decoder, (decode_node){0}, size, &ir_program_table, out);
}
