/* Resizing: kernels_cl/upsample.cl. Computes tables of weights and indices for each dimension in
 * scratch memory, then applies them. */
#include "ops/upsample.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

typedef struct resize {
  upsample_desc desc;
  resample_axis axes[SPATIAL_DIMS]; /* the axes with a table */
  int n_axes;
  int64_t inner;     /* elements of a plane after the axis that changes */
  int64_t positions; /* total size of all tables */
} resize;

static void opencl_upsample_begin(launch *launch, cl_recorder *recorder, const node *node,
                                  const resize *resize) {
  const resample_axis *axis = &resize->axes[0];
  dtype type = resize->desc.x->tensor.type;
  launch_begin(launch, recorder, node);
  launch_dtype(launch, "X_TYPE", axis->n_taps == 1 ? moved_type(type) : type);
  launch_compute(launch, axis->compute);
  launch_define(launch, "MODE", (int)resize->desc.mode);
  launch_define(launch, "ALIGN", axis->align_corners);
  launch_define(launch, "ANTIALIAS", axis->antialias);
  launch_define(launch, "PRECISE", axis->quantized);
  launch_define(launch, "N_TAPS", resize->desc.one_at_a_time ? 0 : (int)axis->n_taps);
  launch_define(launch, "N_DIMS", resize->n_axes);
  launch_define(launch, "CHUNK", recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1);
}

/* Scratch memory holds the weights, then the indices. */
static arg_buffer index_table(const resize *resize) {
  const resample_axis *axis = &resize->axes[0];
  int64_t reals = axis->compute == DTYPE_F64 ? 2 : 1; /* size of a real in ints */
  return scratch_arg(resize->positions * axis->n_taps * reals);
}
static arg_buffer weight_table(void) { return scratch_arg(0); }

static clave_status launch_taps(cl_recorder *recorder, const node *node, const resize *resize) {
  static const resample_axis none = {.in = 1, .out = 1, .scale = 1};
  const resample_axis *axis0 = &resize->axes[0],
                      *axis1 = resize->n_axes > 1 ? &resize->axes[1] : &none,
                      *axis2 = resize->n_axes > 2 ? &resize->axes[2] : &none;
  launch launch;
  opencl_upsample_begin(&launch, recorder, node, resize);
  launch_args(&launch, &(upsample_taps_args){.index = index_table(resize),
                                             .weight = weight_table(),
                                             .items = resize->positions,
                                             .n_taps = axis0->n_taps,
                                             .in0 = axis0->in,
                                             .out0 = axis0->out,
                                             .scale0 = axis0->scale,
                                             .in1 = axis1->in,
                                             .out1 = axis1->out,
                                             .scale1 = axis1->scale,
                                             .in2 = axis2->in,
                                             .out2 = axis2->out,
                                             .scale2 = axis2->scale,
                                             .support = axis0->support,
                                             .stretch = axis0->scale >= 1 ? 1 / axis0->scale : 1,
                                             .precision = resize->desc.precision});
  return launch_items(&launch, resize->positions);
}

static clave_status launch_blend(cl_recorder *recorder, const node *node, const resize *resize) {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1},
          chunk = recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1;
  int64_t reads = 1;
  for (int d = 0; d < resize->n_axes; d++) {
    in[3 - resize->n_axes + d] = resize->axes[d].in;
    out[3 - resize->n_axes + d] = resize->axes[d].out;
    reads *= resize->axes[d].n_taps;
  }
  int64_t items = tensor_numel(&resize->desc.out->tensor) / out[2] * ceil_div(out[2], chunk);
  launch launch;
  opencl_upsample_begin(&launch, recorder, node, resize);
  launch_args(&launch, &(upsample_blend_args){.x = buffer_arg(resize->desc.x),
                                              .out = buffer_arg(resize->desc.out),
                                              .index = index_table(resize),
                                              .weight = weight_table(),
                                              .items = items,
                                              .in0 = in[0],
                                              .in1 = in[1],
                                              .in2 = in[2],
                                              .out0 = out[0],
                                              .out1 = out[1],
                                              .out2 = out[2]});
  return launch_loops(&launch, items, 1, 2 * reads * min_i64(out[2], chunk));
}

static clave_status launch_axis(cl_recorder *recorder, const node *node, const resize *resize) {
  const resample_axis *axis = &resize->axes[0];
  int64_t count = tensor_numel(&resize->desc.out->tensor),
          chunk = recorder_traits(recorder)->is_cpu ? CPU_CHUNK : 1;
  launch launch;
  opencl_upsample_begin(&launch, recorder, node, resize);
  launch_args(&launch, &(upsample_axis_args){.x = buffer_arg(resize->desc.x),
                                             .out = buffer_arg(resize->desc.out),
                                             .index = index_table(resize),
                                             .weight = weight_table(),
                                             .n = count,
                                             .in = axis->in,
                                             .size = axis->out,
                                             .inner = resize->inner,
                                             .n_taps = axis->n_taps,
                                             .precision = resize->desc.precision});
  return launch_loops(&launch, ceil_div(count, chunk), 1, 2 * axis->n_taps * min_i64(count, chunk));
}

static void opencl_upsample_find_axes(resize *resize) {
  for (int d = 0; d < SPATIAL_DIMS; d++) {
    const resample_axis *axis = &resize->desc.axes[d];
    if (axis->mode == RESAMPLE_NONE) {
      resize->inner *= axis->out;
    } else {
      resize->inner = 1;
      resize->positions += axis->out;
      resize->axes[resize->n_axes++] = *axis;
    }
  }
}

clave_status opencl_upsample(cl_recorder *recorder, const node *node) {
  resize resize = {.inner = 1};
  describe_upsample(node, &resize.desc);
  if (tensor_numel(&resize.desc.out->tensor) == 0) return NULL;
  opencl_upsample_find_axes(&resize);
  if (resize.n_axes == 0) return move_elements(recorder, node, resize.desc.x, resize.desc.out);
  size_t real = resize.axes[0].compute == DTYPE_F64 ? sizeof(double) : sizeof(float);
  size_t entries = (size_t)(resize.positions * resize.axes[0].n_taps);
  TRY(recorder_scratch(recorder, entries * (real + sizeof(int32_t))));
  TRY(launch_taps(recorder, node, &resize));
  return resize.desc.one_at_a_time ? launch_axis(recorder, node, &resize)
                                   : launch_blend(recorder, node, &resize);
}
