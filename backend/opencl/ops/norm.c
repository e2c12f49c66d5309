/* Normalisation: kernels_cl/norm.cl. Operands are dense. */
#include "ops/norm.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/parts.h"
#include "opencl_ops.h"
#include "ops/epilogue.h"

static row_walk choose_walk(cl_recorder *s, const node *n, const norm_form *f) {
  const bool is_cpu = recorder_traits(s)->is_cpu;
  const row_walk by_rule = {!is_cpu && f->row >= 32 ? LOCAL_SIZE : 1, is_cpu ? 16 : 1};
  return choose_row_walk(s, "norm", n, &f->x->t, f->rows, f->row, by_rule);
}

/* A missing weight or bias is one of the kernel's classes. */
static void begin_norm(launch *l, cl_recorder *s, const node *n, const norm_form *f, row_walk w,
                       bool rms) {
  const bound_tensor *param = f->weight ? f->weight : f->bias;
  launch_begin(l, s, n);
  launch_dtype(l, "X_TYPE", f->x->t.type);
  launch_dtype(l, "OUT_TYPE", f->out->t.type);
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

/* Rows are few and long where channels are in few groups: they are cut in parts, which several
 * teams add. */
static int64_t count_parts(cl_recorder *s, const norm_form *f) {
  enum { LEAST = 1024, OF_A_UNIT = 8 }; /* elements of a part; teams */
  if (recorder_traits(s)->is_cpu) return 1;
  tuning_key k = recorder_key(s);
  tuning_key_text(&k, "x", dtype_name(f->x->t.type));
  tuning_key_int(&k, "rows", f->rows);
  tuning_key_int(&k, "row", f->row);
  return choose_parts(s, "norm parts", &k, f->rows, OF_A_UNIT, f->row / LEAST, 2 * f->rows);
}

static clave_status add_part(cl_recorder *s, const node *n, const norm_form *f, row_walk w,
                             int64_t n_parts, bool squares) {
  launch l;
  begin_norm(&l, s, n, f, w, false);
  launch_define(&l, "SQUARES", squares);
  const int64_t items = f->rows * n_parts, size = ceil_div(f->row, n_parts);
  launch_args(&l, &(norm_part_args){.x = buffer_arg(f->x),
                                    .sums = scratch_arg(0),
                                    .items = items,
                                    .n = f->row,
                                    .n_parts = n_parts,
                                    .part_size = size});
  return launch_rows(&l, items, size, w.team);
}

static clave_status add_both(cl_recorder *s, const node *n, const norm_form *f, row_walk w,
                             int64_t n_parts) {
  TRY(begin_parts(s, n_parts, 2 * f->rows, f->x->t.type));
  TRY(add_part(s, n, f, w, n_parts, false));
  return add_part(s, n, f, w, n_parts, true);
}

clave_status opencl_group_norm(cl_recorder *s, const node *n) {
  norm_form f;
  describe_group_norm(n, &f);
  const row_walk w = choose_walk(s, n, &f);
  const int64_t n_parts = f.row ? count_parts(s, &f) : 1;
  if (n_parts > 1) TRY(add_both(s, n, &f, w, n_parts));
  launch l;
  begin_norm(&l, s, n, &f, w, false);
  launch_define(&l, "IN_PARTS", n_parts > 1);
  launch_args(&l, &(norm_groups_args){.norm = arguments_of(&f),
                                      .groups = f.groups,
                                      .channels = f.channels / f.groups,
                                      .spatial = f.plane,
                                      .sums = n_parts > 1 ? scratch_arg(0) : absent_arg(),
                                      .n_parts = n_parts,
                                      .part_size = ceil_div(f.row, n_parts)});
  launch_epilogue(&l);
  return launch_rows(&l, f.row ? f.rows * n_parts : 0, 4 * ceil_div(f.row, n_parts), w.team);
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
