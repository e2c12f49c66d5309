#ifndef OPS_RULE_CHECKS_H
#define OPS_RULE_CHECKS_H
/* Checks shared by the rules of several families. `what` is the operand's name in the schema. */
#include "base/checked.h"
#include "ops/ops.h"

enum { SHAPE_TEXT = 200 }; /* enough for 8 dimensions of 20 digits */

clave_status check_float(const rule_context *context, uint32_t tid, const char *what) STATUS_CHECK;
/* Fails for dtypes that are only stored and moved: U16, U32, U64, F8_E4M3, F8_E5M2. */
clave_status check_computed(const rule_context *context, uint32_t tid,
                            const char *what) STATUS_CHECK;
clave_status check_not_bool(const rule_context *context, uint32_t tid,
                            const char *what) STATUS_CHECK;
clave_status check_index_dtype(const rule_context *context, uint32_t tid,
                               const char *what) STATUS_CHECK; /* I32 or I64 */
/* Fails unless the index tensor's dims, except along the axis, fit into those of input. */
clave_status check_index_fits(const tensor *input, const tensor *index, int axis) STATUS_CHECK;
clave_status check_rank_at_least(const rule_context *context, uint32_t tid, const char *what,
                                 int rank) STATUS_CHECK;
/* Fails unless `tid`, if present, has this dtype and these dims. */
clave_status check_optional(const rule_context *context, uint32_t tid, const char *what, dtype type,
                            int rank, const int64_t *dims) STATUS_CHECK;
/* Fails unless the args and results of chain `index` have the types of these tensors. name: the
 * field that refers to the chain, for messages. */
clave_status rule_body(const rule_context *context, uint32_t index, const char *name,
                       const ir_u32s *args, const ir_u32s *results) STATUS_CHECK;
/* Fails unless the axes are in range and unique. Sets marked[i] if axis i is listed; order (may be
 * NULL) receives the resolved axes. */
clave_status check_axes(const ir_i32s *axes, int rank, bool *marked, int *order) STATUS_CHECK;
/* Fails unless the attribute has one entry per spatial dimension, each at least `least`. */
clave_status check_spatial(const ir_i32s *ints, const char *what, int count,
                           int32_t least) STATUS_CHECK;
/* True if the integer fits the dtype (an integer type or BOOL). */
bool int_fits(dtype t, int64_t v);
/* True if the double is an integer that fits the dtype. */
bool float_fits_int(dtype t, double v);

/* Returns one of two sizes that must agree: the first if it is known, else the second. */
static inline int64_t dim_known(int64_t a, int64_t b) { return a == DIM_UNKNOWN ? b : a; }
/* Reads a list of sizes, such as Reshape.shape. Fails if there are more than MAX_RANK sizes or a
 * size is negative. */
clave_status rule_shape(const rule_context *context, const ir_int_or_vids *values, int *rank,
                        int64_t *dims) STATUS_CHECK;

#endif
