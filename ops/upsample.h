#ifndef OPS_UPSAMPLE_H
#define OPS_UPSAMPLE_H
/* Planes of another size. */
#include "base/resample.h"
#include "ops/node.h"

/* x: (planes, in...), out: (planes, out...) of the axes, both contiguous. Missing dimensions stand
 * in front; they stay (RESAMPLE_NONE), as do those of an op for one dimension at a time that keep
 * their size. */
typedef struct upsample_form {
  const bound_tensor *x, *out;
  ir_upsample_mode mode;
  bool one_at_a_time; /* at most one axis changes: antialiased, or linear and cubic of bytes */
  int64_t planes;
  resample_axis axes[SPATIAL_DIMS];
  int precision; /* of quantized weights: resample_precision; 0: none are */
} upsample_form;
/* Whether weights become integers: linear and cubic of 8-bit images. */
bool upsample_is_quantized(const ir_upsample *op, dtype type);
void describe_upsample(const node *node, upsample_form *desc);

#endif
