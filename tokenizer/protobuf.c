/* The wire format: tags and lengths are varints with 7 bits per byte. */
#include "tokenizer/protobuf.h"

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

clave_status proto_next(proto_reader *reader, proto_field *out, bool *more) {
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
  switch (out->wire) {
    case PROTO_VARINT:
      return read_varint(reader, &out->value);
    case PROTO_FIXED64:
      return read_fixed(reader, 8, &out->value);
    case PROTO_BYTES:
      return protobuf_read_bytes(reader, &out->bytes);
    case PROTO_FIXED32:
      return read_fixed(reader, 4, &out->value);
  }
  return INVALID("field %u has the unsupported wire type %d; byte %zu", out->number, (int)out->wire,
                 reader->at);
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
