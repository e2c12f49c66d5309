#ifndef OPS_NODE_H
#define OPS_NODE_H
/* An instruction with all sizes known, and what its description is made with. Each family has a
 * header <family>.h with the normal forms of its ops: what both backends select kernels and fill in
 * arguments from. describe_<op>(n, &form) cannot fail: the rules have run. */
#include "base/tuning.h"
#include "ops/ops.h"
#include "ops/tensor.h"

typedef struct buffer buffer; /* device memory: backend/backend.h */

/* A slot's tensor, and where it lies while it runs. A description's tensor is one of these with
 * other dims, strides and offset. */
typedef struct bound_tensor {
  tensor tensor;
  uint32_t slot;        /* Tid */
  buffer *buf;          /* NULL in descriptions, and of no elements */
  size_t buffer_offset; /* in bytes, added to t.offset elements */
  bool is_constant;     /* in records: it is, or views, */
  uint32_t constant;    /* this constant, by Tid, */
  bool is_multiplied;   /* which a product of the program reads as its b */
} bound_tensor;

typedef struct node {
  const ir_instruction *instruction;
  const bound_tensor *tensors; /* by Tid; only this node's operands are there */
  const tensor *types; /* by Tid, as the program has them; NULL: all operands are stored as that */
  const scalar_value *values; /* by Vid; all known */
  void **cache; /* the backend's own, for the instruction; NULL at first, see cache_destroy */
  variant_choices *choices; /* what is chosen while it is recorded, for tuners; or NULL */
} node;

/* NULL: the optional operand is not there. */
static inline const bound_tensor *operand_of(const node *node, uint32_t tid) {
  return tid == IR_NONE ? NULL : &node->tensors[tid];
}
/* The type that the program gives an operand: F32 also where it is stored as BF16. */
static inline dtype program_type(const node *node, uint32_t tid) {
  return node->types ? node->types[tid].type : node->tensors[tid].tensor.type;
}
/* A literal or the value slot it names. */
int64_t int_of(const node *node, const ir_int_or_vid *value);
double float_of(const node *node, const ir_float_or_vid *value);

/* `axis` counted from the end when negative. */
static inline int axis_of(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }
/* The sub-tensor of dimensions [from, to) of tensor, strides kept, offset 0. */
tensor take_dims(const tensor *tensor, int from, int to);
/* The product of dims [from, to). */
int64_t count_dims(const tensor *tensor, int from, int to);
/* n tensors of equal dims: the dimensions whose bit is set in `axes` go to over[n], the others to
 * kept[n], each in their order, both collapsed, offset 0. */
void split_dims(const tensor *ts, int n, unsigned axes, tensor *kept, tensor *over);
/* n tensors of equal dims but along `axis`: rows[i] has that dimension last (of stride 1 where it
 * is of one element; of a scalar one of 1), the others in front of it, merged where all can be
 * walked as one; offset 0. */
void rows_along(const tensor *ts, int n, int axis, tensor *rows);
/* operand broadcast to the shape of `shape`. */
bound_tensor broadcast_operand(const bound_tensor *operand, const tensor *shape);

/* Of convolutions, pools and the like: kernels always have three, missing ones stand in front. */
enum { SPATIAL_DIMS = 3 };
/* The numbers of n spatial dimensions, right-aligned; the missing ones become `absent`. */
void align_right(const ir_i32s *from, int n, int64_t absent, int64_t out[SPATIAL_DIMS]);
/* The last n sizes of tensor, right-aligned; the missing ones become 1. */
void align_dims(const tensor *tensor, int n, int64_t out[SPATIAL_DIMS]);

#endif
