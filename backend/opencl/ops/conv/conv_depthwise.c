/* Depthwise float convolutions with 3x3 and 5x5 kernels on CPUs: kernels_cl/conv/depthwise.cl. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum {
  ROWS = 4,     /* output rows computed at once */
  NARROW = 8,   /* maximum columns for which vectors of 8 lanes suffice */
  CELLS = 4096, /* outputs per work-item, so that the epilogue finds them in the cache */
  TASKS = 4     /* minimum work-items per core */
};

/* True if the kernel supports the dimension: its padding must be less than its size. */
static bool conv_depthwise_is_small(const conv_dim *dim) {
  int64_t after = (dim->out - 1) * dim->stride + dim->kernel - dim->padding - dim->in;
  return (dim->kernel == 3 || dim->kernel == 5) && (dim->stride == 1 || dim->stride == 2) &&
         dim->dilation == 1 && dim->padding < dim->kernel && after < dim->kernel && dim->out > 0 &&
         dim->in > 0;
}

/* Returns the output rows per work-item. */
static int64_t block_rows(const cl_recorder *recorder, const conv_desc *desc) {
  const int64_t rows = desc->dims[1].out, cells = rows * desc->dims[2].out,
                planes = desc->images * desc->groups * desc->outputs,
                wanted =
                    ceil_div(TASKS * (int64_t)recorder_traits(recorder)->compute_units, planes),
                blocks = max_i64(wanted, cells / CELLS), all = ceil_div(rows, ROWS);
  return ceil_div(all, max_i64(min_i64(blocks, all), 1)) * ROWS;
}

bool conv_depthwise_usable(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  const conv_desc *desc = &problem->desc;
  const device_traits *traits = recorder_traits(problem->recorder);
  (void)variant;
  const conv_dim *y = &desc->dims[1], *x = &desc->dims[2];
  return traits->is_cpu && desc->groups > 1 && desc->channels == 1 && !desc->transposed &&
         desc->x->tensor.type == DTYPE_F32 && desc->out->tensor.type == DTYPE_F32 &&
         desc->weight->tensor.type == DTYPE_F32 && !desc->weight->tensor.encoding.kind &&
         conv_dim_is_absent(&desc->dims[0]) && conv_depthwise_is_small(y) &&
         conv_depthwise_is_small(x) && x->kernel == y->kernel && x->stride == y->stride &&
         max_i64(tensor_numel(&desc->x->tensor), tensor_numel(&desc->out->tensor)) < INT32_MAX / 2;
}

static int lanes_of_rows(const cl_recorder *recorder, const conv_desc *desc) {
  return desc->dims[2].out <= NARROW || recorder_traits(recorder)->vector_width < 16 ? 8 : 16;
}

clave_status conv_depthwise(const void *conv) {
  const conv_problem *problem = conv;
  cl_recorder *recorder = problem->recorder;
  const conv_desc *desc = &problem->desc;
  const conv_dim *y = &desc->dims[1], *x = &desc->dims[2];
  const int64_t block = block_rows(recorder, desc), channels = desc->groups * desc->outputs;
  const int64_t items = desc->images * channels * ceil_div(y->out, block);
  launch launch;
  launch_begin(&launch, recorder, problem->node);
  launch_compute(&launch, DTYPE_F32);
  launch_define(&launch, "SIDE", (int)x->kernel);
  launch_define(&launch, "STRIDE", (int)x->stride);
  launch_define(&launch, "HAS_BIAS", desc->bias != NULL);
  launch_define(&launch, "W", lanes_of_rows(recorder, desc));
  launch_define(&launch, "ROWS", ROWS);
  launch_args(&launch, &(conv_depthwise_args){.x = buffer_arg(desc->x),
                                              .weight = buffer_arg(desc->weight),
                                              .bias = optional_arg(desc->bias),
                                              .out = buffer_arg(desc->out),
                                              .items = items,
                                              .channels = channels,
                                              .multiplier = desc->outputs,
                                              .block = block,
                                              .in_rows = y->in,
                                              .in_columns = x->in,
                                              .out_rows = y->out,
                                              .out_columns = x->out,
                                              .top = y->padding,
                                              .left = x->padding});
  launch_epilogue(&launch);
  return launch_loops(&launch, items, 1, block * x->out * x->kernel * y->kernel);
}
