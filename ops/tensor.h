#ifndef OPS_TENSOR_H
#define OPS_TENSOR_H
/* A tensor's type and layout, as shape rules, the planner and the backends see it. */
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/encoding.h"

enum { MAX_RANK = 8 };

/* A dimension that is not known yet (a Vid at verify time). Rules let it match anything; none is
 * left at run time. */
#define DIM_UNKNOWN ((int64_t)-1)

typedef struct tensor {
  dtype type; /* of what is stored: BF16 also where fast precision keeps F32 so */
  int rank;
  int64_t dims[MAX_RANK];
  int64_t strides[MAX_RANK]; /* in elements, may be 0 or negative */
  int64_t offset;            /* of element [0, ..., 0], in elements from the start of the storage */
  encoding encoding;         /* of a constant's bytes, which then have no strides */
} tensor;

int64_t tensor_numel(const tensor *tensor); /* 1 for rank 0; dims must be known */
/* Of an encoded tensor: elements of a row, and how many rows. */
int64_t tensor_row(const tensor *tensor);
int64_t tensor_rows(const tensor *tensor);
/* As files hold it: an encoded one as U8, the bytes of a row in place of a row's dimensions. */
tensor tensor_stored(const tensor *tensor);
bool tensor_bytes(const tensor *tensor,
                  size_t *out); /* of its elements; false on overflow or an unknown dim */
void tensor_set_contiguous(tensor *tensor); /* row-major strides, offset 0 */
bool tensor_is_contiguous(
    const tensor *tensor); /* row-major, whatever the offset; size-1 dims don't matter */
/* The same type, dims, strides and offset, encoding aside. */
bool tensor_same_view(const tensor *left, const tensor *right);
bool tensor_rows_contiguous(
    const tensor *tensor); /* the last dimension has stride 1 (or size <= 1) */
/* dims as "(2, 3)" into buf; returns buf. */
const char *tensor_shape_text(const tensor *tensor, char *buf, int size);

/* Drops size-1 dimensions and merges neighbours that every one of the n tensors can walk as one
 * (all have equal dims; broadcast ones have stride 0). Changes the tensors in place; an element
 * count of 1 gives rank 0. */
void tensors_collapse(tensor *ts, int n);
/* Writes input's strides for iterating over `shape` of rank `rank` (right-aligned broadcast: stride
 * 0) into out, a copy of input with those dims. input must be broadcastable to it. */
void tensor_broadcast(const tensor *input, int rank, const int64_t *shape, tensor *out);

#endif
