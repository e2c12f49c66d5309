/* Weights of few bits. */
#include "import/onnx/nbits.h"

#include <string.h>

#include "base/dtype.h"

int nbits_code(const uint8_t *bytes, int64_t i, int bits) {
  const int64_t at = i * bits;
  return bytes[at / 8] >> (at % 8) & ((1 << bits) - 1);
}

float nbits_zero(const nbits *weight, int64_t row, int64_t block) {
  const size_t size = clave_dtype_size(weight->type);
  if (weight->wide_zeros)
    return (float)element_number(
        (dtype)weight->type, weight->wide_zeros + (size_t)(row * weight->blocks + block) * size);
  if (!weight->zeros) return (float)(1 << (weight->bits - 1));
  if (weight->columns) {
    const int64_t bytes = (weight->columns * weight->bits + 7) / 8;
    return (float)nbits_code(weight->zeros + row / weight->columns * bytes, row % weight->columns,
                             weight->bits);
  }
  const int64_t row_bytes = (weight->blocks * weight->bits + 7) / 8;
  return (float)nbits_code(weight->zeros + row * row_bytes, block, weight->bits);
}

static void nbits_read(const void *context, int64_t row, uint8_t *codes, uint8_t *scales,
                       float *zeros) {
  const nbits *weight = context;
  const size_t size = clave_dtype_size(weight->type);
  const int64_t row_bytes = weight->blocks * weight->block * weight->bits / 8,
                bits = weight->k * weight->bits;
  memcpy(codes, weight->codes + row * row_bytes, (size_t)((bits + 7) / 8));
  if (bits % 8) codes[bits / 8] &= (uint8_t)((1 << (bits % 8)) - 1);
  memcpy(scales, weight->scales + (size_t)(row * weight->blocks) * size,
         (size_t)weight->blocks * size);
  for (int64_t g = 0; zeros && g < weight->blocks; g++) zeros[g] = nbits_zero(weight, row, g);
}

const uint8_t *nbits_constant(node *node, int i, int64_t n) {
  value *x = node_input(node, i);
  if (!x || !import_ok(node->im)) return NULL;
  if (!value_is_constant(x)) {
    import_unsupported(node->im, "input %d is not constant", i);
  } else if (value_count(x) != n) {
    import_invalid(node->im, "input %d has %lld elements, expected %lld", i,
                   (long long)value_count(x), (long long)n);
  } else {
    return value_bytes(node->im, x);
  }
  return NULL;
}

value *nbits_value(importer *im, const nbits *weight, int rank, const int64_t *dims) {
  const coded_layout layout = {.axis = rank - 1,
                               .rows = weight->n,
                               .row = weight->k,
                               .group = weight->blocks > 1 ? weight->block : 0,
                               .bits = weight->bits,
                               .has_zeros = weight->zeros || weight->wide_zeros,
                               .type = weight->type};
  const clave_id rows = coded_add(im, &layout, rank, dims, nbits_read, weight);
  return coded_of_rows(im, rows, weight->type, rank, dims);
}
