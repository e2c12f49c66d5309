#ifndef OPS_TENSOR_H
#define OPS_TENSOR_H
/* Types and layouts of tensors for shape rules, the planner and the backends. */
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/encoding.h"

enum { MAX_RANK = 8 };

/* A dimension that is not known yet, because a Vid sets it. It matches any size in rules. It occurs
 * only while a program is verified: at run time all dimensions are known. */
#define DIM_UNKNOWN ((int64_t)-1)

typedef struct tensor {
  dtype type; /* the stored dtype: BF16 also for an F32 tensor that fast precision stores as BF16 */
  int rank;
  int64_t dims[MAX_RANK];
  int64_t strides[MAX_RANK]; /* in elements, may be 0 or negative */
  int64_t offset;            /* element [0, ..., 0], in elements from the start of the storage */
  encoding encoding;         /* encoding of a constant's bytes; encoded tensors have no strides */
} tensor;

int64_t tensor_numel(const tensor *tensor); /* 1 for rank 0; dims must be known */
/* Encoded tensors only: elements per row, and number of rows. */
int64_t tensor_row(const tensor *tensor);
int64_t tensor_rows(const tensor *tensor);
/* Returns the tensor as files store it. An encoded tensor is stored as U8, with the bytes of each
 * row as its last dimension. */
tensor tensor_stored(const tensor *tensor);
bool tensor_bytes(const tensor *tensor, size_t *out); /* false on overflow or an unknown dim */
void tensor_set_contiguous(tensor *tensor);           /* row-major strides, offset 0 */
bool tensor_is_contiguous(const tensor *tensor); /* row-major, at any offset; skips size-1 dims */
/* True if dtype, dims, strides and offset are equal; encodings are not compared. */
bool tensor_same_view(const tensor *left, const tensor *right);
bool tensor_rows_contiguous(const tensor *tensor); /* last dimension: stride 1 (or size <= 1) */
/* Writes the dims as "(2, 3)" into buf and returns buf. */
const char *tensor_shape_text(const tensor *tensor, char *buf, int size);

/* Drops dimensions of size 1 and merges adjacent dimensions that all n tensors can walk as one. The
 * tensors have equal dims (broadcast dimensions have stride 0) and are changed in place. A single
 * element results in rank 0, no elements in one dimension of size 0. */
void tensors_collapse(tensor *ts, int n);
/* Sets out to input broadcast to `shape` of rank `rank`, right-aligned, with stride 0 along
 * repeated dimensions. input must be broadcastable to `shape`. */
void tensor_broadcast(const tensor *input, int rank, const int64_t *shape, tensor *out);

#endif
