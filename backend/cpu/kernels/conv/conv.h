#ifndef BACKEND_CPU_KERNELS_CONV_CONV_H
#define BACKEND_CPU_KERNELS_CONV_CONV_H
/* Convolution and its transpose over contiguous tensors of one dtype. The weight may have any
 * encoding. Convolutions of fewer dimensions have leading ones of size 1. */
#include "backend/cpu/kernels/conv/conv_window.h"

KERNEL(conv, conv_args);

/* Packs the weight for kernel_conv into its scratch memory; reads nothing else. For a transposed
 * convolution the layout also depends on the tap_steps. */
KERNEL(conv_pack, conv_args);
/* True if `epilogue` and `steps` may be set. */
bool conv_accepts_epilogue(const conv_args *args);
bool conv_accepts_way(const conv_args *args, conv_way way); /* depends on sizes and dtypes only */
bool conv_is_depthwise(
    const conv_args *args); /* true: it uses no matrix product and ignores `cut` */
/* True if the weight can be packed. It cannot be packed with one input channel per group. An
 * encoded weight (base/code_panels.h) cannot be packed for a transposed convolution, as its rows
 * are input channels. Without packing, each run decodes all of an encoded weight to floats. */
bool conv_packs(const conv_args *args);
bool conv_rounds(const conv_args *args); /* true if CONV_BY_POINTWISE may round */

#endif
