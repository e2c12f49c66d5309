#ifndef OPS_NODE_H
#define OPS_NODE_H
/* Nodes: instructions with all sizes known, and helpers to describe them. Each family's header has
 * the descriptions of its ops, from which both backends select kernels and fill in arguments.
 * describe_<op>(node, &desc) cannot fail, because the rules have run before. */
#include "base/tuning.h"
#include "ops/ops.h"
#include "ops/tensor.h"

typedef struct buffer buffer; /* device memory: backend/backend.h */

/* The tensor of a slot, and its memory during a run. Descriptions consist of bound tensors, some of
 * which have other dims, strides and offsets than their slot. */
typedef struct bound_tensor {
  tensor tensor;
  uint32_t slot;        /* Tid */
  buffer *buf;          /* NULL while recording, and for tensors without elements */
  size_t buffer_offset; /* in bytes, added to the tensor's offset in elements */
  bool is_constant;     /* while recording: true if the slot is a constant or a view of one */
  uint32_t constant;    /* Tid of that constant */
  bool is_multiplied;   /* true if a matmul of the program reads this constant as its b */
} bound_tensor;

typedef struct node {
  const ir_instruction *instruction;
  const bound_tensor *tensors; /* by Tid; only this node's operands are set */
  const tensor
      *types; /* by Tid, as in the program; NULL if all operands are stored with these dtypes */
  const scalar_value *values; /* by Vid; all are known */
  void **cache; /* owned by the backend, per instruction; NULL at first, see cache_destroy */
  variant_choices *choices; /* records the variants that are chosen, for tuning; may be NULL */
} node;

/* Returns NULL if the optional operand is absent. */
static inline const bound_tensor *operand_of(const node *node, uint32_t tid) {
  return tid == IR_NONE ? NULL : &node->tensors[tid];
}
/* Returns an operand's dtype in the program, such as F32 for an operand that is stored as BF16. */
static inline dtype program_type(const node *node, uint32_t tid) {
  return node->types ? node->types[tid].type : node->tensors[tid].tensor.type;
}
/* Returns the literal, or the value of the host scalar that the field names. */
int64_t int_of(const node *node, const ir_int_or_vid *value);
double float_of(const node *node, const ir_float_or_vid *value);

/* Returns the axis; a negative `axis` counts from the end. */
static inline int axis_of(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }
/* Returns the sub-tensor of dimensions [from, to), with its strides and offset 0. */
tensor take_dims(const tensor *tensor, int from, int to);
/* Returns the product of dims [from, to). */
int64_t count_dims(const tensor *tensor, int from, int to);
/* Splits the dimensions of n tensors with equal dims: over[i] gets the dimensions of ts[i] whose
 * bit is set in `axes`, kept[i] the others, in their order. All over[i] are collapsed together, and
 * all kept[i], with offset 0. */
void split_dims(const tensor *ts, int n, unsigned axes, tensor *kept, tensor *over);
/* Sets rows[i] to ts[i] with dimension `axis` moved to the end. The tensors have equal dims except
 * along `axis`; their other dimensions are collapsed together, with offset 0. If the last dimension
 * has size 1, its stride is 1. A tensor of rank 0 gets a last dimension of size 1. */
void rows_along(const tensor *ts, int n, int axis, tensor *rows);
/* Returns operand broadcast to the dims of `shape`. */
bound_tensor broadcast_operand(const bound_tensor *operand, const tensor *shape);

/* Spatial dimensions in kernels of convolutions, pools, ...; missing ones are prepended. */
enum { SPATIAL_DIMS = 3 };
/* Copies the values of n spatial dimensions, right-aligned; missing ones are set to `absent`. */
void align_right(const ir_i32s *from, int n, int64_t absent, int64_t out[SPATIAL_DIMS]);
/* Copies the last n sizes of tensor, right-aligned; missing ones are set to 1. */
void align_dims(const tensor *tensor, int n, int64_t out[SPATIAL_DIMS]);

#endif
