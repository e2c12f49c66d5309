#ifndef API_BUILDER_H
#define API_BUILDER_H
/* The object behind clave_builder.h: a program's tables as they grow. Until finish, the Tids in
 * them number the tensors as they were made, and bodies lie apart from the methods' chains. */
#include "api/internal.h"
#include "clave_builder.h"
#include "serialize/fields.h"
#include "serialize/limits.h"

typedef enum id_kind { ID_NONE, ID_TENSOR, ID_VALUE, ID_BODY, ID_KINDS } id_kind;
enum { ID_SHIFT = 28 }; /* of a kind in a clave_id, above an index below LIMIT_ITEMS */

typedef struct slot_kinds {
  slot_kind *items;
  uint32_t count;
} slot_kinds;
typedef struct constant_list {
  constant_data *items;
  uint32_t count;
} constant_list;

struct clave_builder {
  mem_pool *pool; /* of all tables */
  mem_pool *data; /* copied constants: handed over to the program */
  ir_program ir;
  ir_chains bodies;
  slot_kinds kinds;                 /* of ir.tensors */
  constant_list constants;          /* as ir.constants */
  uint32_t open[LIMIT_CHAIN_DEPTH]; /* bodies begun and not ended, the innermost last */
  uint32_t depth;                   /* of them */
  const ir_table *table;            /* of the instruction whose fields are set; NULL: none */
  void *op;                         /* its fields */
  clave_status error;               /* the first; owned */
  bool finished;
};

/* ---- builder_tables.c ---- */
/* True if there is something to do: a builder, without an error, not finished. */
bool builder_ready(const clave_builder *builder);
/* Keeps the first error; NULL: none. Consumes it. _op: with the node that is being built. */
void builder_fail(clave_builder *builder, clave_status st);
void builder_fail_op(clave_builder *builder, clave_status st);
/* A new zeroed item at the end of a vector (as ir_vector) of items of `size` bytes; NULL: failed.
 */
void *builder_append(clave_builder *builder, void *vector, size_t size);
/* Zeroed memory of the builder; NULL: failed. */
void *builder_alloc(clave_builder *builder, size_t count, size_t size);
/* A copy; NULL counts as "". NULL: failed. */
const char *builder_text(clave_builder *builder, const char *text);
/* The index in an id of this kind; an error says what the id is. */
clave_status builder_index(const clave_builder *builder, clave_id id, id_kind kind,
                           uint32_t *index) STATUS_CHECK;
/* The chain that instructions go to; NULL before the first method. */
ir_chain *builder_chain(clave_builder *builder);
/* Tensors' indices, in the pool. */
clave_status builder_tids(clave_builder *builder, const clave_id *ids, uint32_t n,
                          ir_u32s *out) STATUS_CHECK;
/* Literals, and values where those are not 0 (NULL: nowhere). */
clave_status builder_ints(clave_builder *builder, const int64_t *literals, const clave_id *values,
                          uint32_t n, ir_int_or_vids *out) STATUS_CHECK;

/* ---- builder_fields.c ---- */
/* Checks that the instruction being built has all that it needs; then there is none. */
void builder_close_op(clave_builder *builder);

#endif
