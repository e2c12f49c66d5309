#ifndef SERIALIZE_DECODE_H
#define SERIALIZE_DECODE_H
/* The one decoder: walks the descriptors of ir.h and asks a source (FlatBuffers, JSON) for the
 * values. Structure only: what the numbers mean is verify.c's business. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir.h"

/* A place in the input: a position (FlatBuffers) or an item (JSON). */
typedef struct decode_node {
  size_t position;
  const void *item;
} decode_node;

/* A scalar as a source read it, in the member that its field kind asks for. */
typedef union decode_scalar {
  int64_t i;  /* BOOL I32 U32 I64 ENUM, the numbers of Tid and Vid */
  uint64_t u; /* U64 */
  double f;   /* F64 */
} decode_scalar;

typedef struct decode_path {
  const struct decode_path *up;
  const char *name; /* of a field; NULL: entry `index` of the vector above */
  uint32_t index;
} decode_path;

typedef struct decoder decoder;
/* Every function checks bounds and types and fails with decode_error(). */
typedef struct decode_source {
  clave_status (*open_table)(decoder *decoder, const ir_table *table,
                             decode_node *node); /* n becomes the table itself */
  /* The field's own place, or with `of_type` that of its union type. */
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
  const uint8_t *data; /* FlatBuffers: the file */
  size_t size;
  mem_pool *pool;
  size_t budget;    /* bytes the pool may reach */
  uint32_t version; /* the program's, once read */
  const decode_path *path;
  int depth;
};

/* Decodes the table at `root` into the zeroed struct `out`. size: of the file, for the budget. */
clave_status decode_root(decoder *decoder, decode_node root, size_t size, const ir_table *table,
                         void *out) STATUS_CHECK;
/* INVALID, with the path to where the decoder is: "chains[0].instructions[3].op.axis: ..." */
clave_status decode_error(const decoder *decoder, const char *format, ...)
    STATUS_PRINTF(2, 3) STATUS_CHECK STATUS_NEVER_NULL;
/* The error for an enum value or op that this build lacks. */
clave_status decode_unknown(const decoder *decoder, const ir_enum *values,
                            const char *value) STATUS_CHECK STATUS_NEVER_NULL;

/* ---- the formats ---- */
clave_status decode_flatbuffer(const void *data, size_t size, mem_pool *pool,
                               ir_program *out) STATUS_CHECK;
clave_status decode_json(const char *bytes, size_t size, mem_pool *pool,
                         ir_program *out) STATUS_CHECK;
/* Does it carry the program's file identifier? */
bool is_flatbuffer_program(const void *data, size_t size);

#endif
