#ifndef BASE_PROTOBUF_H
#define BASE_PROTOBUF_H
/* Reads protocol buffers (the wire format of proto2 and proto3) field by field. Callers skip
 * unknown fields; groups are skipped here. Errors contain the byte offset. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"

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
/* Calls add(ctx, number) for the numbers of a repeated field: one, or all that a PROTO_BYTES field
 * packs. wire: that of one number, any except PROTO_BYTES. */
clave_status proto_each_number(const proto_field *field, proto_wire wire,
                               clave_status (*add)(void *ctx, uint64_t number),
                               void *ctx) STATUS_CHECK;

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
