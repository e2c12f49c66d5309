#ifndef BACKEND_CPU_KERNELS_CONV_POINTWISE_BF16_H
#define BACKEND_CPU_KERNELS_CONV_POINTWISE_BF16_H
/* Tiles of pointwise_kernels.h's rounded convolutions with values that are kept as BF16 (bf16.h):
 * planes are read where they lie, two rows at a time, and results rounded as they are stored. */
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

/* c (rows, columns) = limits(a times b + bias + added). */
typedef struct bf16_tile {
  int64_t channels;  /* k of a, two in a word of pairs.h */
  const uint32_t *a; /* word (row, i): a[i * a_step + row] */
  int64_t a_step;
  const void *b; /* b_is_planes: element (channel, column) is b[channel * b_step + column], of BF16;
                    else words, word (i, column) is b[i * b_step + column] */
  int64_t b_step;
  const float *bias; /* (rows), or NULL */
  const void *added; /* as c, or NULL */
  void *c;           /* element (row, column): c[row * c_step + column] */
  int64_t c_step;
  bool b_is_planes;
  dtype added_type, c_type; /* F32 or BF16 */
  float low, high;
} bf16_tile;

enum { BF16_ROWS = 12, BF16_COLUMNS = 32 };
/* columns: BF16_COLUMNS, or half of them. */
void bf16_tile_run(const bf16_tile *tile, int rows, int columns);
/* The same of sums (rows, BF16_COLUMNS) of any number of rows, by AVX-512. */
void bf16_tile_store(const bf16_tile *tile, int rows, int columns, const float *sums);

#endif
