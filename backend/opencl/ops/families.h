#ifndef BACKEND_OPENCL_OPS_FAMILIES_H
#define BACKEND_OPENCL_OPS_FAMILIES_H
/* Helpers that several op families share: operands, dimensions split into walked and kept ones,
 * group sizes for loops. */
#include "backend/opencl/opencl.h"
#include "base/counts.h"

/* Returns one dtype for all dtypes of equal size, for kernels that only move elements. */
dtype moved_type(dtype t);

/* Returns the local size for `items` work-items that each loop over about `work` elements. */
size_t choose_local(const cl_recorder *recorder, int64_t items, int64_t work);
/* Launches (items, others) work-items, `work` elements each. */
clave_status launch_loops(launch *launch, int64_t items, int64_t others, int64_t work) STATUS_CHECK;
/* Splits each of n tensors of rows_along into its last dimension (over) and the rest (kept). */
void split_rows(const tensor *rows, int n, tensor *kept, tensor *over);
/* Launches `rows` groups of `team` work-items, or one work-item per row if team is 1. */
clave_status launch_rows(launch *launch, int64_t rows, int64_t row_size, int team) STATUS_CHECK;

/* A walk over a row of contiguous elements: by `team` work-items, W neighbours at a time. */
typedef struct row_walk {
  int team, width;
} row_walk;
/* Returns the walk for `rows` rows of `size` elements: from the tuning table, else by_rule. */
row_walk choose_row_walk(cl_recorder *recorder, const char *family, const node *node,
                         const tensor *tensor, int64_t rows, int64_t size, row_walk by_rule);

/* The walk of a kernel with vector.h over rows: W neighbours at a time, alone or as a team. */
typedef struct row_class {
  bool row;  /* the walked dimension is contiguous in every tensor */
  int team;  /* TEAM: work-items that share a row; 1 if they do not */
  int width; /* W */
  int strip; /* STRIP: vectors of kept elements per work-item without ROW; 0 and 1 mean one */
} row_class;
/* over[0..n): the walked dimensions; kept[0..n): the rest. */
row_class choose_row_class(const cl_recorder *recorder, const tensor *kept, const tensor *over,
                           int n);
void launch_row_class(launch *launch, row_class class); /* defines ROW, TEAM, W */
/* Returns the innermost kept dimension. Without ROW, a work-item has STRIP * W elements of it. */
int64_t kept_row_size(const tensor *kept);
/* Returns the number of work-items (or teams) for the kept dimensions. */
int64_t row_class_items(row_class class, const tensor *kept);

/* Sorted positions along `axis` of every row of x: ascending by element, stable. They are 32-bit
 * integers in the stream's scratch memory, `step` apart. */
typedef struct sorted_places {
  int64_t offset, pitch, step; /* in 32-bit integers; pitch: distance between rows */
} sorted_places;
clave_status launch_sort(cl_recorder *recorder, const node *node, const bound_tensor *tensor,
                         int axis, sorted_places *out) STATUS_CHECK;

/* out[i] = the mean of row i of `values` (rows, size). Both are contiguous floats, size > 0. */
clave_status launch_means(cl_recorder *recorder, const node *node, const bound_tensor *values,
                          const bound_tensor *out, int64_t rows, int64_t size) STATUS_CHECK;

/* Returns a view of the images [first, first + count) of a dense tensor. */
bound_tensor take_images(const bound_tensor *tensor, int64_t first, int64_t count);

/* Copies `input` into `out` elementwise (equal dims and dtypes, any strides); kernels_cl/cat.cl. */
clave_status move_elements(cl_recorder *recorder, const node *node, const bound_tensor *input,
                           const bound_tensor *out) STATUS_CHECK;
/* Copies `from`, with any strides, to the contiguous `to`, by rows of its inner dimension. */
clave_status opencl_copy_lines(cl_recorder *recorder, const node *node, const bound_tensor *from,
                               arg_buffer to) STATUS_CHECK;

#endif
