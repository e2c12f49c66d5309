#ifndef IMPORT_ONNX_NBITS_H
#define IMPORT_ONNX_NBITS_H
/* Weights of few bits, as ops of com.microsoft store them. */
#include "import/coded.h"
#include "import/onnx/node.h"

typedef struct nbits {
  int64_t n, k, block, blocks; /* blocks: ceil(k / block) */
  int bits;
  clave_dtype type;          /* the dtype of scales and zeros */
  const uint8_t *codes;      /* (n, blocks, block * bits / 8) */
  const uint8_t *scales;     /* (n, blocks) */
  const uint8_t *zeros;      /* (n, ceil(blocks * bits / 8)), of codes; or NULL */
  const uint8_t *wide_zeros; /* (n, blocks), of the scales' dtype; or NULL */
  int64_t columns; /* > 0: zeros have rows of ceil(columns * bits / 8) for so many weight rows */
} nbits;

int nbits_code(const uint8_t *bytes, int64_t i, int bits); /* code i of packed ones */
float nbits_zero(const nbits *weight, int64_t row, int64_t block);
/* Stores the weight, (..., k), as an encoded constant. */
value *nbits_value(importer *im, const nbits *weight, int rank, const int64_t *dims);
/* Returns the bytes of a constant input of n elements; NULL if it is absent or, with an error, if
 * it is not constant. */
const uint8_t *nbits_constant(node *node, int i, int64_t n);

#endif
