/* The wire format: tags and lengths are varints, 7 bits to a byte. */
#include "tokenizer/protobuf.h"

#include <string.h>

static clave_status truncated(const proto_reader *r) {
  return INVALID("the file ends within a field; byte %zu of a message of %zu", r->at,
                 r->message.size);
}

static clave_status read_varint(proto_reader *r, uint64_t *out) {
  *out = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (r->at >= r->message.size) return truncated(r);
    uint8_t byte = (uint8_t)r->message.data[r->at++];
    if (shift < 64) *out |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return NULL;
  }
  return INVALID("a number of more than 10 bytes; byte %zu", r->at);
}

static clave_status read_fixed(proto_reader *r, size_t n, uint64_t *out) {
  if (r->message.size - r->at < n) return truncated(r);
  *out = 0;
  for (size_t i = 0; i < n; i++) *out |= (uint64_t)(uint8_t)r->message.data[r->at + i] << (8 * i);
  r->at += n;
  return NULL;
}

static clave_status read_bytes(proto_reader *r, span *out) {
  uint64_t size;
  TRY(read_varint(r, &size));
  if (size > r->message.size - r->at) return truncated(r);
  *out = (span){r->message.data + r->at, (size_t)size};
  r->at += (size_t)size;
  return NULL;
}

clave_status proto_next(proto_reader *r, proto_field *out, bool *more) {
  *more = r->at < r->message.size;
  *out = (proto_field){0};
  if (!*more) return NULL;
  uint64_t tag;
  TRY(read_varint(r, &tag));
  if (tag >> 3 == 0 || tag > UINT32_MAX)
    return INVALID("field %llu; byte %zu", (unsigned long long)(tag >> 3), r->at);
  out->number = (uint32_t)(tag >> 3);
  out->wire = (proto_wire)(tag & 7);
  switch (out->wire) {
    case PROTO_VARINT:
      return read_varint(r, &out->value);
    case PROTO_FIXED64:
      return read_fixed(r, 8, &out->value);
    case PROTO_BYTES:
      return read_bytes(r, &out->bytes);
    case PROTO_FIXED32:
      return read_fixed(r, 4, &out->value);
  }
  return INVALID("field %u has wire type %d; byte %zu", out->number, (int)out->wire, r->at);
}

static const proto_wire wires[] = {
    [PROTO_BOOL] = PROTO_VARINT,
    [PROTO_INT32] = PROTO_VARINT,
    [PROTO_FLOAT] = PROTO_FIXED32,
    [PROTO_SPAN] = PROTO_BYTES,
};

static void store(const proto_field *f, proto_type type, void *at) {
  uint32_t bits = (uint32_t)f->value;
  switch (type) {
    case PROTO_BOOL:
      *(bool *)at = f->value != 0;
      break;
    case PROTO_INT32:
    case PROTO_FLOAT:
      memcpy(at, &bits, sizeof bits);
      break;
    case PROTO_SPAN:
      *(span *)at = f->bytes;
      break;
  }
}

clave_status proto_read(span message, const proto_row *rows, size_t n_rows, void *out) {
  proto_reader r = {message, 0};
  proto_field f;
  bool more;
  for (;;) {
    TRY(proto_next(&r, &f, &more));
    if (!more) return NULL;
    for (size_t i = 0; i < n_rows; i++) {
      if (rows[i].number == f.number && wires[rows[i].type] == f.wire)
        store(&f, rows[i].type, (char *)out + rows[i].offset);
    }
  }
}
