#ifndef IMPORT_VALUE_H
#define IMPORT_VALUE_H
/* A tensor during an import: its dtype and shape, and what is known of its elements. Sizes that a
 * model computes with tensors (Shape, Gather, Concat, Reshape) stay numbers of the host. An op that
 * reads such a value as a tensor gets one when it first needs it. */
#include "import/number.h"

enum {
  MAX_ELEMENTS = 1024, /* constants of at most so many elements are computed at import */
  MAX_NUMBERS = 64     /* and tensors of at most so many elements that depend on sizes */
};

typedef struct coded coded; /* a quantised constant (import/coded.h) */

typedef struct value {
  clave_dtype type;
  int rank;
  number dims[CLAVE_MAX_RANK];
  int bits;               /* 2 or 4: integers of so many bits, one in each byte; 0: as the dtype */
  const char *name;       /* in pool; a constant's name in the file, or "" */
  const void *data;       /* a constant's contiguous elements, borrowed; or NULL */
  const number *elements; /* in pool: all elements in row-major order; NULL: not known */
  clave_id tensor;        /* 0: not made yet */
  coded *coded;           /* in pool: `tensor` is decoded from this; or NULL */
  bool is_transposed;     /* the value is the transpose of the matrix that `coded` decodes to */
  uint32_t scope;         /* the scope in which `tensor` was made */
  bool is_argument;       /* `tensor` is an argument of a body */
  bool is_of_tokens;      /* computed from a language model's tokens or their positions */
  bool is_sequence;       /* a list of tensors instead of a tensor; it has no dtype and no shape */
  struct value **items;   /* (n_items) of a sequence; in pool */
  int n_items;
} value;

/* Return a new value; NULL after an error. dims and elements are copied, data are borrowed. */
value *value_new(importer *im, clave_dtype type, int rank, const number *dims);
value *value_constant(importer *im, const char *name, clave_dtype type, int rank,
                      const int64_t *dims, const void *data);
value *value_numbers(importer *im, clave_dtype type, int rank, const int64_t *dims,
                     const number *elements);
value *value_of_number(importer *im, clave_dtype type, number element); /* rank 0 */
value *value_ints(importer *im, const int64_t *ints, int n);            /* (n), I64 */
value *value_of_float(importer *im, clave_dtype type, double f);        /* rank 0 */
value *value_sequence(importer *im, value *const *items, int n);        /* copies the list */

int64_t value_count(const value *input);              /* the number of elements; -1: open */
number value_numel(importer *im, const value *input); /* the same as a number */
bool value_is_constant(const value *input);           /* its elements do not depend on inputs */
bool value_has_shape(const value *input, int rank, const int64_t *dims); /* exactly these sizes */
bool value_is_same_shape(const value *input, const value *other);

/* Returns all elements as numbers, or NULL if they are not known without reading a tensor. */
const number *value_known(importer *im, value *input);
/* Returns all elements as numbers. Elements of a computed tensor are read back during the run.
 * `what` names the operand in the message if there are too many. */
const number *value_elements(importer *im, value *input, const char *what);
/* Copies the elements, which must be constant, to an array of `capacity`. Returns their number. */
int value_constant_ints(importer *im, value *input, const char *what, int64_t *out, int capacity);
int value_constant_floats(importer *im, value *input, const char *what, double *out, int capacity);
/* Returns the only element of input, which has one. */
number value_scalar(importer *im, value *input, const char *what);

/* Returns the elements of a constant as contiguous bytes; NULL if input is not constant. */
const void *value_bytes(importer *im, value *input);
/* Returns the tensor, which is made if necessary. */
clave_id value_tensor(importer *im, value *input);
/* Rounds a constant float to a dtype, as a tensor of that dtype stores it. */
number value_rounded(clave_dtype type, number a);

#endif
