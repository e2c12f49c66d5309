/* Normalisation: kernels_cl/norm.cl. Operands are dense. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"

typedef struct normalisation {
  const bound_tensor *x, *weight, *bias, *out; /* weight, bias: NULL if not given */
  int64_t rows, row_size;
  double eps;
  bool rms;
} normalisation;

static bool has_teams(const cl_recorder *s, const normalisation *p) {
  return !recorder_traits(s)->is_cpu && p->row_size >= 32;
}

/* A missing weight or bias is one of the kernel's classes. */
static void begin_norm(launch *l, cl_recorder *s, const node *n, const normalisation *p) {
  const bound_tensor *param = p->weight ? p->weight : p->bias;
  launch_begin(l, s, n);
  launch_dtype(l, "X_TYPE", p->x->t.type);
  launch_dtype(l, "PARAM_TYPE", param ? param->t.type : p->x->t.type);
  launch_compute(l, p->x->t.type);
  launch_define(l, "RMS", p->rms);
  launch_define(l, "HAS_WEIGHT", p->weight != NULL);
  launch_define(l, "HAS_BIAS", p->bias != NULL);
  launch_define(l, "W", recorder_traits(s)->is_cpu ? 16 : 1);
  launch_define(l, "TEAM", has_teams(s, p) ? LOCAL_SIZE : 1);
}

static norm_params arguments_of(const normalisation *p) {
  return (norm_params){.x = buffer_arg(p->x),
                       .weight = optional_arg(p->weight),
                       .bias = optional_arg(p->bias),
                       .out = buffer_arg(p->out),
                       .rows = p->rows,
                       .eps = p->eps};
}

/* The product of dims [from, rank). */
static int64_t count_from(const tensor *t, int from) {
  tensor inner = take_dims(t, from, t->rank);
  return tensor_numel(&inner);
}

static clave_status norm_rows(cl_recorder *s, const node *n, normalisation *p, int n_axes) {
  const tensor *x = &p->x->t;
  p->row_size = count_from(x, x->rank - n_axes);
  p->rows = p->row_size ? tensor_numel(x) / p->row_size : 0;
  launch l;
  begin_norm(&l, s, n, p);
  launch_args(&l, &(norm_rows_args){.norm = arguments_of(p), .n = p->row_size});
  return launch_rows(&l, p->rows, 4 * p->row_size, has_teams(s, p));
}

clave_status opencl_layer_norm(cl_recorder *s, const node *n) {
  const ir_layer_norm *op = n->instruction->op;
  normalisation p = {.x = &n->tensors[op->x],
                     .weight = operand_of(n, op->weight),
                     .bias = operand_of(n, op->bias),
                     .out = &n->tensors[op->out],
                     .eps = op->eps};
  return norm_rows(s, n, &p, op->n_axes);
}

clave_status opencl_rms_norm(cl_recorder *s, const node *n) {
  const ir_rms_norm *op = n->instruction->op;
  normalisation p = {.x = &n->tensors[op->x],
                     .weight = operand_of(n, op->weight),
                     .out = &n->tensors[op->out],
                     .eps = op->eps,
                     .rms = true};
  return norm_rows(s, n, &p, op->n_axes);
}

clave_status opencl_group_norm(cl_recorder *s, const node *n) {
  const ir_group_norm *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x];
  int64_t channels = x->t.dims[1] / op->groups, spatial = count_from(&x->t, 2);
  normalisation p = {.x = x,
                     .weight = operand_of(n, op->weight),
                     .bias = operand_of(n, op->bias),
                     .out = &n->tensors[op->out],
                     .rows = x->t.dims[0] * op->groups,
                     .row_size = channels * spatial,
                     .eps = op->eps};
  launch l;
  begin_norm(&l, s, n, &p);
  launch_args(&l, &(norm_groups_args){.norm = arguments_of(&p),
                                      .groups = op->groups,
                                      .channels = channels,
                                      .spatial = spatial});
  return launch_rows(&l, p.rows, 4 * p.row_size, has_teams(s, &p));
}

clave_status opencl_batch_norm(cl_recorder *s, const node *n) {
  const ir_batch_norm *op = n->instruction->op;
  const bound_tensor *x = &n->tensors[op->x];
  int64_t channels = x->t.dims[1], spatial = count_from(&x->t, 2);
  normalisation p = {.x = x,
                     .weight = operand_of(n, op->weight),
                     .bias = operand_of(n, op->bias),
                     .out = &n->tensors[op->out],
                     .rows = x->t.dims[0] * channels,
                     .row_size = spatial,
                     .eps = op->eps};
  launch l;
  begin_norm(&l, s, n, &p);
  launch_args(&l, &(norm_batch_args){.norm = arguments_of(&p),
                                     .mean = buffer_arg(&n->tensors[op->mean]),
                                     .var = buffer_arg(&n->tensors[op->var]),
                                     .channels = channels,
                                     .spatial = spatial});
  return launch_rows(&l, p.rows, spatial, has_teams(s, &p));
}
