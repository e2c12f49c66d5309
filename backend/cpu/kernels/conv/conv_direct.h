#ifndef BACKEND_CPU_KERNELS_CONV_CONV_DIRECT_H
#define BACKEND_CPU_KERNELS_CONV_CONV_DIRECT_H
/* Direct convolution in float. Inputs are read in place, or from a copy that includes the padding.
 * Outputs are vector lanes, so that small images and strides cost nothing. */
#include "backend/cpu/kernels/conv/conv_window.h"

/* Reads the weight that kernel_conv_direct_pack has packed. */
KERNEL(conv_direct, conv_args);
/* Packs the weight into its scratch memory; reads nothing else. */
KERNEL(conv_direct_pack, conv_args);
/* True if kernel_conv_direct supports the convolution. */
bool conv_is_direct(const conv_args *args);
/* True if kernel_conv_direct is also the fastest way. rounds: operands are pairs of BF16. */
bool conv_suits_direct(const conv_args *args, bool rounds);

#endif
