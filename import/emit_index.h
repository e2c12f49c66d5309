#ifndef IMPORT_EMIT_INDEX_H
#define IMPORT_EMIT_INDEX_H
/* Emits ops on positions: counting, combined indices, and elements that data select. */
#include "import/emit.h"

/* 0, 1, ... n - 1 along an axis; the other dimensions of this rank are 1. I64. */
value *emit_positions(importer *im, number n, int axis, int rank);
/* Converts y to input's dtype. */
value *emit_binary_number(importer *im, const char *kind, value *input, number y);
/* One element, repeated to a shape: a view. */
value *emit_fill(importer *im, value *element, int rank, const number *dims);
/* Repeats input along each axis. repeats: (rank) */
value *emit_tile(importer *im, value *input, const number *repeats);
/* Crops by negative numbers and pads by positive ones with one element of input's dtype. */
value *emit_pad_element(importer *im, value *input, const number *before, const number *after,
                        value *element);

/* Reads one integer during the run, which is at least 0 and at most `limit` if that is constant. */
number emit_read_count(importer *im, value *count, number limit);
/* The coordinates of the nonzero elements of input, in row-major order: (*count, rank), I64. */
value *emit_nonzero(importer *im, value *input, number *count);
/* The indices of the nonzero elements of input, which has rank 1: (*count), I64. */
value *emit_true_indices(importer *im, value *input, number *count);
/* The position of input[i0, i1, ...] in its flattened leading dimensions `sizes`, (n). I64. */
value *emit_ravel_index(importer *im, value *const *indices, int n, const number *sizes);
/* As emit_scatter, for all dtypes and kinds. */
value *emit_scatter_any(importer *im, const char *kind, value *input, int axis, value *index,
                        value *source);
/* input with input[i0, i1, ...] = kind(input[i0, i1, ...], source): the leading n dimensions are
 * indexed. */
value *emit_scatter_nd(importer *im, const char *kind, value *input, value *const *indices, int n,
                       value *source);

/* The number at `axis` (0 or more) among numbers that are given for axes; the axes may be known
 * only during the run. */
number emit_number_at(importer *im, const number *axes, const number *given, int n, int axis,
                      number missing);

#endif
