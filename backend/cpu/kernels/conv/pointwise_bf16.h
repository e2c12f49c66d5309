#ifndef BACKEND_CPU_KERNELS_CONV_POINTWISE_BF16_H
#define BACKEND_CPU_KERNELS_CONV_POINTWISE_BF16_H
/* Tiles of rounded pointwise convolutions with values that are kept as BF16 (bf16.h). Planes are
 * read in place, two rows at a time, and results are rounded when they are stored. */
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

/* A tile c (rows, columns) = min(max(a * b + bias + added, low), high). */
typedef struct bf16_tile {
  int64_t channels;  /* k of a; a word of pairs.h holds two */
  const uint32_t *a; /* word (row, i): a[i * a_stride + row] */
  int64_t a_stride;
  const void *b; /* if b_is_planes, BF16 element (channel, column) is b[channel * b_stride +
                    column]; otherwise word (i, column) is b[i * b_stride + column] */
  int64_t b_stride;
  const float *bias; /* (rows), may be NULL */
  const void *added; /* laid out like c, may be NULL */
  void *c;           /* element (row, column): c[row * c_stride + column] */
  int64_t c_stride;
  bool b_is_planes;
  dtype added_type, c_type; /* F32 or BF16 */
  float low, high;
} bf16_tile;

enum { BF16_ROWS = 12, BF16_COLUMNS = 32 };
/* columns: BF16_COLUMNS, or half of them. */
void bf16_tile_run(const bf16_tile *tile, int rows, int columns);
/* Like bf16_tile_run, for sums (rows, BF16_COLUMNS) of any number of rows, by AVX-512. */
void bf16_tile_store(const bf16_tile *tile, int rows, int columns, const float *sums);

#endif
