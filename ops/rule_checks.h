#ifndef OPS_RULE_CHECKS_H
#define OPS_RULE_CHECKS_H
/* Checks that several families' rules share. `what` names the operand as the schema does. */
#include "base/checked.h"
#include "ops/ops.h"

enum { SHAPE_TEXT = 200 }; /* enough for 8 dimensions of 20 digits */

clave_status check_float(const rule_context *context, uint32_t tid, const char *what) STATUS_CHECK;
/* What is computed with, not only moved: no U16 U32 U64 F8_E4M3 F8_E5M2. */
clave_status check_computed(const rule_context *context, uint32_t tid,
                            const char *what) STATUS_CHECK;
clave_status check_not_bool(const rule_context *context, uint32_t tid,
                            const char *what) STATUS_CHECK;
clave_status check_index_dtype(const rule_context *context, uint32_t tid,
                               const char *what) STATUS_CHECK; /* I32 or I64 */
/* An index tensor's dims fit into input's outside of the axis. */
clave_status check_index_fits(const tensor *input, const tensor *index, int axis) STATUS_CHECK;
clave_status check_rank_at_least(const rule_context *context, uint32_t tid, const char *what,
                                 int rank) STATUS_CHECK;
/* Error unless `tid`, where present, has the dtype and these dims. */
clave_status check_optional(const rule_context *context, uint32_t tid, const char *what, dtype type,
                            int rank, const int64_t *dims) STATUS_CHECK;
/* The chain's args and results have the types of these. name: of the field. */
clave_status rule_body(const rule_context *context, uint32_t index, const char *name,
                       const ir_u32s *args, const ir_u32s *results) STATUS_CHECK;
/* Axes in range and unique; marked[i] tells whether axis i is listed, order (may be NULL) has them
 * normalised. */
clave_status check_axes(const ir_i32s *axes, int rank, bool *marked, int *order) STATUS_CHECK;
/* An attribute with one entry per spatial dimension, each at least `least`. */
clave_status check_spatial(const ir_i32s *ints, const char *what, int count,
                           int32_t least) STATUS_CHECK;
/* The integer fits the dtype (integers and BOOL). */
bool int_fits(dtype t, int64_t v);
/* The double is an integer that fits the dtype. */
bool float_fits_int(dtype t, double v);

/* Of two sizes that must agree: the known one. */
static inline int64_t dim_known(int64_t a, int64_t b) { return a == DIM_UNKNOWN ? b : a; }
/* A list of sizes, e.g. Reshape.shape: none negative, at most MAX_RANK. */
clave_status rule_shape(const rule_context *context, const ir_int_or_vids *values, int *rank,
                        int64_t *dims) STATUS_CHECK;

#endif
