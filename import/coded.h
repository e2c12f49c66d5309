#ifndef IMPORT_CODED_H
#define IMPORT_CODED_H
/* Quantised constants. The program stores their codes (base/encoding.h), which products,
 * convolutions and embeddings read; other ops read a decoded tensor. A matrix is stored along its
 * rows or its columns, whichever its first reader needs. */
#include "import/value.h"

/* The elements are (code - zero) * scale. codes, scale and zero (or NULL) are constants. */
typedef struct coded_source {
  value *codes, *scale, *zero;
  int axis;      /* the axis along which scales differ; -1: one scale */
  int64_t group; /* codes along the axis that share a scale, which then has the codes' rank; 0: 1 */
} coded_source;

/* Returns a value that is decoded from such codes; NULL, without an error, if no encoding stores
 * them. */
value *coded_constant(importer *im, const coded_source *source);
/* Returns a value that is decoded from an encoded constant of the program. */
value *coded_of_rows(importer *im, clave_id rows, clave_dtype type, int rank, const int64_t *dims);
/* Returns the encoded constant whose rows are those of input, or (transposed) the columns of a
 * matrix input; 0 if no constant stores it in codes. input may be any value. */
clave_id coded_rows(importer *im, const value *input, bool transposed);
value *coded_transpose(importer *im, const value *input); /* input: a coded matrix */
clave_id coded_decode(importer *im, const value *input);  /* emits the decoded tensor */

/* Writes row `row`: its codes, code i in the bits from i * bits on of bytes that are zero, and the
 * scales and zeros (may be NULL) of its groups, the scales in their dtype. */
typedef void (*coded_reader)(const void *context, int64_t row, uint8_t *codes, uint8_t *scales,
                             float *zeros);
typedef struct coded_layout {
  int axis;                 /* the first dimension of a row: the last one, or 1 */
  int64_t rows, row, group; /* group: a multiple of 16, or 0 for the whole row */
  int bits;
  bool has_zeros;   /* otherwise 2^(bits - 1) is subtracted */
  clave_dtype type; /* the dtype of scales and of decoded elements */
} coded_layout;
/* Stores a code of a row, whose bits are zero. */
void coded_store(uint8_t *codes, int64_t i, int bits, unsigned code);
/* Adds an encoded constant of this shape to the program. */
clave_id coded_add(importer *im, const coded_layout *layout, int rank, const int64_t *dims,
                   coded_reader read, const void *context);

#endif
