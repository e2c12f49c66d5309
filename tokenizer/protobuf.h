#ifndef TOKENIZER_PROTOBUF_H
#define TOKENIZER_PROTOBUF_H
/* Reads protocol buffers (the wire format of proto2) field by field. Callers skip unknown fields;
 * errors contain the byte offset. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokenizer/vocab.h"

typedef struct proto_reader {
  span message;
  size_t at;
} proto_reader;

typedef enum proto_wire {
  PROTO_VARINT = 0,
  PROTO_FIXED64 = 1,
  PROTO_BYTES = 2,
  PROTO_FIXED32 = 5
} proto_wire;

typedef struct proto_field {
  uint32_t number;
  proto_wire wire;
  uint64_t value; /* all wire types except PROTO_BYTES */
  span bytes;     /* PROTO_BYTES: points into the message */
} proto_field;

/* Reads the next field. *more is false at the end. */
clave_status proto_next(proto_reader *reader, proto_field *out, bool *more) STATUS_CHECK;

/* Reads a message of single fields into a struct, by a table. The last occurrence of a field
 * counts; fields of another wire type are ignored. */
typedef enum proto_type { PROTO_BOOL, PROTO_INT32, PROTO_FLOAT, PROTO_SPAN } proto_type;
typedef struct proto_row {
  uint32_t number;
  proto_type type; /* stored as bool, int32_t, float or span */
  size_t offset;
} proto_row;
clave_status proto_read(span message, const proto_row *rows, size_t n_rows, void *out) STATUS_CHECK;

#endif
