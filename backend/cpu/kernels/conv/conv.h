#ifndef BACKEND_CPU_KERNELS_CONV_CONV_H
#define BACKEND_CPU_KERNELS_CONV_CONV_H
/* Convolution and its transpose over contiguous tensors of one dtype, the weight of any encoding;
 * missing dimensions in front have size 1. */
#include "backend/cpu/kernels/conv/conv_window.h"

KERNEL(conv, conv_args);

/* Writes the weight, which is read alone, to its scratch memory, as kernel_conv wants it. Of a
 * transposed convolution it depends on the tap_steps, too. */
KERNEL(conv_pack, conv_args);
/* Whether it can be told what follows. */
bool conv_takes_tail(const conv_args *args);
bool conv_takes_way(const conv_args *args, conv_way way); /* by sizes and dtypes alone */
bool conv_is_depthwise(const conv_args *args);            /* no product: `cut` does not matter */
/* Whether it can be: not with an input channel a group; of codes (base/code_panels.h) not one that
 * is transposed, whose rows are of input channels. Codes of others are made floats at each use, all
 * of the weight at once. */
bool conv_packs(const conv_args *args);
bool conv_rounds(const conv_args *args); /* and whether CONV_BY_POINTWISE may round then */

#endif
