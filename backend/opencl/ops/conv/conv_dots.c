/* Convolutions of integers as dot products, on GPUs: the weight is packed once, x laid out in
 * planes in each run, by one launch, and multiplied by another. */
#include "backend/opencl/ops/conv/conv.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { LANE_OUTPUTS = 4 }; /* of a work-item, as in kernels_cl/conv/conv_dots.cl */

typedef struct dots_conv {
  const node *n;
  const conv_form *f;
  dots_kind dots;
  int64_t k, words;
  int64_t phases[SPATIAL_DIMS], size[SPATIAL_DIMS]; /* of the planes */
  int64_t phase_bytes, plane_bytes, positions;
  bool from_x; /* planes: x itself */
} dots_conv;

static dots_conv plan(const node *n, const conv_form *f) {
  dots_conv c = {.n = n, .f = f, .k = f->channels, .phase_bytes = 1, .from_x = true};
  int64_t phases = 1, last = 0;
  for (int i = 0; i < SPATIAL_DIMS; i++) {
    const conv_dim *d = &f->dims[i];
    c.k *= d->kernel;
    c.phases[i] = conv_dim_phases(d);
    c.size[i] = conv_dim_phase_size(d);
    c.phase_bytes *= c.size[i];
    phases *= c.phases[i];
    last = last * c.size[i] + d->out - 1;
    c.from_x = c.from_x && d->stride == 1 && d->padding == 0;
  }
  c.from_x = c.from_x && f->x->t.type == DTYPE_U8;
  c.words = ceil_div(c.k, 4);
  c.plane_bytes = phases * c.phase_bytes;
  c.positions = last + 1;
  return c;
}

static int64_t planes_size(const dots_conv *c) {
  const conv_form *f = c->f;
  return f->images * f->groups * f->channels * c->plane_bytes;
}

static int64_t form_words(const dots_conv *c) {
  return c->f->groups * c->f->outputs * (c->words + 1);
}

clave_status conv_probe_dots(conv_problem *p) {
  cl_recorder *s = p->s;
  const conv_form *f = &p->f;
  const dots_conv c = plan(NULL, f);
  dots_kind dots;
  p->takes_dots = !recorder_traits(s)->is_cpu && f->out->t.type != f->x->t.type &&
                  recorder_may_pack(s, f->weight) && planes_size(&c) <= INT32_MAX / 2 &&
                  form_words(&c) <= INT32_MAX / 2;
  p->has_dots = false;
  if (!p->takes_dots) return NULL;
  TRY(recorder_dots(s, &dots));
  p->has_dots = dots != DOTS_BYTES;
  return NULL;
}

static void begin(launch *l, cl_recorder *s, const dots_conv *c) {
  launch_begin(l, s, c->n);
  launch_dots(l, c->dots);
  launch_define(l, "SIGNED", c->f->x->t.type == DTYPE_I8);
}

static clave_status write_words(cl_recorder *s, const dots_conv *c) {
  const int64_t items = c->f->groups * c->f->outputs;
  launch l;
  begin(&l, s, c);
  launch_args(&l, &(conv_dots_weight_args){.weight = buffer_arg(c->f->weight),
                                           .form = scratch_arg(0),
                                           .items = items,
                                           .k_size = c->k,
                                           .words = c->words});
  return launch_loops(&l, items, 1, c->k);
}

static clave_status pack_weight(cl_recorder *s, const dots_conv *c, arg_buffer *form) {
  const pack_request f = {.x = c->f->weight,
                          .kind = PACKED_CONV_DOTS,
                          .size = {c->f->groups * c->f->outputs, c->k, c->f->x->t.type},
                          .bytes = sizeof(int32_t) * (size_t)form_words(c)};
  cl_recorder *pack;
  int number;
  TRY(recorder_pack(s, &f, &number, &pack));
  TRY(write_words(pack, c));
  *form = packed_arg(number);
  return NULL;
}

static clave_status lay_out(cl_recorder *s, const dots_conv *c) {
  const conv_form *f = c->f;
  const conv_dim *z = &f->dims[0], *y = &f->dims[1], *x = &f->dims[2];
  const int64_t slice = c->size[1] * c->size[2],
                items = f->images * f->groups * f->channels * c->plane_bytes / max_i64(slice, 1);
  launch l;
  begin(&l, s, c);
  launch_args(&l, &(conv_dots_planes_args){.x = buffer_arg(f->x),
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
                                           .phases_z = c->phases[0],
                                           .phases_y = c->phases[1],
                                           .phases_x = c->phases[2],
                                           .plane_slices = c->size[0],
                                           .plane_rows = c->size[1],
                                           .plane_columns = c->size[2],
                                           .padding = f->padding_value});
  return launch_loops(&l, items, 1, slice);
}

static geometry_params geometry(const dots_conv *c) {
  const conv_form *f = c->f;
  const conv_dim *z = &f->dims[0], *y = &f->dims[1], *x = &f->dims[2];
  return (geometry_params){.groups = f->groups,
                           .n_outputs = f->outputs,
                           .channels = f->channels,
                           .words = c->words,
                           .positions = c->positions,
                           .plane_bytes = c->plane_bytes,
                           .phase_bytes = c->phase_bytes,
                           .plane_rows = c->size[1],
                           .plane_columns = c->size[2],
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
                           .phases_y = c->phases[1],
                           .phases_x = c->phases[2]};
}

static clave_status multiply(cl_recorder *s, const dots_conv *c, arg_buffer form) {
  const conv_form *f = c->f;
  const int64_t items = f->images * f->groups * ceil_div(f->outputs, LANE_OUTPUTS) * c->positions;
  launch l;
  begin(&l, s, c);
  launch_define(&l, "HAS_BIAS", f->bias != NULL);
  launch_args(&l, &(conv_dots_lanes_args){.planes = c->from_x ? buffer_arg(f->x) : scratch_arg(0),
                                          .form = form,
                                          .bias = optional_arg(f->bias),
                                          .out = buffer_arg(f->out),
                                          .items = items,
                                          .geometry = geometry(c)});
  launch_epilogue_of_result(&l);
  return launch_items(&l, items);
}

clave_status conv_dots(const void *conv) {
  const conv_problem *p = conv;
  cl_recorder *s = p->s;
  dots_conv c = plan(p->n, &p->f);
  arg_buffer form;
  TRY(recorder_dots(s, &c.dots));
  TRY(pack_weight(s, &c, &form));
  if (!c.from_x) {
    TRY(recorder_scratch(s, (size_t)planes_size(&c)));
    TRY(lay_out(s, &c));
  }
  return multiply(s, &c, form);
}
