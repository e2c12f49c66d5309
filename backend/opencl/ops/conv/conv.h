#ifndef BACKEND_OPENCL_OPS_CONV_CONV_H
#define BACKEND_OPENCL_OPS_CONV_CONV_H
/* Convolutions: the functions in the rows of the table in conv.c. Row `x` has conv_x, which records
 * it, and conv_x_usable unless all are supported. conv is a const conv_problem *. */
#include "backend/opencl/opencl.h"
#include "ops/conv.h"

/* A convolution on the recorder's device. */
typedef struct conv_problem {
  cl_recorder *recorder;
  const node *node;
  conv_desc desc;
  bool accepts_dots, has_dots; /* set by conv_probe_dots */
  const int64_t *parameters;   /* parameters of the row that is being recorded */
} conv_problem;

static inline tuning_key conv_key(const cl_recorder *recorder, const conv_desc *desc) {
  tuning_key key = recorder_key(recorder);
  add_conv_key(&key, desc);
  return key;
}

/* conv_direct.c: any convolution, by conv.cl. parameters: outputs, vectors and width of a tile of
 * sums; 0: chosen by rule. */
bool conv_direct_tile_usable(const void *conv, const kernel_variant *variant);
clave_status conv_direct(const void *conv) STATUS_CHECK;

/* conv_product.c: kernels of one element, with stride 1 and no padding, as a product of gemm.h. */
bool conv_product_usable(const void *conv, const kernel_variant *variant);
clave_status conv_product(const void *conv) STATUS_CHECK;
/* The same convolutions on CPUs by pointwise.cl, which reads the planes of x in place. */
bool conv_planes_usable(const void *conv, const kernel_variant *variant);
clave_status conv_planes(const void *conv) STATUS_CHECK;

/* conv_depthwise.c: small kernels on CPUs, by depthwise.cl. */
bool conv_depthwise_usable(const void *conv, const kernel_variant *variant);
clave_status conv_depthwise(const void *conv) STATUS_CHECK;

/* conv_winograd.c: Winograd's method. parameters: rows and columns of outputs per tile. */
bool conv_winograd_usable(const void *conv, const kernel_variant *variant);
clave_status conv_winograd(const void *conv) STATUS_CHECK;

/* conv_dots.c: integers on GPUs, by dot products of bytes (conv_dots.cl). */
/* Sets accepts_dots if conv_dots can run the convolution, and has_dots if the device then uses an
 * instruction for dot products. */
clave_status conv_probe_dots(conv_problem *problem) STATUS_CHECK;
clave_status conv_dots(const void *conv) STATUS_CHECK;

/* conv_groups.c: floats on GPUs, by groups of work-items (conv_groups.cl). */
bool conv_groups_usable(const void *conv, const kernel_variant *variant);
clave_status conv_groups(const void *conv) STATUS_CHECK;

/* conv_weight.c: sets *weight and *type to the weight as kernels read it: as stored, or converted
 * to floats. The floats of a constant are packed once; those of another weight are written to
 * scratch memory in each run, after `used` elements. */
clave_status conv_weight(const conv_problem *problem, int64_t used, arg_buffer *weight,
                         dtype *type) STATUS_CHECK;
/* conv_floats writes a weight's floats to out. conv_pack_floats packs the floats of a constant
 * once. */
clave_status conv_floats(cl_recorder *recorder, const node *node, const bound_tensor *weight,
                         arg_buffer out) STATUS_CHECK;
clave_status conv_pack_floats(cl_recorder *recorder, const node *node, const bound_tensor *weight,
                              arg_buffer *out) STATUS_CHECK;

#endif
