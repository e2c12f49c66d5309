/* Integer convolutions as dot products, on GPUs. The weight is packed once. In each run, one launch
 * copies x to planes, and another multiplies. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { LANE_OUTPUTS = 4 }; /* outputs per work-item, as in kernels_cl/conv/conv_dots.cl */

typedef struct dots_conv {
  const node *node;
  const conv_desc *desc;
  dots_kind dots;
  int64_t k, words;                                 /* bytes of a patch; 32-bit words of a patch */
  int64_t phases[SPATIAL_DIMS], size[SPATIAL_DIMS]; /* phases and sizes of the planes */
  /* bytes of a phase of a channel, and of all its phases; positions up to the last output */
  int64_t phase_bytes, plane_bytes, positions;
  bool from_x; /* x itself is used as the planes */
} dots_conv;

static dots_conv conv_dots_plan(const node *node, const conv_desc *desc) {
  dots_conv conv = {
      .node = node, .desc = desc, .k = desc->channels, .phase_bytes = 1, .from_x = true};
  int64_t phases = 1, last = 0;
  for (int i = 0; i < SPATIAL_DIMS; i++) {
    const conv_dim *dim = &desc->dims[i];
    conv.k *= dim->kernel;
    conv.phases[i] = conv_dim_phases(dim);
    conv.size[i] = conv_dim_phase_size(dim);
    conv.phase_bytes *= conv.size[i];
    phases *= conv.phases[i];
    last = last * conv.size[i] + dim->out - 1;
    conv.from_x &= dim->stride == 1 && dim->padding == 0 && conv.size[i] == dim->in;
  }
  conv.from_x = conv.from_x && desc->x->tensor.type == DTYPE_U8;
  conv.words = ceil_div(conv.k, 4);
  conv.plane_bytes = phases * conv.phase_bytes;
  conv.positions = last + 1;
  return conv;
}

static int64_t planes_size(const dots_conv *conv) {
  const conv_desc *desc = conv->desc;
  return desc->images * desc->groups * desc->channels * conv->plane_bytes;
}

static int64_t packed_words(const dots_conv *conv) {
  return conv->desc->groups * conv->desc->outputs * (conv->words + 1);
}

clave_status conv_probe_dots(conv_problem *problem) {
  cl_recorder *recorder = problem->recorder;
  const conv_desc *desc = &problem->desc;
  const dots_conv conv = conv_dots_plan(NULL, desc);
  dots_kind dots;
  problem->accepts_dots =
      !recorder_traits(recorder)->is_cpu && desc->out->tensor.type != desc->x->tensor.type &&
      recorder_may_pack(recorder, desc->weight) && planes_size(&conv) <= INT32_MAX / 2 &&
      packed_words(&conv) <= INT32_MAX / 2;
  problem->has_dots = false;
  if (!problem->accepts_dots) return NULL;
  TRY(recorder_dots(recorder, &dots));
  problem->has_dots = dots != DOTS_BYTES;
  return NULL;
}

static void conv_dots_begin(launch *launch, cl_recorder *recorder, const dots_conv *conv) {
  launch_begin(launch, recorder, conv->node);
  launch_dots(launch, conv->dots);
  launch_define(launch, "SIGNED", conv->desc->x->tensor.type == DTYPE_I8);
}

static clave_status write_words(cl_recorder *recorder, const dots_conv *conv) {
  const int64_t items = conv->desc->groups * conv->desc->outputs;
  launch launch;
  conv_dots_begin(&launch, recorder, conv);
  launch_args(&launch, &(conv_dots_weight_args){.weight = buffer_arg(conv->desc->weight),
                                                .packed = scratch_arg(0),
                                                .items = items,
                                                .k_size = conv->k,
                                                .words = conv->words});
  return launch_loops(&launch, items, 1, conv->k);
}

static clave_status conv_dots_pack_weight(cl_recorder *recorder, const dots_conv *conv,
                                          arg_buffer *packed) {
  const pack_request request = {
      .x = conv->desc->weight,
      .kind = PACKED_CONV_DOTS,
      .size = {conv->desc->groups * conv->desc->outputs, conv->k, conv->desc->x->tensor.type},
      .bytes = sizeof(int32_t) * (size_t)packed_words(conv)};
  cl_recorder *pack;
  int number;
  TRY(recorder_pack(recorder, &request, &number, &pack));
  TRY(write_words(pack, conv));
  *packed = packed_arg(number);
  return NULL;
}

static clave_status conv_dots_lay_out(cl_recorder *recorder, const dots_conv *conv) {
  const conv_desc *desc = conv->desc;
  const conv_dim *z = &desc->dims[0], *y = &desc->dims[1], *x = &desc->dims[2];
  const int64_t slice = conv->size[1] * conv->size[2], items = desc->images * desc->groups *
                                                               desc->channels * conv->plane_bytes /
                                                               max_i64(slice, 1);
  launch launch;
  conv_dots_begin(&launch, recorder, conv);
  launch_args(&launch, &(conv_dots_planes_args){.x = buffer_arg(desc->x),
                                                .planes = scratch_arg(0),
                                                .items = items,
                                                .depth = z->in,
                                                .rows = y->in,
                                                .columns = x->in,
                                                .stride_z = z->stride,
                                                .stride_y = y->stride,
                                                .stride_x = x->stride,
                                                .pad_z = z->padding,
                                                .pad_y = y->padding,
                                                .pad_x = x->padding,
                                                .phases_z = conv->phases[0],
                                                .phases_y = conv->phases[1],
                                                .phases_x = conv->phases[2],
                                                .plane_slices = conv->size[0],
                                                .plane_rows = conv->size[1],
                                                .plane_columns = conv->size[2],
                                                .padding = desc->padding_value});
  return launch_loops(&launch, items, 1, slice);
}

static geometry_params geometry(const dots_conv *conv) {
  const conv_desc *desc = conv->desc;
  const conv_dim *z = &desc->dims[0], *y = &desc->dims[1], *x = &desc->dims[2];
  return (geometry_params){.groups = desc->groups,
                           .n_outputs = desc->outputs,
                           .channels = desc->channels,
                           .words = conv->words,
                           .positions = conv->positions,
                           .plane_bytes = conv->plane_bytes,
                           .phase_bytes = conv->phase_bytes,
                           .plane_rows = conv->size[1],
                           .plane_columns = conv->size[2],
                           .out_depth = z->out,
                           .out_rows = y->out,
                           .out_columns = x->out,
                           .kernel_z = z->kernel,
                           .kernel_y = y->kernel,
                           .kernel_x = x->kernel,
                           .stride_z = z->stride,
                           .stride_y = y->stride,
                           .stride_x = x->stride,
                           .dilation_z = z->dilation,
                           .dilation_y = y->dilation,
                           .dilation_x = x->dilation,
                           .phases_y = conv->phases[1],
                           .phases_x = conv->phases[2]};
}

static clave_status conv_dots_multiply(cl_recorder *recorder, const dots_conv *conv,
                                       arg_buffer packed) {
  const conv_desc *desc = conv->desc;
  const int64_t items =
      desc->images * desc->groups * ceil_div(desc->outputs, LANE_OUTPUTS) * conv->positions;
  launch launch;
  conv_dots_begin(&launch, recorder, conv);
  launch_define(&launch, "HAS_BIAS", desc->bias != NULL);
  launch_args(&launch,
              &(conv_dots_lanes_args){.planes = conv->from_x ? buffer_arg(desc->x) : scratch_arg(0),
                                      .packed = packed,
                                      .bias = optional_arg(desc->bias),
                                      .out = buffer_arg(desc->out),
                                      .items = items,
                                      .geometry = geometry(conv)});
  launch_epilogue_of_result(&launch);
  return launch_items(&launch, items);
}

clave_status conv_dots(const void *conv) {
  const conv_problem *problem = conv;
  cl_recorder *recorder = problem->recorder;
  dots_conv dots_conv = conv_dots_plan(problem->node, &problem->desc);
  arg_buffer packed;
  TRY(recorder_dots(recorder, &dots_conv.dots));
  TRY(conv_dots_pack_weight(recorder, &dots_conv, &packed));
  if (!dots_conv.from_x) {
    TRY(recorder_scratch(recorder, (size_t)planes_size(&dots_conv)));
    TRY(conv_dots_lay_out(recorder, &dots_conv));
  }
  return conv_dots_multiply(recorder, &dots_conv, packed);
}
