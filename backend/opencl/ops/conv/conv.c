/* Conv, ConvInteger and ConvTranspose: the table of their variants. */
#include "backend/opencl/ops/conv/conv.h"

#include "opencl_ops.h"

static bool opencl_conv_accepts_dots(const void *conv, const kernel_variant *variant) {
  (void)variant;
  return ((const conv_problem *)conv)->accepts_dots;
}

static double cost_of_dots(const void *conv, const kernel_variant *variant) {
  return ((const conv_problem *)conv)->has_dots ? variant->cost : ON_REQUEST;
}

static double opencl_conv_cost_of_winograd(const void *conv, const kernel_variant *variant) {
  const conv_desc *desc = &((const conv_problem *)conv)->desc;
  return conv_accepts_winograd(desc) && conv_winograd_tile(desc) == variant->parameters[0]
             ? variant->cost
             : ON_REQUEST;
}

/* Costs are ordered by measurement. In strict f32 on two cores of Zen 4 under PoCL (ci/variants.py
 * opencl conv=product -- build/clave bench PROGRAM, and with conv=planes), MobileNetV2 is 1.46
 * times as fast with planes as with products. `depthwise` is 1.9 times as fast as direct sums,
 * and 1.7 times for EfficientNet-B0 (user time of `clave bench`, AVX2). */
static const kernel_variant conv_variants[] = {
    {"product", conv_product_usable, .cost = 4, .record = conv_product},
    {"direct", .cost = 6, .record = conv_direct},
    {"direct 8x2x16", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {8, 2, 16}},
    {"direct 8x1x16", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {8, 1, 16}},
    {"direct 4x4x16", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {4, 4, 16}},
    {"direct 4x2x16", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {4, 2, 16}},
    {"direct 8x3x8", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {8, 3, 8}},
    {"direct 8x2x8", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {8, 2, 8}},
    {"direct 4x4x8", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {4, 4, 8}},
    {"direct 4x3x8", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {4, 3, 8}},
    {"direct 4x2x8", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {4, 2, 8}},
    {"direct 8x1x1", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {8, 1, 1}},
    {"direct 4x4x1", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {4, 4, 1}},
    {"direct 4x2x1", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {4, 2, 1}},
    {"direct 4x1x1", conv_direct_tile_usable, .cost = ON_REQUEST, .record = conv_direct,
     .parameters = {4, 1, 1}},
    {"depthwise", conv_depthwise_usable, .cost = 1, .record = conv_depthwise},
    {"winograd 2", conv_winograd_usable, .cost = 2, .cost_of = opencl_conv_cost_of_winograd,
     .record = conv_winograd, .parameters = {2}},
    {"winograd 4", conv_winograd_usable, .cost = 2, .cost_of = opencl_conv_cost_of_winograd,
     .record = conv_winograd, .parameters = {4}},
    {"dots", opencl_conv_accepts_dots, .cost_of = cost_of_dots, .record = conv_dots},
    {"planes", conv_planes_usable, .cost = 3, .record = conv_planes},
    {"groups", conv_groups_usable, .cost = 5, .record = conv_groups}};

/* Fails if positions along a dimension, with padding and strides, exceed the kernels' int. */
static clave_status check_positions(const conv_desc *desc) {
  for (const conv_dim *d = desc->dims; d < desc->dims + SPATIAL_DIMS; d++)
    if (d->in + d->out + 2 * d->padding + conv_dim_reach(d, d->out) + d->stride > INT32_MAX)
      return UNSUPPORTED("convolutions with 2^31 or more positions in a dimension");
  return NULL;
}

static clave_status opencl_conv_record(conv_problem *problem) {
  if (tensor_numel(&problem->desc.out->tensor) == 0) return NULL;
  TRY(check_positions(&problem->desc));
  TRY(conv_probe_dots(problem));
  const tuning_key key = conv_key(problem->recorder, &problem->desc);
  const variants all = {.family = "conv",
                        .rows = conv_variants,
                        .n = sizeof conv_variants / sizeof *conv_variants,
                        .problem = problem};
  const kernel_variant *variant = recorder_choose(problem->recorder, &all, &key);
  problem->parameters = variant->parameters;
  return variant->record(problem);
}

clave_status opencl_conv(cl_recorder *recorder, const node *node) {
  conv_problem problem = {.recorder = recorder, .node = node};
  describe_conv(node, &problem.desc);
  return opencl_conv_record(&problem);
}

clave_status opencl_conv_transpose(cl_recorder *recorder, const node *node) {
  conv_problem problem = {.recorder = recorder, .node = node};
  describe_conv_transpose(node, &problem.desc);
  return opencl_conv_record(&problem);
}

clave_status opencl_conv_integer(cl_recorder *recorder, const node *node) {
  conv_problem problem = {.recorder = recorder, .node = node};
  describe_conv_integer(node, &problem.desc);
  const bound_tensor sums = op_result(recorder, problem.desc.out);
  problem.desc.out = &sums;
  return opencl_conv_record(&problem);
}
