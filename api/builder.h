#ifndef API_BUILDER_H
#define API_BUILDER_H
/* The object of clave_builder.h: the tables of a program while it grows. Until finish, Tids number
 * the tensors in the order in which they were made, and bodies are stored separately from the
 * methods' chains. */
#include "api/internal.h"
#include "clave_builder.h"
#include "serialize/fields.h"
#include "serialize/limits.h"

typedef enum id_kind { ID_NONE, ID_TENSOR, ID_VALUE, ID_BODY, ID_KINDS } id_kind;
enum { ID_SHIFT = 28 }; /* bits of the index in a clave_id (below LIMIT_ITEMS); the kind is above */

typedef struct slot_kinds {
  slot_kind *items;
  uint32_t count;
} slot_kinds;
typedef struct constant_list {
  constant_data *items;
  uint32_t count;
} constant_list;

struct clave_builder {
  mem_pool *pool; /* owned; holds all tables */
  mem_pool *data; /* owned; holds copied constants; passed on to the program */
  ir_program ir;
  ir_chains bodies;
  slot_kinds kinds;                 /* kinds of ir.tensors, by the same index */
  constant_list constants;          /* data of ir.constants, by the same index */
  uint32_t open[LIMIT_CHAIN_DEPTH]; /* (depth) unfinished bodies, the innermost last */
  uint32_t depth;                   /* number of unfinished bodies */
  const ir_table *table;            /* the instruction whose fields are being set; or NULL */
  void *op;                         /* the fields of that instruction */
  clave_status error;               /* owned; the first error */
  bool finished;
};

/* ---- builder_tables.c ---- */
/* True if the builder exists, has no error and is not finished. */
bool builder_ready(const clave_builder *builder);
/* builder_fail keeps st if it is the first error, else frees it; NULL does nothing. builder_fail_op
 * also adds the node that is being built to the message. */
void builder_fail(clave_builder *builder, clave_status st);
void builder_fail_op(clave_builder *builder, clave_status st);
/* Appends a zeroed item of `size` bytes to a vector (an ir_vector). Returns the item; NULL on
 * failure. */
void *builder_append(clave_builder *builder, void *vector, size_t size);
/* Allocates zeroed memory from the builder's pool; NULL on failure. */
void *builder_alloc(clave_builder *builder, size_t count, size_t size);
/* Copies a text (NULL counts as "") to the pool; NULL on failure. */
const char *builder_text(clave_builder *builder, const char *text);
/* Sets *index to the index in an id of this kind. Fails with INVALID for any other id; the error
 * says what that id is. */
clave_status builder_index(const clave_builder *builder, clave_id id, id_kind kind,
                           uint32_t *index) STATUS_CHECK;
/* Returns the chain that new instructions are added to; NULL before the first method. */
ir_chain *builder_chain(clave_builder *builder);
/* Converts ids of tensors to an array of indices in the pool. */
clave_status builder_tids(clave_builder *builder, const clave_id *ids, uint32_t n,
                          ir_u32s *out) STATUS_CHECK;
/* Makes a list of n sizes. Size i is the value values[i] if its id is not 0, else literals[i].
 * values may be NULL. */
clave_status builder_ints(clave_builder *builder, const int64_t *literals, const clave_id *values,
                          uint32_t n, ir_int_or_vids *out) STATUS_CHECK;

/* ---- builder_fields.c ---- */
/* Ends the current instruction. It is an error if a required field is not set. */
void builder_close_op(clave_builder *builder);

#endif
