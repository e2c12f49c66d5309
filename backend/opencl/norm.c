/* Normalisation: kernels_cl/norm.cl. Operands are dense. */
#include "ops/norm.h"

#include "backend/opencl/families.h"
#include "opencl_ops.h"

static row_walk choose_walk(cl_recorder *s, const node *n, const norm_form *f) {
  const bool is_cpu = recorder_traits(s)->is_cpu;
  const row_walk by_rule = {!is_cpu && f->row >= 32 ? LOCAL_SIZE : 1, is_cpu ? 16 : 1};
  return choose_row_walk(s, (variants){.family = "norm"}, n, &f->x->t, f->rows, f->row, by_rule);
}

/* A missing weight or bias is one of the kernel's classes. */
static void begin_norm(launch *l, cl_recorder *s, const node *n, const norm_form *f, row_walk w,
                       bool rms) {
  const bound_tensor *param = f->weight ? f->weight : f->bias;
  launch_begin(l, s, n);
  launch_dtype(l, "X_TYPE", f->x->t.type);
  launch_dtype(l, "PARAM_TYPE", param ? param->t.type : f->x->t.type);
  launch_compute(l, f->x->t.type);
  launch_define(l, "RMS", rms);
  launch_define(l, "HAS_WEIGHT", f->weight != NULL);
  launch_define(l, "HAS_BIAS", f->bias != NULL);
  launch_define(l, "W", w.width);
  launch_define(l, "TEAM", w.team);
}

static norm_params arguments_of(const norm_form *f) {
  return (norm_params){.x = buffer_arg(f->x),
                       .weight = optional_arg(f->weight),
                       .bias = optional_arg(f->bias),
                       .out = buffer_arg(f->out),
                       .rows = f->row ? f->rows : 0,
                       .eps = f->eps};
}

static clave_status run_norm(launch *l, const norm_form *f, row_walk w, int64_t work) {
  return launch_rows(l, f->row ? f->rows : 0, work, w.team);
}

static clave_status norm_rows(cl_recorder *s, const node *n, const norm_form *f, bool rms) {
  const row_walk w = choose_walk(s, n, f);
  launch l;
  begin_norm(&l, s, n, f, w, rms);
  launch_args(&l, &(norm_rows_args){.norm = arguments_of(f), .n = f->row});
  launch_epilogue(&l);
  return run_norm(&l, f, w, 4 * f->row);
}

clave_status opencl_layer_norm(cl_recorder *s, const node *n) {
  norm_form f;
  describe_layer_norm(n, &f);
  return norm_rows(s, n, &f, false);
}

clave_status opencl_rms_norm(cl_recorder *s, const node *n) {
  norm_form f;
  describe_rms_norm(n, &f);
  return norm_rows(s, n, &f, true);
}

clave_status opencl_group_norm(cl_recorder *s, const node *n) {
  norm_form f;
  describe_group_norm(n, &f);
  const row_walk w = choose_walk(s, n, &f);
  launch l;
  begin_norm(&l, s, n, &f, w, false);
  launch_args(&l, &(norm_groups_args){.norm = arguments_of(&f),
                                      .groups = f.groups,
                                      .channels = f.channels / f.groups,
                                      .spatial = f.plane});
  launch_epilogue(&l);
  return run_norm(&l, &f, w, 4 * f.row);
}

clave_status opencl_batch_norm(cl_recorder *s, const node *n) {
  norm_form f;
  describe_batch_norm(n, &f);
  const row_walk w = choose_walk(s, n, &f);
  launch l;
  begin_norm(&l, s, n, &f, w, false);
  launch_args(&l, &(norm_batch_args){.norm = arguments_of(&f),
                                     .mean = buffer_arg(f.mean),
                                     .var = buffer_arg(f.var),
                                     .channels = f.channels,
                                     .spatial = f.plane});
  launch_epilogue(&l);
  return run_norm(&l, &f, w, f.row);
}
