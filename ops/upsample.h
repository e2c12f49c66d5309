#ifndef OPS_UPSAMPLE_H
#define OPS_UPSAMPLE_H
/* Resizing of planes. */
#include "base/resample.h"
#include "ops/node.h"

/* x: (planes, in...), out: (planes, out...), sizes in axes; both contiguous. Missing spatial
 * dimensions are prepended. Missing dimensions are not resampled (RESAMPLE_NONE). Dimensions that
 * keep their size are not resampled either if the op resamples one dimension at a time. */
typedef struct upsample_desc {
  const bound_tensor *x, *out;
  ir_upsample_mode mode;
  bool one_at_a_time; /* at most one size changes, as the rule requires for antialiasing and for
                         linear and cubic modes of U8 */
  int64_t planes;
  resample_axis axes[SPATIAL_DIMS];
  int precision; /* bits of quantized weights (resample_precision); 0: not quantized */
} upsample_desc;
/* True if weights are quantized to integers: linear and cubic modes of 8-bit images. */
bool upsample_is_quantized(const ir_upsample *op, dtype type);
void describe_upsample(const node *node, upsample_desc *desc);

#endif
