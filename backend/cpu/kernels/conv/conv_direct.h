#ifndef BACKEND_CPU_KERNELS_CONV_CONV_DIRECT_H
#define BACKEND_CPU_KERNELS_CONV_CONV_DIRECT_H
/* Convolution in float whose inputs are read where they lie, or in a copy with the padding around
 * them: outputs are the lanes of vectors, so that small images and strides cost nothing. */
#include "backend/cpu/kernels/conv/conv_window.h"

/* The weight is packed by kernel_conv_direct_pack. */
KERNEL(conv_direct, conv_args);
/* Writes the weight, which is read alone, to its scratch memory. */
KERNEL(conv_direct_pack, conv_args);
/* True if the convolution can be made so. */
bool conv_is_direct(const conv_args *args);
/* True if that is also faster for these sizes; rounds: by pairs of BF16. */
bool conv_suits_direct(const conv_args *args, bool rounds);

#endif
