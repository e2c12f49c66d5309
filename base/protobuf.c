/* The wire format: tags and lengths are varints with 7 bits per byte. */
#include "base/protobuf.h"

#include <string.h>

static clave_status truncated(const proto_reader *reader) {
  return INVALID("the file ends within a field; byte %zu of a message of %zu bytes", reader->at,
                 reader->message.size);
}

static clave_status read_varint(proto_reader *reader, uint64_t *out) {
  *out = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (reader->at >= reader->message.size) return truncated(reader);
    uint8_t byte = (uint8_t)reader->message.data[reader->at++];
    if (shift < 64) *out |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return NULL;
  }
  return INVALID("a varint has more than 10 bytes; byte %zu", reader->at);
}

static clave_status read_fixed(proto_reader *reader, size_t n, uint64_t *out) {
  if (reader->message.size - reader->at < n) return truncated(reader);
  *out = 0;
  for (size_t i = 0; i < n; i++)
    *out |= (uint64_t)(uint8_t)reader->message.data[reader->at + i] << (8 * i);
  reader->at += n;
  return NULL;
}

static clave_status protobuf_read_bytes(proto_reader *reader, span *out) {
  uint64_t size;
  TRY(read_varint(reader, &size));
  if (size > reader->message.size - reader->at) return truncated(reader);
  *out = (span){reader->message.data + reader->at, (size_t)size};
  reader->at += (size_t)size;
  return NULL;
}

static clave_status read_field(proto_reader *reader, proto_field *out, bool *more, int depth);

enum { WIRE_GROUP = 3, WIRE_END_GROUP = 4, MAX_GROUP_DEPTH = 64 };

/* Skips a group up to its end, which has the same number. */
static clave_status skip_group(proto_reader *reader, uint32_t number, int depth) {
  if (depth == MAX_GROUP_DEPTH)
    return INVALID("groups are nested deeper than %d; byte %zu", (int)MAX_GROUP_DEPTH, reader->at);
  for (;;) {
    proto_field field;
    bool more;
    TRY(read_field(reader, &field, &more, depth + 1));
    if (!more) return truncated(reader);
    if ((int)field.wire != WIRE_END_GROUP) continue;
    return field.number == number
               ? NULL
               : INVALID("group %u ends as group %u; byte %zu", number, field.number, reader->at);
  }
}

/* Reads a field, a whole group, or the end of the group around it. depth: number of groups around
 * it. */
static clave_status read_field(proto_reader *reader, proto_field *out, bool *more, int depth) {
  *more = reader->at < reader->message.size;
  *out = (proto_field){0};
  if (!*more) return NULL;
  uint64_t tag;
  TRY(read_varint(reader, &tag));
  if (tag >> 3 == 0 || tag > UINT32_MAX)
    return INVALID("invalid field number %llu; byte %zu", (unsigned long long)(tag >> 3),
                   reader->at);
  out->number = (uint32_t)(tag >> 3);
  out->wire = (proto_wire)(tag & 7);
  switch ((int)out->wire) {
    case PROTO_VARINT:
      return read_varint(reader, &out->value);
    case PROTO_FIXED64:
      return read_fixed(reader, 8, &out->value);
    case PROTO_BYTES:
      return protobuf_read_bytes(reader, &out->bytes);
    case PROTO_FIXED32:
      return read_fixed(reader, 4, &out->value);
    case WIRE_GROUP:
      return skip_group(reader, out->number, depth);
    case WIRE_END_GROUP:
      if (depth) return NULL;
      break;
    default:
      break;
  }
  return INVALID("field %u has the unsupported wire type %d; byte %zu", out->number, (int)out->wire,
                 reader->at);
}

clave_status proto_next(proto_reader *reader, proto_field *out, bool *more) {
  do {
    TRY(read_field(reader, out, more, 0));
  } while (*more && (int)out->wire == WIRE_GROUP);
  return NULL;
}

clave_status proto_each_number(const proto_field *field, proto_wire wire,
                               clave_status (*add)(void *ctx, uint64_t number), void *ctx) {
  if (field->wire == wire) return add(ctx, field->value);
  if (field->wire != PROTO_BYTES)
    return INVALID("field %u: expected wire type %d, got %d", field->number, (int)wire,
                   (int)field->wire);
  proto_reader packed = {field->bytes, 0};
  while (packed.at < packed.message.size) {
    uint64_t number;
    TRY(wire == PROTO_VARINT ? read_varint(&packed, &number)
                             : read_fixed(&packed, wire == PROTO_FIXED64 ? 8 : 4, &number));
    TRY(add(ctx, number));
  }
  return NULL;
}

static const proto_wire wires[] = {
    [PROTO_BOOL] = PROTO_VARINT,
    [PROTO_INT32] = PROTO_VARINT,
    [PROTO_FLOAT] = PROTO_FIXED32,
    [PROTO_SPAN] = PROTO_BYTES,
};

static void protobuf_store(const proto_field *field, proto_type type, void *at) {
  uint32_t bits = (uint32_t)field->value;
  switch (type) {
    case PROTO_BOOL:
      *(bool *)at = field->value != 0;
      break;
    case PROTO_INT32:
    case PROTO_FLOAT:
      memcpy(at, &bits, sizeof bits);
      break;
    case PROTO_SPAN:
      *(span *)at = field->bytes;
      break;
  }
}

clave_status proto_read(span message, const proto_row *rows, size_t n_rows, void *out) {
  proto_reader reader = {message, 0};
  proto_field field;
  bool more;
  for (;;) {
    TRY(proto_next(&reader, &field, &more));
    if (!more) return NULL;
    for (size_t i = 0; i < n_rows; i++) {
      if (rows[i].number == field.number && wires[rows[i].type] == field.wire)
        protobuf_store(&field, rows[i].type, (char *)out + rows[i].offset);
    }
  }
}
