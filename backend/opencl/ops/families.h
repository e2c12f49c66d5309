#ifndef BACKEND_OPENCL_OPS_FAMILIES_H
#define BACKEND_OPENCL_OPS_FAMILIES_H
/* Helpers that several op families share: operands, the split of dimensions into walked and kept
 * ones, work-group sizes for loops. */
#include "backend/opencl/opencl.h"
#include "base/counts.h"

/* Returns one dtype for all dtypes of equal size, for kernels that only move elements. */
dtype moved_type(dtype t);

/* Returns the local size for `items` work-items that each loop over about `work` elements. */
size_t choose_local(const cl_recorder *recorder, int64_t items, int64_t work);
/* Launches (items, others) work-items with `work` elements each. */
clave_status launch_loops(launch *launch, int64_t items, int64_t others, int64_t work) STATUS_CHECK;
/* Splits each tensor of rows_along into its last dimension, over[i], and the others, kept[i]. */
void split_rows(const tensor *rows, int n, tensor *kept, tensor *over);
/* Launches a work-group of `team` work-items per row, or one work-item per row if team is 1. */
clave_status launch_rows(launch *launch, int64_t rows, int64_t row_size, int team) STATUS_CHECK;

/* A walk over a row of contiguous elements: by `team` work-items, W neighbours at a time. */
typedef struct row_walk {
  int team, width;
} row_walk;
/* Returns the walk for `rows` rows of `size` elements: from the tuning table, else by_rule. */
row_walk choose_row_walk(cl_recorder *recorder, const char *family, const node *node,
                         const tensor *tensor, int64_t rows, int64_t size, row_walk by_rule);

/* A walk over rows by a kernel with vector.h: W neighbours at a time, by a work-item or a team. */
typedef struct row_layout {
  bool row;  /* the walked dimension is contiguous in every tensor */
  int team;  /* TEAM: work-items that share a row */
  int width; /* W */
  int strip; /* STRIP: vectors of kept elements per work-item if `row` is false; 0 means 1 */
} row_layout;
/* over[0..n): the walked dimensions of each tensor; kept[0..n): its other dimensions. */
row_layout choose_row_layout(const cl_recorder *recorder, const tensor *kept, const tensor *over,
                             int n);
void launch_row_layout(launch *launch, row_layout layout); /* defines ROW, TEAM, W */
/* Returns the size of the innermost kept dimension. Unless layout.row, a work-item has STRIP *
 * W. */
int64_t kept_row_size(const tensor *kept);
/* Returns the number of work-items (or teams) for the kept dimensions. */
int64_t row_layout_items(row_layout layout, const tensor *kept);

/* For every row of x along an axis, the positions of its elements in ascending order (stable). They
 * are 32-bit integers in scratch memory, `stride` apart. */
typedef struct sorted_positions {
  int64_t offset, pitch, stride; /* in 32-bit integers; pitch: distance between rows */
} sorted_positions;
clave_status launch_sort(cl_recorder *recorder, const node *node, const bound_tensor *tensor,
                         int axis, sorted_positions *out) STATUS_CHECK;

/* out[i] = the mean of row i of `values` (rows, size). Both are contiguous floats, size > 0. */
clave_status launch_means(cl_recorder *recorder, const node *node, const bound_tensor *values,
                          const bound_tensor *out, int64_t rows, int64_t size) STATUS_CHECK;

/* Returns a view of the images [first, first + count) of a dense tensor. */
bound_tensor slice_images(const bound_tensor *tensor, int64_t first, int64_t count);

/* Copies `input` into `out` elementwise (equal dims and dtypes, any strides); kernels_cl/cat.cl. */
clave_status move_elements(cl_recorder *recorder, const node *node, const bound_tensor *input,
                           const bound_tensor *out) STATUS_CHECK;
/* Copies `from`, with any strides, to the contiguous `to`, by rows of its inner dimension. */
clave_status opencl_copy_lines(cl_recorder *recorder, const node *node, const bound_tensor *from,
                               arg_buffer to) STATUS_CHECK;

#endif
