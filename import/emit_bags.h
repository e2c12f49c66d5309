#ifndef IMPORT_EMIT_BAGS_H
#define IMPORT_EMIT_BAGS_H
/* Emits interpolation at fractional positions, and sums and maxima over groups of elements whose
 * sizes depend on data. */
#include "import/emit_index.h"

enum { CORNERS = 4 }; /* elements around a position in an image */

/* Elements that are grouped into consecutive parts. */
typedef struct parts {
  number total; /* elements */
  value *first; /* (parts), I64: the elements before each part */
  value *owner; /* (total), I64: the part of each element */
  value *place; /* (total), I64: the element's place in its part */
} parts;

/* Makes parts of sizes: (parts), I64, which are read during the run. */
parts emit_parts(importer *im, value *sizes);
parts emit_equal_parts(importer *im, number size, number n);

value *emit_flat(importer *im, value *input);                                  /* (numel) */
value *emit_flat_as(importer *im, value *input, int rank, const number *dims); /* broadcast first */
/* Returns the indices of the elements below and above a position, counted from `first`, (..., 2),
 * I64, and their weights. position: (..., 1), clamped to [first, last]. */
value *emit_neighbours(importer *im, value *position, int64_t first, number last, value **weights);
/* Returns the sums of bags of rows, each times its weight, or without weights the maxima: (bags,
 * dim). table: (n, dim); index: (m), its rows; first: (bags), where they begin in index; weights:
 * (m) or NULL. An empty bag is 0. */
value *emit_bags(importer *im, value *table, value *index, value *first, value *weights);
/* input (N, C, H, W) as rows of channels: (N * H * W, C) */
value *emit_channel_rows(importer *im, value *input);

#endif
