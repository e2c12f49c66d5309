#ifndef SERIALIZE_DECODE_H
#define SERIALIZE_DECODE_H
/* The decoder: walks the descriptors of ir.h and reads the values from a source (FlatBuffers or
 * JSON). It checks structure only; verify_types.c and verify_flow.c check the meaning. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir.h"

/* A position in the input: a byte offset (FlatBuffers) or an item (JSON). */
typedef struct decode_node {
  size_t position;
  const void *item;
} decode_node;

/* A scalar read by a source, in the member that its field kind selects. */
typedef union decode_scalar {
  int64_t i;  /* BOOL I32 U32 I64 ENUM, and the numbers of Tid and Vid */
  uint64_t u; /* U64 */
  double f;   /* F64 */
} decode_scalar;

typedef struct decode_path {
  const struct decode_path *up;
  const char *name; /* name of a field; NULL for entry `index` of the enclosing vector */
  uint32_t index;
} decode_path;

typedef struct decoder decoder;
/* The functions by which the decoder reads one input format. Each checks bounds and types and fails
 * with decode_error(). */
typedef struct decode_source {
  clave_status (*open_table)(decoder *decoder, const ir_table *table,
                             decode_node *node); /* replaces *node by the table itself */
  /* Finds the field's node, or with `of_type` the node of its union type. */
  clave_status (*find)(decoder *decoder, const decode_node *table, const ir_field *field,
                       bool of_type, decode_node *out, bool *present);
  clave_status (*read_scalar)(decoder *decoder, const decode_node *node, ir_field_kind kind,
                              const ir_enum *values, decode_scalar *out);
  clave_status (*read_string)(decoder *decoder, const decode_node *node, const char **out,
                              size_t *size); /* borrowed */
  clave_status (*open_vector)(decoder *decoder, const decode_node *node, ir_field_kind item,
                              uint32_t *count, decode_node *first);
  void (*next_item)(decode_node *node, ir_field_kind item);
} decode_source;

struct decoder {
  const decode_source *source;
  const uint8_t *data; /* the file (FlatBuffers only) */
  size_t size;
  mem_pool *pool;
  size_t budget;    /* maximum size of the pool in bytes */
  uint32_t version; /* the program's version, once it is read */
  const decode_path *path;
  int depth;
};

/* Decodes the table at `root` into the zeroed struct `out`. size: bytes of the file, which limit
 * the memory for decoded data. */
clave_status decode_root(decoder *decoder, decode_node root, size_t size, const ir_table *table,
                         void *out) STATUS_CHECK;
/* Returns INVALID with the path to the decoder's position: "chains[0].instructions[3].op.axis:
 * ..." */
clave_status decode_error(const decoder *decoder, const char *format, ...)
    STATUS_PRINTF(2, 3) STATUS_CHECK STATUS_NEVER_NULL;
/* Returns the error for an enum value or op that this build does not support. */
clave_status decode_unknown(const decoder *decoder, const ir_enum *values,
                            const char *value) STATUS_CHECK STATUS_NEVER_NULL;

/* ---- the formats ---- */
clave_status decode_flatbuffer(const void *data, size_t size, mem_pool *pool,
                               ir_program *out) STATUS_CHECK;
clave_status decode_json(const char *bytes, size_t size, mem_pool *pool,
                         ir_program *out) STATUS_CHECK;
/* True if the data starts with the program's file identifier. */
bool is_flatbuffer_program(const void *data, size_t size);

#endif
