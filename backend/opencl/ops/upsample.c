/* Resizing: kernels_cl/upsample.cl. The taps of all dimensions are computed into scratch memory,
 * then applied. */
#include "ops/upsample.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_CHUNK = 64 };

typedef struct resize {
  upsample_form f;
  resample_axis axes[SPATIAL_DIMS]; /* those with a table: all, or the one that changes */
  int n_axes;
  int64_t inner;     /* elements of a plane behind the one that changes */
  int64_t positions; /* of all tables */
} resize;

static void begin(launch *l, cl_recorder *s, const node *n, const resize *r) {
  const resample_axis *a = &r->axes[0];
  dtype type = r->f.x->t.type;
  launch_begin(l, s, n);
  launch_dtype(l, "X_TYPE", a->n_taps == 1 ? moved_type(type) : type);
  launch_compute(l, a->compute);
  launch_define(l, "MODE", (int)r->f.mode);
  launch_define(l, "ALIGN", a->align_corners);
  launch_define(l, "ANTIALIAS", a->antialias);
  launch_define(l, "PRECISE", a->quantized);
  launch_define(l, "N_TAPS", r->f.one_at_a_time ? 0 : (int)a->n_taps);
  launch_define(l, "N_DIMS", r->n_axes);
  launch_define(l, "CHUNK", recorder_traits(s)->is_cpu ? CPU_CHUNK : 1);
}

/* Scratch memory: weights, then indices. */
static arg_buffer index_table(const resize *r) {
  const resample_axis *a = &r->axes[0];
  int64_t reals = a->compute == DTYPE_F64 ? 2 : 1; /* in ints */
  return scratch_arg(r->positions * a->n_taps * reals);
}
static arg_buffer weight_table(void) { return scratch_arg(0); }

static clave_status launch_taps(cl_recorder *s, const node *n, const resize *r) {
  static const resample_axis none = {.in = 1, .out = 1, .scale = 1};
  const resample_axis *a = &r->axes[0], *b = r->n_axes > 1 ? &r->axes[1] : &none,
                      *c = r->n_axes > 2 ? &r->axes[2] : &none;
  launch l;
  begin(&l, s, n, r);
  launch_args(&l, &(upsample_taps_args){.index = index_table(r),
                                        .weight = weight_table(),
                                        .items = r->positions,
                                        .n_taps = a->n_taps,
                                        .in0 = a->in,
                                        .out0 = a->out,
                                        .scale0 = a->scale,
                                        .in1 = b->in,
                                        .out1 = b->out,
                                        .scale1 = b->scale,
                                        .in2 = c->in,
                                        .out2 = c->out,
                                        .scale2 = c->scale,
                                        .support = a->support,
                                        .stretch = a->scale >= 1 ? 1 / a->scale : 1,
                                        .precision = r->f.precision});
  return launch_items(&l, r->positions);
}

static clave_status launch_blend(cl_recorder *s, const node *n, const resize *r) {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  int64_t reads = 1;
  for (int d = 0; d < r->n_axes; d++) {
    in[3 - r->n_axes + d] = r->axes[d].in;
    out[3 - r->n_axes + d] = r->axes[d].out;
    reads *= r->axes[d].n_taps;
  }
  int64_t items = tensor_numel(&r->f.out->t) / out[2] * ceil_div(out[2], chunk);
  launch l;
  begin(&l, s, n, r);
  launch_args(&l, &(upsample_blend_args){.x = buffer_arg(r->f.x),
                                         .out = buffer_arg(r->f.out),
                                         .index = index_table(r),
                                         .weight = weight_table(),
                                         .items = items,
                                         .in0 = in[0],
                                         .in1 = in[1],
                                         .in2 = in[2],
                                         .out0 = out[0],
                                         .out1 = out[1],
                                         .out2 = out[2]});
  return launch_loops(&l, items, 1, 2 * reads * min_i64(out[2], chunk));
}

static clave_status launch_axis(cl_recorder *s, const node *n, const resize *r) {
  const resample_axis *a = &r->axes[0];
  int64_t count = tensor_numel(&r->f.out->t), chunk = recorder_traits(s)->is_cpu ? CPU_CHUNK : 1;
  launch l;
  begin(&l, s, n, r);
  launch_args(&l, &(upsample_axis_args){.x = buffer_arg(r->f.x),
                                        .out = buffer_arg(r->f.out),
                                        .index = index_table(r),
                                        .weight = weight_table(),
                                        .n = count,
                                        .in = a->in,
                                        .size = a->out,
                                        .inner = r->inner,
                                        .n_taps = a->n_taps,
                                        .precision = r->f.precision});
  return launch_loops(&l, ceil_div(count, chunk), 1, 2 * a->n_taps * min_i64(count, chunk));
}

static void find_axes(resize *r) {
  for (int d = 0; d < SPATIAL_DIMS; d++) {
    const resample_axis *a = &r->f.axes[d];
    if (a->mode == RESAMPLE_NONE) {
      r->inner *= a->out;
    } else {
      r->inner = 1;
      r->positions += a->out;
      r->axes[r->n_axes++] = *a;
    }
  }
}

clave_status opencl_upsample(cl_recorder *s, const node *n) {
  resize r = {.inner = 1};
  describe_upsample(n, &r.f);
  if (tensor_numel(&r.f.out->t) == 0) return NULL;
  find_axes(&r);
  if (r.n_axes == 0) return move_elements(s, n, r.f.x, r.f.out);
  size_t real = r.axes[0].compute == DTYPE_F64 ? sizeof(double) : sizeof(float);
  size_t entries = (size_t)(r.positions * r.axes[0].n_taps);
  TRY(recorder_scratch(s, entries * (real + sizeof(int32_t))));
  TRY(launch_taps(s, n, &r));
  return r.f.one_at_a_time ? launch_axis(s, n, &r) : launch_blend(s, n, &r);
}
