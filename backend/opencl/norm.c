/* Normalisation: kernels_cl/norm.cl. Operands are dense. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

/* n elements a row; a missing weight or bias is one of the kernel's classes. */
static bool begin_norm(launch *l, cl_recorder *s, const node *n, const char *kernel,
                       const bound_tensor *x, const bound_tensor *weight, const bound_tensor *bias,
                       int64_t row_size, bool rms) {
  bool is_cpu = recorder_traits(s)->is_cpu, team = !is_cpu && row_size >= 32;
  const bound_tensor *param = weight ? weight : bias;
  launch_begin(l, s, n, "norm", kernel);
  launch_dtype(l, "X_TYPE", x->t.type);
  launch_dtype(l, "PARAM_TYPE", param ? param->t.type : x->t.type);
  launch_compute(l, x->t.type);
  launch_define(l, "RMS", rms);
  launch_define(l, "HAS_WEIGHT", weight != NULL);
  launch_define(l, "HAS_BIAS", bias != NULL);
  launch_define(l, "W", is_cpu ? 16 : 1);
  launch_define(l, "TEAM", team ? LOCAL_SIZE : 1);
  launch_buffer(l, x);
  launch_optional(l, weight);
  launch_optional(l, bias);
  return team;
}

/* The product of dims [from, rank). */
static int64_t count_from(const tensor *t, int from) {
  tensor inner = take_dims(t, from, t->rank);
  return tensor_numel(&inner);
}

static clave_status norm_rows(cl_recorder *s, const node *n, const uint32_t tids[4], int n_axes,
                              double eps, bool rms) {
  const bound_tensor *x = &n->tensors[tids[0]], *out = &n->tensors[tids[3]];
  int64_t size = count_from(&x->t, x->t.rank - n_axes),
          rows = size ? tensor_numel(&x->t) / size : 0;
  launch l;
  bool team = begin_norm(&l, s, n, "norm_rows", x, operand_of(n, tids[1]), operand_of(n, tids[2]),
                         size, rms);
  launch_buffer(&l, out);
  launch_int(&l, rows);
  launch_int(&l, size);
  launch_float(&l, eps);
  return launch_rows(&l, rows, 4 * size, team);
}

clave_status opencl_layer_norm(cl_recorder *s, const node *n) {
  const ir_layer_norm *op = n->instruction->op;
  return norm_rows(s, n, (uint32_t[]){op->x, op->weight, op->bias, op->out}, op->n_axes, op->eps,
                   false);
}

clave_status opencl_rms_norm(cl_recorder *s, const node *n) {
  const ir_rms_norm *op = n->instruction->op;
  return norm_rows(s, n, (uint32_t[]){op->x, op->weight, IR_NONE, op->out}, op->n_axes, op->eps,
                   true);
}

clave_status opencl_group_norm(cl_recorder *s, const node *n) {
  const ir_group_norm *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  int64_t rows = x->t.dims[0] * op->groups, channels = x->t.dims[1] / op->groups,
          spatial = count_from(&x->t, 2);
  launch l;
  bool team = begin_norm(&l, s, n, "norm_groups", x, operand_of(n, op->weight),
                         operand_of(n, op->bias), channels * spatial, false);
  launch_buffer(&l, out);
  launch_int(&l, rows);
  launch_int(&l, op->groups);
  launch_int(&l, channels);
  launch_int(&l, spatial);
  launch_float(&l, op->eps);
  return launch_rows(&l, rows, 4 * channels * spatial, team);
}

clave_status opencl_batch_norm(cl_recorder *s, const node *n) {
  const ir_batch_norm *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
  int64_t channels = x->t.dims[1], rows = x->t.dims[0] * channels, spatial = count_from(&x->t, 2);
  launch l;
  bool team = begin_norm(&l, s, n, "norm_batch", x, operand_of(n, op->weight),
                         operand_of(n, op->bias), spatial, false);
  launch_buffer(&l, &n->tensors[op->mean]);
  launch_buffer(&l, &n->tensors[op->var]);
  launch_buffer(&l, out);
  launch_int(&l, rows);
  launch_int(&l, channels);
  launch_int(&l, spatial);
  launch_float(&l, op->eps);
  return launch_rows(&l, rows, spatial, team);
}
